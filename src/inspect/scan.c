/* The scan as an object: prepared, loaded from the store or run, tabulated. What it holds is read-only afterwards. */
#include "inspect/scan.h"
#include "model/texts.h"

#include "base/status.h"
#include "inspect/team.h"

#include <string.h>

enum { MEMORY = 32 << 20, PARTS = 4 }; /* when nobody says; weights, two tables, and what is worked on */

static uint64_t place(const hsc_scan *scan, int pair)
{
    return (uint64_t)pair * 2 * (uint64_t)scan->n_heads * sizeof(hsc_seen);
}

hsc_status hsc__scan_write(hsc_scan *scan, int pair, const hsc_seen *seen, hsc_error *err)
{
    return hsc__spill_write(&scan->seen, place(scan, pair), seen, (size_t)place(scan, 1), err);
}

hsc_status hsc__scan_read(const hsc_scan *scan, int pair, hsc_seen *seen, hsc_error *err)
{
    return hsc__spill_read(&scan->seen, place(scan, pair), seen, (size_t)place(scan, 1), err);
}

/* A loaded pair's weights, from rank 0 to the others. */
static hsc_status share_pair(hsc_scan *scan, int pair, hsc_seen *seen, size_t *starts, hsc_error *err)
{
    const hsc_team *team = scan->options.team;
    for (int r = 1; r <= team->n_ranks; r++) starts[r] = (size_t)place(scan, 1);
    if (team->rank == 0) HSC_TRY(hsc__scan_read(scan, pair, seen, err));
    HSC_TRY(hsc__team_share(team, seen, starts, err));
    return team->rank == 0 ? HSC_OK : hsc__scan_write(scan, pair, seen, err);
}

/* Rank 0 tells the others what it loaded: whether, and the weights. seen: room for a pair. */
static hsc_status share_loaded(hsc_scan *scan, hsc_seen *seen, hsc_error *err)
{
    const hsc_team *team = scan->options.team;
    size_t n = (size_t)scan->n_used;
    if (!team) return HSC_OK;
    unsigned char *loaded = hsc__calloc(n + 1, 1);
    size_t *starts = hsc__calloc((size_t)team->n_ranks + 1, sizeof *starts);
    hsc_status status = loaded && starts ? HSC_OK : hsc__fail_memory(err, n, "the weights");
    for (size_t i = 0; i < n && status == HSC_OK; i++) loaded[i] = scan->pairs[i].loaded;
    for (int r = 1; r <= team->n_ranks && status == HSC_OK; r++) starts[r] = n;
    if (status == HSC_OK) status = hsc__team_share(team, loaded, starts, err);
    for (size_t i = 0; i < n && status == HSC_OK; i++) {
        scan->pairs[i].loaded = loaded[i];
        if (loaded[i]) status = share_pair(scan, (int)i, seen, starts, err);
    }
    hsc__free(loaded);
    hsc__free(starts);
    return status;
}

/* Weights that an earlier run left behind. seen: room for a pair. */
static hsc_status load_stored(hsc_scan *scan, hsc_seen *seen, hsc_error *err)
{
    const hsc_scan_store *store = scan->options.store;
    for (int i = 0; store && store->load && i < scan->n_used; i++) {
        hsc__scan_pair *p = &scan->pairs[i];
        memset(seen, 0, (size_t)place(scan, 1));
        p->loaded = store->load(store->user, p->said->pair, p->said->digest, seen) == 1;
        if (p->loaded) HSC_TRY(hsc__scan_write(scan, i, seen, err));
        hsc__scan_forget(scan, (size_t)i);
    }
    return HSC_OK;
}

static hsc_status load(hsc_scan *scan, hsc_error *err)
{
    hsc_seen *seen = hsc__calloc((size_t)place(scan, 1), 1);
    hsc_status status = seen ? HSC_OK : hsc__fail_memory(err, (size_t)place(scan, 1), "the weights of a pair");
    if (status == HSC_OK) status = load_stored(scan, seen, err);
    if (status == HSC_OK) status = share_loaded(scan, seen, err);
    hsc__free(seen);
    return status;
}

static hsc_status run(hsc_scan *scan, hsc_error *err)
{
    scan->memory = (scan->options.memory ? scan->options.memory : MEMORY) / PARTS;
    HSC_TRY(hsc__scan_prepare(scan, err));
    HSC_TRY(hsc__spill_open(&scan->seen, place(scan, scan->n_used), scan->memory, err));
    HSC_TRY(load(scan, err));
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
    hsc__free(scan->by_cluster);
    hsc__spill_free(&scan->seen);
    hsc__free(scan->skipped);
    hsc__columns_free(&scan->shift);
    hsc__columns_free(&scan->accuracy);
    hsc__free(scan->means);
    hsc__free(scan->n_right);
    hsc__free(scan->n_wrong);
    hsc__columns_free(&scan->rules);
    hsc__archive_free(&scan->archive);
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

const hsc_pair *hsc_scan_pair(const hsc_scan *scan, int index)
{
    return index >= 0 && index < scan->n_used ? scan->pairs[index].said->pair : NULL;
}

hsc_status hsc_scan_seen(const hsc_scan *scan, int index, hsc_seen *seen, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_FAIL_IF(index < 0 || index >= scan->n_used, HSC_EINVAL, "the scan has pairs 0 to %d, not %d", scan->n_used - 1,
                index);
    return hsc__scan_read(scan, index, seen, err);
}
