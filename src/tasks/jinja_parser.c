/* Statements: text between tags with the blanks that the tags take away, and the blocks of if, for, set and macro. */
#include "tasks/jinja.h"

#include <string.h>

enum { MAX_NESTING = 60 };

static hsc_status parse_body(hsc__jparser *p, const char *const *ends, hsc__jnode **out);

/* ---------------------------------------------------------------------------------------------------- plain text -- */

static bool starts_tag(const char *at, const char *end)
{
    return end - at >= 2 && at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#');
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Text up to the next tag. A block tag takes the blanks before it on its line, '-' all blanks. */
static hsc_status parse_text(hsc__jparser *p, hsc__jnode *body)
{
    const char *from = p->at, *to;
    if (p->trim_all)
        for (; from < p->end && is_blank(*from); from++) p->line += *from == '\n';
    else if (p->trim_newline && from < p->end && *from == '\n') {
        p->line++;
        from++;
    }
    p->trim_all = p->trim_newline = false;
    for (to = from; to < p->end && !starts_tag(to, p->end); to++) p->line += *to == '\n';
    p->at = to;
    const char *kept = to;
    char kind = to < p->end ? to[1] : '\0', sign = to + 2 < p->end ? to[2] : '\0';
    if (to < p->end && sign == '-') {
        while (kept > from && is_blank(kept[-1])) kept--;
    } else if ((kind == '%' || kind == '#') && sign != '+') {
        const char *line = kept;
        while (line > from && (line[-1] == ' ' || line[-1] == '\t')) line--;
        if (line == p->start || line[-1] == '\n') kept = line;
    }
    if (kept == from) return HSC_OK;
    hsc__jnode *node = hsc__jnode_new(p, HSC__J_TEXT);
    if (!node) return HSC_ENOMEM;
    node->text = from;
    node->n = (size_t)(kept - from);
    return hsc__jnode_add(p, body, node);
}

static hsc_status skip_comment(hsc__jparser *p)
{
    const char *at = p->at + 2;
    for (; at + 1 < p->end && !(at[0] == '#' && at[1] == '}'); at++) p->line += *at == '\n';
    if (at + 1 >= p->end) return hsc__jfail(p, HSC_EFORMAT, "a comment has no end", "", 0);
    p->trim_all = at[-1] == '-' && at > p->at + 2;
    p->trim_newline = true;
    p->at = at + 2;
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------- statements ----
 */

static hsc_status close_tag(hsc__jparser *p)
{
    if (p->token.kind == HSC__JT_CLOSE) return HSC_OK;
    return hsc__jfail(p, HSC_EFORMAT, "the end of the tag is expected, not", p->token.text, p->token.n);
}

/* After {% if: the condition, the body, then elif, else or endif. */
static hsc_status parse_if(hsc__jparser *p, hsc__jnode **out)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    hsc__jnode *node = hsc__jnode_new(p, HSC__J_IF), *condition, *body, *other = NULL;
    if (!node) return HSC_ENOMEM;
    HSC_TRY(hsc__jparse_expression(p, &condition));
    HSC_TRY(close_tag(p));
    HSC_TRY(parse_body(p, ends, &body));
    if (hsc__jis(p, "elif")) {
        if (++p->depth > MAX_NESTING) return hsc__jfail(p, HSC_EUNSUPPORTED, "blocks are nested too deeply", "", 0);
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(parse_if(p, &other));
        p->depth--;
    } else if (hsc__jis(p, "else")) {
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(close_tag(p));
        HSC_TRY(parse_body(p, last, &other));
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(close_tag(p));
    } else {
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(close_tag(p));
    }
    HSC_TRY(hsc__jnode_add(p, node, condition));
    HSC_TRY(hsc__jnode_add(p, node, body));
    *out = node;
    return hsc__jnode_add(p, node, other);
}

/* a, b: names that a loop or a macro sets. */
static hsc_status parse_names(hsc__jparser *p, hsc__jnode **out)
{
    *out = hsc__jnode_new(p, HSC__J_LIST_OF);
    while (*out && p->token.kind == HSC__JT_NAME) {
        hsc__jnode *name = hsc__jnode_new(p, HSC__J_NAME);
        if (!name) return HSC_ENOMEM;
        name->text = p->token.text;
        name->n = p->token.n;
        HSC_TRY(hsc__jnode_add(p, *out, name));
        HSC_TRY(hsc__jnext(p));
        if (!hsc__jis(p, ",")) return HSC_OK;
        HSC_TRY(hsc__jnext(p));
    }
    return *out ? hsc__jfail(p, HSC_EFORMAT, "a name is expected, not", p->token.text, p->token.n) : HSC_ENOMEM;
}

static hsc_status parse_for(hsc__jparser *p, hsc__jnode **out)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    hsc__jnode *node = hsc__jnode_new(p, HSC__J_FOR), *iterable, *condition = NULL, *body, *other = NULL;
    if (!node) return HSC_ENOMEM;
    HSC_TRY(parse_names(p, &node->names));
    HSC_TRY(hsc__jexpect(p, "in"));
    HSC_TRY(hsc__jparse_expression(p, &iterable));
    if (iterable->kind == HSC__J_CHOICE && !iterable->kids[2]) { /* "for x in list if condition" */
        condition = iterable->kids[0];
        iterable = iterable->kids[1];
    }
    HSC_TRY(close_tag(p));
    HSC_TRY(parse_body(p, ends, &body));
    if (hsc__jis(p, "else")) {
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(close_tag(p));
        HSC_TRY(parse_body(p, last, &other));
    }
    HSC_TRY(hsc__jnext(p));
    HSC_TRY(close_tag(p));
    HSC_TRY(hsc__jnode_add(p, node, iterable));
    HSC_TRY(hsc__jnode_add(p, node, condition));
    HSC_TRY(hsc__jnode_add(p, node, body));
    *out = node;
    return hsc__jnode_add(p, node, other);
}

static hsc_status parse_set(hsc__jparser *p, hsc__jnode **out)
{
    static const char *const ends[] = {"endset", NULL};
    hsc__jnode *node = hsc__jnode_new(p, HSC__J_SET), *target, *value;
    if (!node) return HSC_ENOMEM;
    HSC_TRY(hsc__jparse_expression(p, &target));
    if (target->kind != HSC__J_NAME && target->kind != HSC__J_ATTRIBUTE)
        return hsc__jfail(p, HSC_EUNSUPPORTED, "set wants one name before", p->token.text, p->token.n);
    HSC_TRY(hsc__jnode_add(p, node, target));
    if (hsc__jis(p, "=")) {
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(hsc__jparse_list(p, &value));
    } else {
        node->kind = HSC__J_SET_BLOCK;
        HSC_TRY(close_tag(p));
        HSC_TRY(parse_body(p, ends, &value));
        HSC_TRY(hsc__jnext(p));
    }
    HSC_TRY(close_tag(p));
    *out = node;
    return hsc__jnode_add(p, node, value);
}

static hsc_status parse_macro(hsc__jparser *p, hsc__jnode **out)
{
    static const char *const ends[] = {"endmacro", NULL};
    hsc__jnode *node = hsc__jnode_new(p, HSC__J_MACRO_DEF), *body, *defaults[16] = {NULL};
    if (!node || !(node->names = hsc__jnode_new(p, HSC__J_LIST_OF))) return HSC_ENOMEM;
    node->text = p->token.text;
    node->n = p->token.n;
    HSC_TRY(hsc__jnext(p));
    HSC_TRY(hsc__jexpect(p, "("));
    while (!hsc__jis(p, ")")) {
        hsc__jnode *name = hsc__jnode_new(p, HSC__J_NAME);
        if (!name) return HSC_ENOMEM;
        name->text = p->token.text;
        name->n = p->token.n;
        size_t at = node->names->n_kids;
        if (at == 16) return hsc__jfail(p, HSC_EUNSUPPORTED, "a macro with more than 16 parameters", "", 0);
        HSC_TRY(hsc__jnode_add(p, node->names, name));
        HSC_TRY(hsc__jnext(p));
        if (hsc__jis(p, "=")) {
            HSC_TRY(hsc__jnext(p));
            HSC_TRY(hsc__jparse_expression(p, &defaults[at]));
        }
        if (hsc__jis(p, ",")) HSC_TRY(hsc__jnext(p));
    }
    HSC_TRY(hsc__jnext(p));
    HSC_TRY(close_tag(p));
    HSC_TRY(parse_body(p, ends, &body));
    HSC_TRY(hsc__jnext(p));
    HSC_TRY(close_tag(p));
    HSC_TRY(hsc__jnode_add(p, node, body));
    for (size_t i = 0; i < node->names->n_kids; i++) HSC_TRY(hsc__jnode_add(p, node, defaults[i]));
    *out = node;
    return HSC_OK;
}

/* {% generation %} marks the assistant's words for training: what stands in it is rendered as it is. */
static hsc_status parse_generation(hsc__jparser *p, hsc__jnode **out)
{
    static const char *const ends[] = {"endgeneration", NULL};
    HSC_TRY(close_tag(p));
    HSC_TRY(parse_body(p, ends, out));
    HSC_TRY(hsc__jnext(p));
    return close_tag(p);
}

static hsc_status parse_mark(hsc__jparser *p, hsc__jnode_kind kind, hsc__jnode **out)
{
    *out = hsc__jnode_new(p, kind);
    return *out ? close_tag(p) : HSC_ENOMEM;
}

static hsc_status parse_statement(hsc__jparser *p, hsc__jnode **out)
{
    hsc__jtoken word = p->token;
    bool is_if = hsc__jis(p, "if"), is_for = hsc__jis(p, "for"), is_set = hsc__jis(p, "set");
    bool is_macro = hsc__jis(p, "macro"), is_generation = hsc__jis(p, "generation");
    bool is_break = hsc__jis(p, "break"), is_continue = hsc__jis(p, "continue");
    if (word.kind == HSC__JT_CLOSE) return hsc__jfail(p, HSC_EFORMAT, "an empty tag", "", 0);
    HSC_TRY(hsc__jnext(p));
    if (is_if) return parse_if(p, out);
    if (is_for) return parse_for(p, out);
    if (is_set) return parse_set(p, out);
    if (is_macro) return parse_macro(p, out);
    if (is_generation) return parse_generation(p, out);
    if (is_break) return parse_mark(p, HSC__J_BREAK, out);
    if (is_continue) return parse_mark(p, HSC__J_CONTINUE, out);
    return hsc__jfail(p, HSC_EUNSUPPORTED, "unknown statement", word.text, word.n);
}

static hsc_status parse_output(hsc__jparser *p, hsc__jnode **out)
{
    hsc__jnode *node = hsc__jnode_new(p, HSC__J_OUTPUT), *value;
    if (!node) return HSC_ENOMEM;
    HSC_TRY(hsc__jnext(p));
    HSC_TRY(hsc__jparse_list(p, &value));
    HSC_TRY(close_tag(p));
    *out = node;
    return hsc__jnode_add(p, node, value);
}

static bool is_one_of(const hsc__jparser *p, const char *const *words)
{
    for (; words && *words; words++)
        if (hsc__jis(p, *words)) return true;
    return false;
}

/* Statements up to one of the words of `ends`, which is then the token under way; NULL: to the end of the template. */
static hsc_status parse_body(hsc__jparser *p, const char *const *ends, hsc__jnode **out)
{
    hsc__jnode *body = hsc__jnode_new(p, HSC__J_BODY), *kid;
    if (!body) return HSC_ENOMEM;
    if (++p->depth > MAX_NESTING) return hsc__jfail(p, HSC_EUNSUPPORTED, "blocks are nested too deeply", "", 0);
    *out = body;
    for (;;) {
        HSC_TRY(parse_text(p, body));
        if (p->at >= p->end) break;
        char kind = p->at[1];
        if (kind == '#') {
            HSC_TRY(skip_comment(p));
            continue;
        }
        p->at += 2;
        if (p->at < p->end && (*p->at == '-' || *p->at == '+')) p->at++;
        if (kind == '{') {
            HSC_TRY(parse_output(p, &kid));
        } else {
            HSC_TRY(hsc__jnext(p));
            if (is_one_of(p, ends)) {
                p->depth--;
                return HSC_OK;
            }
            HSC_TRY(parse_statement(p, &kid));
        }
        HSC_TRY(hsc__jnode_add(p, body, kid));
    }
    p->depth--;
    if (ends) return hsc__jfail(p, HSC_EFORMAT, "a block has no end:", ends[0], strlen(ends[0]));
    return HSC_OK;
}

/* As Jinja does: every line end becomes \n, and the last one goes. */
static hsc_status settle_lines(hsc__arena *arena, const char **text, size_t *n, hsc_error *err)
{
    if (*n && memchr(*text, '\r', *n)) {
        char *copy = hsc__arena_alloc(arena, *n);
        size_t length = 0;
        if (!copy) return hsc__fail_memory(err, *n, "a chat template");
        for (size_t i = 0; i < *n; i++) {
            char c = (*text)[i];
            if (c == '\r' && i + 1 < *n && (*text)[i + 1] == '\n') continue;
            copy[length++] = c == '\r' ? '\n' : c;
        }
        *text = copy;
        *n = length;
    }
    if (*n && (*text)[*n - 1] == '\n') --*n;
    return HSC_OK;
}

hsc_status hsc__jparse(hsc__arena *arena, const char *text, size_t n, hsc__jnode **out, hsc_error *err)
{
    HSC_TRY(settle_lines(arena, &text, &n, err));
    hsc__jparser p = {.arena = arena, .start = text, .at = text, .end = text + n, .line = 1, .err = err};
    return parse_body(&p, NULL, out);
}
