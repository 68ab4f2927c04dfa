/* Tokens inside a tag, and the small tools of the parser. */
#include "tasks/jinja.h"

#include <string.h>

hsc_status hsc__jfail(hsc__jparser *p, hsc_status code, const char *what, const char *text, size_t n)
{
    if (n > 60) n = 60;
    return hsc__fail(p->err, code, 0, "line %d: %s '%.*s'", p->line, what, (int)n, text);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static hsc_status read_string(hsc__jparser *p)
{
    char quote = *p->at;
    const char *from = p->at++, *close = p->at;
    while (close < p->end && *close != quote) close += *close == '\\' && p->end - close > 1 ? 2 : 1;
    char *to = hsc__arena_alloc(p->arena, (size_t)(close - from));
    if (!to) return hsc__fail_memory(p->err, (size_t)(close - from), "a chat template");
    p->token = (hsc__jtoken){.kind = HSC__JT_STRING, .text = to};
    for (; p->at < p->end && *p->at != quote; p->at++) {
        char c = *p->at;
        p->line += c == '\n';
        if (c == '\\' && p->at + 1 < p->end) {
            c = *++p->at;
            const char *known = strchr("nntt\\\\''\"\"r\r", c);
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
            if (!known) return hsc__jfail(p, HSC_EUNSUPPORTED, "unknown escape", p->at - 1, 2);
        }
        to[p->token.n++] = c;
    }
    if (p->at >= p->end) return hsc__jfail(p, HSC_EFORMAT, "a string has no end:", from, (size_t)(p->end - from));
    p->at++;
    return HSC_OK;
}

static hsc_status read_operator(hsc__jparser *p)
{
    static const char *const operators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                            ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ":", ".", "|"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t n = strlen(operators[i]);
        if ((size_t)(p->end - p->at) < n || memcmp(p->at, operators[i], n) != 0) continue;
        p->token = (hsc__jtoken){.kind = HSC__JT_OPERATOR, .text = p->at, .n = n};
        p->at += n;
        return HSC_OK;
    }
    return hsc__jfail(p, HSC_EFORMAT, "unexpected", p->at, 1);
}

/* "%}", "-%}", "+%}", "}}", "-}}": the end of the tag. A "}" of a dict is one only when no second follows. */
static bool read_close(hsc__jparser *p)
{
    const char *c = p->at;
    bool sign = c < p->end && (*c == '-' || *c == '+');
    const char *tail = c + sign;
    if (p->end - tail < 2 || tail[1] != '}' || (tail[0] != '%' && tail[0] != '}')) return false;
    p->trim_all = sign && *c == '-';
    p->trim_newline = tail[0] == '%' && !(sign && *c == '+');
    p->token = (hsc__jtoken){.kind = HSC__JT_CLOSE, .text = tail, .n = 2};
    p->at = tail + 2;
    return true;
}

hsc_status hsc__jnext(hsc__jparser *p)
{
    for (; p->at < p->end && strchr(" \t\r\n", *p->at); p->at++) p->line += *p->at == '\n';
    if (p->at >= p->end) return hsc__jfail(p, HSC_EFORMAT, "a tag has no end", "", 0);
    if (read_close(p)) return HSC_OK;
    const char *from = p->at;
    if (*from == '"' || *from == '\'') return read_string(p);
    if (is_letter(*from)) {
        while (p->at < p->end && (is_letter(*p->at) || is_digit(*p->at))) p->at++;
        p->token = (hsc__jtoken){.kind = HSC__JT_NAME, .text = from, .n = (size_t)(p->at - from)};
        return HSC_OK;
    }
    if (!is_digit(*from)) return read_operator(p);
    p->token = (hsc__jtoken){.kind = HSC__JT_INT, .text = from};
    for (; p->at < p->end && is_digit(*p->at) && p->token.number < INT32_MAX; p->at++)
        p->token.number = p->token.number * 10 + (*p->at - '0');
    bool whole = p->at >= p->end || (!is_digit(*p->at) && !is_letter(*p->at) && *p->at != '.');
    size_t left = (size_t)(p->end - from);
    return whole ? HSC_OK
                 : hsc__jfail(p, HSC_EUNSUPPORTED, "a number that is not a small whole one:", from,
                              left < 12 ? left : 12);
}

bool hsc__jis(const hsc__jparser *p, const char *text)
{
    size_t n = strlen(text);
    bool word = p->token.kind == HSC__JT_NAME || p->token.kind == HSC__JT_OPERATOR;
    return word && p->token.n == n && memcmp(p->token.text, text, n) == 0;
}

hsc_status hsc__jexpect(hsc__jparser *p, const char *text)
{
    if (!hsc__jis(p, text)) {
        hsc__fail(p->err, HSC_EFORMAT, 0, "line %d: '%s' expected, not '%.*s'", p->line, text,
                  (int)(p->token.n < 40 ? p->token.n : 40), p->token.text);
        return HSC_EFORMAT;
    }
    return hsc__jnext(p);
}

hsc__jnode *hsc__jnode_new(hsc__jparser *p, hsc__jnode_kind kind)
{
    hsc__jnode *node = hsc__arena_alloc(p->arena, sizeof *node);
    if (!node) {
        hsc__fail_memory(p->err, sizeof *node, "a chat template");
        return NULL;
    }
    *node = (hsc__jnode){.kind = kind, .line = p->line};
    return node;
}

hsc_status hsc__jnode_add(hsc__jparser *p, hsc__jnode *node, hsc__jnode *kid)
{
    if (node->n_kids == node->capacity) {
        size_t capacity = node->capacity ? 2 * node->capacity : 4;
        hsc__jnode **kids = hsc__arena_alloc(p->arena, capacity * sizeof *kids);
        if (!kids) return hsc__fail_memory(p->err, capacity * sizeof *kids, "a chat template");
        if (node->n_kids) memcpy(kids, node->kids, node->n_kids * sizeof *kids);
        node->kids = kids;
        node->capacity = capacity;
    }
    node->kids[node->n_kids++] = kid;
    return HSC_OK;
}
