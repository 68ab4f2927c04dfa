/* headscope lens: what the residual stream would say after each layer, at one position word by word, at all of them as
 * a map, or over a file of pairs. */
#include "cli/heads.h"
#include "cli/reading.h"
#include "headscope/analysis.h"
#include "headscope/inspect.h"

#include <math.h>
#include <string.h>

enum { BY_ANSWER, BY_KL, BY_LOSS, BY_WORD };

typedef struct values {
    hsc__reading_options r;
    const char *pairs;
    hsc__texts words;
    int by, limit, seed;
} values;

#define OPTION(...) HSC__OPTION(values, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, r.model),
    HSC__OPTION_HEADING("What is asked"),
    HSC__READING_WHERE(values, r),
    OPTION("word", 'w', HSC__OPT_TEXTS, "WORD", words, 0, 0,
           "Follow this word through the layers: its probability and rank. Repeated for several. A word is the token "
           "with a blank before it, if there is one; \"in quotes\" as it stands; #123 is an id."),
    OPTION(
        "pairs", 0, HSC__OPT_TEXT, "FILE", pairs, 0, 0,
        "A pair file as in ablate, instead of TEXT: after each layer the lead of the right answer over the wrong one, "
        "over all lines."),
    OPTION("limit", 0, HSC__OPT_INT, "N", limit, 1, INT32_MAX, "The first N lines of --pairs. Default: all."),
    HSC__OPTIONS_TARGET(values, r.target),
    HSC__OPTION_HEADING("What is shown"),
    OPTION("top", 'k', HSC__OPT_INT, "K", r.top, 1, HSC_LENS_MAX_TOP, "Words of each layer. Default: 3."),
    OPTION("by", 0, HSC__OPT_CHOICE, "answer|kl|loss|word", by, 0, 0,
           "The map of layers and positions: probability of the word that the model ends with (default), divergence "
           "from what it ends with, loss of the text's next token, or probability of the first --word."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", r.plot, 0, 0,
           "The map as .png, .svg or .pdf; with --pairs the lead, layer by layer."),
    OPTION("seed", 0, HSC__OPT_INT, "N", seed, 0, INT32_MAX, "Of the intervals of --pairs. Default: 0."),
    HSC__OPTION_HEADING("The pass"),
    HSC__READING_PASS(values, r),
};

static const hsc__command command = {
    .name = "lens",
    .usage = "-m MODEL TEXT [--token TEXT] [--word WORD]...\n-m MODEL --pairs FILE",
    .about =
        "The logit lens: the residual stream after each layer goes through the model's last norm and output matrix, as "
        "if the layers above were not there. So one sees when a word arrives, and what stood there before.\n"
        "The divergence (KL, in nats) says how far a layer is from what the model ends with. Early layers need not "
        "speak the output's language: a word that is not seen yet may be there all the same, so an absence proves "
        "nothing, and a word that shows need not be used. --pairs asks over many texts.\n"
        "Of an encoder-decoder (T5, BART, Marian) TEXT is what it reads, and the lens is put on the layers of its "
        "decoder at the positions of --target.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope lens -m gpt2 \"The Eiffel Tower is in the city of\" --word Paris --word Rome\n"
                "    after which layer is it Paris?\n"
                "headscope lens -m gpt2 \"...\" --by kl --plot lens.png\n"
                "    all positions as a map\n"
                "headscope lens -m gpt2 --pairs data/pairs/names.txt --plot lead.png\n"
                "    after which layer does the right answer lead?",
    .min_args = 0,
    .max_args = 1,
    .encoder_decoders = true,
};

/* --pairs: one stage over all lines. */
typedef struct lead {
    double mean;
    hsc_interval ci;
    int n_right;
} lead;

typedef struct job {
    const values *v;
    hsc__reading r;
    hsc_token words[HSC__MAX_TEXTS];
    hsc_lens lens;
    hsc__items items;
    lead *leads; /* [n_stages] */
    int n_stages, n_clusters;
} job;

static int check(void *user, const hsc__args *args)
{
    const values *v = ((const job *)user)->v;
    if (v->by == BY_WORD && !v->words.n) return hsc__cli_misuse(&command, "--by word wants a --word");
    if (v->limit && !v->pairs) return hsc__cli_misuse(&command, "--limit goes with --pairs");
    if (!v->pairs) return hsc__reading_check(&command, &v->r, args);
    if (args->n || v->r.ids.ids) return hsc__cli_misuse(&command, "give one of TEXT, --ids and --pairs");
    if (v->by) return hsc__cli_misuse(&command, "--by is about one text: --pairs has no map");
    if (v->r.target.text || v->r.target.ids.ids)
        return hsc__cli_misuse(&command, "--pairs brings its own targets: leave --target out");
    if (v->words.n || v->r.token || v->r.pos >= 0)
        return hsc__cli_misuse(&command, "--pairs brings its own words and asks at the last token");
    return hsc__reading_check_output(&command, &v->r);
}

static hsc_lens_options lens_options(const job *j)
{
    return (hsc_lens_options){.n_threads = j->v->r.threads,
                              .compute = (hsc_compute)j->v->r.compute,
                              .top_k = j->v->r.top,
                              .words = j->words,
                              .n_words = j->v->words.n,
                              .source = j->r.source.encoding.ids,
                              .n_source = (int)j->r.source.encoding.n};
}

static hsc_status run_text(job *j, const char *text, hsc_error *err)
{
    HSC_TRY(hsc__reading_text(&j->r, text, err));
    hsc_lens_options o = lens_options(j);
    for (int i = 0; i < o.n_words; i++) {
        const char *word = j->v->words.list[i];
        HSC_TRY(hsc__cli_word(&j->r.opened, "--word", word, strlen(word), &j->words[i], err));
    }
    return hsc_lens_run(j->r.opened.model, j->r.tokens.encoding.ids, j->r.n_tokens, &o, &j->lens, err);
}

/* ------------------------------------------------------------------------------------------------------ pairs ---- */

/* table [n_items][n_stages]: the lead of the right answer. */
static hsc_status run_items(job *j, double *table, hsc_error *err)
{
    hsc__counting counting;
    for (size_t i = 0; i < j->items.n; i++) {
        const hsc__item *item = &j->items.list[i];
        hsc_token words[2] = {item->a, item->b};
        hsc_lens_options o = lens_options(j);
        hsc_lens lens;
        o.words = words;
        o.n_words = 2;
        o.first_pos = item->n_tokens - 1;
        o.source = item->source;
        o.n_source = item->n_source;
        hsc__counting_text(&counting, "lens", i, j->items.n);
        HSC_TRY(hsc_lens_run(j->r.opened.model, item->ids, item->n_tokens, &o, &lens, err));
        for (int s = 0; s < j->n_stages; s++) {
            double d = (double)lens.word_logits[2 * s] - (double)lens.word_logits[2 * s + 1];
            table[i * (size_t)j->n_stages + (size_t)s] = d;
            j->leads[s].n_right += d > 0;
        }
        hsc_lens_free(&lens);
    }
    return HSC_OK;
}

static hsc_status summarise(job *j, const double *table, double *means, hsc_interval *ci, hsc_error *err)
{
    size_t n = (size_t)j->n_stages;
    hsc_bootstrap_options o = {.seed = (uint64_t)j->v->seed, .n_threads = j->v->r.threads};
    HSC_TRY(hsc__items_cluster_means(&j->items, table, n, means, &j->n_clusters, err));
    hsc_table figures = {means, j->n_clusters, j->n_stages};
    if (j->n_clusters > 1) HSC_TRY(hsc_bootstrap(&figures, &o, ci, err));
    for (size_t s = 0; s < n; s++) {
        j->leads[s].ci = j->n_clusters > 1 ? ci[s] : (hsc_interval){(double)NAN, (double)NAN};
        for (int c = 0; c < j->n_clusters; c++) j->leads[s].mean += means[(size_t)c * n + s] / j->n_clusters;
    }
    return HSC_OK;
}

static hsc_status run_pairs(job *j, hsc_error *err)
{
    const values *v = j->v;
    unsigned flags = hsc__encode_flags(v->r.no_special, v->r.parse_special);
    HSC_TRY(hsc__items_add_pairs(&j->items, &j->r.opened, v->pairs, flags, v->limit, err));
    j->n_stages = j->r.opened.config->n_layers + 1;
    size_t n = (size_t)j->n_stages, cells = j->items.n * n;
    j->leads = hsc__calloc(n, sizeof *j->leads);
    double *table = hsc__calloc(2 * cells, sizeof *table);
    hsc_interval *ci = hsc__calloc(n, sizeof *ci);
    hsc_status status = hsc__fail_memory(err, 2 * cells * sizeof *table, "the leads");
    if (j->leads && table && ci) status = run_items(j, table, err);
    hsc__cli_progress_end();
    if (status == HSC_OK) status = summarise(j, table, table + cells, ci, err);
    hsc__free(table);
    hsc__free(ci);
    return status;
}

static hsc_status run(void *user, const char *text, hsc_error *err)
{
    job *j = user;
    return j->v->pairs ? run_pairs(j, err) : run_text(j, text, err);
}

/* ----------------------------------------------------------------------------------------------------- output ---- */

/* "embedding", "layer 5 (L4)": what stage s comes out of. */
static void cell_stage(hsc__string *cells, int stage)
{
    if (stage) hsc__string_printf(cells, "layer %d (L%d)\t", stage, stage - 1);
    else hsc__string_text(cells, "embedding\t");
}

static double probability(const hsc_lens *l, size_t at, float logit)
{
    return exp((double)logit - l->log_sums[at]);
}

static double map_value(const job *j, size_t at)
{
    const hsc_lens *l = &j->lens;
    switch (j->v->by) {
    case BY_KL: return l->kl[at];
    case BY_LOSS: return l->losses[at]; /* NaN at the last position */
    case BY_WORD: return probability(l, at, l->word_logits[at * (size_t)l->n_words]);
    default: return probability(l, at, l->answer_logits[at]);
    }
}

static hsc_status show_map(const job *j, const char *path, hsc__string *out, hsc_error *err)
{
    static const char *const units[] = {"probability of the word that the model ends with", "KL, nats", "loss, nats",
                                        "probability of the word"};
    const hsc_lens *l = &j->lens;
    size_t n = (size_t)l->n_stages * (size_t)l->n_pos;
    hsc__string title = {0};
    double *cells = hsc__calloc(n, sizeof *cells);
    if (!cells) return hsc__fail_memory(err, n * sizeof *cells, "a map");
    for (size_t i = 0; i < n; i++) cells[i] = map_value(j, i);
    hsc__string_printf(&title, "%s: logit lens", j->r.opened.name);
    if (j->v->by == BY_WORD) hsc__string_printf(&title, ", %s", j->v->words.list[0]);
    hsc__effect_map map = {.title = title,
                           .x_title = "position",
                           .y_title = "after layer",
                           .value_title = units[j->v->by],
                           .n_rows = l->n_stages,
                           .n_cols = l->n_pos,
                           .values = cells,
                           .row_letter = 'L',
                           .row_before = "embed",
                           .col_labels = j->r.tokens.texts,
                           .blank_title = "no token follows"};
    hsc_status status = hsc__effect_map_show(&map, path, out, err);
    hsc__free(cells);
    return status;
}

static void add_row(const job *j, hsc__string *cells, int stage)
{
    const hsc_lens *l = &j->lens;
    size_t at = (size_t)stage * (size_t)l->n_pos + (size_t)j->r.pos, words = (size_t)l->n_words;
    cell_stage(cells, stage);
    hsc__cell_number(cells, 3, l->kl[at]);
    for (size_t i = 0; i < words; i++)
        hsc__string_printf(cells, "%6.4f %6d\t", probability(l, at, l->word_logits[at * words + i]),
                           l->word_ranks[at * words + i] + 1);
    for (int i = 0; i < l->top_k; i++) {
        size_t k = at * (size_t)l->top_k + (size_t)i;
        hsc__string_printf(cells, "%.2f ", probability(l, at, l->top_logits[k]));
        hsc__add_word(cells, &j->r.opened, l->top[k]);
        hsc__string_text(cells, "\t");
    }
}

/* What each layer would say: a column for each --word and for each of the likeliest. */
static hsc_status add_table(const job *j, hsc__string *out, hsc_error *err)
{
    size_t n = 0, n_words = (size_t)j->v->words.n, n_columns = 2 + n_words + (size_t)j->lens.top_k;
    hsc__column *columns = hsc__calloc(n_columns, sizeof *columns);
    hsc__string *heads = hsc__calloc(n_words + 1, sizeof *heads);
    hsc__table table = {columns, n_columns, 1, {0}};
    hsc_status status = columns && heads ? HSC_OK : hsc__fail_memory(err, n_columns * sizeof *columns, "a table");
    if (status == HSC_OK) {
        columns[n++].head = "after";
        columns[n++] = (hsc__column){.head = "KL", .right = true};
        for (size_t i = 0; i < n_words; i++) {
            hsc__add_word(&heads[i], &j->r.opened, j->words[i]);
            columns[n++] = (hsc__column){.head = heads[i].data, .right = true};
        }
        if (n < n_columns) columns[n].head = "likeliest";
        for (int s = 0; s < j->lens.n_stages; s++) add_row(j, &table.cells, s);
        hsc__cli_table(out, &table);
    }
    for (size_t i = 0; heads && i < n_words; i++) hsc__string_free(&heads[i]);
    hsc__free(heads);
    hsc__free(columns);
    return status;
}

static hsc_status add_text(const job *j, hsc__string *out, hsc_error *err)
{
    hsc__string_printf(out, "%s: logit lens, compute %s\nat position %d ", j->r.opened.name,
                       hsc_compute_name((hsc_compute)j->v->r.compute), j->r.pos);
    hsc__text_repr(out, j->r.tokens.texts[j->r.pos].bytes, j->r.tokens.texts[j->r.pos].n);
    hsc__string_printf(out, ": KL to what the model ends with (nats)%s, the likeliest words with their probability\n",
                       j->v->words.n ? ", probability and rank of each --word" : "");
    HSC_TRY(add_table(j, out, err));
    hsc__string_text(out, "\n");
    return show_map(j, NULL, out, err);
}

static json_t *json_position(const job *j, size_t at)
{
    const hsc_lens *l = &j->lens;
    json_t *top = json_array(), *words = json_array();
    for (size_t k = at * (size_t)l->top_k; k < (at + 1) * (size_t)l->top_k; k++) {
        json_t *word = hsc__json_word(&j->r.opened, l->top[k]);
        json_object_set_new(word, "logit", hsc__json_number((double)l->top_logits[k]));
        json_object_set_new(word, "p", hsc__json_number(probability(l, at, l->top_logits[k])));
        json_array_append_new(top, word);
    }
    for (int i = 0; i < l->n_words; i++) {
        size_t k = at * (size_t)l->n_words + (size_t)i;
        json_t *word = hsc__json_word(&j->r.opened, j->words[i]);
        json_object_set_new(word, "logit", hsc__json_number((double)l->word_logits[k]));
        json_object_set_new(word, "p", hsc__json_number(probability(l, at, l->word_logits[k])));
        json_object_set_new(word, "rank", json_integer(l->word_ranks[k]));
        json_array_append_new(words, word);
    }
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "kl", hsc__json_number(l->kl[at]), "loss",
                     hsc__json_number(l->losses[at]), "p_answer",
                     hsc__json_number(probability(l, at, l->answer_logits[at])), "top", top, "words", words);
}

static json_t *json_start(const job *j)
{
    return json_pack("{s:o,s:s}", "model", hsc__json_model(&j->r.opened), "compute",
                     hsc_compute_name((hsc_compute)j->v->r.compute));
}

static json_t *text_json(const job *j)
{
    json_t *root = json_start(j), *stages = json_array();
    json_object_set_new(root, "tokens", hsc__json_tokens(&j->r.tokens));
    if (j->r.source.encoding.n) json_object_set_new(root, "source", hsc__json_tokens(&j->r.source));
    for (int s = 0; s < j->lens.n_stages; s++) {
        json_t *row = json_array();
        for (int i = 0; i < j->lens.n_pos; i++)
            json_array_append_new(row, json_position(j, (size_t)s * (size_t)j->lens.n_pos + (size_t)i));
        json_array_append_new(stages, row);
    }
    json_object_set_new(root, "stages", stages);
    return root;
}

/* A line a stage and position; stage 0 is the embedding, s what layer s - 1 leaves behind. */
static void text_csv(const job *j, hsc__string *out)
{
    const hsc_lens *l = &j->lens;
    hsc__string_text(out, "stage,position,token,kl,loss,p_answer,top_id,top,top_p");
    for (int i = 0; i < l->n_words; i++) hsc__string_printf(out, ",p_%d,rank_%d", (int)j->words[i], (int)j->words[i]);
    hsc__string_text(out, "\n");
    for (int i = 0; i < l->n_stages * l->n_pos; i++) {
        size_t at = (size_t)i, top = at * (size_t)l->top_k, words = at * (size_t)l->n_words;
        hsc__string_printf(out, "%d", i / l->n_pos);
        hsc__csv_token(out, &j->r, i % l->n_pos);
        hsc__csv_number(out, l->kl[at]);
        hsc__csv_number(out, l->losses[at]);
        hsc__csv_number(out, probability(l, at, l->answer_logits[at]));
        hsc__csv_word(out, &j->r.opened, l->top[top]);
        hsc__csv_number(out, probability(l, at, l->top_logits[top]));
        for (size_t w = words; w < words + (size_t)l->n_words; w++) {
            hsc__csv_number(out, probability(l, at, l->word_logits[w]));
            hsc__string_printf(out, ",%d", l->word_ranks[w]);
        }
        hsc__string_text(out, "\n");
    }
}

static hsc_status plot_leads(const job *j, hsc_error *err)
{
    size_t n = (size_t)j->n_stages;
    double *x = hsc__calloc(4 * n, sizeof *x);
    hsc__string title = {0};
    if (!x) return hsc__fail_memory(err, 4 * n * sizeof *x, "a picture");
    for (size_t s = 0; s < n; s++) {
        x[s] = (double)s;
        x[n + s] = j->leads[s].mean;
        x[2 * n + s] = j->leads[s].ci.low;
        x[3 * n + s] = j->leads[s].ci.high;
    }
    hsc__curve curves[] = {{"mean lead of the right answer", n, x, x + n, false},
                           {"95 % interval", n, x, x + 2 * n, true},
                           {NULL, n, x, x + 3 * n, true}};
    hsc__panel panel = {
        .x_title = "layers done", .y_title = "logits", .curves = curves, .n_curves = j->n_clusters > 1 ? 3 : 1};
    hsc__string_printf(&title, "%s: logit lens over %zu text%s", j->r.opened.name, j->items.n, HSC__PLURAL(j->items.n));
    hsc__cli_hold_interrupt(true);
    hsc_status status =
        title.failed ? hsc__fail_memory(err, 64, "a title") : hsc__plot_lines(j->v->r.plot, title.data, &panel, 1, err);
    hsc__cli_hold_interrupt(false);
    if (status == HSC_OK) hsc__cli_note("wrote %s", j->v->r.plot);
    hsc__string_free(&title);
    hsc__free(x);
    return status;
}

static void add_pairs(const job *j, hsc__string *out)
{
    hsc__string_printf(out, "%s: logit lens, compute %s\n", j->r.opened.name,
                       hsc_compute_name((hsc_compute)j->v->r.compute));
    hsc__items_describe(out, &j->items, j->n_clusters);
    hsc__string_text(out, "lead: logit of the right answer minus that of the wrong one at the last token; right: texts "
                          "where it leads\n");
    const hsc__column columns[] = {{.head = "after"},
                                   {.head = "lead", .right = true},
                                   {.head = j->n_clusters > 1 ? "95 % interval" : "", .right = true},
                                   {.head = "right", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int s = 0; s < j->n_stages; s++) {
        const lead *l = &j->leads[s];
        cell_stage(&table.cells, s);
        hsc__string_printf(&table.cells, "%+.3f\t", l->mean);
        if (j->n_clusters > 1) hsc__string_printf(&table.cells, "[%+7.3f, %+7.3f]", l->ci.low, l->ci.high);
        hsc__string_printf(&table.cells, "\t%.1f %%\t", 100.0 * l->n_right / (double)j->items.n);
    }
    hsc__cli_table(out, &table);
}

static void pairs_csv(const job *j, hsc__string *out)
{
    hsc__string_text(out, "stage,lead,ci_low,ci_high,right\n");
    for (int s = 0; s < j->n_stages; s++) {
        hsc__string_printf(out, "%d", s);
        hsc__csv_number(out, j->leads[s].mean);
        hsc__csv_number(out, j->leads[s].ci.low);
        hsc__csv_number(out, j->leads[s].ci.high);
        hsc__string_printf(out, ",%d\n", j->leads[s].n_right);
    }
}

static json_t *pairs_json(const job *j)
{
    json_t *root = json_start(j), *stages = json_array();
    json_object_set_new(root, "n_texts", json_integer((json_int_t)j->items.n));
    json_object_set_new(root, "n_clusters", json_integer(j->n_clusters));
    json_object_set_new(root, "skipped", hsc__items_json_skipped(&j->items));
    for (int s = 0; s < j->n_stages; s++) {
        const lead *l = &j->leads[s];
        json_t *stage = json_pack("{s:o,s:i}", "lead", hsc__json_number(l->mean), "right", l->n_right);
        if (j->n_clusters > 1) json_object_set_new(stage, "ci", hsc__json_interval(l->ci));
        json_array_append_new(stages, stage);
    }
    json_object_set_new(root, "stages", stages);
    return root;
}

/* ---- of a text or of pairs ---- */

static hsc_status show_text(const void *user, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    if (!j->v->pairs) return add_text(j, out, err);
    add_pairs(j, out);
    return HSC_OK;
}

static void show_csv(const void *user, hsc__string *out)
{
    const job *j = user;
    if (j->v->pairs) pairs_csv(j, out);
    else text_csv(j, out);
}

static json_t *make_json(const void *user)
{
    const job *j = user;
    return j->v->pairs ? pairs_json(j) : text_json(j);
}

static hsc_status draw(const void *user, const char *path, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    return j->v->pairs ? plot_leads(j, err) : show_map(j, path, out, err);
}

int hsc__cli_lens(int argc, char **argv)
{
    static const hsc__reading_steps steps = {&command, check, run, show_text, show_csv, make_json, draw};
    values v = {.r = {.pos = -1, .top = 3}};
    job j = {.v = &v, .r = {.options = &v.r}};
    int result = hsc__reading_main(&steps, argc, argv, &v, &j.r, &j);
    hsc_lens_free(&j.lens);
    hsc__items_free(&j.items);
    hsc__free(j.leads);
    hsc__reading_free(&j.r);
    return result;
}
