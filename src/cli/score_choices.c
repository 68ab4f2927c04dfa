/*
 * score --choices: questions with several answers. A choice is scored by the log-probability of its tokens after the
 * prompt; blanks at the prompt's end count as the choice's, because tokenizers join them to the next word. A token that
 * spans the border belongs to the choice.
 */
#include "cli/score.h"

#include <math.h>
#include <string.h>

enum { MAX_CHOICES = 256, MAX_AT_ONCE = 16 };

/* By what the likeliest choice is found: the sum of log p, or that for each byte or token of the choice. */
enum { BY_SUM, BY_BYTE, BY_TOKEN, N_WAYS };
static const char *const way_names[N_WAYS] = {"accuracy", "accuracy_byte", "accuracy_token"};

typedef struct question {
    int line;
    int n_choices, answer; /* -1: none was given */
    int best[N_WAYS];
    hsc_encoding encodings[MAX_CHOICES];
    hsc_continuation list[MAX_CHOICES];
    size_t n_bytes[MAX_CHOICES];
} question;

typedef struct tally {
    size_t n, n_answered;
    size_t n_right[N_WAYS];
    json_t *items;   /* of --json */
    hsc__string csv; /* of --csv */
} tally;

/* As a target of an encoder-decoder. */
static hsc_status encode_target(const hsc__score *j, question *q, int index, const json_t *choice, hsc_error *err)
{
    hsc_encoding *e = &q->encodings[index];
    hsc__ids list = {0};
    int first;
    hsc_encoding_free(e);
    HSC_TRY(hsc__target_encode(&j->opened, json_string_value(choice), json_string_length(choice), false, &list, &first,
                               err));
    e->ids = list.ids;
    e->n = list.n;
    HSC_TRY(hsc__target_fits(&j->opened, list.n, err));
    if ((size_t)first == list.n) return hsc__fail(err, HSC_EFORMAT, 0, "a choice is empty: it gives no token");
    q->list[index] = (hsc_continuation){.ids = e->ids, .n = (int)list.n, .first = first};
    q->n_bytes[index] = json_string_length(choice);
    return HSC_OK;
}

hsc_status hsc__score_encode(const hsc__score *j, const hsc_tokenizer *tokenizer, const hsc__string *text,
                             size_t border, hsc_encoding *e, hsc_continuation *out, hsc_error *err)
{
    bool whole = border == 0;
    while (border && text->data[border - 1] == ' ') border--;
    HSC_TRY(
        hsc_encode(tokenizer, text->data, text->n, hsc__encode_flags(j->o->no_special, j->o->parse_special), e, err));
    int first = 0, n = (int)e->n;
    while (n > 0 && e->spans[n - 1].start == e->spans[n - 1].end) n--; /* what was added at the end is no part of it */
    while (first < n && e->spans[first].end <= border) first++;
    if (whole && first == 0) first = 1; /* nothing stands before the first token */
    HSC_FAIL_IF(first == 0, HSC_EINVAL, "the prompt gives no token: there is nothing that a choice could follow");
    HSC_FAIL_IF(first >= n, HSC_EINVAL, "a choice is empty: it gives no token");
    *out = (hsc_continuation){.ids = e->ids, .n = n, .first = first};
    return HSC_OK;
}

static hsc_status encode_choice(const hsc__score *j, const hsc_tokenizer *tokenizer, question *q, int index,
                                const json_t *prompt, const json_t *choice, hsc_error *err)
{
    hsc__string text = {0};
    hsc_error why = {0};
    size_t n = json_string_length(prompt);
    if (!n)
        return hsc__fail(err, HSC_EFORMAT, 0, "the prompt gives no token: there is nothing that a choice could follow");
    hsc__string_add(&text, json_string_value(prompt), n);
    hsc__string_add(&text, json_string_value(choice), json_string_length(choice));
    hsc_status status = hsc__fail_memory(err, n, "a choice");
    if (!text.failed) status = hsc__score_encode(j, tokenizer, &text, n, &q->encodings[index], &q->list[index], &why);
    if (!text.failed && status == HSC_EINVAL) status = hsc__fail(err, HSC_EFORMAT, 0, "%s", why.message);
    else if (!text.failed && status != HSC_OK) status = hsc__fail(err, status, why.offset, "%s", why.message);
    hsc__string_free(&text);
    q->n_bytes[index] = json_string_length(choice);
    return status;
}

/* A number from 0, or the text of a choice. */
static hsc_status read_answer(question *q, const json_t *item, const json_t *choices, hsc_error *err)
{
    const json_t *answer = json_object_get(item, "answer");
    q->answer = -1;
    if (!answer || json_is_null(answer)) return HSC_OK;
    if (json_is_integer(answer)) {
        json_int_t value = json_integer_value(answer);
        if (value < 0 || value >= q->n_choices)
            return hsc__fail(err, HSC_EFORMAT, 0, "answer is not the number of a choice, from 0");
        q->answer = (int)value;
        return HSC_OK;
    }
    for (int i = 0; i < q->n_choices; i++)
        if (json_equal(json_array_get(choices, (size_t)i), answer)) q->answer = i;
    return q->answer >= 0 ? HSC_OK : hsc__fail(err, HSC_EFORMAT, 0, "answer is neither a choice's number nor its text");
}

/* The prompt is the source of every choice; the session has room for just these. */
static hsc_status read_source(hsc__score *j, question *q, const hsc_tokenizer *tokenizer, const json_t *prompt,
                              hsc_error *err)
{
    hsc_encoding e = {0};
    int longest = 1;
    hsc_status status = hsc_encode(tokenizer, json_string_value(prompt), json_string_length(prompt),
                                   hsc__encode_flags(j->o->no_special, j->o->parse_special), &e, err);
    hsc_batch source = {.ids = e.ids, .n_tokens = (int)e.n};
    for (int i = 0; i < q->n_choices; i++) longest = q->list[i].n > longest ? q->list[i].n : longest;
    hsc_session_free(j->session);
    j->session = NULL;
    if (status == HSC_OK && e.n == 0) status = hsc__fail(err, HSC_EFORMAT, 0, "the prompt gives no token");
    if (status == HSC_OK) status = hsc__source_fits(&j->opened, e.n, err);
    if (status == HSC_OK) {
        hsc_session_options session = hsc__pass_session(&j->o->pass, j->o->threads, longest);
        session.max_seqs = q->n_choices < MAX_AT_ONCE ? q->n_choices : MAX_AT_ONCE;
        session.max_source = source.n_tokens;
        status = hsc_session_new(&j->session, j->opened.model, &session, err);
    }
    if (status == HSC_OK) status = hsc_session_read_source(j->session, &source, err);
    hsc_encoding_free(&e);
    return status;
}

static hsc_status read_question(hsc__score *j, question *q, const json_t *item, hsc_error *err)
{
    const hsc_tokenizer *tokenizer;
    const json_t *prompt = json_object_get(item, "prompt"), *choices = json_object_get(item, "choices");
    size_t n = json_array_size(choices);
    HSC_TRY(hsc__cli_tokenizer(&j->opened, &tokenizer, err));
    if (!json_is_object(item)) return hsc__fail(err, HSC_EFORMAT, 0, "is not a JSON object");
    if (!json_is_string(prompt)) return hsc__fail(err, HSC_EFORMAT, 0, "prompt is missing or not a text");
    if (n < 1 || n > MAX_CHOICES) return hsc__fail(err, HSC_EFORMAT, 0, "choices is not a list of 1 to 256 texts");
    q->n_choices = (int)n;
    for (int i = 0; i < q->n_choices; i++) {
        const json_t *choice = json_array_get(choices, (size_t)i);
        if (!json_is_string(choice)) return hsc__fail(err, HSC_EFORMAT, 0, "a choice is not a text");
        HSC_TRY(j->reads_source ? encode_target(j, q, i, choice, err)
                                : encode_choice(j, tokenizer, q, i, prompt, choice, err));
    }
    if (j->reads_source) HSC_TRY(read_source(j, q, tokenizer, prompt, err));
    return read_answer(q, item, choices, err);
}

static double scored(const question *q, int index, int way)
{
    const hsc_continuation *c = &q->list[index];
    double by = way == BY_BYTE ? (double)q->n_bytes[index] : way == BY_TOKEN ? (double)(c->n - c->first) : 1;
    return c->log_prob / (by > 0 ? by : 1);
}

static void judge(tally *t, question *q)
{
    t->n++;
    t->n_answered += q->answer >= 0;
    for (int way = 0; way < N_WAYS; way++) {
        q->best[way] = 0;
        for (int i = 1; i < q->n_choices; i++)
            if (scored(q, i, way) > scored(q, q->best[way], way)) q->best[way] = i;
        t->n_right[way] += q->answer >= 0 && q->best[way] == q->answer;
    }
}

static json_t *question_json(const question *q)
{
    json_t *item = json_object(), *list = json_array();
    for (int i = 0; i < q->n_choices; i++) {
        json_t *choice = json_object();
        json_object_set_new(choice, "log_prob", hsc__json_number(q->list[i].log_prob));
        json_object_set_new(choice, "n_tokens", json_integer(q->list[i].n - q->list[i].first));
        json_object_set_new(choice, "n_bytes", json_integer((json_int_t)q->n_bytes[i]));
        json_array_append_new(list, choice);
    }
    json_object_set_new(item, "line", json_integer(q->line));
    json_object_set_new(item, "choices", list);
    json_object_set_new(item, "best", json_integer(q->best[BY_SUM]));
    json_object_set_new(item, "best_byte", json_integer(q->best[BY_BYTE]));
    json_object_set_new(item, "best_token", json_integer(q->best[BY_TOKEN]));
    json_object_set_new(item, "answer", q->answer >= 0 ? json_integer(q->answer) : json_null());
    return item;
}

/* A line a choice; `right` is empty where no answer was given. */
static void add_csv(hsc__string *out, const question *q)
{
    for (int i = 0; i < q->n_choices; i++) {
        hsc__string_printf(out, "%d,%d", q->line, i);
        hsc__csv_number(out, q->list[i].log_prob);
        hsc__string_printf(out, ",%d,%zu", q->list[i].n - q->list[i].first, q->n_bytes[i]);
        for (int way = 0; way < N_WAYS; way++) hsc__string_printf(out, ",%d", q->best[way] == i);
        hsc__csv_number(out, q->answer < 0 ? NAN : q->answer == i);
        hsc__string_text(out, "\n");
    }
}

/* One line; `q` is scratch that keeps its memory from line to line. */
static hsc_status run_line(hsc__score *j, tally *t, question *q, const char *line, size_t n, hsc_error *err)
{
    json_error_t why;
    json_t *item = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why);
    HSC_FAIL_IF(!item, HSC_EFORMAT, "column %d: %s", why.column, why.text);
    hsc_status status = read_question(j, q, item, err);
    json_decref(item);
    HSC_TRY(status);
    HSC_TRY(hsc_score_continuations(j->session, q->list, q->n_choices, err));
    judge(t, q);
    if (t->items) json_array_append_new(t->items, question_json(q));
    if (j->o->csv) add_csv(&t->csv, q);
    hsc__cli_progress("scored %zu questions", t->n);
    return HSC_OK;
}

static hsc_status run_lines(hsc__score *j, tally *t, question *q, hsc_error *err)
{
    hsc__lines lines = {0};
    hsc_status status = hsc__lines_open(&lines, j->o->choices, err);
    while (status == HSC_OK && hsc__lines_next(&lines)) {
        q->line = lines.number;
        if (strspn(lines.text, " \t\r\n") >= lines.n) continue;
        status = hsc__lines_did(&lines, run_line(j, t, q, lines.text, lines.n, err), err);
    }
    if (status == HSC_OK && t->n == 0) status = hsc__fail(err, HSC_EFORMAT, 0, "%s: holds no question", j->o->choices);
    hsc__lines_close(&lines);
    return status;
}

/* The standard deviation of a share measured on n questions. */
static double share_error(double share, size_t n)
{
    return n > 1 ? sqrt(share * (1 - share) / (double)(n - 1)) : 0;
}

static int print_result(const hsc__score *j, tally *t)
{
    static const char *const labels[N_WAYS] = {"by sum", "for each byte", "for each token"};
    json_t *root = j->o->json ? json_object() : NULL;
    if (root) {
        json_object_set_new(root, "model", hsc__json_model(&j->opened));
        hsc__json_set_pass(root, &j->o->pass, j->opened.model);
        json_object_set_new(root, "n_questions", json_integer((json_int_t)t->n));
        json_object_set_new(root, "n_answered", json_integer((json_int_t)t->n_answered));
        json_object_set(root, "questions", t->items);
    } else {
        printf("questions        %zu, %zu with an answer\n", t->n, t->n_answered);
    }
    for (int way = 0; way < N_WAYS && t->n_answered; way++) {
        double share = (double)t->n_right[way] / (double)t->n_answered;
        if (root) json_object_set_new(root, way_names[way], hsc__json_number(share));
        else printf("%-15s  %.4f +- %.4f\n", labels[way], share, share_error(share, t->n_answered));
    }
    return root ? hsc__json_print(root) : HSC__EXIT_OK;
}

int hsc__score_choices(hsc__score *j)
{
    hsc_error err = {0};
    tally t = {.items = j->o->json ? json_array() : NULL};
    if (j->o->csv) hsc__string_text(&t.csv, "line,choice,log_prob,n_tokens,n_bytes,best,best_byte,best_token,right\n");
    question *q = hsc__calloc(1, sizeof *q);
    hsc_session_options session = hsc__pass_session(&j->o->pass, j->o->threads, 0);
    session.max_seqs = MAX_AT_ONCE;
    hsc_status status = q ? HSC_OK : hsc__fail_memory(&err, sizeof *q, "a question");
    if (status == HSC_OK && !j->reads_source) status = hsc_session_new(&j->session, j->opened.model, &session, &err);
    if (status == HSC_OK) status = run_lines(j, &t, q, &err);
    hsc__cli_progress_end();
    int result = status != HSC_OK ? hsc__cli_fail(&err)
                 : j->o->csv      ? hsc__cli_write_string(&t.csv)
                                  : print_result(j, &t);
    if (status != HSC_OK) hsc__string_free(&t.csv);
    for (int i = 0; q && i < MAX_CHOICES; i++) hsc_encoding_free(&q->encodings[i]);
    hsc__free(q);
    json_decref(t.items);
    return result;
}
