/*
 * headscope info: what is in a model's files, and what running it takes. Only headers are read; no weight is touched.
 * What a pass will take is the library's forecast, on top of what this process holds before it.
 */
#include "cli/shared.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct values {
    const char *model;
    hsc__pass_options pass;
    int tokens; /* 0: no forecast */
    int threads;
    bool tensors, json;
} values;

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    {"tensors", 0, HSC__OPT_FLAG, NULL, offsetof(values, tensors), 0, 0,
     "List every tensor: name, shape, type, bytes."},
    HSC__OPTION_JSON(values, json),
    HSC__OPTION_HEADING("Forecast"),
    {"tokens", 0, HSC__OPT_INT, "N", offsetof(values, tokens), 1, INT32_MAX,
     "How much memory a pass over N tokens takes at its peak, and for what; the options below say what kind of pass."},
    HSC__OPTIONS_PASS(values, pass),
    HSC__OPTION_THREADS(values, threads),
};

static const hsc__command command = {
    .name = "info",
    .usage = "-m MODEL [--tensors] [--tokens N] [--json]\nMODEL",
    .about =
        "Shows what is in a model: architecture, sizes, types of its tensors, parameters, memory and tokenizer. What "
        "looks odd in its files is said as a warning.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope info gpt2\n"
                "    a model of the Hub cache\n"
                "headscope info SmolLM2-135M-Instruct.Q4_1.gguf --tensors\n"
                "    with every tensor of the file\n"
                "headscope info gpt2 --tokens 1024\n"
                "    will a pass over 1,024 tokens fit, and what would every pattern take?",
    .max_args = 1,
    .encoder_decoders = true,
};

typedef struct type_sum {
    const char *name; /* as the file spells it */
    size_t n_tensors;
    uint64_t n_bytes;
} type_sum;

enum { MAX_TYPES = 64 };

typedef struct sums {
    type_sum types[MAX_TYPES];
    size_t n_types;
    uint64_t n_parameters, n_bytes;
    size_t n_buffers;
} sums;

/* Masks and tables that old checkpoints carry along: nothing that was trained. */
static bool is_buffer(const hsc_tensor_info *t)
{
    return (hsc__ends_with(t->name, ".attn.bias") && t->n_dims > 1) || hsc__ends_with(t->name, ".masked_bias") ||
           hsc__ends_with(t->name, ".rotary_emb.inv_freq") || strcmp(t->name, "rope_freqs.weight") == 0;
}

static void add_tensor(sums *s, const hsc_tensor_info *t)
{
    uint64_t n = 1;
    size_t i = 0;
    for (int d = 0; d < t->n_dims; d++) n *= (uint64_t)t->shape[d];
    if (is_buffer(t)) s->n_buffers++;
    else s->n_parameters += n;
    s->n_bytes += t->n_bytes;
    while (i < s->n_types && strcmp(s->types[i].name, t->dtype_name) != 0) i++;
    if (i == MAX_TYPES) return; /* more than any format has */
    if (i == s->n_types) s->types[s->n_types++] = (type_sum){t->dtype_name, 0, 0};
    s->types[i].n_tensors++;
    s->types[i].n_bytes += t->n_bytes;
}

static hsc_status add_up(const hsc_model *model, sums *s, hsc_error *err)
{
    for (size_t i = 0; i < hsc_model_n_tensors(model); i++) {
        hsc_tensor_info t;
        HSC_FAIL_IF(hsc_model_tensor(model, i, &t) != HSC_OK, HSC_EINVAL, "tensor %zu cannot be described", i);
        add_tensor(s, &t);
    }
    return HSC_OK;
}

/* Keys and values of every layer in float32; of one in a model that keeps none from pass to pass. */
static uint64_t cache_bytes(const hsc_config *c)
{
    return 2U * sizeof(float) * (uint64_t)(c->causal ? c->n_layers : 1) * (uint64_t)c->n_kv_heads * (uint64_t)c->d_head;
}

/* ---------------------------------------------------------------------------------------------------- forecast ---- */

typedef struct forecast {
    hsc_memory parts;
    uint64_t program; /* what this process holds: itself, its libraries, the tokenizer */
    uint64_t weights; /* mapped from the file and read */
    uint64_t peak;
    uint64_t peak_without_logits; /* as look, and run without the site logits, make a pass */
} forecast;

/* A figure of this process in bytes, "RssAnon:"; 0 where the system has no /proc. */
static uint64_t own_memory(const char *figure)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, figure, strlen(figure)) == 0) kib = strtoull(line + strlen(figure), NULL, 10);
    }
    if (file) fclose(file);
    return kib * 1024;
}

/* The most that this process ever held. */
static uint64_t most_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
    return (uint64_t)usage.ru_maxrss;
#else
    return (uint64_t)usage.ru_maxrss * 1024;
#endif
}

/* Bytes that the system brings along when one row of the tokens' table is read: some ten thousand, or a whole large
 * page where the file lies in memory in such. The one byte that this reads tells which. */
static uint64_t brought_along(const hsc_model *model)
{
    enum { LEAST = 96 * 1024 };
    const hsc_config *c = hsc_model_config(model);
    uint64_t before = own_memory("RssFile:");
    for (size_t i = 0; i < hsc_model_n_tensors(model); i++) {
        hsc_tensor_info t;
        if (hsc_model_tensor(model, i, &t) != HSC_OK || t.n_dims != 2) continue;
        if (t.shape[0] != c->d_vocab || t.shape[1] != c->d_model) continue;
        (void)*((const volatile char *)t.data + t.n_bytes / 2);
        break;
    }
    uint64_t after = own_memory("RssFile:");
    return after > before + LEAST ? after - before : LEAST;
}

/* What is held of a table whose rows are looked up; of two tokens one is new. */
static uint64_t rows_read(uint64_t n_bytes, int n_tokens, uint64_t around)
{
    double table = (double)n_bytes, brought = (double)around;
    return (uint64_t)(table * (1 - exp(-0.5 * n_tokens * brought / (table + brought))));
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A run holds its tokenizer while it computes, so it is opened before this process is measured. The model's file is
 * mapped by then, and pages of it that the system brought along count as weights: of files only `files_before` counts,
 * what was mapped before. */
static hsc_status foresee(const values *v, const hsc_model *model, uint64_t files_before, forecast *out, hsc_error *err)
{
    if (!v->tokens) return HSC_OK;
    hsc_session_options o = hsc__pass_session(&v->pass, v->threads, v->tokens);
    o.compute = hsc__pass_compute(&v->pass, model);
    hsc_memory *parts = &out->parts;
    hsc_status status = hsc_model_memory(model, &o, v->tokens, parts, err);
    if (status != HSC_OK) return hsc__fail_prefix(err, status, "--tokens %d", v->tokens);
    hsc_model_tokenizer(model, NULL);
    uint64_t own = own_memory("RssAnon:"), opened = parts->converted ? own_memory("VmHWM:") : 0;
    uint64_t around = brought_along(model);
    out->program = own ? own + files_before - parts->converted : most_memory();
    uint64_t unread = parts->looked_up - rows_read(parts->looked_up, v->tokens, around);
    out->peak = out->program + parts->converted + parts->total - unread;
    out->weights = parts->weights - unread;
    out->peak_without_logits = out->peak - parts->unembed - parts->logits;
    if (!parts->looked_up)
        out->peak_without_logits += rows_read(parts->unembed, v->tokens, around); /* the same table */
    out->peak = larger(out->peak, opened); /* parts of the file lie beside their copies */
    out->peak_without_logits = larger(out->peak_without_logits, opened);
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------- text ---- */

static void add_bytes(hsc__string *out, uint64_t n)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)n;
    size_t unit = 0;
    while (value >= 1024 && unit < 6) value /= 1024, unit++;
    hsc__string_printf(out, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* 134515008 as "134,515,008". */
static void add_count(hsc__string *out, uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) hsc__string_text(out, ",");
        hsc__string_add(out, digits + i, 1);
    }
}

static const char *positions_of(const hsc_config *c)
{
    if (c->has_pos_embed) return c->is_sinusoidal ? "sinusoidal positions" : "learned positions";
    return c->is_rotary ? "rotary positions" : c->is_relative ? "relative positions" : "no positions";
}

/* One stack of blocks; `side` is what tells two apart, or "". */
static void add_stack(hsc__string *out, const hsc_config *c, const char *side)
{
    if (*side) hsc__string_printf(out, "%s\n", side);
    hsc__string_printf(out, "layers        %d\nheads         %d a layer, %d wide", c->n_layers, c->n_heads, c->d_head);
    if (c->n_kv_heads != c->n_heads) hsc__string_printf(out, "; %d of keys and values", c->n_kv_heads);
    hsc__string_printf(out, "\nwidth         %d, feed-forward %d%s\n", c->d_model, c->d_mlp,
                       c->is_gated ? " (gated)" : "");
    hsc__string_printf(out, "context       %d token%s, %s\n", c->n_ctx, HSC__PLURAL(c->n_ctx), positions_of(c));
}

static void add_architecture(hsc__string *out, const hsc_model *model)
{
    const hsc_config *c = hsc_model_config(model), *encoder = hsc_model_encoder(model);
    hsc__string_printf(out, "architecture  %s, %s\n", c->arch,
                       encoder     ? "an encoder that a decoder looks at"
                       : c->causal ? "causal"
                                   : "sees both ways");
    if (encoder) add_stack(out, encoder, "encoder");
    add_stack(out, c, encoder ? "decoder" : "");
    if (encoder && encoder->d_vocab != c->d_vocab)
        hsc__string_printf(out, "vocabulary    %d of the encoder\n", encoder->d_vocab);
    hsc__string_printf(out, "vocabulary    %d, %s\n", c->d_vocab,
                       !hsc_model_has_site(model, HSC_LOGITS) ? "no output matrix"
                       : c->tied                              ? "output tied to the embedding"
                                                              : "output of its own");
}

static void add_memory(hsc__string *out, const hsc_config *c, const sums *s)
{
    hsc__string_text(out, "parameters    ");
    add_count(out, s->n_parameters);
    if (s->n_buffers)
        hsc__string_printf(out, " (besides %zu tensor%s not weights)", s->n_buffers,
                           s->n_buffers == 1 ? " that is" : "s that are");
    hsc__string_text(out, "\nweights       ");
    add_bytes(out, s->n_bytes);
    for (size_t i = 0; i < s->n_types; i++) {
        const type_sum *t = &s->types[i];
        hsc__string_printf(out, "%s%s: ", i ? "\n              " : "\n  by type     ", t->name);
        add_bytes(out, t->n_bytes);
        hsc__string_printf(out, " in %zu tensor%s", t->n_tensors, HSC__PLURAL(t->n_tensors));
    }
    hsc__string_text(out, "\ncache         ");
    add_bytes(out, cache_bytes(c));
    hsc__string_text(out, " a token, ");
    add_bytes(out, cache_bytes(c) * (uint64_t)c->n_ctx);
    hsc__string_text(out, " for the whole context\n");
}

static void add_part(hsc__string *out, const char *name, uint64_t n, const char *remark)
{
    hsc__string_printf(out, "  %-12s", name);
    add_bytes(out, n);
    hsc__string_printf(out, "%s\n", remark);
}

static void add_forecast(hsc__string *out, const values *v, const hsc_model *model, const forecast *f)
{
    hsc__string_text(out, "memory        ");
    add_bytes(out, f->peak);
    hsc__string_text(out, " at the peak of a pass over ");
    add_count(out, (uint64_t)v->tokens);
    hsc__string_text(out, v->tokens == 1 ? " token (" : " tokens (");
    hsc__pass_describe(out, &v->pass, model);
    hsc__string_text(out, ")\n");
    hsc__string_text(out, "  no logits   ");
    add_bytes(out, f->peak_without_logits);
    hsc__string_text(out, ", as in look: of the vocabulary's tables only the rows of the text are read\n");
    add_part(out, "program", f->program, ", tokenizer included");
    add_part(out, "weights", f->weights, ", mapped from the file");
    if (f->parts.converted) add_part(out, "converted", f->parts.converted, ", weights of the process's own");
    add_part(out, "cache", f->parts.cache, "");
    add_part(out, "activations", f->parts.activations, "");
    add_part(out, "logits", f->parts.logits, " of the last token");
    hsc__string_text(out, "  more with   ");
    add_bytes(out, f->parts.patterns);
    hsc__string_text(out, " for every pattern, ");
    add_bytes(out, f->parts.stats);
    hsc__string_text(out, " for all statistics\n");
}

/* One part of a tokenizer in words; "" when it has none. */
static void describe(hsc__string *out, const hsc_tokenizer *tokenizer, hsc_tokenizer_part part)
{
    int64_t n = hsc_tokenizer_describe(tokenizer, part, NULL, 0);
    char *text = n > 0 ? hsc__malloc((size_t)n) : NULL;
    if (text && hsc_tokenizer_describe(tokenizer, part, text, (size_t)n) == n) hsc__string_add(out, text, (size_t)n);
    hsc__free(text);
}

enum { SHOWN_SPECIAL = 12 }; /* of Llama 3's 256 and the like */

static void add_special(hsc__string *out, const hsc_tokenizer *tokenizer)
{
    size_t n = 0, n_ids = hsc_tokenizer_size(tokenizer);
    for (size_t id = 0; id < n_ids; id++) {
        size_t length;
        const char *text = hsc_token_bytes(tokenizer, (hsc_token)id, &length);
        if (!text || !hsc_token_is_special(tokenizer, (hsc_token)id) || n++ >= SHOWN_SPECIAL) continue;
        hsc__string_text(out, n == 1 ? "  special     " : ", ");
        hsc__text_label(out, text, length);
        hsc__string_printf(out, " %zu", id);
    }
    if (n > SHOWN_SPECIAL) hsc__string_printf(out, " and %zu more", n - SHOWN_SPECIAL);
    if (n) hsc__string_text(out, "\n");
}

static void add_tokenizer(hsc__string *out, const hsc_tokenizer *tokenizer, const hsc_error *why)
{
    static const char *const names[] = {"  normalizer  ", "  cut into    ", "  one text    ", "  two texts   "};
    if (!tokenizer) {
        hsc__string_printf(out, "tokenizer     none: %s\n", why->message);
        return;
    }
    hsc__string_text(out, "tokenizer     ");
    describe(out, tokenizer, HSC_TOKENIZER_MODEL);
    hsc__string_printf(out, ", %zu tokens\n", hsc_tokenizer_size(tokenizer));
    for (int part = HSC_TOKENIZER_NORMALIZER; part <= HSC_TOKENIZER_PAIR; part++) {
        hsc__string words = {0};
        describe(&words, tokenizer, (hsc_tokenizer_part)part);
        if (words.n) hsc__string_printf(out, "%s%s\n", names[part - HSC_TOKENIZER_NORMALIZER], words.data);
        hsc__string_free(&words);
    }
    add_special(out, tokenizer);
}

static void add_tensor_row(hsc__string *cells, const hsc_tensor_info *t)
{
    hsc__text_label(cells, t->name, strlen(t->name));
    hsc__string_printf(cells, "\t%s\t", t->dtype_name);
    for (int d = 0; d < t->n_dims; d++) hsc__string_printf(cells, "[%lld]", (long long)t->shape[d]);
    hsc__string_text(cells, t->n_dims ? "\t" : "[]\t");
    add_bytes(cells, t->n_bytes);
    hsc__string_text(cells, "\t");
}

static void add_tensors(hsc__string *out, const hsc_model *model)
{
    static const hsc__column columns[] = {
        {.head = "name"}, {.head = "type"}, {.head = "shape"}, {.head = "size", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    hsc__string_text(out, "\n");
    for (size_t i = 0; i < hsc_model_n_tensors(model); i++) {
        hsc_tensor_info t;
        if (hsc_model_tensor(model, i, &t) == HSC_OK) add_tensor_row(&table.cells, &t);
    }
    hsc__cli_table(out, &table);
}

static int print_text(const values *v, const hsc__opened *opened, const sums *s, const forecast *f)
{
    hsc_error why = {0};
    hsc__string out = {0};
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(opened->model, &why);
    hsc__text_label(&out, opened->name, strlen(opened->name));
    hsc__string_printf(&out, "\n");
    add_architecture(&out, opened->model);
    add_memory(&out, opened->config, s);
    if (v->tokens) add_forecast(&out, v, opened->model, f);
    add_tokenizer(&out, tokenizer, &why);
    for (size_t i = 0; hsc_model_warning(opened->model, i); i++)
        hsc__string_printf(&out, "warning       %s\n", hsc_model_warning(opened->model, i));
    hsc__string_printf(&out, "tensors       %zu\n", hsc_model_n_tensors(opened->model));
    if (v->tensors) add_tensors(&out, opened->model);
    return hsc__cli_show(&out);
}

/* ------------------------------------------------------------------------------------------------------- JSON ---- */

static json_t *tensor_json(const hsc_tensor_info *t)
{
    return json_pack("{s:s,s:s,s:o,s:I}", "name", t->name, "type", t->dtype_name, "shape",
                     hsc__json_shape(t->shape, t->n_dims), "bytes", (json_int_t)t->n_bytes);
}

static json_t *config_json(const hsc_config *c)
{
    return json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b,s:b,s:b,s:b}", "arch", c->arch, "n_layers",
                     c->n_layers, "n_heads", c->n_heads, "n_kv_heads", c->n_kv_heads, "n_ctx", c->n_ctx, "d_model",
                     c->d_model, "d_head", c->d_head, "d_mlp", c->d_mlp, "d_vocab", c->d_vocab, "causal", c->causal,
                     "tied", c->tied, "has_pos_embed", c->has_pos_embed, "is_rotary", c->is_rotary, "is_gated",
                     c->is_gated);
}

static json_t *types_json(const sums *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_types; i++)
        json_array_append_new(list,
                              json_pack("{s:s,s:I,s:I}", "type", s->types[i].name, "n_tensors",
                                        (json_int_t)s->types[i].n_tensors, "bytes", (json_int_t)s->types[i].n_bytes));
    return list;
}

static json_t *forecast_json(const values *v, const hsc_model *model, const forecast *f)
{
    json_t *object = json_pack("{s:i}", "n_tokens", v->tokens);
    const struct {
        const char *name;
        uint64_t n;
    } parts[] = {{"peak_bytes", f->peak},           {"peak_without_logits_bytes", f->peak_without_logits},
                 {"program_bytes", f->program},     {"weights_bytes", f->weights},
                 {"cache_bytes", f->parts.cache},   {"activations_bytes", f->parts.activations},
                 {"logits_bytes", f->parts.logits}, {"patterns_bytes", f->parts.patterns},
                 {"stats_bytes", f->parts.stats},   {"converted_bytes", f->parts.converted}};
    hsc__json_set_pass(object, &v->pass, model);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        json_object_set_new(object, parts[i].name, json_integer((json_int_t)parts[i].n));
    return object;
}

static json_t *tokenizer_json(const hsc_tokenizer *tokenizer)
{
    static const char *const names[] = {"model", "normalizer", "pre_tokenizer", "single", "pair"};
    if (!tokenizer) return json_null();
    json_t *object = json_pack("{s:I}", "n_tokens", (json_int_t)hsc_tokenizer_size(tokenizer)), *special = json_array();
    for (int part = HSC_TOKENIZER_MODEL; part <= HSC_TOKENIZER_PAIR; part++) {
        hsc__string words = {0};
        describe(&words, tokenizer, (hsc_tokenizer_part)part);
        json_object_set_new(object, names[part], words.n ? json_stringn(words.data, words.n) : json_null());
        hsc__string_free(&words);
    }
    for (size_t id = 0; id < hsc_tokenizer_size(tokenizer); id++) {
        size_t length;
        const char *text = hsc_token_bytes(tokenizer, (hsc_token)id, &length);
        if (!text || !hsc_token_is_special(tokenizer, (hsc_token)id)) continue;
        json_t *item = hsc__json_set_text(json_object(), text, length);
        json_object_set_new(item, "id", json_integer((json_int_t)id));
        json_array_append_new(special, item);
    }
    json_object_set_new(object, "special_tokens", special);
    return object;
}

static int print_json(const values *v, const hsc__opened *opened, const sums *s, const forecast *f)
{
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(opened->model, NULL);
    json_t *warnings = json_array(), *tensors = json_array();
    for (size_t i = 0; hsc_model_warning(opened->model, i); i++)
        json_array_append_new(warnings, json_string(hsc_model_warning(opened->model, i)));
    for (size_t i = 0; v->tensors && i < hsc_model_n_tensors(opened->model); i++) {
        hsc_tensor_info t;
        if (hsc_model_tensor(opened->model, i, &t) == HSC_OK) json_array_append_new(tensors, tensor_json(&t));
    }
    json_t *root = json_pack("{s:o,s:o,s:I,s:I,s:o,s:I,s:o,s:o}", "model", hsc__json_model(opened), "config",
                             config_json(opened->config), "parameters", (json_int_t)s->n_parameters, "bytes",
                             (json_int_t)s->n_bytes, "types", types_json(s), "cache_bytes_per_token",
                             (json_int_t)cache_bytes(opened->config), "tokenizer", tokenizer_json(tokenizer),
                             "warnings", warnings);
    const hsc_config *encoder = hsc_model_encoder(opened->model);
    if (encoder) json_object_set_new(root, "encoder", config_json(encoder));
    if (v->tokens) json_object_set_new(root, "memory", forecast_json(v, opened->model, f));
    if (v->tensors) json_object_set_new(root, "tensors", tensors);
    else json_decref(tensors);
    return hsc__json_print(root);
}

/* What the arguments alone can show. */
static int check(const values *v)
{
    bool kind = v->pass.compute || v->pass.dtype || v->pass.cache || v->pass.window || v->pass.sinks || v->threads;
    if (kind && !v->tokens)
        return hsc__cli_misuse(&command, "a kind of pass without a pass: --tokens N says over how many tokens");
    return hsc__pass_check(&command, &v->pass);
}

int hsc__cli_info(int argc, char **argv)
{
    values v = {0};
    hsc__args args;
    hsc__opened opened;
    hsc_error err = {0};
    sums s = {0};
    forecast f = {0};
    uint64_t files_before = own_memory("RssFile:");
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result != HSC__CLI_GO_ON) return result;
    result = check(&v);
    if (result != HSC__CLI_GO_ON) return result;
    if (args.n && v.model) return hsc__cli_misuse(&command, "two models: '%s' and '%s'", v.model, args.list[0]);
    result = hsc__cli_open(&command, args.n ? args.list[0] : v.model, v.pass.dtype, false, &opened);
    if (result != HSC__CLI_GO_ON) return result;
    hsc_status status = add_up(opened.model, &s, &err);
    if (status == HSC_OK) status = foresee(&v, opened.model, files_before, &f, &err);
    if (status != HSC_OK) result = hsc__cli_fail(&err);
    else result = v.json ? print_json(&v, &opened, &s, &f) : print_text(&v, &opened, &s, &f);
    hsc__cli_close(&opened);
    return result;
}
