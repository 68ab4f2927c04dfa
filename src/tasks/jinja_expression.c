/* Expressions, by recursive descent in Jinja's order of precedence: choice, or, and, not, comparison, sum, ~, product,
 * sign, then what follows a value: attributes, indexes, calls, filters and tests. */
#include "tasks/jinja.h"

#include <string.h>

enum { MAX_DEPTH = 100 };

static hsc_status parse_unary(hsc__jparser *p, hsc__jnode **out);

static hsc_status make(hsc__jparser *p, hsc__jnode_kind kind, hsc__jnode *kid, hsc__jnode **out)
{
    hsc__jnode *node = hsc__jnode_new(p, kind);
    if (!node) return HSC_ENOMEM;
    *out = node;
    return kid ? hsc__jnode_add(p, node, kid) : HSC_OK;
}

static void take_text(hsc__jparser *p, hsc__jnode *node)
{
    node->text = p->token.text;
    node->n = p->token.n;
}

/* ------------------------------------------------------------------------------------------------------ values ---- */

/* [a, b], (a, b) or (a): `close` ends it. */
static hsc_status parse_sequence(hsc__jparser *p, const char *close, hsc__jnode **out)
{
    hsc__jnode *kid;
    bool comma = false;
    HSC_TRY(make(p, HSC__J_LIST_OF, NULL, out));
    HSC_TRY(hsc__jnext(p));
    while (!hsc__jis(p, close)) {
        HSC_TRY(hsc__jparse_expression(p, &kid));
        HSC_TRY(hsc__jnode_add(p, *out, kid));
        if (!hsc__jis(p, ",")) break;
        comma = true;
        HSC_TRY(hsc__jnext(p));
    }
    HSC_TRY(hsc__jexpect(p, close));
    if (*close == ')' && !comma && (*out)->n_kids == 1) *out = (*out)->kids[0];
    return HSC_OK;
}

static hsc_status parse_dict(hsc__jparser *p, hsc__jnode **out)
{
    hsc__jnode *kid;
    HSC_TRY(make(p, HSC__J_DICT_OF, NULL, out));
    HSC_TRY(hsc__jnext(p));
    while (!hsc__jis(p, "}")) {
        HSC_TRY(hsc__jparse_expression(p, &kid));
        HSC_TRY(hsc__jnode_add(p, *out, kid));
        HSC_TRY(hsc__jexpect(p, ":"));
        HSC_TRY(hsc__jparse_expression(p, &kid));
        HSC_TRY(hsc__jnode_add(p, *out, kid));
        if (!hsc__jis(p, ",")) break;
        HSC_TRY(hsc__jnext(p));
    }
    return hsc__jexpect(p, "}");
}

static hsc_status parse_name(hsc__jparser *p, hsc__jnode **out)
{
    static const struct {
        const char *name;
        hsc__jvalue value;
    } words[] = {{"true", {.kind = HSC__J_BOOL, .is_true = true}},
                 {"True", {.kind = HSC__J_BOOL, .is_true = true}},
                 {"false", {.kind = HSC__J_BOOL}},
                 {"False", {.kind = HSC__J_BOOL}},
                 {"none", {.kind = HSC__J_NONE}},
                 {"None", {.kind = HSC__J_NONE}}};
    HSC_TRY(make(p, HSC__J_NAME, NULL, out));
    take_text(p, *out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!hsc__jis(p, words[i].name)) continue;
        (*out)->kind = HSC__J_LITERAL;
        (*out)->value = words[i].value;
    }
    return hsc__jnext(p);
}

static hsc_status parse_primary(hsc__jparser *p, hsc__jnode **out)
{
    if (hsc__jis(p, "(")) return parse_sequence(p, ")", out);
    if (hsc__jis(p, "[")) return parse_sequence(p, "]", out);
    if (hsc__jis(p, "{")) return parse_dict(p, out);
    if (p->token.kind == HSC__JT_NAME) return parse_name(p, out);
    bool string = p->token.kind == HSC__JT_STRING;
    if (!string && p->token.kind != HSC__JT_INT)
        return hsc__jfail(p, HSC_EFORMAT, "a value is expected, not", p->token.text, p->token.n);
    HSC_TRY(make(p, HSC__J_LITERAL, NULL, out));
    (*out)->value = string ? hsc__jstring(p->token.text, p->token.n) : hsc__jint(p->token.number);
    return hsc__jnext(p);
}

/* ----------------------------------------------------------------------------------------------- what follows them */

/* (a, b, name=c): added to the node behind its first kid. */
static hsc_status parse_arguments(hsc__jparser *p, hsc__jnode *call)
{
    HSC_TRY(hsc__jexpect(p, "("));
    while (!hsc__jis(p, ")")) {
        hsc__jnode *kid, *keyword;
        HSC_TRY(hsc__jparse_expression(p, &kid));
        if (kid->kind == HSC__J_NAME && hsc__jis(p, "=")) {
            HSC_TRY(make(p, HSC__J_KEYWORD, NULL, &keyword));
            keyword->text = kid->text;
            keyword->n = kid->n;
            HSC_TRY(hsc__jnext(p));
            HSC_TRY(hsc__jparse_expression(p, &kid));
            HSC_TRY(hsc__jnode_add(p, keyword, kid));
            kid = keyword;
        }
        HSC_TRY(hsc__jnode_add(p, call, kid));
        if (!hsc__jis(p, ",")) break;
        HSC_TRY(hsc__jnext(p));
    }
    return hsc__jexpect(p, ")");
}

/* [index] or [start:end:step] */
static hsc_status parse_index(hsc__jparser *p, hsc__jnode **node)
{
    hsc__jnode *part[3] = {NULL}, *out;
    int n = 0;
    HSC_TRY(hsc__jnext(p));
    while (!hsc__jis(p, "]")) {
        if (hsc__jis(p, ":")) {
            if (++n > 2) return hsc__jfail(p, HSC_EFORMAT, "a slice has at most three parts", "", 0);
            HSC_TRY(hsc__jnext(p));
        } else {
            HSC_TRY(hsc__jparse_expression(p, &part[n]));
        }
    }
    HSC_TRY(make(p, n ? HSC__J_SLICE : HSC__J_INDEX, *node, &out));
    if (!n && !part[0]) return hsc__jfail(p, HSC_EFORMAT, "an index is missing", "", 0);
    for (int i = 0; i < (n ? 3 : 1); i++) HSC_TRY(hsc__jnode_add(p, out, part[i]));
    *node = out;
    return hsc__jnext(p);
}

/* A name, as what is done to *node, which the new node takes the place of. */
static hsc_status parse_named(hsc__jparser *p, hsc__jnode_kind kind, const char *otherwise, hsc__jnode **node)
{
    if (p->token.kind != HSC__JT_NAME) return hsc__jfail(p, HSC_EFORMAT, otherwise, p->token.text, p->token.n);
    HSC_TRY(make(p, kind, *node, node));
    take_text(p, *node);
    return hsc__jnext(p);
}

static hsc_status parse_attribute(hsc__jparser *p, hsc__jnode **node)
{
    HSC_TRY(hsc__jnext(p));
    return parse_named(p, HSC__J_ATTRIBUTE, "a name is expected after '.', not", node);
}

static hsc_status parse_filter(hsc__jparser *p, hsc__jnode **node)
{
    HSC_TRY(hsc__jnext(p));
    HSC_TRY(parse_named(p, HSC__J_FILTER, "a filter is expected, not", node));
    return hsc__jis(p, "(") ? parse_arguments(p, *node) : HSC_OK;
}

/* "is defined", "is not none", "is equalto x" */
static hsc_status parse_test(hsc__jparser *p, hsc__jnode **node)
{
    hsc__jnode *kid;
    HSC_TRY(hsc__jnext(p));
    bool negated = hsc__jis(p, "not");
    if (negated) HSC_TRY(hsc__jnext(p));
    HSC_TRY(parse_named(p, HSC__J_TEST, "a test is expected, not", node));
    static const char *const stops[] = {"and", "or", "not", "is", "in", "if", "else"};
    bool more = p->token.kind == HSC__JT_NAME || p->token.kind == HSC__JT_STRING || p->token.kind == HSC__JT_INT;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) more = more && !hsc__jis(p, stops[i]);
    if (hsc__jis(p, "(")) {
        HSC_TRY(parse_arguments(p, *node));
    } else if (more) {
        HSC_TRY(parse_primary(p, &kid));
        HSC_TRY(hsc__jnode_add(p, *node, kid));
    }
    return negated ? make(p, HSC__J_NOT, *node, node) : HSC_OK;
}

static hsc_status parse_postfix(hsc__jparser *p, hsc__jnode **node)
{
    hsc__jnode *call;
    for (int n = 0; n < MAX_DEPTH; n++) {
        if (hsc__jis(p, ".")) HSC_TRY(parse_attribute(p, node));
        else if (hsc__jis(p, "[")) HSC_TRY(parse_index(p, node));
        else if (hsc__jis(p, "|")) HSC_TRY(parse_filter(p, node));
        else if (hsc__jis(p, "is")) HSC_TRY(parse_test(p, node));
        else if (hsc__jis(p, "(")) {
            HSC_TRY(make(p, HSC__J_CALL, *node, &call));
            HSC_TRY(parse_arguments(p, call));
            *node = call;
        } else {
            return HSC_OK;
        }
    }
    return hsc__jfail(p, HSC_EUNSUPPORTED, "an expression is too long", "", 0);
}

static hsc_status parse_unary(hsc__jparser *p, hsc__jnode **out)
{
    hsc__jnode *kid;
    if (!hsc__jis(p, "-")) {
        HSC_TRY(parse_primary(p, out));
        return parse_postfix(p, out);
    }
    HSC_TRY(hsc__jnext(p));
    HSC_TRY(parse_primary(p, &kid));
    HSC_TRY(make(p, HSC__J_NEGATE, kid, out));
    return parse_postfix(p, out);
}

/* --------------------------------------------------------------------------------------------------- operators ---- */

/* From the loosest to the tightest. */
static const char *const levels[][9] = {{"or", NULL},
                                        {"and", NULL},
                                        {NULL}, /* not */
                                        {"==", "!=", "<=", ">=", "<", ">", "in", "not", NULL},
                                        {"+", "-", NULL},
                                        {"~", NULL},
                                        {"*", "//", "%", NULL}};
enum { N_LEVELS = sizeof levels / sizeof *levels, NOT_LEVEL = 2, COMPARE_LEVEL = 3 };

static bool at_operator(const hsc__jparser *p, int level)
{
    for (int i = 0; levels[level][i]; i++)
        if (hsc__jis(p, levels[level][i])) return true;
    return false;
}

static hsc_status parse_level(hsc__jparser *p, int level, hsc__jnode **out)
{
    hsc__jnode *kid;
    if (level == N_LEVELS) return parse_unary(p, out);
    if (level == NOT_LEVEL && hsc__jis(p, "not")) {
        HSC_TRY(hsc__jnext(p));
        if (++p->depth > MAX_DEPTH) return hsc__jfail(p, HSC_EUNSUPPORTED, "an expression is too deep", "", 0);
        HSC_TRY(parse_level(p, level, &kid));
        p->depth--;
        return make(p, HSC__J_NOT, kid, out);
    }
    HSC_TRY(parse_level(p, level + 1, out));
    for (int n = 0; at_operator(p, level); n++) {
        hsc__jnode *node;
        if (n && level == COMPARE_LEVEL) /* a < b < c, which means a < b and b < c */
            return hsc__jfail(p, HSC_EUNSUPPORTED, "a chain of comparisons at", p->token.text, p->token.n);
        HSC_TRY(make(p, HSC__J_BINARY, *out, &node));
        take_text(p, node);
        bool negated = hsc__jis(p, "not");
        HSC_TRY(hsc__jnext(p));
        if (negated) {
            node->text = "in";
            node->n = 2;
            HSC_TRY(hsc__jexpect(p, "in"));
        }
        HSC_TRY(parse_level(p, level + 1, &kid));
        HSC_TRY(hsc__jnode_add(p, node, kid));
        *out = node;
        if (negated) HSC_TRY(make(p, HSC__J_NOT, node, out));
    }
    return HSC_OK;
}

hsc_status hsc__jparse_expression(hsc__jparser *p, hsc__jnode **out)
{
    if (++p->depth > MAX_DEPTH) return hsc__jfail(p, HSC_EUNSUPPORTED, "an expression is too deep", "", 0);
    HSC_TRY(parse_level(p, 0, out));
    while (hsc__jis(p, "if")) { /* a if b else c */
        hsc__jnode *node, *condition, *other = NULL;
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(parse_level(p, 0, &condition));
        if (hsc__jis(p, "else")) {
            HSC_TRY(hsc__jnext(p));
            HSC_TRY(hsc__jparse_expression(p, &other));
        }
        HSC_TRY(make(p, HSC__J_CHOICE, condition, &node));
        HSC_TRY(hsc__jnode_add(p, node, *out));
        HSC_TRY(hsc__jnode_add(p, node, other));
        *out = node;
    }
    p->depth--;
    return HSC_OK;
}

hsc_status hsc__jparse_list(hsc__jparser *p, hsc__jnode **out)
{
    hsc__jnode *list, *kid;
    HSC_TRY(hsc__jparse_expression(p, out));
    if (!hsc__jis(p, ",")) return HSC_OK;
    HSC_TRY(make(p, HSC__J_LIST_OF, *out, &list));
    while (hsc__jis(p, ",")) {
        HSC_TRY(hsc__jnext(p));
        HSC_TRY(hsc__jparse_expression(p, &kid));
        HSC_TRY(hsc__jnode_add(p, list, kid));
    }
    *out = list;
    return HSC_OK;
}
