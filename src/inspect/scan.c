/* The scan as an object: prepared, loaded from the store or run, tabulated. What it holds is read-only afterwards. */
#include "inspect/scan.h"
#include "model/texts.h"

#include "base/status.h"
#include "inspect/team.h"

/* Rank 0 tells the others what it loaded: whether, and the weights. */
static hsc_status share_loaded(hsc_scan *scan, hsc_error *err)
{
    const hsc_team *team = scan->options.team;
    size_t n = (size_t)scan->n_used, floats = 2 * (size_t)scan->n_heads;
    if (!team) return HSC_OK;
    unsigned char *loaded = hsc__calloc(n + 1, 1);
    size_t *starts = hsc__calloc((size_t)team->n_ranks + 1, sizeof *starts);
    hsc_status status = loaded && starts ? HSC_OK : hsc__fail_memory(err, n, "the weights");
    for (size_t i = 0; i < n && status == HSC_OK; i++) loaded[i] = scan->pairs[i].loaded;
    for (int r = 1; r <= team->n_ranks && status == HSC_OK; r++) starts[r] = n;
    if (status == HSC_OK) status = hsc__team_share(team, loaded, starts, err);
    for (size_t i = 0; i < n && status == HSC_OK; i++) {
        scan->pairs[i].loaded = loaded[i];
        for (int r = 1; r <= team->n_ranks; r++) starts[r] = floats * sizeof *scan->seen;
        if (loaded[i]) status = hsc__team_share(team, scan->seen + i * floats, starts, err);
    }
    hsc__free(loaded);
    hsc__free(starts);
    return status;
}

/* Weights that an earlier run left behind. */
static void load_stored(hsc_scan *scan)
{
    const hsc_scan_store *store = scan->options.store;
    for (int i = 0; store && store->load && i < scan->n_used; i++) {
        hsc__scan_pair *p = &scan->pairs[i];
        hsc_seen *seen = scan->seen + (size_t)i * 2 * (size_t)scan->n_heads;
        p->loaded = store->load(store->user, p->pair, p->digest, seen) == 1;
    }
}

static hsc_status run(hsc_scan *scan, hsc_error *err)
{
    HSC_TRY(hsc__scan_prepare(scan, err));
    size_t n = (size_t)scan->n_used * 2 * (size_t)scan->n_heads;
    scan->seen = hsc__calloc(n, sizeof *scan->seen);
    if (!scan->seen) return hsc__fail_memory(err, n * sizeof *scan->seen, "the weights");
    load_stored(scan);
    HSC_TRY(share_loaded(scan, err));
    HSC_TRY(hsc__scan_passes(scan, err));
    HSC_TRY(hsc__scan_tabulate(scan, err));
    return hsc__scan_rules(scan, err);
}

hsc_status hsc_scan_run(hsc_scan **out, const hsc_model *model, const hsc_pairs *pairs, const hsc_scan_options *options,
                        hsc_error *err)
{
    static const hsc_scan_options defaults;
    *out = NULL;
    hsc__error_clear(err);
    hsc_scan *scan = hsc__calloc(1, sizeof *scan);
    if (!scan) return hsc__fail_memory(err, sizeof *scan, "a scan");
    scan->model = model;
    scan->source = pairs;
    scan->options = options ? *options : defaults;
    scan->config = hsc__texts_config(model);
    scan->n_heads = scan->config->n_layers * scan->config->n_heads;
    hsc_status status = run(scan, err);
    if (status == HSC_OK) *out = scan;
    else hsc_scan_free(scan);
    return status;
}

void hsc_scan_free(hsc_scan *scan)
{
    if (!scan) return;
    hsc__free(scan->pairs);
    hsc__free(scan->seen);
    hsc__free(scan->skipped);
    hsc__free(scan->figures);
    hsc__free(scan->rules);
    hsc__arena_free(&scan->arena);
    hsc__free(scan);
}

hsc_scan_counts hsc_scan_count(const hsc_scan *scan)
{
    hsc_scan_counts c = {.n_layers = scan->config->n_layers,
                         .n_heads = scan->config->n_heads,
                         .n_pairs = hsc_pairs_count(scan->source),
                         .n_skipped = (int)scan->n_skipped,
                         .n_same = scan->n_same,
                         .n_used = scan->n_used,
                         .n_clusters = scan->n_clusters};
    for (int i = 0; i < scan->n_used; i++) {
        c.n_equal += scan->pairs[i].equal;
        c.n_loaded += scan->pairs[i].loaded;
    }
    return c;
}

const hsc_skipped *hsc_scan_skipped(const hsc_scan *scan, int index)
{
    return index >= 0 && (size_t)index < scan->n_skipped ? &scan->skipped[index] : NULL;
}

const hsc_pair *hsc_scan_pair(const hsc_scan *scan, int index, const hsc_seen **seen)
{
    if (index < 0 || index >= scan->n_used) return NULL;
    if (seen) *seen = hsc__seen_of(scan, index, 0);
    return scan->pairs[index].pair;
}
