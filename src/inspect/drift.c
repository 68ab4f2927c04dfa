/*
 * How far the patterns of each head differ between two files of one model. The first model's patterns of a window are
 * recorded; while the second runs, an observer compares row by row. Nothing of a window outlives it but a mean a head.
 */
#include "base/status.h"
#include "inspect/detect.h"
#include "model/texts.h"

#include <math.h>
#include <string.h>

typedef struct drift {
    const hsc_config *config;
    const hsc_detect_options *options;
    hsc__windows windows;
    hsc__window window;
    hsc_session *a, *b;
    hsc_view *patterns; /* [n_layers] of the first model: [n_heads][n][n] */
    double *rows;       /* [n_heads][HSC_DETECT_WINDOW]: distances of a window */
    double *values;     /* [n_windows][n_heads] */
    size_t capacity;
    int n_windows, n_heads; /* heads of all layers */
} drift;

/* ---------------------------------------------------------------------------------------------------------- checks
 * ---- */

static hsc_status same_tokens(const hsc_tokenizer *x, const hsc_tokenizer *y, hsc_error *err)
{
    HSC_FAIL_IF(hsc_tokenizer_size(x) != hsc_tokenizer_size(y), HSC_EINVAL,
                "the tokenizers differ: %zu tokens in the first file and %zu in the second", hsc_tokenizer_size(x),
                hsc_tokenizer_size(y));
    for (hsc_token id = 0; (size_t)id < hsc_tokenizer_size(x); id++) {
        size_t n = 0, m = 0;
        const char *p = hsc_token_bytes(x, id, &n), *q = hsc_token_bytes(y, id, &m);
        HSC_FAIL_IF(!p != !q || n != m || (p && memcmp(p, q, n) != 0), HSC_EINVAL,
                    "the tokenizers differ: token %d is not the same text in both files", id);
    }
    return HSC_OK;
}

hsc_status hsc_drift_check(const hsc_model *a, const hsc_model *b, hsc_error *err)
{
    const hsc_config *x = hsc__texts_config(a), *y = hsc__texts_config(b);
    const struct {
        const char *name;
        int first, second;
    } fields[] = {
        {"n_layers", x->n_layers, y->n_layers}, {"n_heads", x->n_heads, y->n_heads},
        {"d_model", x->d_model, y->d_model},    {"d_head", x->d_head, y->d_head},
        {"d_vocab", x->d_vocab, y->d_vocab},    {"causal", x->causal, y->causal},
    };
    hsc__error_clear(err);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        HSC_FAIL_IF(fields[i].first != fields[i].second, HSC_EINVAL,
                    "these are not two files of one model: %s is %d in the first and %d in the second", fields[i].name,
                    fields[i].first, fields[i].second);
    const hsc_tokenizer *p = hsc_model_tokenizer(a, NULL), *q = hsc_model_tokenizer(b, NULL);
    return p && q ? same_tokens(p, q, err) : HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------- a window ----
 */

/* Kullback-Leibler divergences from the mean, in bits. A pair of equal weights adds exactly 0. */
static double js_distance(const float *x, const float *y, int n)
{
    double sum = 0;
    for (int k = 0; k < n; k++) {
        if (x[k] == y[k]) continue;
        double p = (double)x[k], q = (double)y[k], m = (p + q) / 2;
        if (p > 0) sum += p * log2(p / m);
        if (q > 0) sum += q * log2(q / m);
    }
    return sqrt(fmax(sum, 0) / 2);
}

static int compare_rows(void *user, const hsc_block *block)
{
    const drift *d = user;
    size_t n = (size_t)d->window.n;
    int head = block->layer * d->config->n_heads + block->head;
    for (int r = 0; r < block->n_rows; r++) {
        int query = block->first_row + r;
        const float *first = d->patterns[block->layer].data + ((size_t)block->head * n + (size_t)query) * n;
        int n_keys = d->config->causal && query + 1 < block->row_size ? query + 1 : block->row_size;
        d->rows[(size_t)head * HSC_DETECT_WINDOW + (size_t)query] =
            js_distance(first, block->data + (size_t)r * block->stride, n_keys);
    }
    return 0;
}

static hsc_status add_window(drift *d, hsc_drift *out, hsc_error *err)
{
    size_t n_heads = (size_t)d->n_heads;
    HSC_TRY(hsc__grow(&d->values, &d->capacity, ((size_t)d->n_windows + 1) * n_heads, sizeof *d->values, err));
    HSC_TRY(hsc__window_forward(d->a, &d->window, err));
    for (int layer = 0; layer < d->config->n_layers; layer++)
        HSC_TRY(hsc_session_activation(d->a, hsc__texts_pattern(d->windows.model), layer, 0, &d->patterns[layer], err));
    HSC_TRY(hsc__window_forward(d->b, &d->window, err));
    for (int h = 0; h < d->n_heads; h++) {
        const double *rows = d->rows + (size_t)h * HSC_DETECT_WINDOW;
        double sum = 0;
        for (int q = 1; q < d->window.n; q++) {
            sum += rows[q];
            if (rows[q] > out[h].largest) out[h].largest = rows[q];
        }
        HSC_FAIL_IF(!isfinite(sum), HSC_EINVAL,
                    "an attention weight of L%dH%d is not finite (NaN): one file's weights are damaged or overflow",
                    h / d->config->n_heads, h % d->config->n_heads);
        d->values[(size_t)d->n_windows * n_heads + (size_t)h] = d->window.n > 1 ? sum / (d->window.n - 1) : 0;
    }
    d->n_windows++;
    HSC_FAIL_IF(d->options->tell && d->options->tell(d->options->user, d->n_windows, 0), HSC_ECANCELED,
                "stopped after %d windows", d->n_windows);
    return HSC_OK;
}

/* -------------------------------------------------------------------------------------------------------- the run ----
 */

static hsc_status run_windows(drift *d, hsc_drift *out, hsc_error *err)
{
    int most = d->windows.text ? hsc__detect_windows(d->options) : hsc__detect_sequences(d->options);
    while (d->n_windows < most) {
        if (d->windows.text) HSC_TRY(hsc__windows_next(&d->windows, &d->window, err));
        else HSC_TRY(hsc__windows_random(&d->windows, &d->window, err));
        if (!d->window.n) break;
        HSC_TRY(add_window(d, out, err));
    }
    HSC_FAIL_IF(!d->n_windows, HSC_EINVAL, "the text has no token: there is nothing to look at");
    return HSC_OK;
}

static hsc_status summarise(const drift *d, hsc_drift *out, hsc_error *err)
{
    hsc_table table = {d->values, d->n_windows, d->n_heads};
    hsc_bootstrap_options bootstrap = {
        .n_draws = d->options->n_bootstrap, .seed = d->options->seed, .n_threads = d->options->session.n_threads};
    hsc_interval *ci = hsc__calloc((size_t)d->n_heads, sizeof *ci);
    if (!ci) return hsc__fail_memory(err, (size_t)d->n_heads * sizeof *ci, "intervals");
    hsc_status status = d->n_windows > 1 ? hsc_bootstrap(&table, &bootstrap, ci, err) : HSC_OK;
    for (int h = 0; h < d->n_heads; h++) {
        out[h].distance = hsc_effect_size(d->values + h, d->n_windows, d->n_heads).mean;
        out[h].ci = d->n_windows > 1 ? ci[h] : (hsc_interval){NAN, NAN};
    }
    hsc__free(ci);
    return status;
}

static hsc_status run(drift *d, const hsc_model *a, const hsc_model *b, hsc_drift *out, hsc_error *err)
{
    size_t n_rows = (size_t)d->n_heads * HSC_DETECT_WINDOW;
    d->rows = hsc__calloc(n_rows, sizeof *d->rows);
    d->patterns = hsc__calloc((size_t)d->config->n_layers, sizeof *d->patterns);
    if (!d->rows || !d->patterns) return hsc__fail_memory(err, n_rows * sizeof *d->rows, "the rows of a window");
    HSC_TRY(hsc__windows_session(&d->windows, a, d->options, &d->a, err));
    HSC_TRY(hsc__windows_session(&d->windows, b, d->options, &d->b, err));
    hsc_record record = {.site = hsc__texts_pattern(a), .layer = -1, .head = -1, .query = -1};
    hsc_observer observer = {.site = hsc__texts_pattern(b), .layer = -1, .fn = compare_rows, .user = d};
    HSC_TRY(hsc_session_record(d->a, &record, err));
    HSC_TRY(hsc_session_observe(d->b, &observer, err));
    HSC_TRY(run_windows(d, out, err));
    return summarise(d, out, err);
}

hsc_status hsc_drift_run(const hsc_model *a, const hsc_model *b, const char *text, size_t n,
                         const hsc_detect_options *options, hsc_drift *out, hsc_error *err)
{
    static const hsc_detect_options defaults;
    HSC_TRY(hsc_drift_check(a, b, err));
    drift *d = hsc__calloc(1, sizeof *d);
    if (!d) return hsc__fail_memory(err, sizeof *d, "the comparison");
    d->config = hsc__texts_config(a);
    d->options = options ? options : &defaults;
    d->n_heads = d->config->n_layers * d->config->n_heads;
    memset(out, 0, (size_t)d->n_heads * sizeof *out);
    hsc_status status = hsc__windows_open(&d->windows, a, text, n, d->options, err);
    if (status == HSC_OK) status = run(d, a, b, out, err);
    hsc_session_free(d->a);
    hsc_session_free(d->b);
    hsc__windows_close(&d->windows);
    hsc__free(d->rows);
    hsc__free(d->patterns);
    hsc__free(d->values);
    hsc__free(d);
    return status;
}
