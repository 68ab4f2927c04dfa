/*
 * Marked text: The [a:animal] didn't cross the [b:street] because [q:it] was too {tired|wide}. A line is walked once
 * for each wording; what is copied is its text, and where a mark opens and closes is its span.
 */
#include "base/status.h"
#include "base/text.h"
#include "inspect/pairs.h"

#include <stdio.h>
#include <string.h>

/* The state of one walk. */
typedef struct walk {
    const char *line;
    size_t n, at;
    int alternative; /* which of {x|y} is copied */
    hsc__string text;
    hsc_span *open; /* the mark that is open, or NULL */
    hsc_wording wording;
    bool turned, in_swap, second; /* of {x|y}: a ! behind it, inside it, behind its bar */
    int n_a, n_b, n_query, n_swap;
    const char *fault;
} walk;

static void open_mark(walk *w)
{
    char kind = w->n - w->at > 2 && w->line[w->at + 2] == ':' ? w->line[w->at + 1] : '\0';
    hsc_wording *x = &w->wording;
    if (kind == 'a') w->open = &x->a, w->n_a++;
    else if (kind == 'b') w->open = &x->b, w->n_b++;
    else if (kind == 'q') w->open = &x->query, w->n_query++;
    else w->fault = "a [ is no mark: [a:..], [b:..] and [q:..] are; \\[ is a bracket";
    if (w->open) w->open->start = w->text.n;
    w->at += 3;
}

static void close_mark(walk *w)
{
    w->open->end = w->text.n;
    if (w->open->start == w->open->end) w->fault = "a mark is empty";
    w->open = NULL;
    w->at++;
}

static void close_swap(walk *w)
{
    w->in_swap = false;
    w->wording.swap.end = w->text.n;
    w->at++;
    if (w->at < w->n && w->line[w->at] == '!') {
        w->turned = true;
        w->at++;
    }
}

static void copy_byte(walk *w)
{
    if (!w->in_swap || (int)w->second == w->alternative) hsc__string_add(&w->text, w->line + w->at, 1);
    w->at++;
}

/* One step: a mark, a literal, or a byte of text. */
static void step(walk *w)
{
    char c = w->line[w->at];
    if (c == '\\' && w->at + 1 < w->n && strchr("[]{}|!\\", w->line[w->at + 1])) {
        w->at++;
        copy_byte(w);
    } else if (c == '[') {
        if (w->open || w->in_swap) w->fault = "a mark begins inside another";
        else open_mark(w);
    } else if (c == ']') {
        if (!w->open || w->in_swap) w->fault = "a ] closes nothing; \\] is a bracket";
        else close_mark(w);
    } else if (c == '{') {
        if (w->in_swap) w->fault = "a { stands inside { }; \\{ is a brace";
        w->in_swap = true;
        w->second = false;
        w->n_swap++;
        w->wording.swap.start = w->text.n;
        w->at++;
    } else if (c == '|') {
        if (!w->in_swap || w->second) w->fault = "a | stands where no {x|y} wants it; \\| is a bar";
        w->second = true;
        w->at++;
    } else if (c == '}') {
        if (!w->in_swap || !w->second) w->fault = "a } closes no {x|y}; \\} is a brace";
        else close_swap(w);
    } else {
        copy_byte(w);
    }
}

static void walk_line(walk *w)
{
    while (w->at < w->n && !w->fault) step(w);
    if (w->fault) return;
    if (w->open || w->in_swap) w->fault = "a mark is not closed";
    else if (w->n_a != 1 || w->n_b != 1) w->fault = "wants exactly one [a:..] and one [b:..]";
    else if (w->n_swap != 1) w->fault = "wants exactly one {x|y}";
    else if (w->n_query > 1) w->fault = "has more than one [q:..]";
    else if (w->n_query == 0) w->wording.query = w->wording.swap;
    if (!w->fault && w->wording.query.start == w->wording.query.end) w->fault = "the query is empty";
    if (!w->fault && !hsc__utf8_valid(w->text.data, w->text.n)) w->fault = "is not UTF-8";
    if (!w->fault && memchr(w->text.data, '\0', w->text.n)) w->fault = "holds a zero byte";
}

/* A pair of both wordings; the first whose answer is a comes first. */
static hsc_status add_walks(hsc_pairs *pairs, const walk w[2], int number, int place, hsc_error *err)
{
    char id[16];
    hsc_pair pair = {.number = place, .id = id, .cluster = id};
    const char *fault = w[0].fault ? w[0].fault : w[1].fault;
    if (!fault && strcmp(w[0].text.data, w[1].text.data) == 0) fault = "the two wordings are the same";
    if (fault) return hsc__pairs_skip(pairs, number, err, "%s", fault);
    snprintf(id, sizeof id, "%06d", number);
    for (int i = 0; i < 2; i++) {
        hsc_wording *out = &pair.wording[w[i].turned ? 1 - i : i];
        *out = w[i].wording;
        out->line = number;
        out->text = w[i].text.data;
        out->n_text = w[i].text.n;
    }
    return hsc__pairs_add(pairs, &pair, err);
}

hsc_status hsc__pairs_marked(hsc_pairs *pairs, hsc__list *lines, hsc_error *err)
{
    hsc_status status = hsc__list_next(lines, err);
    for (int place = 0; status == HSC_OK && lines->line; place++) {
        walk w[2] = {{.line = lines->line, .n = lines->n, .alternative = 0},
                     {.line = lines->line, .n = lines->n, .alternative = 1}};
        for (int i = 0; i < 2; i++) walk_line(&w[i]);
        status = w[0].text.failed || w[1].text.failed ? hsc__fail_memory(err, lines->n, "a sentence")
                                                      : add_walks(pairs, w, lines->number, place, err);
        for (int i = 0; i < 2; i++) hsc__string_free(&w[i].text);
        if (status == HSC_OK) status = hsc__list_next(lines, err);
    }
    return status;
}
