/*
 * The detectors as an object: windows go through the model one at a time, an observer takes a few figures of every row,
 * and their means over a window's rows are kept. Every row has one writer and sums run in the order of the rows, so
 * threads never show. Random sequences and the text have a pile of results each.
 */
#include "inspect/detect.h"

#include "base/status.h"
#include "inspect/team.h"

#include <math.h>
#include <string.h>

/* What is kept of a window for each head: the detectors' means (NaN where no row had one), TransformerLens's, and the
 * mean weights by distance. */
enum { FIRST_TL = HSC_N_DETECTORS, FIRST_BIN = FIRST_TL + HSC__N_TL, N_FIGURES = FIRST_BIN + HSC_DETECT_BINS };

typedef struct pile {
    double *values; /* [n_windows][N_FIGURES][n_heads] */
    size_t capacity;
    int n_windows, n_tokens;
    hsc_detect_example *examples; /* [HSC_N_DETECTORS][n_heads] */
} pile;

struct hsc_detect {
    const hsc_config *config;
    hsc_detect_options options;
    hsc_detect_counts counts;
    int n_heads; /* of all layers */
    pile text, random;
    /* While running: */
    hsc__window window;
    hsc__row *rows; /* [n_heads][HSC_DETECT_WINDOW] */
};

const char *hsc_detector_name(hsc_detector detector)
{
    static const char *const names[] = {
#define DETECTOR_NAME(id, name, meaning) name,
        HSC_DETECTOR_LIST(DETECTOR_NAME)
#undef DETECTOR_NAME
    };
    return (unsigned)detector < HSC_N_DETECTORS ? names[detector] : NULL;
}

const char *hsc_detector_meaning(hsc_detector detector)
{
    static const char *const meanings[] = {
#define DETECTOR_MEANING(id, name, meaning) meaning,
        HSC_DETECTOR_LIST(DETECTOR_MEANING)
#undef DETECTOR_MEANING
    };
    return (unsigned)detector < HSC_N_DETECTORS ? meanings[detector] : NULL;
}

/* ------------------------------------------------------------------------------------------------------- watching ----
 */

static hsc__row *rows_of(const hsc_detect *detect, int head)
{
    return detect->rows + (size_t)head * HSC_DETECT_WINDOW;
}

static int take_rows(void *user, const hsc_block *block)
{
    const hsc_detect *detect = user;
    bool causal = detect->config->causal != 0;
    hsc__row *rows = rows_of(detect, block->layer * detect->config->n_heads + block->head);
    for (int r = 0; r < block->n_rows; r++) {
        int query = block->first_row + r;
        int n_keys = causal && query + 1 < block->row_size ? query + 1 : block->row_size;
        hsc__row_take(&detect->window, causal, query, block->data + (size_t)r * block->stride, n_keys, &rows[query]);
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ a window ----
 */

static void keep_example(const hsc_detect *detect, pile *p, hsc_detector d, int head, int query)
{
    const hsc__window *w = &detect->window;
    const hsc__row *row = &rows_of(detect, head)[query];
    hsc_detect_example *e = &p->examples[(size_t)d * (size_t)detect->n_heads + (size_t)head];
    if (row->key[d] < 0 || (e->n_tokens && row->figure[d] <= e->weight)) return; /* the first of equals stays */
    int n = query + 1 < HSC_EXAMPLE_TOKENS ? query + 1 : HSC_EXAMPLE_TOKENS;
    *e = (hsc_detect_example){.window = p->n_windows,
                              .query = query,
                              .key = row->key[d],
                              .weight = row->figure[d],
                              .key_id = w->ids[row->key[d]],
                              .n_tokens = n};
    memcpy(e->tokens, w->ids + query + 1 - n, (size_t)n * sizeof *e->tokens);
}

static double mean_figure(const hsc_detect *detect, pile *p, hsc_detector d, int head)
{
    const hsc__row *rows = rows_of(detect, head);
    double sum = 0;
    int n = 0;
    for (int q = 0; q < detect->window.n; q++) {
        if (isnan(rows[q].figure[d])) continue;
        sum += (double)rows[q].figure[d];
        n++;
        keep_example(detect, p, d, head, q);
    }
    return n ? sum / n : NAN;
}

/* values: the window's, [N_FIGURES][n_heads]. */
static void add_sums(const hsc_detect *detect, double *values, int head)
{
    const hsc__row *rows = rows_of(detect, head);
    double tl[HSC__N_TL] = {0}, bins[HSC_DETECT_BINS] = {0};
    size_t n_heads = (size_t)detect->n_heads;
    int n = 0;
    for (int q = 0; q < detect->window.n; q++) {
        for (int i = 0; i < HSC__N_TL; i++) tl[i] += (double)rows[q].tl[i];
        if (isnan(rows[q].figure[HSC_DETECT_ENTROPY])) continue;
        for (int b = 0; b < HSC_DETECT_BINS; b++) bins[b] += (double)rows[q].bins[b];
        n++;
    }
    for (int i = 0; i < HSC__N_TL; i++)
        values[(size_t)(FIRST_TL + i) * n_heads + (size_t)head] = tl[i] / detect->window.n;
    for (int b = 0; b < HSC_DETECT_BINS; b++)
        values[(size_t)(FIRST_BIN + b) * n_heads + (size_t)head] = n ? bins[b] / n : 0;
}

/* A NaN among the weights reaches the shape of its row: all of it is read there. */
static hsc_status check_rows(const hsc_detect *detect, int head, hsc_error *err)
{
    double sum = 0;
    for (int q = 0; q < detect->window.n; q++)
        for (int b = 0; b < HSC_DETECT_BINS; b++) sum += (double)rows_of(detect, head)[q].bins[b];
    HSC_FAIL_IF(!isfinite(sum), HSC_EINVAL,
                "an attention weight of L%dH%d is not finite (NaN): the file's weights are damaged or overflow",
                head / detect->config->n_heads, head % detect->config->n_heads);
    return HSC_OK;
}

/* Windows are dealt out to the processes in turn. */
static bool is_mine(const hsc_detect *detect, int window)
{
    const hsc_team *team = detect->options.team;
    return !team || window % team->n_ranks == team->rank;
}

static hsc_status add_window(hsc_detect *detect, hsc_session *session, pile *p, hsc_error *err)
{
    size_t n = (size_t)N_FIGURES * (size_t)detect->n_heads;
    HSC_TRY(hsc__grow(&p->values, &p->capacity, ((size_t)p->n_windows + 1) * n, sizeof *p->values, err));
    double *values = p->values + (size_t)p->n_windows * n;
    bool mine = is_mine(detect, p->n_windows);
    if (mine) HSC_TRY(hsc__window_forward(session, &detect->window, err));
    for (int head = 0; mine && head < detect->n_heads; head++) {
        HSC_TRY(check_rows(detect, head, err));
        for (int d = 0; d < HSC_N_DETECTORS; d++)
            values[(size_t)d * (size_t)detect->n_heads + (size_t)head] = mean_figure(detect, p, (hsc_detector)d, head);
        add_sums(detect, values, head);
    }
    p->n_windows++;
    p->n_tokens += detect->window.n_own;
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------------- the run
 * ---- */

static hsc_status tell(const hsc_detect *detect, hsc_error *err)
{
    const hsc_detect_options *o = &detect->options;
    int n = detect->random.n_windows + detect->text.n_windows;
    HSC_FAIL_IF(o->tell && o->tell(o->user, n, detect->counts.on_random ? hsc__detect_sequences(o) : 0), HSC_ECANCELED,
                "stopped after %d windows", n);
    return HSC_OK;
}

static hsc_status run_windows(hsc_detect *detect, hsc__windows *windows, hsc_session *session, hsc_error *err)
{
    int most = hsc__detect_windows(&detect->options);
    for (int i = 0; i < hsc__detect_sequences(&detect->options); i++) {
        HSC_TRY(hsc__windows_random(windows, &detect->window, err));
        HSC_TRY(add_window(detect, session, &detect->random, err));
        HSC_TRY(tell(detect, err));
    }
    if (!windows->text) return HSC_OK;
    while (detect->text.n_windows < most) {
        HSC_TRY(hsc__windows_next(windows, &detect->window, err));
        if (!detect->window.n) break;
        HSC_TRY(add_window(detect, session, &detect->text, err));
        HSC_TRY(tell(detect, err));
    }
    HSC_FAIL_IF(!detect->text.n_windows, HSC_EINVAL, "the text has no token: there is nothing to look at");
    detect->counts.is_cut = detect->text.n_windows == most && hsc__windows_more(windows);
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------- processes ---- */

/* Windows of process r come one after the other in the shared array: those of rank 0, those of rank 1, and so on. */
static hsc_status share_values(const hsc_detect *detect, pile *p, double *all, size_t *starts, hsc_error *err)
{
    const hsc_team *team = detect->options.team;
    size_t n = (size_t)N_FIGURES * (size_t)detect->n_heads, at = 0;
    for (int r = 0; r < team->n_ranks; r++) {
        starts[r] = at * sizeof *all;
        for (int i = r; i < p->n_windows; i += team->n_ranks, at += n)
            if (r == team->rank) memcpy(all + at, p->values + (size_t)i * n, n * sizeof *all);
    }
    starts[team->n_ranks] = at * sizeof *all;
    HSC_TRY(hsc__team_share(team, all, starts, err));
    at = 0;
    for (int r = 0; r < team->n_ranks; r++)
        for (int i = r; i < p->n_windows; i += team->n_ranks, at += n)
            memcpy(p->values + (size_t)i * n, all + at, n * sizeof *all);
    return HSC_OK;
}

/* The best of all processes; of equals the earlier window, as one process alone would keep it. */
static hsc_status share_examples(const hsc_detect *detect, pile *p, hsc_detect_example *all, size_t *starts,
                                 hsc_error *err)
{
    const hsc_team *team = detect->options.team;
    size_t n = HSC_N_DETECTORS * (size_t)detect->n_heads;
    for (int r = 0; r <= team->n_ranks; r++) starts[r] = (size_t)r * n * sizeof *all;
    memcpy(all + (size_t)team->rank * n, p->examples, n * sizeof *all);
    HSC_TRY(hsc__team_share(team, all, starts, err));
    for (size_t i = 0; i < n; i++) {
        hsc_detect_example *best = &p->examples[i];
        *best = all[i];
        for (int r = 1; r < team->n_ranks; r++) {
            const hsc_detect_example *e = &all[(size_t)r * n + i];
            bool earlier = e->weight == best->weight && e->window < best->window;
            if (e->n_tokens && (!best->n_tokens || e->weight > best->weight || earlier)) *best = *e;
        }
    }
    return HSC_OK;
}

static hsc_status share_pile(const hsc_detect *detect, pile *p, hsc_error *err)
{
    const hsc_team *team = detect->options.team;
    if (!team) return HSC_OK;
    size_t n = (size_t)p->n_windows * N_FIGURES * (size_t)detect->n_heads;
    size_t n_examples = (size_t)team->n_ranks * HSC_N_DETECTORS * (size_t)detect->n_heads;
    double *values = hsc__calloc(n + 1, sizeof *values);
    hsc_detect_example *examples = hsc__calloc(n_examples, sizeof *examples);
    size_t *starts = hsc__calloc((size_t)team->n_ranks + 1, sizeof *starts);
    hsc_status status = values && examples && starts
                            ? HSC_OK
                            : hsc__fail_memory(err, n * sizeof *values, "the figures of all processes");
    if (status == HSC_OK) status = share_values(detect, p, values, starts, err);
    if (status == HSC_OK) status = share_examples(detect, p, examples, starts, err);
    hsc__free(values);
    hsc__free(examples);
    hsc__free(starts);
    return status;
}

static hsc_status make_pile(pile *p, int n_heads, hsc_error *err)
{
    size_t n = (size_t)n_heads;
    p->examples = hsc__calloc(HSC_N_DETECTORS * n, sizeof *p->examples);
    if (p->examples) return HSC_OK;
    return hsc__fail_memory(err, HSC_N_DETECTORS * n * sizeof *p->examples, "the detectors' figures");
}

static hsc_status run_session(hsc_detect *detect, hsc__windows *windows, hsc_session *session, hsc_error *err)
{
    size_t n_rows = (size_t)detect->n_heads * HSC_DETECT_WINDOW;
    detect->rows = hsc__calloc(n_rows, sizeof *detect->rows);
    if (!detect->rows) return hsc__fail_memory(err, n_rows * sizeof *detect->rows, "the rows of a window");
    HSC_TRY(make_pile(&detect->text, detect->n_heads, err));
    HSC_TRY(make_pile(&detect->random, detect->n_heads, err));
    hsc_observer observer = {.site = HSC_PATTERN, .layer = -1, .fn = take_rows, .user = detect};
    HSC_TRY(hsc_session_observe(session, &observer, err));
    HSC_TRY(run_windows(detect, windows, session, err));
    HSC_TRY(share_pile(detect, &detect->random, err));
    return share_pile(detect, &detect->text, err);
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

static hsc_status run(hsc_detect *detect, const hsc_model *model, const char *text, size_t n, hsc_error *err)
{
    hsc__windows windows;
    hsc_session *session = NULL;
    hsc_status status = hsc__windows_open(&windows, model, text, n, &detect->options, err);
    count(detect, &windows);
    if (status == HSC_OK) status = hsc__windows_session(&windows, model, &detect->options, &session, err);
    if (status == HSC_OK) status = run_session(detect, &windows, session, err);
    detect->counts.n_windows = detect->text.n_windows;
    detect->counts.n_tokens = detect->text.n_tokens;
    hsc_session_free(session);
    hsc__windows_close(&windows);
    hsc__free(detect->rows);
    detect->rows = NULL;
    return status;
}

hsc_status hsc_detect_run(hsc_detect **out, const hsc_model *model, const char *text, size_t n,
                          const hsc_detect_options *options, hsc_error *err)
{
    static const hsc_detect_options defaults;
    *out = NULL;
    hsc__error_clear(err);
    hsc_detect *detect = hsc__calloc(1, sizeof *detect);
    if (!detect) return hsc__fail_memory(err, sizeof *detect, "the detectors");
    detect->options = options ? *options : defaults;
    detect->config = hsc_model_config(model);
    detect->n_heads = detect->config->n_layers * detect->config->n_heads;
    hsc_status status = run(detect, model, text, n, err);
    if (status == HSC_OK) *out = detect;
    else hsc_detect_free(detect);
    return status;
}

static void free_pile(pile *p)
{
    hsc__free(p->values);
    hsc__free(p->examples);
}

void hsc_detect_free(hsc_detect *detect)
{
    if (!detect) return;
    free_pile(&detect->text);
    free_pile(&detect->random);
    hsc__free(detect->rows);
    hsc__free(detect);
}

/* --------------------------------------------------------------------------------------------------------- scores ----
 */

hsc_detect_counts hsc_detect_count(const hsc_detect *detect)
{
    return detect->counts;
}

static const pile *pile_of(const hsc_detect *detect, hsc_detector detector)
{
    return detector == HSC_DETECT_INDUCTION || detect->counts.on_random ? &detect->random : &detect->text;
}

/* The windows in which the detector has a figure; which ones is decided by their tokens, so it is the same for every
 * head. Returns how many. */
static int gather(const hsc_detect *detect, const pile *p, hsc_detector detector, double *table)
{
    size_t n_heads = (size_t)detect->n_heads;
    int n = 0;
    for (int i = 0; i < p->n_windows; i++) {
        const double *row = p->values + ((size_t)i * N_FIGURES + (size_t)detector) * n_heads;
        if (!isnan(row[0])) memcpy(table + (size_t)n++ * n_heads, row, n_heads * sizeof *table);
    }
    return n;
}

/* Over all windows, in their order. */
static double mean_over(const hsc_detect *detect, const pile *p, int figure, int head)
{
    size_t n_heads = (size_t)detect->n_heads;
    double sum = 0;
    for (int i = 0; i < p->n_windows; i++)
        sum += p->values[((size_t)i * N_FIGURES + (size_t)figure) * n_heads + (size_t)head];
    return sum / p->n_windows;
}

static double tl_score(const hsc_detect *detect, const pile *p, hsc_detector detector, int head)
{
    int which = detector == HSC_DETECT_PREVIOUS    ? HSC__TL_PREVIOUS
                : detector == HSC_DETECT_DUPLICATE ? HSC__TL_DUPLICATE
                : detector == HSC_DETECT_INDUCTION ? HSC__TL_INDUCTION
                                                   : -1;
    if (which < 0) return NAN;
    return mean_over(detect, p, FIRST_TL + which, head);
}

static hsc_status fill_scores(const hsc_detect *detect, hsc_detector detector, double *values, hsc_interval *ci,
                              hsc_detect_score *out, hsc_error *err)
{
    const pile *p = pile_of(detect, detector);
    hsc_table table = {values, gather(detect, p, detector, values), detect->n_heads};
    hsc_bootstrap_options bootstrap = {.n_draws = detect->options.n_bootstrap,
                                       .seed = detect->options.seed,
                                       .n_threads = detect->options.session.n_threads};
    if (table.n_clusters > 1) HSC_TRY(hsc_bootstrap(&table, &bootstrap, ci, err));
    for (int h = 0; h < detect->n_heads; h++) {
        out[h] = (hsc_detect_score){.score = NAN, .ci = {NAN, NAN}, .tl = tl_score(detect, p, detector, h)};
        out[h].best = p->examples[(size_t)detector * (size_t)detect->n_heads + (size_t)h];
        if (table.n_clusters > 0) out[h].score = hsc_effect_size(values + h, table.n_clusters, detect->n_heads).mean;
        if (table.n_clusters > 1) out[h].ci = ci[h];
    }
    return HSC_OK;
}

hsc_status hsc_detect_scores(const hsc_detect *detect, hsc_detector detector, hsc_detect_score *out, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_FAIL_IF((unsigned)detector >= HSC_N_DETECTORS, HSC_EINVAL, "there is no detector %d", (int)detector);
    size_t n_heads = (size_t)detect->n_heads, n = (size_t)pile_of(detect, detector)->n_windows * n_heads;
    double *values = hsc__calloc(n, sizeof *values);
    hsc_interval *ci = hsc__calloc(n_heads, sizeof *ci);
    hsc_status status = values && ci ? fill_scores(detect, detector, values, ci, out, err)
                                     : hsc__fail_memory(err, n * sizeof *values, "the detectors' scores");
    hsc__free(values);
    hsc__free(ci);
    return status;
}

void hsc_detect_profile(const hsc_detect *detect, double *out)
{
    const pile *p = detect->counts.on_random ? &detect->random : &detect->text;
    for (int h = 0; h < detect->n_heads; h++)
        for (int b = 0; b < HSC_DETECT_BINS; b++)
            out[(size_t)h * HSC_DETECT_BINS + (size_t)b] = mean_over(detect, p, FIRST_BIN + b, h);
}
