/*
 * A site's rows over a corpus into a file. The corpus is read twice: once to count rows, which lays the file out, and
 * once to fill it. Texts go through the model in packs, and what a pack recorded is written before the next one runs.
 * Maps of attention differ in shape from text to text: they stand end to end, and their shapes beside them. Of an
 * encoder-decoder a text is two, a source and what is written about it, and the site says whose tokens its rows are.
 */
#include "base/status.h"
#include "formats/array_stream.h"
#include "headscope/analysis.h"
#include "headscope/intervene.h"
#include "model/model.h"

#include <string.h>

enum { PACK_TEXTS = 64, PACK_TOKENS = 512, ROW_INDEX = 3 /* text, position, token */ };

/* Numbers of the maps that a pack of several texts may hold. */
enum { PACK_WEIGHTS = 1 << 24 };

/* What one stack reads, and of it what stands in the pack in the making. */
typedef struct side {
    bool run;
    int n_ctx, longest;
    int64_t n_all; /* tokens of all texts together */
    hsc_token *ids;
    size_t capacity;
    int lengths[PACK_TEXTS], n_tokens;
} side;

typedef struct run {
    const hsc_model *model;
    const hsc_export_options *options;
    hsc__array_stream stream;
    hsc_session *session;
    int first_layer, n_layers, row, n_heads;
    bool indexed;             /* an .npz */
    bool maps;                /* [n_heads][n_query][n_key] a text */
    bool crosses;             /* maps of cross-attention */
    int64_t n_weights;        /* of maps: of all texts together */
    int most_query, most_key; /* of the largest map */
    hsc_export_counts counts;
    side text, source;
    const side *rows, *keys; /* whose tokens the rows are, and what maps see */
    /* The pack in the making. */
    int32_t *index; /* [ROW_INDEX][n rows] of it */
    float *means;   /* [PACK_TEXTS][row] */
    size_t index_capacity;
    int n_texts;
    int64_t n_recorded; /* numbers of its maps */
    int32_t labels[PACK_TEXTS];
} run;

/* Whose site it is, and what must be run for it. */
static void choose_stacks(run *r)
{
    hsc_site site = r->options->site;
    const hsc_config *config = hsc_model_config(r->model), *encoder = hsc_model_encoder(r->model);
    bool of_source = hsc_site_is_of_source(site);
    r->maps = hsc_site_is_map(site);
    r->crosses = site == HSC_CROSS_PATTERN || site == HSC_CROSS_ATTN_SCORES;
    r->rows = of_source ? &r->source : &r->text;
    r->keys = r->crosses ? &r->source : r->rows;
    r->n_heads = of_source ? encoder->n_heads : config->n_heads;
    r->text = (side){.run = !of_source, .n_ctx = config->n_ctx};
    r->source = (side){.run = encoder != NULL, .n_ctx = encoder ? encoder->n_ctx : 0};
}

static hsc_status check(run *r, const char *path, hsc_error *err)
{
    const hsc_export_options *o = r->options;
    size_t n = strlen(path);
    HSC_FAIL_IF((unsigned)o->site >= HSC_N_SITES || !hsc_model_has_site(r->model, o->site), HSC_EINVAL,
                "a model of architecture %s has no such site", hsc_model_config(r->model)->arch);
    choose_stacks(r);
    r->row = hsc_site_row(r->model, o->site);
    r->n_layers = hsc_model_site_layers(r->model, o->site);
    HSC_FAIL_IF(!r->row && !r->maps, HSC_EINVAL, "%s is not made of rows: `run` saves it text by text",
                hsc_site_name(o->site));
    HSC_FAIL_IF(r->maps && o->rows == HSC_EXPORT_MEAN, HSC_EINVAL,
                "the rows of %s have the text's length: texts have no mean of them", hsc_site_name(o->site));
    HSC_FAIL_IF(hsc_site_per_layer(o->site) && (o->layer < -1 || o->layer >= r->n_layers), HSC_EINVAL,
                "layer %d of %s does not exist, the model has %d", o->layer, hsc_site_name(o->site), r->n_layers);
    HSC_FAIL_IF((unsigned)o->rows > HSC_EXPORT_MEAN, HSC_EINVAL, "rows is %d, 0 to 2 are accepted", (int)o->rows);
    HSC_FAIL_IF(!o->next, HSC_EINVAL, "there is no corpus");
    if (hsc_site_per_layer(o->site) && o->layer >= 0) {
        r->first_layer = o->layer;
        r->n_layers = 1;
    }
    r->indexed = n >= 4 && strcmp(path + n - 4, ".npz") == 0;
    HSC_FAIL_IF(r->maps && !r->indexed, HSC_EINVAL,
                "%s: %s differs in shape from text to text: an .npz holds the shapes", path, hsc_site_name(o->site));
    return HSC_OK;
}

/* The next text, which has a token on each side that is read. */
static hsc_status next_text(run *r, int64_t index, hsc_corpus_text *text, int *is_end, hsc_error *err)
{
    *is_end = 0;
    HSC_TRY(r->options->next(r->options->user, index, text, is_end, err));
    if (*is_end) return HSC_OK;
    HSC_FAIL_IF(r->source.run && text->n_source < 1, HSC_EINVAL, "text %lld has no source", (long long)index);
    HSC_FAIL_IF(r->text.run && text->n_tokens < 1, HSC_EINVAL, "text %lld has no tokens", (long long)index);
    return HSC_OK;
}

/* Tokens of n that a stack reads: a text is cut at the context. */
static int n_read(const side *s, int n)
{
    return !s->run ? 0 : n > s->n_ctx ? s->n_ctx : n;
}

/* Queries and keys of a text. */
static void map_of(const run *r, const hsc_corpus_text *text, int *n_query, int *n_key)
{
    int n_text = n_read(&r->text, text->n_tokens), n_source = n_read(&r->source, text->n_source);
    *n_query = r->rows == &r->source ? n_source : n_text;
    *n_key = r->keys == &r->source ? n_source : n_text;
}

/* Rows of a text of n that are written. */
static int n_written(const run *r, int n)
{
    return r->options->rows == HSC_EXPORT_ALL ? n : 1;
}

static int64_t map_size(const run *r, int n_query, int n_key)
{
    return (int64_t)r->n_heads * n_query * n_key;
}

/* Whether the stack cuts it. */
static bool count_side(side *s, int n)
{
    int read = n_read(s, n);
    s->n_all += read;
    if (read > s->longest) s->longest = read;
    return s->run && read < n;
}

static void count_text(run *r, const hsc_corpus_text *text)
{
    int n_query, n_key;
    map_of(r, text, &n_query, &n_key);
    bool cut = count_side(&r->text, text->n_tokens), cut_source = count_side(&r->source, text->n_source);
    r->counts.n_cut += cut || cut_source;
    r->counts.n_rows += n_written(r, n_query);
    r->counts.n_texts++;
    r->n_weights += map_size(r, n_written(r, n_query), n_key);
    if (map_size(r, n_query, n_key) <= map_size(r, r->most_query, r->most_key)) return;
    r->most_query = n_query;
    r->most_key = n_key;
}

static hsc_status count_rows(run *r, hsc_error *err)
{
    for (;;) {
        hsc_corpus_text text = {0};
        int is_end;
        HSC_TRY(next_text(r, r->counts.n_texts, &text, &is_end, err));
        if (is_end) break;
        count_text(r, &text);
    }
    HSC_FAIL_IF(!r->counts.n_texts, HSC_EINVAL, "the corpus has no texts");
    double most = 4.0 * (double)map_size(r, r->most_query, r->most_key) * r->n_layers;
    HSC_FAIL_IF(r->maps && r->options->room > 0 && most > r->options->room, HSC_EINVAL,
                "the maps of one text, %d queries by %d keys, take %.1f GiB; there is room for %.1f: take one layer",
                r->most_query, r->most_key, most / (1 << 30), r->options->room / (1 << 30));
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- writing ---- */

/* What stands beside the layers' arrays. */
static int n_index(const run *r)
{
    return !r->indexed ? 0 : r->crosses ? ROW_INDEX + 1 : ROW_INDEX;
}

/* Maps end to end, and "text" and "shape" a text, "token" a token; of cross-attention those of the rows that are
 * written, and "source_token" a token that they see. */
static void lay_out_maps(const run *r, hsc_named_array *arrays)
{
    hsc_named_array *index = arrays + r->n_layers;
    for (int i = 0; i < r->n_layers; i++) {
        arrays[i].n_dims = 1;
        arrays[i].shape[0] = r->n_weights;
    }
    index[0] = (hsc_named_array){"text", HSC_I32, 1, {r->counts.n_texts}, NULL};
    index[1] = (hsc_named_array){"shape", HSC_I32, 2, {r->counts.n_texts, 3}, NULL};
    index[2] = (hsc_named_array){"token", HSC_I32, 1, {r->crosses ? r->counts.n_rows : r->rows->n_all}, NULL};
    if (r->crosses) index[3] = (hsc_named_array){"source_token", HSC_I32, 1, {r->source.n_all}, NULL};
}

static hsc_status lay_out(run *r, const char *path, hsc_error *err)
{
    static const char *const index_names[ROW_INDEX] = {"text", "position", "token"};
    size_t n = (size_t)(r->n_layers + n_index(r));
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
        hsc_named_array *index = arrays + r->n_layers;
        for (int i = 0; i < n_index(r) && !r->maps; i++)
            index[i] = (hsc_named_array){index_names[i], HSC_I32, 1, {r->counts.n_rows}, NULL};
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
        const float *rows = choose_rows(r, &view, r->rows->lengths[text], text, &n_rows);
        HSC_TRY(hsc__array_stream_put(&r->stream, (size_t)index, rows, n_rows * (size_t)r->row * sizeof *rows, err));
    }
    return HSC_OK;
}

/* Every query's weights, or each head's last row. */
static hsc_status write_maps(run *r, int index, hsc_error *err)
{
    for (int text = 0; text < r->n_texts; text++) {
        hsc_view view;
        size_t n_query = (size_t)r->rows->lengths[text], n_key = (size_t)r->keys->lengths[text];
        size_t n_rows = (size_t)n_written(r, (int)n_query);
        HSC_TRY(hsc_session_activation(r->session, r->options->site, r->first_layer + index, text, &view, err));
        for (size_t head = 0; head < (size_t)r->n_heads; head++) {
            const float *rows = view.data + (head * n_query + n_query - n_rows) * n_key;
            HSC_TRY(hsc__array_stream_put(&r->stream, (size_t)index, rows, n_rows * n_key * sizeof *rows, err));
        }
    }
    return HSC_OK;
}

/* The ids of the rows that are written. */
static hsc_status write_query_ids(run *r, size_t index, hsc_error *err)
{
    const hsc_token *end = r->rows->ids;
    for (int text = 0; text < r->n_texts; text++) {
        size_t n = (size_t)n_written(r, r->rows->lengths[text]);
        end += r->rows->lengths[text];
        HSC_TRY(hsc__array_stream_put(&r->stream, index, end - n, n * sizeof *end, err));
    }
    return HSC_OK;
}

static hsc_status write_ids(run *r, size_t index, const side *s, hsc_error *err)
{
    return hsc__array_stream_put(&r->stream, index, s->ids, (size_t)s->n_tokens * sizeof *s->ids, err);
}

static hsc_status write_shapes(run *r, hsc_error *err)
{
    size_t first = (size_t)r->n_layers, n = (size_t)r->n_texts;
    int32_t shapes[PACK_TEXTS][3];
    for (int text = 0; text < r->n_texts; text++) {
        shapes[text][0] = r->n_heads;
        shapes[text][1] = n_written(r, r->rows->lengths[text]);
        shapes[text][2] = r->keys->lengths[text];
    }
    HSC_TRY(hsc__array_stream_put(&r->stream, first, r->labels, n * sizeof *r->labels, err));
    HSC_TRY(hsc__array_stream_put(&r->stream, first + 1, shapes, n * sizeof *shapes, err));
    if (!r->crosses) return write_ids(r, first + 2, r->rows, err);
    HSC_TRY(write_query_ids(r, first + 2, err));
    return write_ids(r, first + 3, &r->source, err);
}

static hsc_status write_index(run *r, hsc_error *err)
{
    size_t n = 0, at = 0, all = (size_t)r->rows->n_tokens;
    HSC_TRY(hsc__grow(&r->index, &r->index_capacity, ROW_INDEX * all, sizeof *r->index, err));
    for (int text = 0; text < r->n_texts; text++) {
        for (int pos = 0; pos < r->rows->lengths[text]; pos++, at++) {
            bool last = pos == r->rows->lengths[text] - 1, mean = r->options->rows == HSC_EXPORT_MEAN;
            if (r->options->rows != HSC_EXPORT_ALL && !last) continue;
            r->index[n] = r->labels[text];
            r->index[all + n] = mean ? -1 : pos;
            r->index[2 * all + n] = mean ? -1 : r->rows->ids[at];
            n++;
        }
    }
    for (size_t i = 0; i < ROW_INDEX; i++)
        HSC_TRY(
            hsc__array_stream_put(&r->stream, (size_t)r->n_layers + i, r->index + i * all, n * sizeof *r->index, err));
    return HSC_OK;
}

static hsc_status run_pack(run *r, hsc_error *err)
{
    hsc_batch source = {
        .ids = r->source.ids, .n_tokens = r->source.n_tokens, .seq_lengths = r->source.lengths, .n_seqs = r->n_texts};
    hsc_batch text = {.ids = r->text.ids,
                      .n_tokens = r->text.n_tokens,
                      .seq_lengths = r->text.lengths,
                      .n_seqs = r->n_texts,
                      .logits = HSC_LOGITS_NONE};
    hsc_session_reset(r->session);
    if (r->source.run) HSC_TRY(hsc_session_read_source(r->session, &source, err));
    return r->text.run ? hsc_forward(r->session, &text, err) : HSC_OK;
}

/* Runs the pack and writes what it recorded. */
static hsc_status flush(run *r, hsc_error *err)
{
    if (!r->n_texts) return HSC_OK;
    HSC_TRY(run_pack(r, err));
    for (int i = 0; i < r->n_layers; i++) HSC_TRY((r->maps ? write_maps : write_layer)(r, i, err));
    if (r->indexed) HSC_TRY((r->maps ? write_shapes : write_index)(r, err));
    r->n_texts = r->text.n_tokens = r->source.n_tokens = 0;
    r->n_recorded = 0;
    return HSC_OK;
}

static hsc_status add_ids(side *s, const hsc_token *ids, int n, int text, hsc_error *err)
{
    HSC_TRY(hsc__grow(&s->ids, &s->capacity, (size_t)(s->n_tokens + n), sizeof *s->ids, err));
    if (n) memcpy(s->ids + s->n_tokens, ids, (size_t)n * sizeof *ids);
    s->lengths[text] = n;
    s->n_tokens += n;
    return HSC_OK;
}

static hsc_status add_text(run *r, const hsc_corpus_text *text, hsc_error *err)
{
    int n = n_read(&r->text, text->n_tokens), n_source = n_read(&r->source, text->n_source), n_query, n_key;
    map_of(r, text, &n_query, &n_key);
    int64_t map = r->maps ? map_size(r, n_query, n_key) * r->n_layers : 0;
    bool full = r->n_texts == PACK_TEXTS || r->text.n_tokens + n > PACK_TOKENS ||
                r->source.n_tokens + n_source > PACK_TOKENS || r->n_recorded + map > PACK_WEIGHTS;
    if (r->n_texts && full) HSC_TRY(flush(r, err));
    HSC_TRY(add_ids(&r->text, text->ids, n, r->n_texts, err));
    HSC_TRY(add_ids(&r->source, text->source, n_source, r->n_texts, err));
    r->labels[r->n_texts++] = text->label;
    r->n_recorded += map;
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
    hsc_session_options session = {.n_threads = o->n_threads,
                                   .max_tokens = r->text.run ? r->text.longest : 1,
                                   .max_seqs = PACK_TEXTS,
                                   .compute = o->compute,
                                   .max_source = r->source.longest};
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
    run r = {.model = model, .options = options};
    hsc__error_clear(err);
    hsc_status status = run_all(&r, path, err);
    if (counts) *counts = r.counts;
    hsc__array_stream_free(&r.stream);
    hsc_session_free(r.session);
    hsc__free(r.text.ids);
    hsc__free(r.source.ids);
    hsc__free(r.index);
    hsc__free(r.means);
    return status;
}
