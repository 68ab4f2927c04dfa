/*
 * headscope embed: texts (or pairs of texts) as vectors, one each, pooled as the model's files say unless one says
 * otherwise. Printed as CSV or JSON, or written as an array [n_texts][width].
 */
#include "cli/shared.h"

#include "base/text.h"
#include "headscope/tasks.h"

#include <string.h>

typedef struct values {
    const char *model, *file, *output;
    hsc__pass_options pass;
    int pooling, normalise, max_tokens, threads; /* pooling and normalise: 0 as the model says, else 1 + the word */
    bool pairs, no_dense, no_special, parse_special, json;
} values;

enum { MAX_TEXTS = 4096, AT_ONCE = 64 };

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    HSC__OPTION_HEADING("Which vector"),
    {"pooling", 0, HSC__OPT_CHOICE, "model|mean|cls|last", offsetof(values, pooling), 0, 0,
     "The mean of the last hidden states, the first token's, or the last token's. Default: what the model's files say, "
     "else the last token of a causal model and the mean of another."},
    {"normalise", 0, HSC__OPT_CHOICE, "model|yes|no", offsetof(values, normalise), 0, 0,
     "Divide by the vector's length. Default: what the model's files say, else no."},
    {"no-dense", 0, HSC__OPT_FLAG, NULL, offsetof(values, no_dense), 0, 0,
     "Leave out the linear layers behind the pooling that the model's files may have (Dense)."},
    {"max-tokens", 'n', HSC__OPT_INT, "N", offsetof(values, max_tokens), 1, INT32_MAX,
     "Cut longer texts to N tokens. Default: what the model's files say; else a text longer than the context is "
     "refused."},
    HSC__OPTION_HEADING("Input and output"),
    {"file", 'f', HSC__OPT_TEXT, "FILE", offsetof(values, file), 0, 0, "A text a line, - for standard input."},
    {"pairs", 'p', HSC__OPT_FLAG, NULL, offsetof(values, pairs), 0, 0,
     "Embed pairs: arguments two by two, or two texts a line with a tab between them, joined as the tokenizer joins a "
     "pair ([CLS] A [SEP] B [SEP]), in the segments that the model has."},
    {"output", 'o', HSC__OPT_TEXT, "FILE", offsetof(values, output), 0, 0,
     "Write an array [n_texts][width] instead: .npy, .npz or .safetensors (there named embeddings)."},
    HSC__OPTION_NO_SPECIAL(values, no_special),
    HSC__OPTION_PARSE_SPECIAL(values, parse_special),
    HSC__OPTION_JSON(values, json),
    HSC__OPTION_HEADING("The passes"),
    HSC__OPTION_COMPUTE_AUTO(values, pass.compute),
    HSC__OPTION_DTYPE(values, pass.dtype),
    HSC__OPTION_THREADS(values, threads),
};

static const hsc__command command = {
    .name = "embed",
    .usage = "-m MODEL TEXT [TEXT ...]\n-m MODEL --file FILE [-o FILE.npy]",
    .about =
        "Texts as vectors of the model's width, or of that of its last Dense: texts of like meaning have vectors of "
        "like direction, if the model "
        "was taught so. Prints a line of numbers a text (CSV without a heading). A text's vector is the same bits "
        "whatever stands beside it. An encoder-decoder (T5, BART, Marian) gives what its encoder makes of the text.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope embed -m all-MiniLM-L6-v2 \"A cat sat on the mat\" \"Un chat\"\n"
                "    two lines of 384 numbers\n"
                "headscope embed -m all-MiniLM-L6-v2 --file sentences.txt -o vectors.npy\n"
                "    numpy.load(\"vectors.npy\") is [n_texts][384]\n"
                "headscope embed -m gpt2 --pooling mean --json \"The animal is tired\"\n"
                "    any model; JSON says how the vector was made",
    .max_args = MAX_TEXTS,
    .encoder_decoders = true,
};

typedef struct job {
    const values *v;
    hsc__opened opened;
    const hsc_tokenizer *tokenizer;
    hsc_embedding how;
    hsc__lines lines;  /* of the file; texts point into them */
    int n_ctx;         /* of the stack that reads the texts */
    hsc__label *texts; /* [n_texts]: one a vector, with --pairs two */
    size_t n_texts, texts_capacity;
    size_t n;       /* vectors */
    hsc_token *ids; /* end to end */
    int32_t *segments;
    size_t n_ids, ids_capacity, segments_capacity;
    int *lengths; /* [n] */
    size_t n_cut; /* texts that were cut */
    float *out;   /* [n][width] */
    int width;
} job;

/* ------------------------------------------------------------------------------------------------------- input ---- */

static hsc_status add_text(job *j, const char *bytes, size_t n, hsc_error *err)
{
    HSC_TRY(hsc__grow(&j->texts, &j->texts_capacity, j->n_texts + 1, sizeof *j->texts, err));
    j->texts[j->n_texts++] = (hsc__label){.bytes = bytes, .n = n};
    return HSC_OK;
}

/* A line of the file: a text, or two with a tab between them. */
static hsc_status add_line(job *j, const char *line, size_t n, hsc_error *err)
{
    if (!j->v->pairs) return add_text(j, line, n, err);
    const char *tab = memchr(line, '\t', n);
    bool one = tab && !memchr(tab + 1, '\t', n - (size_t)(tab + 1 - line));
    HSC_FAIL_IF(!one, HSC_EFORMAT, "a pair is two texts with one tab between them");
    HSC_TRY(add_text(j, line, (size_t)(tab - line), err));
    return add_text(j, tab + 1, n - (size_t)(tab + 1 - line), err);
}

static hsc_status read_texts(job *j, const hsc__args *args, hsc_error *err)
{
    for (int i = 0; i < args->n; i++) HSC_TRY(add_text(j, args->list[i], strlen(args->list[i]), err));
    if (j->v->file) HSC_TRY(hsc__lines_open(&j->lines, j->v->file, err));
    while (hsc__lines_next(&j->lines))
        HSC_TRY(hsc__lines_did(&j->lines, add_line(j, j->lines.text, j->lines.n, err), err));
    j->n = j->v->pairs ? j->n_texts / 2 : j->n_texts;
    HSC_FAIL_IF(j->n == 0, HSC_EINVAL, "%s: holds no text", j->v->file);
    HSC_FAIL_IF(j->n > INT32_MAX, HSC_EINVAL, "%s: holds too many texts", j->v->file);
    return HSC_OK;
}

static hsc_status tokens_of(const job *j, size_t index, hsc_encoding *e, hsc_error *err)
{
    unsigned flags = hsc__encode_flags(j->v->no_special, j->v->parse_special);
    const hsc__label *text = &j->texts[j->v->pairs ? 2 * index : index], *second = text + 1;
    if (!j->v->pairs) return hsc_encode(j->tokenizer, text->bytes, text->n, flags, e, err);
    return hsc_encode_pair(j->tokenizer, text->bytes, text->n, second->bytes, second->n, flags, e, err);
}

/* A text that is cut keeps its last token, which is the one that the tokenizer adds at the end, if it adds one. */
static hsc_status encode_text(job *j, size_t index, hsc_encoding *e, hsc_error *err)
{
    size_t most = (size_t)(j->how.max_tokens ? j->how.max_tokens : j->n_ctx);
    HSC_TRY(tokens_of(j, index, e, err));
    HSC_FAIL_IF(e->n == 0, HSC_EINVAL, "a text that is empty gives no token");
    HSC_FAIL_IF(e->n > most && !j->how.max_tokens, HSC_EINVAL,
                "%zu token%s, %s sees at most %zu (its context); --max-tokens cuts a text", e->n, HSC__PLURAL(e->n),
                j->opened.name, most);
    HSC_FAIL_IF(e->n > most && j->v->pairs, HSC_EINVAL, "%zu tokens, at most %zu go in: pairs are not cut", e->n, most);
    size_t n = e->n < most ? e->n : most;
    bool added = e->spans[e->n - 1].start == e->spans[e->n - 1].end;
    HSC_TRY(hsc__grow(&j->ids, &j->ids_capacity, j->n_ids + n, sizeof *j->ids, err));
    HSC_TRY(hsc__grow(&j->segments, &j->segments_capacity, j->n_ids + n, sizeof *j->segments, err));
    memcpy(j->ids + j->n_ids, e->ids, n * sizeof *j->ids);
    memcpy(j->segments + j->n_ids, e->segments, n * sizeof *j->segments);
    if (added) j->ids[j->n_ids + n - 1] = e->ids[e->n - 1];
    j->n_cut += n < e->n;
    j->n_ids += n;
    j->lengths[index] = (int)n;
    return HSC_OK;
}

/* Says of which text a message is: a line of the file is a text. */
static hsc_status name_text(const job *j, size_t index, hsc_status status, hsc_error *err)
{
    if (status == HSC_OK) return status;
    if (j->v->file) return hsc__fail_prefix(err, status, "%s: line %zu", j->v->file, index + 1);
    return hsc__fail_prefix(err, status, j->v->pairs ? "pair %zu" : "text %zu", index + 1);
}

static hsc_status encode(job *j, hsc_error *err)
{
    hsc_encoding e = {0};
    hsc_status status = HSC_OK;
    j->lengths = hsc__calloc(j->n, sizeof *j->lengths);
    if (!j->lengths) return hsc__fail_memory(err, j->n * sizeof *j->lengths, "the texts");
    for (size_t i = 0; i < j->n && status == HSC_OK; i++) status = name_text(j, i, encode_text(j, i, &e, err), err);
    hsc_encoding_free(&e);
    return status;
}

static hsc_status choose(job *j, hsc_error *err)
{
    const values *v = j->v;
    int n_ctx = j->n_ctx;
    bool given = v->pooling && v->normalise;
    hsc_status status = hsc_model_embedding(j->opened.model, &j->how, err);
    if (status == HSC_EUNSUPPORTED && given) status = HSC_OK; /* what the files ask for is not asked for here */
    HSC_TRY(status);
    if (v->pooling) j->how.pooling = (hsc_pooling)(v->pooling - 1);
    if (v->normalise) j->how.normalise = v->normalise == 1;
    HSC_FAIL_IF(v->max_tokens > n_ctx, HSC_EINVAL, "--max-tokens %d: %s sees at most %d (its context)", v->max_tokens,
                j->opened.name, n_ctx);
    if (v->max_tokens) j->how.max_tokens = v->max_tokens;
    if (v->no_dense) hsc_embedding_free(&j->how);
    j->width = hsc_embedding_width(j->opened.model, &j->how);
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------------- run ---- */

static hsc_status make_session(const job *j, hsc_session **out, hsc_error *err)
{
    int longest = 1;
    bool reads_source = hsc_model_encoder(j->opened.model) != NULL;
    for (size_t i = 0; i < j->n; i++) longest = j->lengths[i] > longest ? j->lengths[i] : longest;
    hsc_session_options s = hsc__pass_session(&j->v->pass, j->v->threads, reads_source ? 1 : longest);
    s.max_seqs = j->n < AT_ONCE ? (int)j->n : AT_ONCE;
    if (reads_source) s.max_source = longest;
    return hsc_session_new(out, j->opened.model, &s, err);
}

/* In groups, so that one sees how far it is. */
static hsc_status run(job *j, const hsc__args *args, hsc_error *err)
{
    hsc_session *session = NULL;
    const hsc_config *encoder = hsc_model_encoder(j->opened.model);
    j->n_ctx = encoder ? encoder->n_ctx : j->opened.config->n_ctx;
    HSC_TRY(choose(j, err));
    HSC_TRY(hsc__cli_tokenizer(&j->opened, &j->tokenizer, err));
    HSC_TRY(read_texts(j, args, err));
    HSC_TRY(encode(j, err));
    size_t d = (size_t)j->width;
    j->out = hsc__calloc(j->n, d * sizeof *j->out);
    if (!j->out) return hsc__fail_memory(err, j->n * d * sizeof *j->out, "the embeddings");
    HSC_TRY(make_session(j, &session, err));
    hsc_status status = HSC_OK;
    const hsc_token *ids = j->ids;
    bool segments = j->v->pairs && j->opened.config->n_segments > 0;
    for (size_t at = 0; at < j->n && status == HSC_OK; at += AT_ONCE) {
        int n = j->n - at < AT_ONCE ? (int)(j->n - at) : AT_ONCE;
        j->how.segments = segments ? j->segments + (ids - j->ids) : NULL;
        status = hsc_embed(session, ids, j->lengths + at, n, &j->how, j->out + at * d, err);
        for (int i = 0; i < n; i++) ids += j->lengths[at + (size_t)i];
        hsc__cli_progress("embedded %zu of %zu texts", at + (size_t)n, j->n);
    }
    hsc__cli_progress_end();
    hsc_session_free(session);
    return status;
}

static int print_json(const job *j)
{
    json_t *root = json_object(), *list = json_array(), *dense = json_array();
    size_t width = (size_t)j->width;
    for (size_t i = 0; i < j->n; i++) {
        json_t *item = json_object();
        const hsc__label *text = &j->texts[j->v->pairs ? 2 * i : i];
        hsc__json_set_text(item, text->bytes, text->n);
        if (j->v->pairs) json_object_set_new(item, "pair", hsc__json_set_text(json_object(), text[1].bytes, text[1].n));
        json_object_set_new(item, "n_tokens", json_integer(j->lengths[i]));
        json_object_set_new(item, "embedding", hsc__json_floats(j->out + i * width, width));
        json_array_append_new(list, item);
    }
    json_object_set_new(root, "model", hsc__json_model(&j->opened));
    hsc__json_set_pass(root, &j->v->pass, j->opened.model);
    json_object_set_new(root, "pooling", json_string(hsc_pooling_name(j->how.pooling)));
    for (int i = 0; i < j->how.n_dense; i++) json_array_append_new(dense, json_integer(j->how.dense[i].n_out));
    json_object_set_new(root, "dense", dense);
    json_object_set_new(root, "normalised", json_boolean(j->how.normalise));
    json_object_set_new(root, "texts", list);
    return hsc__json_print(root);
}

static int print_csv(const job *j)
{
    hsc__string out = {0};
    int d = j->width;
    for (size_t i = 0; i < j->n; i++) {
        for (int k = 0; k < d; k++) {
            if (k) hsc__string_text(&out, ",");
            hsc__string_double(&out, 9, (double)j->out[i * (size_t)d + (size_t)k]);
        }
        hsc__string_text(&out, "\n");
    }
    return hsc__cli_write_string(&out);
}

static int write_file(const job *j)
{
    hsc_error err = {0};
    hsc_named_array array = {
        .name = "embeddings", .dtype = HSC_F32, .n_dims = 2, .shape = {(int64_t)j->n, j->width}, .data = j->out};
    hsc__cli_hold_interrupt(true);
    hsc_status status = hsc_write_arrays(j->v->output, &array, 1, &err);
    hsc__cli_hold_interrupt(false);
    return status == HSC_OK ? HSC__EXIT_OK : hsc__cli_fail(&err);
}

static int show(const job *j)
{
    if (j->n_cut)
        hsc__cli_note("%zu of %zu text%s %s cut to %d token%s", j->n_cut, j->n, HSC__PLURAL(j->n),
                      j->n_cut == 1 ? "was" : "were", j->how.max_tokens, HSC__PLURAL(j->how.max_tokens));
    if (!j->how.known && !j->v->pooling)
        hsc__cli_note("the model's files do not say how its embeddings are made; %s is taken, --pooling says otherwise",
                      hsc_pooling_name(j->how.pooling));
    if (j->v->output) return write_file(j);
    return j->v->json ? print_json(j) : print_csv(j);
}

/* What the arguments alone can show. */
static int check(const values *v, int n_texts)
{
    const char *o = v->output;
    if (n_texts == 0 && !v->file) return hsc__cli_misuse(&command, "no text: give TEXT or --file");
    if (v->pairs && n_texts % 2)
        return hsc__cli_misuse(&command, "--pairs takes texts two by two: %d were given", n_texts);
    if (n_texts && v->file) return hsc__cli_misuse(&command, "TEXT and --file: one of the two");
    if (o && v->json) return hsc__cli_misuse(&command, "--json prints, -o writes an array: one of the two");
    if (o && !hsc__ends_with(o, ".npy") && !hsc__ends_with(o, ".npz") && !hsc__ends_with(o, ".safetensors"))
        return hsc__cli_misuse(&command, "-o %s: the name must end in .npy, .npz or .safetensors", o);
    return HSC__CLI_GO_ON;
}

int hsc__cli_embed(int argc, char **argv)
{
    values v = {.pass = {.compute = HSC_COMPUTE_AUTO}};
    job j = {.v = &v};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&v, args.n);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, v.pass.dtype, true, &j.opened);
    if (result == HSC__CLI_GO_ON) result = run(&j, &args, &err) == HSC_OK ? show(&j) : hsc__cli_fail(&err);
    hsc__lines_close(&j.lines);
    hsc__free(j.texts);
    hsc__free(j.ids);
    hsc__free(j.segments);
    hsc__free(j.lengths);
    hsc__free(j.out);
    hsc_embedding_free(&j.how);
    hsc__cli_close(&j.opened);
    return result;
}
