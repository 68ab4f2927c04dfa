/*
 * score --pairs: does the model itself answer a file of pairs rightly? By the continuation, each answer is put behind
 * the prompt, and the likelier one is the model's. By the text, each candidate stands in the place of the query (a
 * pronoun, say), and the likelier text is. The gate before anything is said about the heads of that model.
 */
#include "cli/heads.h"
#include "cli/reading.h"
#include "cli/score.h"

#include <math.h>
#include <string.h>

enum { RIGHT, LEAD, N_FIGURES };

typedef struct asked {
    hsc__score *j;
    const hsc_tokenizer *tokenizer;
    bool by_text;
    hsc__items items; /* of each text its line, cluster and twin */
    double *values;   /* [items.n][N_FIGURES] */
    size_t capacity;
    hsc_encoding encodings[2];
    double means[N_FIGURES];
    hsc_interval ci[N_FIGURES];
    int n_clusters, n_right, n_pairs, n_both;
} asked;

/* A target; what counts begins behind the tokens of its first `border` bytes. */
static hsc_status encode_target(asked *a, const hsc__string *text, size_t border, int index, hsc_continuation *out,
                                hsc_error *err)
{
    hsc__ids before = {0}, whole = {0};
    hsc_encoding *e = &a->encodings[index];
    hsc_status status = hsc__target_encode(&a->j->opened, text->data, border, false, &before, NULL, err);
    if (status == HSC_OK) status = hsc__target_encode(&a->j->opened, text->data, text->n, false, &whole, NULL, err);
    if (status == HSC_OK && (whole.n <= before.n || memcmp(whole.ids, before.ids, before.n * sizeof *whole.ids) != 0))
        status = hsc__fail(err, HSC_EINVAL, 0, "'%s' is empty, or changes the tokens of the prompt before it",
                           text->data + border);
    hsc_encoding_free(e);
    e->ids = whole.ids;
    e->n = whole.n;
    *out = (hsc_continuation){.ids = whole.ids, .n = (int)whole.n, .first = (int)before.n};
    hsc__free(before.ids);
    return status;
}

/* A session with room for just these two targets about the source. */
static hsc_status read_source(asked *a, const char *text, const hsc_continuation list[2], hsc_error *err)
{
    hsc_encoding e = {0};
    hsc__score *j = a->j;
    int longest = list[0].n > list[1].n ? list[0].n : list[1].n;
    hsc_session_options o = hsc__pass_session(&j->o->pass, j->o->threads, longest);
    hsc_session_free(j->session);
    j->session = NULL;
    hsc_status status = longest <= j->opened.config->n_ctx
                            ? hsc_encode(a->tokenizer, text, strlen(text),
                                         hsc__encode_flags(j->o->no_special, j->o->parse_special), &e, err)
                            : hsc__fail(err, HSC_EINVAL, 0, "the target has %d tokens, the context of %s %d", longest,
                                        j->opened.name, j->opened.config->n_ctx);
    if (status == HSC_OK && e.n == 0) status = hsc__fail(err, HSC_EINVAL, 0, "the source has no tokens");
    if (status == HSC_OK) status = hsc__source_fits(&j->opened, e.n, err);
    hsc_batch source = {.ids = e.ids, .n_tokens = (int)e.n};
    o.max_seqs = 2;
    o.max_source = source.n_tokens;
    if (status == HSC_OK) status = hsc_session_new(&j->session, j->opened.model, &o, err);
    if (status == HSC_OK) status = hsc_session_read_source(j->session, &source, err);
    hsc_encoding_free(&e);
    return status;
}

/* One text with the right answer in it and one with the wrong one; what counts begins behind byte `border` of each. Of
 * an encoder-decoder they are targets about the source. */
static hsc_status ask(asked *a, const char *source, const hsc__string texts[2], size_t border, int line,
                      const char *cluster, hsc_error *err)
{
    hsc_continuation list[2];
    for (int i = 0; i < 2; i++) {
        if (texts[i].failed) return hsc__fail_memory(err, texts[i].n, "a text");
        if (a->j->reads_source) HSC_TRY(encode_target(a, &texts[i], border, i, &list[i], err));
        else HSC_TRY(hsc__score_encode(a->j, a->tokenizer, &texts[i], border, &a->encodings[i], &list[i], err));
    }
    if (a->j->reads_source) HSC_TRY(read_source(a, source, list, err));
    HSC_TRY(hsc_score_continuations(a->j->session, list, 2, err));
    HSC_TRY(hsc__items_add_ids(&a->items, &(hsc__ids){a->encodings[0].ids, a->encodings[0].n}, err));
    HSC_TRY(hsc__grow(&a->values, &a->capacity, a->items.n * N_FIGURES, sizeof *a->values, err));
    hsc__item *item = &a->items.list[a->items.n - 1];
    item->line = line;
    if (cluster) item->cluster = hsc__strndup(cluster, strlen(cluster));
    if (cluster && !item->cluster) return hsc__fail_memory(err, strlen(cluster), "a cluster");
    double *values = a->values + (a->items.n - 1) * N_FIGURES;
    values[LEAD] = list[0].log_prob - list[1].log_prob;
    values[RIGHT] = values[LEAD] > 0 ? 1 : values[LEAD] < 0 ? 0 : 0.5;
    hsc__cli_progress("scored %zu texts", a->items.n);
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- prompts ---- */

static hsc_status ask_prompt(void *user, const hsc__prompt *p, hsc_error *err)
{
    asked *a = user;
    hsc__string texts[2] = {{0}, {0}};
    HSC_TRY(hsc__prompt_check(&a->j->opened, p, err));
    for (int i = 0; i < 2; i++) {
        hsc__string_add(&texts[i], p->text, p->n);
        if (p->n || !p->source) hsc__string_text(&texts[i], " ");
        hsc__string_text(&texts[i], i ? p->wrong : p->right);
    }
    hsc_status status = ask(a, p->source, texts, a->by_text ? 0 : p->n, p->line, p->cluster, err);
    hsc__string_free(&texts[0]);
    hsc__string_free(&texts[1]);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- pairs ---- */

/* Whether the word before a place is an article. */
static bool has_article(const char *text, size_t at)
{
    static const char *const articles[] = {"the", "The", "a", "A", "an", "An"};
    size_t end = at;
    while (end && text[end - 1] == ' ') end--;
    size_t start = end;
    while (start && text[start - 1] != ' ') start--;
    for (size_t i = 0; i < sizeof articles / sizeof *articles; i++)
        if (end - start == strlen(articles[i]) && memcmp(text + start, articles[i], end - start) == 0) return true;
    return false;
}

/* The text up to the query and the candidate behind it, or all of it with the candidate in the query's place. */
static void put(const asked *a, const hsc_wording *w, hsc_span candidate, hsc__string *out)
{
    size_t n = candidate.end - candidate.start;
    if (!a->by_text) {
        hsc__string_add(out, w->text, w->query.end);
        hsc__string_text(out, " ");
        hsc__string_add(out, w->text + candidate.start, n);
        return;
    }
    hsc__string_add(out, w->text, w->query.start);
    if (has_article(w->text, candidate.start)) hsc__string_text(out, "the ");
    hsc__string_add(out, w->text + candidate.start, n);
    hsc__string_text(out, w->text + w->query.end);
}

static hsc_status ask_wording(asked *a, const hsc_pair *pair, int which, hsc_error *err)
{
    const hsc_wording *w = &pair->wording[which];
    hsc__string texts[2] = {{0}, {0}};
    HSC_TRY(hsc__prompt_check(&a->j->opened, &(hsc__prompt){.text = w->text}, err));
    put(a, w, which ? w->b : w->a, &texts[0]);
    put(a, w, which ? w->a : w->b, &texts[1]);
    hsc_status status = ask(a, NULL, texts, a->by_text ? 0 : w->query.end, w->line, pair->cluster, err);
    hsc__string_free(&texts[0]);
    hsc__string_free(&texts[1]);
    return status;
}

/* Both wordings or neither. */
static hsc_status ask_pair(void *user, const hsc_pair *pair, hsc_error *err)
{
    asked *a = user;
    int line = pair->wording[0].line;
    size_t first = a->items.n;
    hsc_error why = {0};
    if (!pair->wording[0].text)
        return hsc__items_leave_out(&a->items, line, "it is token ids: only texts are scored", err);
    if (!a->by_text && hsc__same_prompt(pair))
        return hsc__items_leave_out(&a->items, line, "both wordings are the same up to the query: --by text", err);
    hsc_status status = ask_wording(a, pair, 0, &why);
    if (status == HSC_OK) status = ask_wording(a, pair, 1, &why);
    if (status != HSC_OK) {
        while (a->items.n > first) hsc__items_drop_last(&a->items);
        if (status == HSC_EINVAL) return hsc__items_leave_out(&a->items, line, why.message, err);
        return hsc__fail(err, status, why.offset, "%s", why.message);
    }
    a->items.list[first].twin = (int)first + 1;
    a->items.list[first + 1].twin = (int)first;
    a->n_pairs++;
    a->n_both += a->values[first * N_FIGURES + RIGHT] + a->values[(first + 1) * N_FIGURES + RIGHT] == 2;
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- figures ---- */

static hsc_status summarise(asked *a, hsc_error *err)
{
    size_t n = a->items.n;
    double *table = hsc__calloc(n * N_FIGURES, sizeof *table);
    hsc_status status = table ? hsc__items_cluster_means(&a->items, a->values, N_FIGURES, table, &a->n_clusters, err)
                              : hsc__fail_memory(err, n * N_FIGURES * sizeof *table, "the figures");
    if (status == HSC_OK) {
        for (int i = 0; i < a->n_clusters * N_FIGURES; i++) a->means[i % N_FIGURES] += table[i] / a->n_clusters;
        for (size_t i = 0; i < n; i++) a->n_right += a->values[i * N_FIGURES + RIGHT] == 1;
        for (int k = 0; k < N_FIGURES; k++) a->ci[k] = (hsc_interval){NAN, NAN};
        hsc_table figures = {table, a->n_clusters, N_FIGURES};
        hsc_bootstrap_options o = {.seed = (uint64_t)a->j->o->seed, .n_threads = a->j->o->threads};
        status = a->n_clusters > 1 ? hsc_bootstrap(&figures, &o, a->ci, err) : HSC_OK;
    }
    hsc__free(table);
    return status;
}

static hsc_status run(asked *a, hsc_error *err)
{
    const hsc__score_options *o = a->j->o;
    hsc_session_options session = hsc__pass_session(&o->pass, o->threads, 0);
    session.max_seqs = 2;
    HSC_FAIL_IF(a->j->reads_source && a->by_text, HSC_EINVAL,
                "--by text: a pair of %s, an encoder-decoder (%s), has no text in which a candidate could stand; --by "
                "continuation asks for each candidate as a target",
                a->j->opened.name, a->j->opened.config->arch);
    HSC_TRY(hsc__cli_tokenizer(&a->j->opened, &a->tokenizer, err));
    if (!a->j->reads_source) HSC_TRY(hsc_session_new(&a->j->session, a->j->opened.model, &session, err));
    hsc__pair_reader reader = {ask_prompt, ask_pair, a, &a->items};
    hsc_status status = hsc__read_pairs(&reader, o->pairs, o->limit, err);
    hsc__cli_progress_end();
    return status == HSC_OK ? summarise(a, err) : status;
}

/* ------------------------------------------------------------------------------------------------------ output ---- */

static int print_text(const asked *a)
{
    hsc__string out = {0};
    double lead = a->means[LEAD];
    hsc__string_printf(&out, "%s: by the %s, compute %s\n", a->j->opened.name, a->by_text ? "text" : "continuation",
                       hsc_compute_name(hsc__pass_compute(&a->j->o->pass, a->j->opened.model)));
    hsc__items_describe(&out, &a->items, a->n_clusters);
    hsc__string_printf(&out, "right           %d of %zu; mean over clusters %.4f", a->n_right, a->items.n,
                       a->means[RIGHT]);
    if (a->n_clusters > 1) hsc__string_printf(&out, " (%.4f to %.4f)", a->ci[RIGHT].low, a->ci[RIGHT].high);
    hsc__string_text(&out, "; a guess 0.5\n");
    if (a->n_pairs)
        hsc__string_printf(&out,
                           "both of a pair  %d of %d; a guess a quarter, a model blind to the swapped word none\n",
                           a->n_both, a->n_pairs);
    hsc__string_printf(&out, "lead            %+.4f nats", lead);
    if (a->n_clusters > 1) hsc__string_printf(&out, " (%+.4f to %+.4f)", a->ci[LEAD].low, a->ci[LEAD].high);
    hsc__string_text(&out, ", the right answer's log-probability less the wrong one's\n");
    return hsc__cli_show(&out);
}

static int print_json(const asked *a)
{
    json_t *texts = json_array();
    for (size_t i = 0; i < a->items.n; i++) {
        const hsc__item *item = &a->items.list[i];
        json_array_append_new(texts, json_pack("{s:i,s:o,s:o}", "line", item->line, "cluster",
                                               item->cluster ? json_string(item->cluster) : json_null(), "lead",
                                               hsc__json_number(a->values[i * N_FIGURES + LEAD])));
    }
    json_t *root = json_pack("{s:o}", "model", hsc__json_model(&a->j->opened));
    hsc__json_set_pass(root, &a->j->o->pass, a->j->opened.model);
    json_object_set_new(root, "by", json_string(a->by_text ? "text" : "continuation"));
    json_object_set_new(root, "n_texts", json_integer((json_int_t)a->items.n));
    json_object_set_new(root, "n_clusters", json_integer(a->n_clusters));
    json_object_set_new(root, "n_pairs", json_integer(a->n_pairs));
    json_object_set_new(root, "n_right", json_integer(a->n_right));
    json_object_set_new(root, "n_both", json_integer(a->n_both));
    json_object_set_new(root, "accuracy", hsc__json_number(a->means[RIGHT]));
    json_object_set_new(root, "acc_ci", hsc__json_interval(a->ci[RIGHT]));
    json_object_set_new(root, "lead", hsc__json_number(a->means[LEAD]));
    json_object_set_new(root, "ci", hsc__json_interval(a->ci[LEAD]));
    json_object_set_new(root, "skipped", hsc__items_json_skipped(&a->items));
    json_object_set_new(root, "texts", texts);
    return hsc__json_print(root);
}

static int print_csv(const asked *a)
{
    hsc__string out = {0};
    hsc__string_text(&out, "line,cluster,lead,right\n");
    for (size_t i = 0; i < a->items.n; i++) {
        const hsc__item *item = &a->items.list[i];
        hsc__string_printf(&out, "%d,", item->line);
        if (item->cluster) hsc__csv_field(&out, item->cluster, strlen(item->cluster));
        hsc__csv_number(&out, a->values[i * N_FIGURES + LEAD]);
        hsc__csv_number(&out, a->values[i * N_FIGURES + RIGHT]);
        hsc__string_text(&out, "\n");
    }
    return hsc__cli_write_string(&out);
}

int hsc__score_pairs(hsc__score *j)
{
    asked a = {.j = j, .by_text = j->o->by != 0};
    hsc_error err = {0};
    int result = run(&a, &err) != HSC_OK ? hsc__cli_fail(&err)
                 : j->o->json            ? print_json(&a)
                 : j->o->csv             ? print_csv(&a)
                                         : print_text(&a);
    hsc_encoding_free(&a.encodings[0]);
    hsc_encoding_free(&a.encodings[1]);
    hsc__items_free(&a.items);
    hsc__free(a.values);
    return result;
}
