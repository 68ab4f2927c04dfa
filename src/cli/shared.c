/* Opening models, the options of a pass, reading text, and the small pieces of JSON and CSV that several subcommands
 * print. */
#include "cli/shared.h"

#include "base/text.h"
#include "hub/hub.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------ models ---- */

static const char *wanted_model(const char *model)
{
    if (model) return model;
    const char *fallback = getenv("HEADSCOPE_MODEL");
    return fallback && *fallback ? fallback : NULL;
}

int hsc__cli_model_path(const hsc__command *command, const char *model, char **path)
{
    hsc_error err = {0};
    const char *wanted = wanted_model(model);
    if (!wanted) return hsc__cli_misuse(command, "no model: -m MODEL names one, or HEADSCOPE_MODEL in the environment");
    if (hsc__hub_resolve(wanted, path, &err) != HSC_OK) return hsc__cli_fail(&err);
    return HSC__CLI_GO_ON;
}

static void note_recast(const hsc_model *model, const char *dtype)
{
    hsc_recast bill = hsc_model_recast(model);
    char seconds[32];
    hsc__format_double(seconds, sizeof seconds, 2, bill.seconds);
    if (bill.n_matrices)
        hsc__cli_note("%zu %s became %s in %s s: %llu MiB of this process's own in place of %llu MiB of the file",
                      bill.n_matrices, bill.n_matrices == 1 ? "matrix" : "matrices", dtype, seconds,
                      (unsigned long long)(bill.n_bytes >> 20), (unsigned long long)(bill.file_bytes >> 20));
    else hsc__cli_note("no matrix was converted to %s", dtype);
    if (bill.n_kept)
        hsc__cli_note("%zu %s no whole blocks of %s", bill.n_kept,
                      bill.n_kept == 1 ? "matrix stays as it is: its rows are"
                                       : "matrices stay as they are: their rows are",
                      dtype);
}

int hsc__cli_open(const hsc__command *command, const char *model, int dtype, bool notes, hsc__opened *out)
{
    static const hsc_dtype dtypes[] = {HSC_F32, HSC_F32, HSC_F16, HSC_BF16, HSC_Q8_0}; /* by the words of --dtype */
    hsc_error err = {0};
    hsc_model_options options = {.recast = dtype != 0, .dtype = dtypes[dtype]};
    *out = (hsc__opened){0};
    int status = hsc__cli_model_path(command, model, &out->path);
    if (status != HSC__CLI_GO_ON) return status;
    if (hsc_model_open(&out->model, out->path, &options, &err) != HSC_OK) {
        hsc__cli_close(out);
        return hsc__cli_fail(&err);
    }
    if (hsc_model_encoder(out->model) && !command->encoder_decoders) {
        hsc__cli_error(
            "%s: %s is an encoder-decoder (%s): it reads one text and writes another, which %s has no place for",
            command->name, wanted_model(model), hsc_model_config(out->model)->arch, command->name);
        hsc__cli_hint("'headscope look', 'run', 'export', 'scan', 'detect', 'drift', 'ablate', 'patch', 'lens', "
                      "'steer', 'generate', 'score', 'embed', 'info', 'tokenize' do");
        hsc__cli_close(out);
        return HSC__EXIT_FAILED;
    }
    const char *typed = wanted_model(model);
    out->config = hsc_model_config(out->model);
    out->name = strcmp(typed, out->path) == 0 ? out->config->name : typed;
    for (size_t i = 0; notes && hsc_model_warning(out->model, i); i++)
        hsc__cli_note("%s", hsc_model_warning(out->model, i));
    if (notes && command->of_encoder && hsc_model_encoder(out->model))
        hsc__cli_note("%s is an encoder-decoder: these are the heads of its encoder", out->name);
    if (notes && dtype) note_recast(out->model, hsc_dtype_name(dtypes[dtype]));
    return HSC__CLI_GO_ON;
}

const hsc_config *hsc__cli_reader(const hsc__opened *opened)
{
    const hsc_config *encoder = hsc_model_encoder(opened->model);
    return encoder ? encoder : opened->config;
}

const char *hsc__cli_stack(const hsc__opened *opened)
{
    return hsc_model_encoder(opened->model) ? ", encoder" : "";
}

void hsc__cli_close(hsc__opened *opened)
{
    hsc_model_close(opened->model);
    hsc__free(opened->path);
    *opened = (hsc__opened){0};
}

hsc_status hsc__cli_tokenizer(const hsc__opened *opened, const hsc_tokenizer **out, hsc_error *err)
{
    hsc_error why = {0};
    *out = hsc_model_tokenizer(opened->model, &why);
    if (*out) return HSC_OK;
    if (why.code == HSC_OK || why.code == HSC_ENOTFOUND)
        return hsc__fail(err, HSC_ENOTFOUND, 0, "%s: has no tokenizer; --ids 1,2,3 runs it on token ids", opened->path);
    return hsc__fail(err, why.code, 0, "%s; --ids 1,2,3 runs the model on token ids", why.message);
}

double hsc__cli_room(void)
{
    return 0.8 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

/* ---------------------------------------------------------------------------------------------------- progress ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int show_progress(void *user, const hsc_block *block)
{
    hsc__progress *p = user;
    double time = now();
    p->rows += (uint64_t)block->n_rows;
    if (time - p->started < 1 || time - p->shown < 0.1) return 0;
    p->shown = time;
    hsc__cli_progress("running the model: %d %%", (int)(100 * p->rows / p->n_rows));
    return 0;
}

hsc_status hsc__progress_watch(hsc__progress *progress, hsc_session *session, size_t n_tokens, hsc_error *err)
{
    const hsc_config *config = hsc_model_config(hsc_session_model(session));
    if (!hsc__cli_terminal(stderr)) return HSC_OK;
    progress->started = now();
    progress->n_rows = (uint64_t)config->n_layers * n_tokens;
    hsc_observer observer = {.site = HSC_RESID_POST, .layer = -1, .fn = show_progress, .user = progress};
    return hsc_session_observe(session, &observer, err);
}

/* ------------------------------------------------------------------------------------------ how a pass computes ----
 */

/* The order of the words in HSC__OPTIONS_PASS. */
static const hsc_dtype cache_types[] = {HSC_F32, HSC_F16, HSC_BF16, HSC_Q8_0};
static const char *const cache_names[] = {"f32", "f16", "bf16", "q8_0"};
_Static_assert(HSC_COMPUTE_F32 == 0 && HSC_COMPUTE_BF16 == 1 && HSC_COMPUTE_Q8 == 2 && HSC_COMPUTE_AUTO == 3,
               "--compute names them in this order");

const char *hsc__pass_dtype(const hsc__pass_options *options)
{
    static const char *const names[] = {NULL, "f32", "f16", "bf16", "q8_0"};
    return names[options->dtype];
}

int hsc__pass_check(const hsc__command *command, const hsc__pass_options *options)
{
    if (options->sinks && !options->window)
        return hsc__cli_misuse(command, "--sinks keeps tokens visible that --window would hide: it wants --window N");
    return HSC__CLI_GO_ON;
}

hsc_session_options hsc__pass_session(const hsc__pass_options *options, int n_threads, int max_tokens)
{
    return (hsc_session_options){.n_threads = n_threads,
                                 .max_tokens = max_tokens,
                                 .compute = (hsc_compute)options->compute,
                                 .cache = cache_types[options->cache],
                                 .mask = {.window = options->window, .sinks = options->sinks}};
}

hsc_compute hsc__pass_compute(const hsc__pass_options *options, const hsc_model *model)
{
    hsc_compute compute = (hsc_compute)options->compute;
    return compute == HSC_COMPUTE_AUTO ? hsc_model_auto_compute(model) : compute;
}

bool hsc__pass_special(const hsc__pass_options *options, const hsc_model *model)
{
    return hsc__pass_compute(options, model) != HSC_COMPUTE_F32 || options->dtype || options->cache || options->window;
}

void hsc__pass_describe(hsc__string *out, const hsc__pass_options *options, const hsc_model *model)
{
    hsc__string_printf(out, "compute %s", hsc_compute_name(hsc__pass_compute(options, model)));
    if (options->dtype) hsc__string_printf(out, ", weights %s", hsc__pass_dtype(options));
    if (options->cache) hsc__string_printf(out, ", cache %s", cache_names[options->cache]);
    if (options->window) hsc__string_printf(out, ", window %d", options->window);
    if (options->sinks) hsc__string_printf(out, ", sinks %d", options->sinks);
}

void hsc__json_set_pass(json_t *object, const hsc__pass_options *options, const hsc_model *model)
{
    json_object_set_new(object, "compute", json_string(hsc_compute_name(hsc__pass_compute(options, model))));
    if (options->dtype) json_object_set_new(object, "weights", json_string(hsc__pass_dtype(options)));
    if (options->cache) json_object_set_new(object, "cache", json_string(cache_names[options->cache]));
    if (options->window) json_object_set_new(object, "window", json_integer(options->window));
    if (options->sinks) json_object_set_new(object, "sinks", json_integer(options->sinks));
}

/* -------------------------------------------------------------------------------------------------------- text ---- */

hsc_status hsc__input_open(hsc__input *input, const char *path, hsc_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    *input = (hsc__input){standard ? stdin : fopen(path, "rb"), standard ? "standard input" : path, 0};
    if (input->file) return HSC_OK;
    return hsc__fail(err, errno == ENOENT ? HSC_ENOTFOUND : HSC_EIO, 0, "%s: cannot open: %s", path, strerror(errno));
}

hsc_status hsc__input_read(void *user, char *out, size_t n, size_t *n_read, hsc_error *err)
{
    hsc__input *input = user;
    errno = 0;
    *n_read = fread(out, 1, n, input->file);
    input->n += *n_read;
    HSC_FAIL_IF(ferror(input->file), HSC_EIO, "%s: cannot read: %s", input->path, strerror(errno ? errno : EIO));
    HSC_FAIL_IF(input->n > HSC__READ_LIMIT, HSC_EINVAL, "%s: has more than %d bytes, the most that is read of a file",
                input->path, (int)HSC__READ_LIMIT);
    return HSC_OK;
}

void hsc__input_close(hsc__input *input)
{
    if (input->file && input->file != stdin) fclose(input->file);
}

hsc_status hsc__cli_read(const char *path, hsc__string *out, hsc_error *err)
{
    hsc__input input;
    char block[65536];
    size_t n;
    HSC_TRY(hsc__input_open(&input, path, err));
    hsc__string_add(out, "", 0);
    hsc_status status;
    while ((status = hsc__input_read(&input, block, sizeof block, &n, err)) == HSC_OK && n && !out->failed)
        hsc__string_add(out, block, n);
    hsc__input_close(&input);
    if (status == HSC_OK && out->failed) return hsc__fail(err, HSC_ENOMEM, 0, "%s: out of memory", input.path);
    return status;
}

hsc_status hsc__lines_open(hsc__lines *lines, const char *path, hsc_error *err)
{
    lines->path = path;
    return hsc__cli_read(path, &lines->file, err);
}

bool hsc__lines_next(hsc__lines *lines)
{
    if (!hsc__next_line(lines->file.data, lines->file.n, &lines->at, &lines->text, &lines->n)) return false;
    lines->number++;
    return true;
}

hsc_status hsc__lines_did(const hsc__lines *lines, hsc_status status, hsc_error *err)
{
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s: line %d", lines->path, lines->number);
}

void hsc__lines_close(hsc__lines *lines)
{
    hsc__string_free(&lines->file);
}

hsc_status hsc__cli_read_text(const char *argument, const char *file, hsc__string *out, hsc_error *err)
{
    if (!file && argument && strcmp(argument, "-") == 0) file = "-";
    if (!file) {
        hsc__string_text(out, argument);
        return HSC_OK;
    }
    HSC_TRY(hsc__cli_read(file, out, err));
    size_t mark = hsc__text_mark(out->data, out->n);
    out->n -= mark;
    if (mark) memmove(out->data, out->data + mark, out->n + 1);
    if (!out->n || out->data[out->n - 1] != '\n') return HSC_OK;
    out->n--;
    if (out->n && out->data[out->n - 1] == '\r') out->n--;
    return HSC_OK;
}

unsigned hsc__encode_flags(bool no_special, bool parse_special)
{
    return (no_special ? 0U : HSC_ENCODE_ADD_SPECIAL) | (parse_special ? HSC_ENCODE_PARSE_SPECIAL : 0U);
}

int hsc__check_plot(const hsc__command *command, const char *path)
{
    hsc_error err = {0};
    if (!path || hsc__plot_path(path, &err) == HSC_OK) return HSC__CLI_GO_ON;
    return hsc__cli_misuse(command, "--plot %s", err.message);
}

static hsc_status make_texts(hsc__tokens *tokens, const hsc_tokenizer *tokenizer, hsc_error *err)
{
    size_t n = tokens->encoding.n;
    tokens->texts = hsc__calloc(n, sizeof *tokens->texts);
    if (!tokens->texts) return hsc__fail_memory(err, n * sizeof *tokens->texts, "the tokens' texts");
    for (size_t i = 0; i < n; i++) {
        hsc_token id = tokens->encoding.ids[i];
        hsc__label *text = &tokens->texts[i];
        text->bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &text->n) : NULL;
        if (text->bytes) continue;
        char digits[16];
        text->n = (size_t)snprintf(digits, sizeof digits, "%d", id);
        text->bytes = hsc__arena_strndup(&tokens->arena, digits, text->n);
        if (!text->bytes) return hsc__fail_memory(err, text->n + 1, "the tokens' texts");
    }
    return HSC_OK;
}

hsc_status hsc__tokens_encode(hsc__tokens *out, const hsc_tokenizer *tokenizer, const char *text, size_t n,
                              unsigned flags, hsc_error *err)
{
    HSC_TRY(hsc_encode(tokenizer, text, n, flags, &out->encoding, err));
    return make_texts(out, tokenizer, err);
}

hsc_status hsc__tokens_encode_pair(hsc__tokens *out, const hsc_tokenizer *tokenizer, const char *first, size_t n_first,
                                   const char *second, size_t n_second, unsigned flags, hsc_error *err)
{
    HSC_TRY(hsc_encode_pair(tokenizer, first, n_first, second, n_second, flags, &out->encoding, err));
    return make_texts(out, tokenizer, err);
}

hsc_status hsc__tokens_from_ids(hsc__tokens *out, const hsc_tokenizer *tokenizer, const hsc__ids *ids, hsc_error *err)
{
    out->encoding.ids = hsc__calloc(ids->n, sizeof *ids->ids);
    out->encoding.spans = hsc__calloc(ids->n, sizeof *out->encoding.spans);
    if (!out->encoding.ids || !out->encoding.spans) return hsc__fail_memory(err, ids->n * sizeof *ids->ids, "the ids");
    memcpy(out->encoding.ids, ids->ids, ids->n * sizeof *ids->ids);
    out->encoding.n = out->encoding.capacity = ids->n;
    return make_texts(out, tokenizer, err);
}

void hsc__tokens_free(hsc__tokens *tokens)
{
    hsc_encoding_free(&tokens->encoding);
    hsc__free(tokens->texts);
    hsc__arena_free(&tokens->arena);
    *tokens = (hsc__tokens){0};
}

/* -------------------------------------------------------------------------------------------------------- JSON ---- */

json_t *hsc__json_hex(const char *bytes, size_t n)
{
    hsc__string hex = {0};
    for (size_t i = 0; i < n; i++) hsc__string_printf(&hex, "%02x", (unsigned char)bytes[i]);
    json_t *value = hex.failed ? NULL : json_stringn(hex.data ? hex.data : "", hex.n);
    hsc__string_free(&hex);
    return value;
}

json_t *hsc__json_set_text(json_t *object, const char *bytes, size_t n)
{
    hsc__string text = {0};
    hsc__text_decode(&text, bytes, n);
    if (!text.failed) json_object_set_new(object, "text", json_stringn(text.data, text.n));
    hsc__string_free(&text);
    if (!hsc__utf8_valid(bytes, n)) json_object_set_new(object, "bytes", hsc__json_hex(bytes, n));
    return object;
}

json_t *hsc__json_token(const hsc__tokens *tokens, int pos)
{
    json_t *object = json_pack("{s:i}", "pos", pos);
    return hsc__json_set_text(object, tokens->texts[pos].bytes, tokens->texts[pos].n);
}

json_t *hsc__json_weight(const hsc__tokens *tokens, int pos, float weight)
{
    json_t *object = hsc__json_token(tokens, pos);
    json_object_set_new(object, "weight", hsc__json_number((double)weight));
    return object;
}

json_t *hsc__json_tokens(const hsc__tokens *tokens)
{
    json_t *list = json_array();
    for (size_t i = 0; i < tokens->encoding.n; i++) {
        json_t *object = json_pack("{s:i}", "id", (int)tokens->encoding.ids[i]);
        json_array_append_new(list, hsc__json_set_text(object, tokens->texts[i].bytes, tokens->texts[i].n));
    }
    return list;
}

json_t *hsc__json_model(const hsc__opened *opened)
{
    json_t *object = json_object();
    hsc__string name = {0};
    hsc__text_decode(&name, opened->name, strlen(opened->name)); /* a folder's name need not be UTF-8 */
    if (!name.failed) json_object_set_new(object, "name", json_stringn(name.data, name.n));
    hsc__string_free(&name);
    json_object_set_new(object, "arch", json_string(opened->config->arch));
    json_object_set_new(object, "n_layers", json_integer(opened->config->n_layers));
    json_object_set_new(object, "n_heads", json_integer(opened->config->n_heads));
    return object;
}

double hsc__rank_size(double value)
{
    return isnan(value) ? -1 : fabs(value);
}

json_t *hsc__json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *hsc__json_numbers(const double *values, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, hsc__json_number(values[i]));
    return list;
}

json_t *hsc__json_floats(const float *values, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, hsc__json_number((double)values[i]));
    return list;
}

json_t *hsc__json_ids(const hsc_token *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

json_t *hsc__json_shape(const int64_t *shape, int n_dims)
{
    json_t *list = json_array();
    for (int i = 0; i < n_dims; i++) json_array_append_new(list, json_integer(shape[i]));
    return list;
}

int hsc__json_print(json_t *root)
{
    size_t layout = isatty(STDOUT_FILENO) ? JSON_INDENT(2) : JSON_COMPACT;
    char *text = root ? json_dumps(root, layout | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text) return hsc__cli_no_memory();
    hsc__cli_write(text, strlen(text));
    hsc__cli_write("\n", 1);
    free(text);
    return HSC__EXIT_OK;
}

/* -------------------------------------------------------------------------------------------- CSV and tables ---- */

void hsc__csv_field(hsc__string *out, const char *bytes, size_t n)
{
    hsc__string text = {0};
    hsc__text_decode(&text, bytes, n);
    if (text.failed) {
        out->failed = true;
    } else if (strcspn(text.data, ",\"\r\n") == text.n) {
        hsc__string_add(out, text.data, text.n);
    } else {
        hsc__string_text(out, "\"");
        for (size_t i = 0; i < text.n; i++)
            hsc__string_text(out, text.data[i] == '"' ? "\"\"" : (char[]){text.data[i], 0});
        hsc__string_text(out, "\"");
    }
    hsc__string_free(&text);
}

void hsc__repr_padded(hsc__string *out, const hsc__label *text, size_t width)
{
    size_t start = out->n;
    hsc__text_repr(out, text->bytes, text->n);
    if (out->failed) return;
    for (size_t n = (size_t)hsc__text_cells(out->data + start, out->n - start); n < width; n++)
        hsc__string_text(out, " ");
}
