/*
 * headscope fill: the words that a model with a masked-word head would put where a text says [MASK], with their
 * probabilities.
 */
#include "cli/shared.h"

#include "headscope/tasks.h"

#include <string.h>

typedef struct values {
    const char *model, *file, *pair;
    hsc__pass_options pass;
    int top, threads;
    bool no_special, json;
} values;

enum { DEFAULT_TOP = 5, MOST = 1000 };

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    HSC__OPTION_HEADING("Text and answer"),
    {"file", 'f', HSC__OPT_TEXT, "FILE", offsetof(values, file), 0, 0,
     "The text from a file; as from standard input, one line end at its end is not part of it."},
    {"pair", 'p', HSC__OPT_TEXT, "TEXT", offsetof(values, pair), 0, 0,
     "A second text, joined to the first as the tokenizer joins a pair ([CLS] A [SEP] B [SEP]), in the segments that "
     "the "
     "model has for it; masks may stand in either."},
    {"top", 'k', HSC__OPT_INT, "K", offsetof(values, top), 1, MOST, "Candidates for each mask (default 5)."},
    HSC__OPTION_NO_SPECIAL(values, no_special),
    HSC__OPTION_JSON(values, json),
    HSC__OPTION_HEADING("The pass"),
    HSC__OPTION_COMPUTE(values, pass.compute),
    HSC__OPTION_DTYPE(values, pass.dtype),
    HSC__OPTION_THREADS(values, threads),
};

static const hsc__command command = {
    .name = "fill",
    .usage = "-m MODEL TEXT [options]\n-m MODEL -              (standard input)",
    .about = "Masked words: for every [MASK] in the text (<mask> for RoBERTa; the name is the model's own) the "
             "likeliest tokens with their probabilities, among all of the vocabulary. Several masks are guessed in one "
             "pass, none knowing what the others become; the first line is the text with the best guess in each.\n"
             "The model must have a masked-word head: BERT, RoBERTa, DistilBERT or ModernBERT as they were pretrained. "
             "Special tokens such as [SEP] are read as such in the text.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope fill -m bert-base-uncased \"The capital of France is [MASK].\"\n"
                "    the five likeliest words\n"
                "headscope fill -m roberta-base \"The <mask> was too <mask> to cross.\" -k 3 --json\n"
                "    two gaps, as data",
    .max_args = 1,
};

typedef struct job {
    const values *v;
    hsc__opened opened;
    const hsc_tokenizer *tokenizer;
    hsc_token mask;
    hsc__string text;
    hsc__tokens tokens;
    int *positions;     /* [n] of the masks */
    int n, top;         /* top: candidates a mask */
    hsc_guess *guesses; /* [n][top] */
    hsc__string filled; /* the text with the best guess in each place */
} job;

/* ------------------------------------------------------------------------------------------------------- input ---- */

/* Before the text is read: a model that cannot do it says so, and what would. */
static hsc_status check_model(job *j, hsc_error *err)
{
    const hsc_config *c = j->opened.config;
    HSC_FAIL_IF(c->causal, HSC_EINVAL,
                "%s is a %s model, which sees no word after the gap: fill wants an encoder such as bert-base-uncased; "
                "generate writes on with this one",
                j->opened.name, c->arch);
    HSC_FAIL_IF(!hsc_model_has_site(j->opened.model, HSC_LOGITS), HSC_EINVAL,
                "%s has no masked-word head: its file ends at the hidden states, from which no word is guessed. fill "
                "wants a model saved with the head (BertForMaskedLM and its like), such as bert-base-uncased; embed "
                "makes vectors with this one",
                j->opened.name);
    HSC_TRY(hsc_model_mask_token(j->opened.model, &j->mask, err));
    j->tokenizer = hsc_model_tokenizer(j->opened.model, err);
    j->top = j->v->top ? j->v->top : c->d_vocab < DEFAULT_TOP ? c->d_vocab : DEFAULT_TOP;
    HSC_FAIL_IF(j->top > c->d_vocab, HSC_EINVAL, "--top %d: the vocabulary of %s has %d tokens", j->top, j->opened.name,
                c->d_vocab);
    return HSC_OK;
}

static hsc_status find_masks(job *j, hsc_error *err)
{
    const hsc_encoding *e = &j->tokens.encoding;
    size_t n = 0, n_name = 0, n_ctx = (size_t)j->opened.config->n_ctx;
    const char *name = hsc_token_bytes(j->tokenizer, j->mask, &n_name);
    for (size_t i = 0; i < e->n; i++) n += e->ids[i] == j->mask;
    HSC_FAIL_IF(n == 0, HSC_EINVAL, "the text has no mask: write %.*s where a word is to be guessed", (int)n_name,
                name ? name : "");
    HSC_FAIL_IF(e->n > n_ctx, HSC_EINVAL, "the text has %zu tokens, %s sees at most %zu (its context)", e->n,
                j->opened.name, n_ctx);
    j->positions = hsc__calloc(n, sizeof *j->positions);
    j->guesses = hsc__calloc(n, (size_t)j->top * sizeof *j->guesses);
    if (!j->positions || !j->guesses) return hsc__fail_memory(err, n * (size_t)j->top * sizeof *j->guesses, "guesses");
    for (size_t i = 0; i < e->n; i++)
        if (e->ids[i] == j->mask) j->positions[j->n++] = (int)i;
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------------- run ---- */

/* The text as it reads with the best guesses: special tokens, which were added or stand between texts, are left out. */
static hsc_status fill_in(job *j, hsc_error *err)
{
    const hsc_encoding *e = &j->tokens.encoding;
    hsc_token *ids = hsc__calloc(e->n, sizeof *ids);
    if (!ids) return hsc__fail_memory(err, e->n * sizeof *ids, "the filled text");
    size_t n = 0;
    for (size_t i = 0, gap = 0; i < e->n; i++) {
        bool masked = gap < (size_t)j->n && j->positions[gap] == (int)i;
        hsc_token id = masked ? j->guesses[gap++ * (size_t)j->top].id : e->ids[i];
        size_t unused;
        bool known = hsc_token_bytes(j->tokenizer, id, &unused) != NULL;
        if (known && (masked || !hsc_token_is_special(j->tokenizer, id))) ids[n++] = id;
    }
    int64_t size = hsc_decode(j->tokenizer, ids, n, NULL, 0);
    char *text = size < 0 ? NULL : hsc__malloc((size_t)size + 1);
    if (text) {
        hsc_decode(j->tokenizer, ids, n, text, (size_t)size);
        hsc__string_add(&j->filled, text, (size_t)size);
    }
    bool failed = !text || j->filled.failed;
    hsc__free(text);
    hsc__free(ids);
    return failed ? hsc__fail_memory(err, e->n, "the filled text") : HSC_OK;
}

static hsc_status encode(job *j, hsc_error *err)
{
    const char *text = j->text.data ? j->text.data : "", *pair = j->v->pair;
    unsigned flags = hsc__encode_flags(j->v->no_special, true);
    if (!pair) return hsc__tokens_encode(&j->tokens, j->tokenizer, text, j->text.n, flags, err);
    return hsc__tokens_encode_pair(&j->tokens, j->tokenizer, text, j->text.n, pair, strlen(pair), flags, err);
}

static hsc_status run(job *j, const char *argument, hsc_error *err)
{
    const hsc_encoding *e = &j->tokens.encoding;
    hsc_session *session = NULL;
    HSC_TRY(check_model(j, err));
    HSC_TRY(hsc__cli_read_text(argument, j->v->file, &j->text, err));
    HSC_TRY(encode(j, err));
    HSC_TRY(find_masks(j, err));
    hsc_session_options s = hsc__pass_session(&j->v->pass, j->v->threads, (int)e->n);
    HSC_TRY(hsc_session_new(&session, j->opened.model, &s, err));
    const int32_t *segments = j->v->pair && j->opened.config->n_segments > 0 ? e->segments : NULL;
    hsc_status status = hsc_fill(session, e->ids, segments, (int)e->n, j->positions, j->n, j->top, j->guesses, err);
    hsc_session_free(session);
    HSC_TRY(status);
    return fill_in(j, err);
}

/* ------------------------------------------------------------------------------------------------------ output ---- */

/* Ids past the tokenizer's (rows that pad the output matrix) have no text. */
static hsc__label text_of(const job *j, hsc_token id)
{
    hsc__label text = {0};
    text.bytes = hsc_token_bytes(j->tokenizer, id, &text.n);
    return text.bytes ? text : (hsc__label){.bytes = "", .n = 0};
}

static int print_json(const job *j)
{
    json_t *root = json_object(), *masks = json_array();
    for (int i = 0; i < j->n; i++) {
        json_t *mask = json_object(), *list = json_array();
        for (int g = 0; g < j->top; g++) {
            const hsc_guess *guess = &j->guesses[i * j->top + g];
            hsc__label text = text_of(j, guess->id);
            json_t *item = hsc__json_set_text(json_object(), text.bytes, text.n);
            json_object_set_new(item, "id", json_integer(guess->id));
            json_object_set_new(item, "probability", hsc__json_number(guess->probability));
            json_object_set_new(item, "logit", hsc__json_number((double)guess->logit));
            json_array_append_new(list, item);
        }
        json_object_set_new(mask, "pos", json_integer(j->positions[i]));
        json_object_set_new(mask, "candidates", list);
        json_array_append_new(masks, mask);
    }
    json_object_set_new(root, "model", hsc__json_model(&j->opened));
    hsc__json_set_pass(root, &j->v->pass, j->opened.model);
    hsc__json_set_text(root, j->filled.data ? j->filled.data : "", j->filled.n);
    json_object_set_new(root, "tokens", hsc__json_tokens(&j->tokens));
    json_object_set_new(root, "masks", masks);
    return hsc__json_print(root);
}

static int print_text(const job *j)
{
    static const hsc__column columns[] = {
        {.head = "probability", .right = true}, {.head = "id", .right = true}, {.head = "token", .least_cells = 12}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    hsc__string out = {0};
    hsc__string_add(&out, j->filled.data ? j->filled.data : "", j->filled.n);
    hsc__string_text(&out, "\n");
    for (int i = 0; i < j->n; i++) {
        hsc__string_printf(&out, "\nposition %d\n", j->positions[i]);
        for (int g = 0; g < j->top; g++) {
            const hsc_guess *guess = &j->guesses[i * j->top + g];
            hsc__label text = text_of(j, guess->id);
            hsc__string_printf(&table.cells, "%.6f\t%d\t", guess->probability, guess->id);
            hsc__text_repr(&table.cells, text.bytes, text.n);
            hsc__string_text(&table.cells, "\t");
        }
        hsc__cli_table(&out, &table);
    }
    return hsc__cli_show(&out);
}

/* What the arguments alone can show. */
static int check(const values *v, int n_texts)
{
    if (n_texts == 0 && !v->file)
        return hsc__cli_misuse(&command, "no text: give TEXT, - for standard input or --file");
    if (n_texts && v->file) return hsc__cli_misuse(&command, "TEXT and --file: one of the two");
    return HSC__CLI_GO_ON;
}

int hsc__cli_fill(int argc, char **argv)
{
    values v = {0};
    job j = {.v = &v};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&v, args.n);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, v.pass.dtype, true, &j.opened);
    if (result == HSC__CLI_GO_ON) {
        hsc_status status = run(&j, args.n ? args.list[0] : NULL, &err);
        result = status == HSC_OK ? (v.json ? print_json : print_text)(&j) : hsc__cli_fail(&err);
    }
    hsc__tokens_free(&j.tokens);
    hsc__string_free(&j.text);
    hsc__string_free(&j.filled);
    hsc__free(j.positions);
    hsc__free(j.guesses);
    hsc__cli_close(&j.opened);
    return result;
}
