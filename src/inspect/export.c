/*
 * A site's rows over a corpus into a file. The corpus is read twice: once to count rows, which lays the file out, and
 * once to fill it. Texts go through the model in packs, and what a pack recorded is written before the next one runs.
 * Maps of attention differ in shape from text to text: they stand end to end, and their shapes beside them.
 */
#include "base/status.h"
#include "formats/array_stream.h"
#include "headscope/analysis.h"
#include "headscope/intervene.h"
#include "model/model.h"

#include <string.h>

enum { PACK_TEXTS = 64, PACK_TOKENS = 512, INDEX_ARRAYS = 3 };

/* Numbers of the maps that a pack of several texts may hold. */
enum { PACK_WEIGHTS = 1 << 24 };

typedef struct run {
    const hsc_model *model;
    const hsc_config *config;
    const hsc_export_options *options;
    hsc__array_stream stream;
    hsc_session *session;
    int first_layer, n_layers, row;
    bool indexed; /* an .npz */
    bool maps;    /* [n_heads][n_query][n_key] a text */
    int longest;
    int64_t n_tokens_all, n_weights; /* of maps: of all texts together */
    hsc_export_counts counts;
    /* The pack in the making. */
    hsc_token *ids;
    int32_t *index; /* [INDEX_ARRAYS][n rows] of it */
    float *means;   /* [PACK_TEXTS][row] */
    size_t ids_capacity, index_capacity;
    int lengths[PACK_TEXTS], n_texts, n_tokens;
    int64_t n_recorded; /* numbers of its maps */
    int32_t labels[PACK_TEXTS];
} run;

static hsc_status check(run *r, const char *path, hsc_error *err)
{
    const hsc_export_options *o = r->options;
    size_t n = strlen(path);
    bool each = (unsigned)o->site < HSC_N_SITES && hsc_site_per_layer(o->site);
    HSC_FAIL_IF((unsigned)o->site >= HSC_N_SITES || !hsc_model_has_site(r->model, o->site), HSC_EINVAL,
                "a model of architecture %s has no such site", r->config->arch);
    r->row = hsc_site_row(r->model, o->site);
    r->maps = hsc_site_is_map(o->site);
    HSC_FAIL_IF(!r->row && !r->maps, HSC_EINVAL, "%s is not made of rows: `run` saves it text by text",
                hsc_site_name(o->site));
    HSC_FAIL_IF(r->maps && o->rows == HSC_EXPORT_MEAN, HSC_EINVAL,
                "the rows of %s have the text's length: texts have no mean of them", hsc_site_name(o->site));
    HSC_FAIL_IF(each && (o->layer < -1 || o->layer >= r->config->n_layers), HSC_EINVAL,
                "layer %d does not exist, the model has %d", o->layer, r->config->n_layers);
    HSC_FAIL_IF((unsigned)o->rows > HSC_EXPORT_MEAN, HSC_EINVAL, "rows is %d, 0 to 2 are accepted", (int)o->rows);
    HSC_FAIL_IF(!o->next, HSC_EINVAL, "there is no corpus");
    r->first_layer = each && o->layer >= 0 ? o->layer : 0;
    r->n_layers = each && o->layer < 0 ? r->config->n_layers : 1;
    r->indexed = n >= 4 && strcmp(path + n - 4, ".npz") == 0;
    HSC_FAIL_IF(r->maps && !r->indexed, HSC_EINVAL,
                "%s: %s differs in shape from text to text: an .npz holds the shapes", path, hsc_site_name(o->site));
    return HSC_OK;
}

/* The next text, which has a token. */
static hsc_status next_text(run *r, int64_t index, hsc_corpus_text *text, int *is_end, hsc_error *err)
{
    *is_end = 0;
    HSC_TRY(r->options->next(r->options->user, index, text, is_end, err));
    if (*is_end) return HSC_OK;
    HSC_FAIL_IF(text->n_tokens < 1, HSC_EINVAL, "text %lld has no tokens", (long long)index);
    return HSC_OK;
}

/* Queries of a text whose maps are written. */
static int n_queries(const run *r, int n)
{
    return r->options->rows == HSC_EXPORT_ALL ? n : 1;
}

/* Numbers of one layer's map of a text, as it is recorded. */
static int64_t map_size(const run *r, int n)
{
    return (int64_t)r->config->n_heads * n * n;
}

static hsc_status count_rows(run *r, hsc_error *err)
{
    for (;;) {
        hsc_corpus_text text = {0};
        int is_end;
        HSC_TRY(next_text(r, r->counts.n_texts, &text, &is_end, err));
        if (is_end) break;
        int n = text.n_tokens > r->config->n_ctx ? r->config->n_ctx : text.n_tokens;
        r->counts.n_cut += n < text.n_tokens;
        r->counts.n_rows += n_queries(r, n);
        r->n_tokens_all += n;
        r->n_weights += (int64_t)r->config->n_heads * n_queries(r, n) * n;
        r->counts.n_texts++;
        if (n > r->longest) r->longest = n;
    }
    HSC_FAIL_IF(!r->counts.n_texts, HSC_EINVAL, "the corpus has no texts");
    double most = 4.0 * (double)map_size(r, r->longest) * r->n_layers;
    HSC_FAIL_IF(r->maps && r->options->room > 0 && most > r->options->room, HSC_EINVAL,
                "the maps of the longest text, %d tokens, take %.1f GiB; there is room for %.1f: take one layer",
                r->longest, most / (1 << 30), r->options->room / (1 << 30));
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- writing ---- */

/* Maps end to end, and "text" and "shape" a text, "token" a token. */
static void lay_out_maps(const run *r, hsc_named_array *arrays)
{
    hsc_named_array *index = arrays + r->n_layers;
    for (int i = 0; i < r->n_layers; i++) {
        arrays[i].n_dims = 1;
        arrays[i].shape[0] = r->n_weights;
    }
    index[0] = (hsc_named_array){"text", HSC_I32, 1, {r->counts.n_texts}, NULL};
    index[1] = (hsc_named_array){"shape", HSC_I32, 2, {r->counts.n_texts, 3}, NULL};
    index[2] = (hsc_named_array){"token", HSC_I32, 1, {r->n_tokens_all}, NULL};
}

static hsc_status lay_out(run *r, const char *path, hsc_error *err)
{
    static const char *const index_names[INDEX_ARRAYS] = {"text", "position", "token"};
    size_t n = (size_t)r->n_layers + (r->indexed ? INDEX_ARRAYS : 0);
    hsc_named_array *arrays = hsc__calloc(n, sizeof *arrays);
    char(*names)[64] = hsc__calloc(n, sizeof *names);
    hsc_status status = hsc__fail_memory(err, n * sizeof *arrays, "an export");
    if (arrays && names) {
        for (int i = 0; i < r->n_layers; i++) {
            const char *site = hsc_site_name(r->options->site);
            snprintf(names[i], sizeof names[i], hsc_site_per_layer(r->options->site) ? "%s.%d" : "%s", site,
                     r->first_layer + i);
            arrays[i] = (hsc_named_array){names[i], HSC_F32, 2, {r->counts.n_rows, r->row}, NULL};
        }
        for (size_t i = (size_t)r->n_layers; i < n; i++)
            arrays[i] = (hsc_named_array){index_names[i - (size_t)r->n_layers], HSC_I32, 1, {r->counts.n_rows}, NULL};
        if (r->maps) lay_out_maps(r, arrays);
        status = hsc__array_stream_open(&r->stream, path, arrays, n, err);
    }
    hsc__free(arrays);
    hsc__free(names);
    return status;
}

/* The rows of one text at one layer: all, the last, or their mean. */
static const float *choose_rows(const run *r, const hsc_view *view, int n, int text, size_t *n_rows)
{
    size_t row = (size_t)r->row;
    *n_rows = r->options->rows == HSC_EXPORT_ALL ? (size_t)n : 1;
    if (r->options->rows == HSC_EXPORT_ALL) return view->data;
    if (r->options->rows == HSC_EXPORT_LAST || n == 1) return view->data + (size_t)(n - 1) * row;
    float *mean = r->means + (size_t)text * row;
    for (size_t k = 0; k < row; k++) {
        double sum = 0;
        for (int i = 1; i < n; i++) sum += (double)view->data[(size_t)i * row + k];
        mean[k] = (float)(sum / (n - 1));
    }
    return mean;
}

static hsc_status write_layer(run *r, int index, hsc_error *err)
{
    for (int text = 0; text < r->n_texts; text++) {
        hsc_view view;
        size_t n_rows;
        HSC_TRY(hsc_session_activation(r->session, r->options->site, r->first_layer + index, text, &view, err));
        const float *rows = choose_rows(r, &view, r->lengths[text], text, &n_rows);
        HSC_TRY(hsc__array_stream_put(&r->stream, (size_t)index, rows, n_rows * (size_t)r->row * sizeof *rows, err));
    }
    return HSC_OK;
}

/* Every query's weights, or each head's last row. */
static hsc_status write_maps(run *r, int index, hsc_error *err)
{
    for (int text = 0; text < r->n_texts; text++) {
        hsc_view view;
        size_t n = (size_t)r->lengths[text], n_rows = (size_t)n_queries(r, (int)n),
               n_heads = (size_t)r->config->n_heads;
        HSC_TRY(hsc_session_activation(r->session, r->options->site, r->first_layer + index, text, &view, err));
        for (size_t head = 0; head < n_heads; head++) {
            const float *rows = view.data + (head * n + n - n_rows) * n;
            HSC_TRY(hsc__array_stream_put(&r->stream, (size_t)index, rows, n_rows * n * sizeof *rows, err));
        }
    }
    return HSC_OK;
}

static hsc_status write_shapes(run *r, hsc_error *err)
{
    size_t first = (size_t)r->n_layers, n = (size_t)r->n_texts;
    int32_t shapes[PACK_TEXTS][3];
    for (int text = 0; text < r->n_texts; text++) {
        shapes[text][0] = r->config->n_heads;
        shapes[text][1] = n_queries(r, r->lengths[text]);
        shapes[text][2] = r->lengths[text];
    }
    HSC_TRY(hsc__array_stream_put(&r->stream, first, r->labels, n * sizeof *r->labels, err));
    HSC_TRY(hsc__array_stream_put(&r->stream, first + 1, shapes, n * sizeof *shapes, err));
    return hsc__array_stream_put(&r->stream, first + 2, r->ids, (size_t)r->n_tokens * sizeof *r->ids, err);
}

static hsc_status write_index(run *r, hsc_error *err)
{
    size_t n = 0, at = 0, all = (size_t)r->n_tokens;
    HSC_TRY(hsc__grow(&r->index, &r->index_capacity, INDEX_ARRAYS * all, sizeof *r->index, err));
    for (int text = 0; text < r->n_texts; text++) {
        for (int pos = 0; pos < r->lengths[text]; pos++, at++) {
            bool last = pos == r->lengths[text] - 1, mean = r->options->rows == HSC_EXPORT_MEAN;
            if (r->options->rows != HSC_EXPORT_ALL && !last) continue;
            r->index[n] = r->labels[text];
            r->index[all + n] = mean ? -1 : pos;
            r->index[2 * all + n] = mean ? -1 : r->ids[at];
            n++;
        }
    }
    for (size_t i = 0; i < INDEX_ARRAYS; i++)
        HSC_TRY(
            hsc__array_stream_put(&r->stream, (size_t)r->n_layers + i, r->index + i * all, n * sizeof *r->index, err));
    return HSC_OK;
}

/* Runs the pack and writes what it recorded. */
static hsc_status flush(run *r, hsc_error *err)
{
    if (!r->n_texts) return HSC_OK;
    hsc_batch batch = {.ids = r->ids,
                       .n_tokens = r->n_tokens,
                       .seq_lengths = r->lengths,
                       .n_seqs = r->n_texts,
                       .logits = HSC_LOGITS_NONE};
    hsc_session_reset(r->session);
    HSC_TRY(hsc_forward(r->session, &batch, err));
    for (int i = 0; i < r->n_layers; i++) HSC_TRY((r->maps ? write_maps : write_layer)(r, i, err));
    if (r->indexed) HSC_TRY((r->maps ? write_shapes : write_index)(r, err));
    r->n_texts = r->n_tokens = 0;
    r->n_recorded = 0;
    return HSC_OK;
}

static hsc_status add_text(run *r, const hsc_corpus_text *text, hsc_error *err)
{
    int n = text->n_tokens > r->config->n_ctx ? r->config->n_ctx : text->n_tokens;
    bool full = r->n_texts == PACK_TEXTS || r->n_tokens + n > PACK_TOKENS;
    if (r->maps) full = full || r->n_recorded + map_size(r, n) * r->n_layers > PACK_WEIGHTS;
    if (r->n_texts && full) HSC_TRY(flush(r, err));
    HSC_TRY(hsc__grow(&r->ids, &r->ids_capacity, (size_t)(r->n_tokens + n), sizeof *r->ids, err));
    memcpy(r->ids + r->n_tokens, text->ids, (size_t)n * sizeof *r->ids);
    r->labels[r->n_texts] = text->label;
    r->lengths[r->n_texts++] = n;
    r->n_tokens += n;
    r->n_recorded += map_size(r, n) * r->n_layers;
    return HSC_OK;
}

static hsc_status fill(run *r, hsc_error *err)
{
    const hsc_export_options *o = r->options;
    for (int64_t i = 0; i < r->counts.n_texts; i++) {
        hsc_corpus_text text = {0};
        int is_end;
        HSC_TRY(next_text(r, i, &text, &is_end, err));
        HSC_FAIL_IF(is_end, HSC_EINVAL, "the corpus has %lld texts at first and %lld later",
                    (long long)r->counts.n_texts, (long long)i);
        HSC_TRY(add_text(r, &text, err));
        HSC_FAIL_IF(o->tell && o->tell(o->user, i + 1, r->counts.n_texts), HSC_ECANCELED, "stopped at text %lld",
                    (long long)i);
    }
    HSC_TRY(flush(r, err));
    return hsc__array_stream_commit(&r->stream, err);
}

static hsc_status run_all(run *r, const char *path, hsc_error *err)
{
    const hsc_export_options *o = r->options;
    HSC_TRY(check(r, path, err));
    HSC_TRY(count_rows(r, err));
    hsc_session_options session = {
        .n_threads = o->n_threads, .max_tokens = r->longest, .max_seqs = PACK_TEXTS, .compute = o->compute};
    hsc_record record = {o->site, hsc_site_per_layer(o->site) ? o->layer : 0, -1, -1};
    HSC_TRY(hsc_session_new(&r->session, r->model, &session, err));
    HSC_TRY(hsc_session_record(r->session, &record, err));
    r->means = hsc__calloc((size_t)PACK_TEXTS * (size_t)r->row + 1, sizeof *r->means); /* maps have no rows */
    if (!r->means) return hsc__fail_memory(err, (size_t)PACK_TEXTS * (size_t)r->row * sizeof *r->means, "an export");
    HSC_TRY(lay_out(r, path, err));
    return fill(r, err);
}

hsc_status hsc_export(const hsc_model *model, const char *path, const hsc_export_options *options,
                      hsc_export_counts *counts, hsc_error *err)
{
    run r = {.model = model, .config = hsc_model_config(model), .options = options};
    hsc__error_clear(err);
    hsc_status status = run_all(&r, path, err);
    if (counts) *counts = r.counts;
    hsc__array_stream_free(&r.stream);
    hsc_session_free(r.session);
    hsc__free(r.ids);
    hsc__free(r.index);
    hsc__free(r.means);
    return status;
}
