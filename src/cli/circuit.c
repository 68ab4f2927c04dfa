/* headscope circuit: what a head reads and writes of single words, away from any text; without a head, which heads
 * copy.
 */
#include "cli/heads.h"
#include "cli/reading.h"
#include "headscope/analysis.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* First names that are one token in most vocabularies; --names replaces them. */
static const char *const standard_names[] = {
    "Mary",   "John",    "James", "David", "Michael", "William", "Robert", "Thomas", "George",   "Charles", "Peter",
    "Paul",   "Mark",    "Henry", "Jack",  "Daniel",  "Martin",  "Simon",  "Alex",   "Adam",     "Andrew",  "Richard",
    "Joseph", "Edward",  "Frank", "Alice", "Anna",    "Emma",    "Sarah",  "Laura",  "Maria",    "Kate",    "Jane",
    "Susan",  "Lisa",    "Julia", "Helen", "Ruth",    "Rose",    "Amy",    "Emily",  "Rachel",   "Lucy",    "Sam",
    "Tom",    "Tim",     "Ben",   "Dan",   "Chris",   "Steve",   "Kevin",  "Brian",  "Jason",    "Ryan",    "Eric",
    "Scott",  "Stephen", "Tony",  "Nick",  "Matthew", "Anthony", "Joe",    "Bob",    "Elizabeth"};

typedef struct values {
    hsc__reading_options r; /* model, top, plot, threads, compute, json */
    hsc__texts words;
    const char *names;
    int distance;
    bool all, eigen;
} values;

#define OPTION(...) HSC__OPTION(values, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, r.model),
    HSC__OPTION_HEADING("What is asked"),
    OPTION(
        "word", 'w', HSC__OPT_TEXTS, "WORD", words, 0, 0,
        "What the head does with this word, instead of the largest pairs of all. Repeated for several. A word is the "
        "token with a blank before it, if there is one; \"in quotes\" as it stands; #123 is an id."),
    OPTION("names", 0, HSC__OPT_TEXT, "FILE", names, 0, 0,
           "Words for the copying score, one a line; those of several tokens are left out. Default: 64 first names."),
    OPTION("eigen", 0, HSC__OPT_FLAG, NULL, eigen, 0, 0,
           "Without a head: instead of names the eigenvalue score, which asks all words at once: the sum of the "
           "eigenvalues of OV over the sum of their sizes, 1 for copying, -1 for speaking against."),
    OPTION("distance", 'd', HSC__OPT_INT, "N", distance, 0, INT32_MAX,
           "QK of a query N tokens behind the key, where queries are rotated. Default: 0."),
    OPTION("all", 0, HSC__OPT_FLAG, NULL, all, 0, 0,
           "Pairs of all tokens. Default: of tokens that are a blank and letters, three cells at least."),
    HSC__OPTION_HEADING("What is shown"),
    OPTION("top", 'k', HSC__OPT_INT, "N", r.top, 1, 1000, "Rows of each table. Default: 10."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", r.plot, 0, 0, "Without a head: the map of scores as .png, .svg or .pdf."),
    HSC__OPTION_COMPUTE(values, r.compute),
    HSC__OPTION_THREADS(values, r.threads),
    HSC__OPTION_JSON(values, r.json),
    HSC__OPTION_CSV(values, r.csv),
};

static const hsc__command command = {
    .name = "circuit",
    .usage = "-m MODEL [HEAD] [--word WORD]...",
    .about =
        "What a head (L4H3) does to single words, without a text. OV: it looks at a word, and what does it then write? "
        "QK: standing on a word, which word would it look at? A word comes in as its effective embedding, the "
        "embedding "
        "after the first MLP; what is written goes through the last norm to the output.\n"
        "The copying score is the share of names among the five words that a head writes for themselves, and, with the "
        "sign turned, among the five that it speaks against. Without HEAD every head gets one.\n"
        "QK is at distance 0 unless --distance says otherwise; what other heads put into the stream is left out too. "
        "It is "
        "what the weights can do, not what happens in a text: attribute and ablate say that.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope circuit -m gpt2\n"
                "    which heads copy names, and which speak against them\n"
                "headscope circuit -m gpt2 L9H9\n"
                "    the largest input -> output and query -> key pairs of one head\n"
                "headscope circuit -m gpt2 L10H7 --word Mary --word London\n"
                "    what it does with two words\n"
                "headscope circuit -m SmolLM2.gguf L3H0 --word Mary --distance 1\n"
                "    which word before it does it look for, standing on Mary?",
    .min_args = 0,
    .max_args = 1,
};

typedef struct token_list {
    hsc_token *ids;
    size_t n, capacity;
} token_list;

typedef struct job {
    const values *v;
    hsc__opened opened;
    hsc__head head;               /* given: of this one; else all heads' copying scores */
    token_list names, all, words; /* all: what may be looked at; words: of --word */
    size_t n_named;               /* names of the list before some were left out */
    hsc_circuit circuit, named;   /* circuit: of words, if there are any, else of all */
    double *copy, *against;       /* [n_layers * n_heads], without a head; with --eigen copy has that score */
    hsc__counting counting;
} job;

/* -------------------------------------------------------------------------------------------------------- words ----
 */

static hsc_status add_token(token_list *list, hsc_token id, hsc_error *err)
{
    HSC_TRY(hsc__grow(&list->ids, &list->capacity, list->n + 1, sizeof *list->ids, err));
    list->ids[list->n++] = id;
    return HSC_OK;
}

/* A name that is not one token is left out. */
static hsc_status add_name(job *j, const char *name, size_t n, hsc_error *err)
{
    hsc_token id;
    j->n_named++;
    return hsc__cli_word(&j->opened, "--names", name, n, &id, NULL) == HSC_OK ? add_token(&j->names, id, err) : HSC_OK;
}

static hsc_status read_names(job *j, hsc_error *err)
{
    hsc__lines lines = {0};
    const hsc_tokenizer *tokenizer;
    hsc_status status = HSC_OK;
    if (!j->v->names) {
        status = hsc__cli_tokenizer(&j->opened, &tokenizer, err);
        for (size_t i = 0; status == HSC_OK && i < sizeof standard_names / sizeof *standard_names; i++)
            status = add_name(j, standard_names[i], strlen(standard_names[i]), err);
    } else {
        status = hsc__lines_open(&lines, j->v->names, err);
        while (status == HSC_OK && hsc__lines_next(&lines))
            if (lines.n) status = add_name(j, lines.text, lines.n, err);
        hsc__lines_close(&lines);
    }
    /* What a head does to words needs no names, so the list that nobody asked for may fit no token there. */
    if (status == HSC_OK && !j->names.n && (j->v->names || !j->head.given))
        status = hsc__fail(err, HSC_EINVAL, 0, "none of %zu names is one token of %s: --names FILE has others",
                           j->n_named, j->opened.name);
    return status;
}

/* A blank and at least two letters; letters outside ASCII are taken as they are. */
static bool is_word(const char *bytes, size_t n)
{
    if (!bytes || n < 3 || bytes[0] != ' ' || !hsc__utf8_valid(bytes, n)) return false;
    for (size_t i = 1; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 128 && !isalpha(c)) return false;
    }
    return true;
}

static hsc_status read_words(job *j, hsc_error *err)
{
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(j->opened.model, NULL);
    for (hsc_token id = 0; id < j->opened.config->d_vocab; id++) {
        size_t n = 0;
        const char *bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &n) : NULL;
        if (j->v->all || is_word(bytes, n)) HSC_TRY(add_token(&j->all, id, err));
    }
    for (int i = 0; i < j->v->words.n; i++) {
        hsc_token id;
        const char *word = j->v->words.list[i];
        HSC_TRY(hsc__cli_word(&j->opened, "--word", word, strlen(word), &id, err));
        HSC_TRY(add_token(&j->words, id, err));
    }
    HSC_FAIL_IF(!j->all.n, HSC_EINVAL, "no token of %s is a blank and letters: --all takes them as they are",
                j->opened.name);
    return HSC_OK;
}

/* ---------------------------------------------------------------------------------------------------------- run ----
 */

static hsc_circuit_options run_options(job *j, const token_list *inputs, const char *thing)
{
    j->counting = (hsc__counting){.path = j->opened.name, .thing = thing, .unit = thing, .per_thing = 1};
    hsc__counting_start(&j->counting);
    return (hsc_circuit_options){.n_threads = j->v->r.threads,
                                 .compute = (hsc_compute)j->v->r.compute,
                                 .inputs = inputs->ids,
                                 .n_inputs = (int)inputs->n,
                                 .top_k = 5,
                                 .tell = hsc__counting_tell,
                                 .user = &j->counting};
}

static hsc_status run_head(job *j, hsc_error *err)
{
    int layer = j->head.layer, head = j->head.head;
    const hsc_config *c = j->opened.config;
    hsc_circuit_options o = run_options(j, &j->names, "words");
    HSC_TRY(hsc__place_check(NULL, "head", layer, head, c->n_layers, c->n_heads, err));
    if (j->names.n) HSC_TRY(hsc_circuit_run(j->opened.model, layer, head, &o, &j->named, err));
    HSC_TRY(read_words(j, err));
    o = run_options(j, j->words.n ? &j->words : &j->all, "words");
    o.keys = j->all.ids;
    o.n_keys = (int)j->all.n;
    o.distance = j->v->distance;
    hsc_status status = hsc_circuit_run(j->opened.model, layer, head, &o, &j->circuit, err);
    hsc__cli_progress_end();
    return status;
}

static hsc_status run_copying(job *j, hsc_error *err)
{
    size_t n = (size_t)j->opened.config->n_layers * (size_t)j->opened.config->n_heads;
    hsc_circuit_options o = run_options(j, &j->names, j->v->eigen ? "steps" : "layers");
    j->copy = hsc__calloc(2 * n, sizeof *j->copy);
    if (!j->copy) return hsc__fail_memory(err, 2 * n * sizeof *j->copy, "copying scores");
    j->against = j->copy + n;
    hsc_status status = j->v->eigen ? hsc_circuit_eigen(j->opened.model, &o, j->copy, err)
                                    : hsc_circuit_copying(j->opened.model, &o, j->copy, j->against, err);
    hsc__cli_progress_end();
    return status;
}

/* ------------------------------------------------------------------------------------------------------- output ----
 */

/* The rows of a table of pairs: [n][k] numbers, of which the first of each input counts for its rank. */
typedef struct pair_table {
    const hsc_token *others;
    const float *numbers;
    bool smallest;
} pair_table;

static const pair_table *sorted_table;
static int sorted_k;

/* How much an input's best pair stands out; what is no number stands behind all. */
static float rank_of(int input)
{
    float number = sorted_table->numbers[(size_t)input * (size_t)sorted_k];
    if (isnan(number)) return -INFINITY;
    return sorted_table->smallest ? -number : number;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    float left = rank_of(x), right = rank_of(y);
    if (left != right) return left < right ? 1 : -1;
    return x - y;
}

/* The inputs whose best pair stands out most: order [n_inputs]. */
static int *rank_pairs(const job *j, const pair_table *table, int *n)
{
    *n = j->circuit.n_inputs;
    int *order = hsc__calloc((size_t)*n + 1, sizeof *order);
    for (int i = 0; order && i < *n; i++) order[i] = i;
    sorted_table = table;
    sorted_k = j->circuit.top_k;
    if (order) qsort(order, (size_t)*n, sizeof *order, by_number);
    return order;
}

static hsc_status add_pairs(const job *j, hsc__string *out, const char *title, const pair_table *table, hsc_error *err)
{
    int n, *order = rank_pairs(j, table, &n);
    if (!order) return hsc__fail_memory(err, (size_t)n * sizeof *order, "a table");
    hsc__string_printf(out, "\n%s\n", title);
    for (int i = 0; i < n && i < j->v->r.top; i++) {
        size_t at = (size_t)order[i] * (size_t)j->circuit.top_k;
        hsc__string_printf(out, "%+9.3f  ", (double)table->numbers[at]);
        hsc__add_word(out, &j->opened, j->circuit.inputs[order[i]]);
        hsc__string_text(out, " -> ");
        hsc__add_word(out, &j->opened, table->others[at]);
        hsc__string_text(out, "\n");
    }
    hsc__free(order);
    return HSC_OK;
}

static void add_list(const job *j, hsc__string *out, const char *what, const hsc_token *ids, const float *numbers)
{
    hsc__string_printf(out, "  %-16s", what);
    for (int k = 0; k < j->circuit.top_k; k++) {
        hsc__string_text(out, k ? ", " : "");
        hsc__add_word(out, &j->opened, ids[k]);
        hsc__string_printf(out, " %+.2f", (double)numbers[k]);
    }
    hsc__string_text(out, "\n");
}

static void add_word_report(const job *j, hsc__string *out, size_t index)
{
    const hsc_circuit *c = &j->circuit;
    size_t at = index * (size_t)c->top_k;
    hsc__string_text(out, "\n");
    hsc__add_word(out, &j->opened, c->inputs[index]);
    hsc__string_printf(out, ": itself is number %d of the %d words that it writes\n", c->own_ranks[index] + 1,
                       c->d_vocab);
    add_list(j, out, "writes", c->writes + at, c->write_logits + at);
    add_list(j, out, "speaks against", c->lowest + at, c->lowest_logits + at);
    add_list(j, out, "looks at", c->keys + at, c->key_scores + at);
}

/* Shares of the names that are among the five first, and with the sign turned; no numbers where no name is a token. */
static void shares(const job *j, double *copy, double *against)
{
    const hsc_circuit *c = &j->named;
    *copy = *against = c->n_inputs ? 0 : NAN;
    for (int i = 0; i < c->n_inputs; i++) {
        *copy += (double)(c->own_ranks[i] < 5) / c->n_inputs;
        *against += (double)(c->turned_ranks[i] < 5) / c->n_inputs;
    }
}

static hsc_status add_tables(const job *j, hsc__string *out, hsc_error *err)
{
    const hsc_circuit *c = &j->circuit;
    const pair_table writes = {c->writes, c->write_logits, false}, lowest = {c->lowest, c->lowest_logits, true},
                     keys = {c->keys, c->key_scores, false};
    HSC_TRY(add_pairs(j, out, "OV, what is written most: input -> output (logit)", &writes, err));
    HSC_TRY(add_pairs(j, out, "OV, what is spoken against most: input -> output (logit)", &lowest, err));
    hsc__string title = {0};
    hsc__string_printf(&title, "QK at distance %d: query -> key (score before the softmax)", j->v->distance);
    hsc_status status = title.failed ? hsc__fail_memory(err, 64, "a title") : add_pairs(j, out, title.data, &keys, err);
    hsc__string_free(&title);
    return status;
}

static int print_head(const job *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    hsc_status status = HSC_OK;
    double copy, against;
    shares(j, &copy, &against);
    hsc__string_printf(&out, "%s: ", j->opened.name);
    hsc__add_head_name(&out, j->head.layer, j->head.head);
    hsc__string_printf(&out, " on %zu word%s through the %s, compute %s\n", j->all.n, HSC__PLURAL(j->all.n),
                       j->head.layer ? "effective embedding" : "embedding",
                       hsc_compute_name((hsc_compute)j->v->r.compute));
    if (!j->names.n)
        hsc__string_printf(&out, "copying: none of %zu names is one token; --names FILE has others\n", j->n_named);
    else
        hsc__string_printf(
            &out,
            "copying: of %zu name%s, %.0f %% are among the 5 words written for them, %.0f %% among the 5 "
            "spoken against (%zu of %zu name%s %s one token)\n",
            j->names.n, HSC__PLURAL(j->names.n), 100 * copy, 100 * against, j->names.n, j->n_named,
            HSC__PLURAL(j->n_named), j->names.n == 1 ? "is" : "are");
    if (!j->words.n) status = add_tables(j, &out, &err);
    for (size_t i = 0; i < j->words.n; i++) add_word_report(j, &out, i);
    return hsc__answer_text(status, &out, &err);
}

static json_t *json_pairs(const job *j, const pair_table *table)
{
    json_t *list = json_array();
    int n, *order = rank_pairs(j, table, &n);
    if (!order) {
        json_decref(list);
        return NULL;
    }
    for (int i = 0; i < n && i < j->v->r.top; i++) {
        size_t at = (size_t)order[i] * (size_t)j->circuit.top_k;
        json_array_append_new(list, json_pack("{s:o,s:o,s:o}", "from",
                                              hsc__json_word(&j->opened, j->circuit.inputs[order[i]]), "to",
                                              hsc__json_word(&j->opened, table->others[at]), "value",
                                              hsc__json_number((double)table->numbers[at])));
    }
    hsc__free(order);
    return list;
}

static json_t *json_list(const job *j, const hsc_token *ids, const float *numbers)
{
    json_t *list = json_array();
    for (int k = 0; k < j->circuit.top_k; k++) {
        json_t *word = hsc__json_word(&j->opened, ids[k]);
        json_object_set_new(word, "value", hsc__json_number((double)numbers[k]));
        json_array_append_new(list, word);
    }
    return list;
}

/* All that was found, input by input: [n_inputs][top_k] of each kind. */
static int print_head_csv(const job *j)
{
    const hsc_circuit *c = &j->circuit;
    static const char *const kinds[] = {"ov", "ov_against", "qk"};
    const pair_table tables[] = {
        {c->writes, c->write_logits, false}, {c->lowest, c->lowest_logits, true}, {c->keys, c->key_scores, false}};
    hsc__string out = {0};
    hsc__string_text(&out, "kind,from_id,from,to_id,to,value\n");
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < c->n_inputs * c->top_k; i++) {
            hsc__string_text(&out, kinds[kind]);
            hsc__csv_word(&out, &j->opened, c->inputs[i / c->top_k]);
            hsc__csv_word(&out, &j->opened, tables[kind].others[i]);
            hsc__csv_number(&out, (double)tables[kind].numbers[i]);
            hsc__string_text(&out, "\n");
        }
    }
    return hsc__cli_write_string(&out);
}

static json_t *json_start(const job *j)
{
    return json_pack("{s:o,s:s,s:I}", "model", hsc__json_model(&j->opened), "compute",
                     hsc_compute_name((hsc_compute)j->v->r.compute), "n_names", (json_int_t)j->names.n);
}

static int print_head_json(const job *j)
{
    const hsc_circuit *c = &j->circuit;
    const pair_table writes = {c->writes, c->write_logits, false}, lowest = {c->lowest, c->lowest_logits, true},
                     keys = {c->keys, c->key_scores, false};
    json_t *root = json_start(j), *words = json_array();
    double copy, against;
    shares(j, &copy, &against);
    json_object_set_new(root, "layer", json_integer(j->head.layer));
    json_object_set_new(root, "head", json_integer(j->head.head));
    json_object_set_new(root, "copying", hsc__json_number(copy));
    json_object_set_new(root, "against", hsc__json_number(against));
    json_object_set_new(root, "n_inputs", json_integer((json_int_t)j->all.n));
    json_object_set_new(root, "distance", json_integer(j->v->distance));
    if (!j->words.n) {
        json_object_set_new(root, "ov", json_pairs(j, &writes));
        json_object_set_new(root, "ov_against", json_pairs(j, &lowest));
        json_object_set_new(root, "qk", json_pairs(j, &keys));
    }
    for (size_t i = 0; i < j->words.n; i++) {
        size_t at = i * (size_t)c->top_k;
        json_t *word = hsc__json_word(&j->opened, c->inputs[i]);
        json_object_set_new(word, "own_rank", json_integer(c->own_ranks[i]));
        json_object_set_new(word, "writes", json_list(j, c->writes + at, c->write_logits + at));
        json_object_set_new(word, "against", json_list(j, c->lowest + at, c->lowest_logits + at));
        json_object_set_new(word, "keys", json_list(j, c->keys + at, c->key_scores + at));
        json_array_append_new(words, word);
    }
    json_object_set_new(root, "words", words);
    return hsc__json_print(root);
}

/* ------------------------------------------------------------------------------------------------------ copying ----
 */

static hsc_status show_scores(const job *j, const char *path, hsc__string *out, hsc_error *err)
{
    const hsc_config *c = j->opened.config;
    hsc__string title = {0};
    hsc__string_printf(&title, "%s: %s copying score", j->opened.name, j->v->eigen ? "eigenvalue" : "names,");
    hsc__effect_map map = {.title = title,
                           .x_title = "head",
                           .y_title = "layer",
                           .value_title = j->v->eigen ? "sum of eigenvalues / of their sizes" : "share of names copied",
                           .n_rows = c->n_layers,
                           .n_cols = c->n_heads,
                           .values = j->copy,
                           .row_letter = 'L',
                           .col_letter = 'H',
                           .blank_title = j->v->eigen ? "none" : "layer 1 has none"};
    return hsc__effect_map_show(&map, path, out, err);
}

/* The heads with the largest score times sign, those with none left out. */
static void add_best(const job *j, hsc__string *out, const char *title, const double *scores, double sign)
{
    int n_heads = j->opened.config->n_heads, n = j->opened.config->n_layers * n_heads, last = -1;
    hsc__string_printf(out, "\n%s\n", title);
    for (int row = 0; row < j->v->r.top; row++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            double score = sign * scores[i]; /* NaN is above nothing */
            bool after = last < 0 || score < sign * scores[last] || (score == sign * scores[last] && i > last);
            if (after && score > 0 && (best < 0 || score > sign * scores[best])) best = i;
        }
        if (best < 0) break;
        if (j->v->eigen) hsc__string_printf(out, "%+6.3f  ", scores[best]);
        else hsc__string_printf(out, "%5.1f %%  ", 100 * scores[best]);
        hsc__add_head_name(out, best / n_heads, best % n_heads);
        hsc__string_text(out, "\n");
        last = best;
    }
    if (last < 0) hsc__string_text(out, "none\n");
}

static void add_header(const job *j, hsc__string *out)
{
    hsc__string_printf(out, "%s: ", j->opened.name);
    if (j->v->eigen) {
        hsc__string_text(out, "eigenvalue copying scores by the weights, norms folded in\n"
                              "sum of the eigenvalues of OV over the sum of their sizes, from words to words\n\n");
        return;
    }
    hsc__string_printf(out,
                       "copying scores over %zu name%s (%zu of %zu %s one token), compute %s\n"
                       "share of names among the 5 words that a head writes for them; layer 1 has none\n\n",
                       j->names.n, HSC__PLURAL(j->names.n), j->names.n, j->n_named, j->names.n == 1 ? "is" : "are",
                       hsc_compute_name((hsc_compute)j->v->r.compute));
}

static int print_copying(const job *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    bool eigen = j->v->eigen;
    add_header(j, &out);
    hsc_status status = show_scores(j, NULL, &out, &err);
    add_best(j, &out, "Heads that copy:", j->copy, 1);
    add_best(j, &out, "Heads that speak against (the sign turned):", eigen ? j->copy : j->against, eigen ? -1 : 1);
    if (status == HSC_OK && j->v->r.plot) status = show_scores(j, j->v->r.plot, NULL, &err);
    return hsc__answer_text(status, &out, &err);
}

static int print_copying_csv(const job *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    int n_heads = j->opened.config->n_heads;
    hsc__string_text(&out, j->v->eigen ? "layer,head,eigen\n" : "layer,head,copying,against\n");
    for (int i = 0; i < j->opened.config->n_layers * n_heads; i++) {
        hsc__string_printf(&out, "%d,%d", i / n_heads, i % n_heads);
        hsc__csv_number(&out, j->copy[i]);
        if (!j->v->eigen) hsc__csv_number(&out, j->against[i]);
        hsc__string_text(&out, "\n");
    }
    return hsc__answer(j->v->r.plot ? show_scores(j, j->v->r.plot, NULL, &err) : HSC_OK, &out, &err);
}

static int print_copying_json(const job *j)
{
    hsc_error err = {0};
    json_t *root = json_start(j), *heads = json_array();
    int n_heads = j->opened.config->n_heads;
    for (int i = 0; i < j->opened.config->n_layers * n_heads; i++) {
        json_t *head = json_pack("{s:i,s:i,s:o}", "layer", i / n_heads, "head", i % n_heads,
                                 j->v->eigen ? "eigen" : "copying", hsc__json_number(j->copy[i]));
        if (!j->v->eigen) json_object_set_new(head, "against", hsc__json_number(j->against[i]));
        json_array_append_new(heads, head);
    }
    json_object_set_new(root, "heads", heads);
    hsc_status status = j->v->r.plot ? show_scores(j, j->v->r.plot, NULL, &err) : HSC_OK;
    return hsc__answer_json(status, root, &err);
}

static int print(const job *j)
{
    if (j->head.given) return j->v->r.json ? print_head_json(j) : j->v->r.csv ? print_head_csv(j) : print_head(j);
    return j->v->r.json ? print_copying_json(j) : j->v->r.csv ? print_copying_csv(j) : print_copying(j);
}

static int check(job *j, const hsc__args *args)
{
    const values *v = j->v;
    if (args->n && !hsc__head_parse(args->list[0], &j->head))
        return hsc__cli_misuse(&command, "'%s' is no head: L4H3 is layer 4, head 3, both from 0", args->list[0]);
    if (!j->head.given && (v->words.n || v->all || v->distance))
        return hsc__cli_misuse(&command, "--word, --all and --distance want a head");
    if (v->eigen && (j->head.given || v->names))
        return hsc__cli_misuse(&command, "--eigen is about all heads and all words: leave the head and --names out");
    if (v->r.plot && j->head.given) return hsc__cli_misuse(&command, "--plot draws all heads: leave the head out");
    return hsc__reading_check_output(&command, &v->r);
}

int hsc__cli_circuit(int argc, char **argv)
{
    values v = {.r = {.top = 10}};
    job j = {.v = &v};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&j, &args);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.r.model, 0, true, &j.opened);
    if (result == HSC__CLI_GO_ON) {
        hsc_status status = v.eigen ? HSC_OK : read_names(&j, &err);
        if (status == HSC_OK) status = j.head.given ? run_head(&j, &err) : run_copying(&j, &err);
        result = status == HSC_OK ? print(&j) : hsc__cli_fail(&err);
    }
    hsc_circuit_free(&j.circuit);
    hsc_circuit_free(&j.named);
    hsc__free(j.copy);
    hsc__free(j.names.ids);
    hsc__free(j.all.ids);
    hsc__free(j.words.ids);
    hsc__cli_close(&j.opened);
    return result;
}
