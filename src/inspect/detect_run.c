/*
 * The passes of the detectors. An observer takes a few figures of every row of a window; their means over its rows and
 * its best rows are the window's record, which is what processes share and what a store keeps. Windows go in rounds,
 * some to each process; afterwards every process adds all records of the round to its pile, in the windows' order, so
 * that neither threads nor processes nor a stop in between can change a bit.
 */
#include "base/digest.h"
#include "base/status.h"
#include "inspect/detect.h"
#include "inspect/team.h"
#include "model/texts.h"

#include <math.h>
#include <string.h>

enum { ROUND = 4 }; /* windows of a process in one round */

/* The best row of one head by one detector. */
typedef struct best {
    int32_t query, key; /* -1: no row has one */
    float weight;
} best;

/* A window of the round, and where its record stands: records are in the order of the processes that make them. */
typedef struct slot {
    hsc__window window;
    uint64_t digest;
    int owner, at;
} slot;

typedef struct pass {
    hsc_detect *detect;
    hsc__windows *windows;
    hsc_session *session;
    const hsc__window *window; /* that runs now */
    hsc__row *rows;            /* [n_heads][HSC_DETECT_WINDOW] */
    int n_slots, most_slots;
    slot *slots;
    unsigned char *loaded;  /* [most_slots] */
    unsigned char *records; /* [most_slots][record_size] */
    size_t record_size, *starts;
} pass;

/* A record is float64 [HSC__N_FIGURES][n_heads] and then best [HSC_N_DETECTORS][n_heads]. */
static double *figures_of(const pass *p, int at)
{
    return (double *)(void *)(p->records + (size_t)at * p->record_size);
}

static best *best_of(const pass *p, int at)
{
    return (best *)(void *)(figures_of(p, at) + (size_t)HSC__N_FIGURES * (size_t)p->detect->n_heads);
}

/* ------------------------------------------------------------------------------------------------------ a window ----
 */

static hsc__row *rows_of(const pass *p, int head)
{
    return p->rows + (size_t)head * HSC_DETECT_WINDOW;
}

static int take_rows(void *user, const hsc_block *block)
{
    const pass *p = user;
    const hsc_config *config = p->detect->config;
    bool causal = config->causal != 0;
    hsc__row *rows = rows_of(p, block->layer * config->n_heads + block->head);
    for (int r = 0; r < block->n_rows; r++) {
        int query = block->first_row + r;
        int n_keys = causal && query + 1 < block->row_size ? query + 1 : block->row_size;
        hsc__row_take(p->window, causal, query, block->data + (size_t)r * block->stride, n_keys, &rows[query]);
    }
    return 0;
}

/* The mean over the rows that have the figure; the first of equal rows is the best one. */
static double mean_figure(const pass *p, hsc_detector d, int head, best *out)
{
    const hsc__row *rows = rows_of(p, head);
    double sum = 0;
    int n = 0;
    *out = (best){-1, -1, 0};
    for (int q = 0; q < p->window->n; q++) {
        float figure = rows[q].figure[d];
        if (isnan(figure)) continue;
        sum += (double)figure;
        n++;
        if (rows[q].key[d] >= 0 && (out->query < 0 || figure > out->weight)) *out = (best){q, rows[q].key[d], figure};
    }
    return n ? sum / n : NAN;
}

static void add_sums(const pass *p, double *figures, int head)
{
    const hsc__row *rows = rows_of(p, head);
    double tl[HSC__N_TL] = {0}, bins[HSC_DETECT_BINS] = {0};
    size_t n_heads = (size_t)p->detect->n_heads;
    int n = 0;
    for (int q = 0; q < p->window->n; q++) {
        for (int i = 0; i < HSC__N_TL; i++) tl[i] += (double)rows[q].tl[i];
        if (isnan(rows[q].figure[HSC_DETECT_ENTROPY])) continue;
        for (int b = 0; b < HSC_DETECT_BINS; b++) bins[b] += (double)rows[q].bins[b];
        n++;
    }
    for (int i = 0; i < HSC__N_TL; i++)
        figures[(size_t)(HSC__FIRST_TL + i) * n_heads + (size_t)head] = tl[i] / p->window->n;
    for (int b = 0; b < HSC_DETECT_BINS; b++)
        figures[(size_t)(HSC__FIRST_BIN + b) * n_heads + (size_t)head] = n ? bins[b] / n : 0;
}

/* A NaN among the weights reaches the shape of its row: all of it is read there. */
static hsc_status check_rows(const pass *p, int head, hsc_error *err)
{
    double sum = 0;
    int n_heads = p->detect->config->n_heads;
    for (int q = 0; q < p->window->n; q++)
        for (int b = 0; b < HSC_DETECT_BINS; b++) sum += (double)rows_of(p, head)[q].bins[b];
    HSC_FAIL_IF(!isfinite(sum), HSC_EINVAL,
                "an attention weight of L%dH%d is not finite (NaN): the file's weights are damaged or overflow",
                head / n_heads, head % n_heads);
    return HSC_OK;
}

static hsc_status run_window(pass *p, const slot *s, hsc_error *err)
{
    size_t n_heads = (size_t)p->detect->n_heads;
    double *figures = figures_of(p, s->at);
    best *bests = best_of(p, s->at);
    p->window = &s->window;
    HSC_TRY(hsc__window_forward(p->session, p->window, err));
    for (int head = 0; head < p->detect->n_heads; head++) {
        HSC_TRY(check_rows(p, head, err));
        for (int d = 0; d < HSC_N_DETECTORS; d++) {
            size_t i = (size_t)d * n_heads + (size_t)head;
            figures[i] = mean_figure(p, (hsc_detector)d, head, &bests[i]);
        }
        add_sums(p, figures, head);
    }
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------ a round ----
 */

/* What a window's record depends on beside the model and the options. */
static uint64_t digest_of(const hsc__window *w)
{
    uint64_t digest = HSC__DIGEST_START;
    hsc__digest_add(&digest, w->ids, (size_t)w->n * sizeof *w->ids);
    for (int i = 0; i < w->n; i++) hsc__digest_add(&digest, &w->places[i].first_piece, sizeof w->places[i].first_piece);
    return digest;
}

/* Whether a record from outside names positions of this window alone. */
static bool fits(const pass *p, int at, const hsc__window *w)
{
    const best *bests = best_of(p, at);
    for (size_t i = 0; i < HSC_N_DETECTORS * (size_t)p->detect->n_heads; i++)
        if (bests[i].query < -1 || bests[i].query >= w->n || bests[i].key >= w->n ||
            (bests[i].query >= 0 && bests[i].key < 0))
            return false;
    return true;
}

/* What an earlier run left behind; rank 0 tells the others which windows that are. */
static hsc_status load_round(pass *p, hsc__pile *pile, hsc_error *err)
{
    const hsc_team *team = p->detect->options.team;
    const hsc_detect_store *store = p->detect->options.store;
    bool is_random = pile == &p->detect->random;
    memset(p->loaded, 0, (size_t)p->n_slots);
    for (int i = 0, n = 0; store && i < p->n_slots; i++) {
        unsigned char *record = p->records + (size_t)n * p->record_size;
        const slot *s = &p->slots[i];
        p->loaded[i] =
            store->load(store->user, is_random, pile->n_windows + i, s->digest, record, p->record_size) == 1 &&
            fits(p, n, &s->window);
        n += p->loaded[i];
    }
    if (!team) return HSC_OK;
    p->starts[0] = 0;
    for (int r = 1; r <= team->n_ranks; r++) p->starts[r] = (size_t)p->n_slots;
    return hsc__team_share(team, p->loaded, p->starts, err);
}

/* Loaded windows are rank 0's; the others are dealt out in turn. */
static void deal(pass *p)
{
    const hsc_team *team = p->detect->options.team;
    int n_ranks = team ? team->n_ranks : 1, next = 0, at = 0;
    for (int i = 0; i < p->n_slots; i++) {
        p->slots[i].owner = p->loaded[i] ? 0 : next++ % n_ranks;
        if (p->loaded[i]) p->slots[i].at = at++;
    }
    for (int r = 0; r < n_ranks; r++) {
        p->starts[r] = r ? (size_t)at * p->record_size : 0;
        for (int i = 0; i < p->n_slots; i++)
            if (p->slots[i].owner == r && !p->loaded[i]) p->slots[i].at = at++;
    }
    p->starts[n_ranks] = (size_t)at * p->record_size;
}

static hsc_status run_slots(pass *p, hsc_error *err)
{
    const hsc_team *team = p->detect->options.team;
    deal(p);
    for (int i = 0; i < p->n_slots; i++)
        if (!p->loaded[i] && p->slots[i].owner == (team ? team->rank : 0)) HSC_TRY(run_window(p, &p->slots[i], err));
    return team ? hsc__team_share(team, p->records, p->starts, err) : HSC_OK;
}

static hsc_status save_round(pass *p, const hsc__pile *pile, hsc_error *err)
{
    const hsc_detect_store *store = p->detect->options.store;
    bool is_random = pile == &p->detect->random;
    if (!store) return HSC_OK;
    for (int i = 0; i < p->n_slots; i++) {
        const slot *s = &p->slots[i];
        if (p->loaded[i]) continue;
        HSC_TRY(store->save(store->user, is_random, pile->n_windows + i, s->digest,
                            p->records + (size_t)s->at * p->record_size, p->record_size, err));
    }
    return store->flush ? store->flush(store->user, err) : HSC_OK;
}

/* The first of equal windows keeps the example. */
static void add_examples(const pass *p, hsc__pile *pile, const slot *s)
{
    const best *bests = best_of(p, s->at);
    for (size_t i = 0; i < HSC_N_DETECTORS * (size_t)p->detect->n_heads; i++) {
        const best *b = &bests[i];
        hsc_detect_example *e = &pile->examples[i];
        if (b->query < 0 || (e->n_tokens && b->weight <= e->weight)) continue;
        int n = b->query + 1 < HSC_EXAMPLE_TOKENS ? b->query + 1 : HSC_EXAMPLE_TOKENS;
        *e = (hsc_detect_example){.window = pile->n_windows,
                                  .query = b->query,
                                  .key = b->key,
                                  .weight = b->weight,
                                  .key_id = s->window.ids[b->key],
                                  .n_tokens = n};
        memcpy(e->tokens, s->window.ids + b->query + 1 - n, (size_t)n * sizeof *e->tokens);
    }
}

static hsc_status add_slot(pass *p, hsc__pile *pile, const slot *s, hsc_error *err)
{
    size_t n = (size_t)HSC__N_FIGURES * (size_t)p->detect->n_heads;
    HSC_TRY(hsc__grow(&pile->values, &pile->capacity, ((size_t)pile->n_windows + 1) * n, sizeof *pile->values, err));
    memcpy(pile->values + (size_t)pile->n_windows * n, figures_of(p, s->at), n * sizeof *pile->values);
    add_examples(p, pile, s);
    pile->n_windows++;
    pile->n_tokens += s->window.n_own;
    return HSC_OK;
}

static hsc_status tell(const hsc_detect *detect, hsc_error *err)
{
    const hsc_detect_options *o = &detect->options;
    int n = detect->random.n_windows + detect->text.n_windows;
    HSC_FAIL_IF(o->tell && o->tell(o->user, n, detect->counts.on_random ? hsc__detect_sequences(o) : 0), HSC_ECANCELED,
                "stopped after %d windows", n);
    return HSC_OK;
}

static hsc_status run_round(pass *p, hsc__pile *pile, hsc_error *err)
{
    for (int i = 0; i < p->n_slots; i++) p->slots[i].digest = digest_of(&p->slots[i].window);
    HSC_TRY(load_round(p, pile, err));
    HSC_TRY(run_slots(p, err));
    HSC_TRY(save_round(p, pile, err));
    for (int i = 0; i < p->n_slots; i++) {
        HSC_TRY(add_slot(p, pile, &p->slots[i], err));
        p->detect->counts.n_loaded += p->loaded[i];
        HSC_TRY(tell(p->detect, err));
    }
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------- all windows ----
 */

typedef hsc_status (*next_fn)(hsc__windows *windows, hsc__window *out, hsc_error *err);

/* At most `most` windows, or as many as there are. */
static hsc_status run_pile(pass *p, hsc__pile *pile, next_fn next, int most, hsc_error *err)
{
    for (bool ended = false; !ended && pile->n_windows < most;) {
        for (p->n_slots = 0; p->n_slots < p->most_slots && pile->n_windows + p->n_slots < most; p->n_slots++) {
            hsc__window *window = &p->slots[p->n_slots].window;
            HSC_TRY(next(p->windows, window, err));
            ended = !window->n;
            if (ended) break;
        }
        if (p->n_slots) HSC_TRY(run_round(p, pile, err));
    }
    return HSC_OK;
}

static hsc_status run_piles(pass *p, hsc_error *err)
{
    hsc_detect *detect = p->detect;
    int most = hsc__detect_windows(&detect->options);
    HSC_TRY(run_pile(p, &detect->random, hsc__windows_random, hsc__detect_sequences(&detect->options), err));
    if (!p->windows->text) return HSC_OK;
    HSC_TRY(run_pile(p, &detect->text, hsc__windows_next, most, err));
    HSC_FAIL_IF(!detect->text.n_windows, HSC_EINVAL, "the text has no token: there is nothing to look at");
    detect->counts.is_cut = detect->text.n_windows == most && hsc__windows_more(p->windows);
    return HSC_OK;
}

static hsc_status make_room(pass *p, hsc_error *err)
{
    hsc_detect *detect = p->detect;
    size_t n_heads = (size_t)detect->n_heads,
           n_ranks = detect->options.team ? (size_t)detect->options.team->n_ranks : 1;
    size_t n_slots = ROUND * n_ranks, n_rows = n_heads * HSC_DETECT_WINDOW;
    p->most_slots = (int)n_slots;
    p->record_size = n_heads * (HSC__N_FIGURES * sizeof(double) + HSC_N_DETECTORS * sizeof(best));
    p->record_size = (p->record_size + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    p->rows = hsc__calloc(n_rows, sizeof *p->rows);
    p->slots = hsc__calloc(n_slots, sizeof *p->slots);
    p->loaded = hsc__calloc(n_slots, 1);
    p->records = hsc__calloc(n_slots, p->record_size);
    p->starts = hsc__calloc(n_ranks + 1, sizeof *p->starts);
    detect->text.examples = hsc__calloc(HSC_N_DETECTORS * n_heads, sizeof *detect->text.examples);
    detect->random.examples = hsc__calloc(HSC_N_DETECTORS * n_heads, sizeof *detect->random.examples);
    if (p->rows && p->slots && p->loaded && p->records && p->starts && detect->text.examples && detect->random.examples)
        return HSC_OK;
    return hsc__fail_memory(err, n_rows * sizeof *p->rows + n_slots * p->record_size, "the figures of windows");
}

static void free_room(pass *p)
{
    hsc__free(p->rows);
    hsc__free(p->slots);
    hsc__free(p->loaded);
    hsc__free(p->records);
    hsc__free(p->starts);
}

static hsc_status run_session(pass *p, hsc_error *err)
{
    hsc_observer observer = {.site = hsc__texts_pattern(p->windows->model), .layer = -1, .fn = take_rows, .user = p};
    HSC_TRY(make_room(p, err));
    HSC_TRY(hsc_session_observe(p->session, &observer, err));
    return run_piles(p, err);
}

static void count(hsc_detect *detect, const hsc__windows *windows)
{
    hsc_detect_counts *c = &detect->counts;
    c->n_layers = detect->config->n_layers;
    c->n_heads = detect->config->n_heads;
    c->on_random = !windows->text;
    c->n_sequences = hsc__detect_sequences(&detect->options);
    c->length = windows->length;
    c->n_before = windows->n_before;
    c->n_after = windows->n_after;
    c->before = windows->n_before ? windows->before[0] : -1;
}

hsc_status hsc__detect_pass(hsc_detect *detect, const hsc_model *model, const char *text, size_t n, hsc_error *err)
{
    hsc__windows windows;
    pass p = {.detect = detect, .windows = &windows};
    hsc_status status = hsc__windows_open(&windows, model, text, n, &detect->options, err);
    count(detect, &windows);
    if (status == HSC_OK) status = hsc__windows_session(&windows, model, &detect->options, &p.session, err);
    if (status == HSC_OK) status = run_session(&p, err);
    detect->counts.n_windows = detect->text.n_windows;
    detect->counts.n_tokens = detect->text.n_tokens;
    hsc_session_free(p.session);
    free_room(&p);
    hsc__windows_close(&windows);
    return status;
}
