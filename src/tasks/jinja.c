/* Runs the tree of a template. Names are looked up from the innermost scope out; a loop and a macro open one, an if
 * does not. A template cannot run for ever: its steps are counted. */
#include "tasks/jinja.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_STEPS = 5000000, MAX_HELD = 256 << 20, MAX_DEPTH = 200, MAX_ARGS = 16 };

typedef struct hsc__jframe {
    hsc__jdict names;
    struct hsc__jframe *outer;
} hsc__jframe;

static hsc_status evaluate(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out);
static hsc_status execute(hsc__jrun *r, const hsc__jnode *node);

hsc_status hsc__jrun_fail(hsc__jrun *r, int line, hsc_status code, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    hsc__format(text, sizeof text, format, args);
    va_end(args);
    return hsc__fail(r->err, code, 0, "line %d: %s", line, text);
}

static hsc_status set_name(hsc__jrun *r, hsc__jframe *frame, const char *name, size_t n, const hsc__jvalue *value)
{
    return hsc__jput(r->arena, &frame->names, name, n, value) ? HSC_OK : hsc__fail_memory(r->err, n, "a name");
}

static bool named(const hsc__jnode *node, const char *name)
{
    return node->n == strlen(name) && memcmp(node->text, name, node->n) == 0;
}

/* --------------------------------------------------------------------------------------------------- operators ---- */

static hsc_status compare(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *a, const hsc__jvalue *b, bool *out)
{
    int order;
    if (a->kind == HSC__J_STRING && b->kind == HSC__J_STRING) {
        size_t n = a->n < b->n ? a->n : b->n;
        order = n ? memcmp(a->text, b->text, n) : 0;
        if (!order) order = a->n < b->n ? -1 : a->n > b->n;
    } else if (a->kind == HSC__J_INT && b->kind == HSC__J_INT) {
        order = a->number < b->number ? -1 : a->number > b->number;
    } else {
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%s and %s cannot be compared", hsc__jkind_name(a),
                              hsc__jkind_name(b));
    }
    bool less = node->text[0] == '<', equal = node->n == 2;
    *out = order == 0 ? equal : (order < 0) == less;
    return HSC_OK;
}

static hsc_status contains(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *a, const hsc__jvalue *b, bool *out)
{
    hsc__jvalue list;
    *out = false;
    if (b->kind == HSC__J_STRING && a->kind == HSC__J_STRING) {
        *out = a->n == 0 || hsc__text_find(b->text, b->n, a->text, a->n);
        return HSC_OK;
    }
    HSC_TRY(hsc__jelements(r, node->line, b, &list));
    for (size_t i = 0; i < list.n && !*out; i++) *out = hsc__jequal(a, &list.items[i]);
    return HSC_OK;
}

static hsc_status add(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *a, const hsc__jvalue *b,
                      hsc__jvalue *out)
{
    hsc__string text = {0};
    if (node->text[0] == '+' && a->kind == HSC__J_LIST && b->kind == HSC__J_LIST) {
        hsc__jvalue *items = hsc__arena_alloc(r->arena, (a->n + b->n + 1) * sizeof *items);
        if (!items) return hsc__fail_memory(r->err, a->n + b->n, "a list");
        if (a->n) memcpy(items, a->items, a->n * sizeof *items);
        if (b->n) memcpy(items + a->n, b->items, b->n * sizeof *items);
        *out = (hsc__jvalue){.kind = HSC__J_LIST, .items = items, .n = a->n + b->n};
        return HSC_OK;
    }
    if (node->text[0] == '+' && (a->kind != HSC__J_STRING || b->kind != HSC__J_STRING))
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%s and %s cannot be added", hsc__jkind_name(a),
                              hsc__jkind_name(b));
    hsc_status status = hsc__jwrite(r, node->line, &text, a, false);
    if (status == HSC_OK) status = hsc__jwrite(r, node->line, &text, b, false);
    return hsc__jkeep(r, status, &text, out);
}

/* Floored, as Python's. */
static int64_t floored(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static hsc_status calculate(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *a, const hsc__jvalue *b,
                            hsc__jvalue *out)
{
    int64_t x = a->number, y = b->number;
    bool divides = node->text[0] == '/' || node->text[0] == '%';
    if (a->kind != HSC__J_INT || b->kind != HSC__J_INT || (divides && y == 0) || x > INT32_MAX || x < -INT32_MAX ||
        y > INT32_MAX || y < -INT32_MAX)
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%s %.*s %s cannot be calculated", hsc__jkind_name(a),
                              (int)node->n, node->text, hsc__jkind_name(b));
    switch (node->text[0]) {
    case '+': *out = hsc__jint(x + y); break;
    case '-': *out = hsc__jint(x - y); break;
    case '*': *out = hsc__jint(x * y); break;
    case '/': *out = hsc__jint(floored(x, y)); break;
    default: *out = hsc__jint(x - floored(x, y) * y); break;
    }
    return HSC_OK;
}

static hsc_status evaluate_binary(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc__jvalue a, b;
    bool holds = false;
    HSC_TRY(evaluate(r, node->kids[0], &a));
    if (named(node, "or") || named(node, "and")) {
        if (hsc__jtruth(&a) == named(node, "or")) *out = a;
        else return evaluate(r, node->kids[1], out);
        return HSC_OK;
    }
    HSC_TRY(evaluate(r, node->kids[1], &b));
    if (named(node, "~")) return add(r, node, &a, &b, out);
    if (named(node, "+") && (a.kind != HSC__J_INT || b.kind != HSC__J_INT)) return add(r, node, &a, &b, out);
    if (named(node, "==") || named(node, "!=")) holds = hsc__jequal(&a, &b) == named(node, "==");
    else if (named(node, "in")) HSC_TRY(contains(r, node, &a, &b, &holds));
    else if (node->text[0] == '<' || node->text[0] == '>') HSC_TRY(compare(r, node, &a, &b, &holds));
    else return calculate(r, node, &a, &b, out);
    *out = hsc__jbool(holds);
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------- parts ---- */

static hsc_status evaluate_name(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    static const char *const functions[] = {"raise_exception", "strftime_now", "namespace", "range", "dict"};
    for (hsc__jframe *f = r->frame; f; f = f->outer) {
        const hsc__jvalue *found = hsc__jget(&f->names, node->text, node->n);
        if (!found) continue;
        *out = *found;
        return HSC_OK;
    }
    *out = (hsc__jvalue){0};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (named(node, functions[i])) *out = (hsc__jvalue){.kind = HSC__J_FUNCTION, .text = node->text, .n = node->n};
    return HSC_OK;
}

static hsc_status get_attribute(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *of, const char *key, size_t n,
                                hsc__jvalue *out)
{
    const hsc__jvalue *found = of->kind == HSC__J_DICT ? hsc__jget(of->dict, key, n) : NULL;
    if (of->kind == HSC__J_UNDEFINED)
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "'%.*s' is asked of an undefined value", (int)n, key);
    *out = found ? *found : (hsc__jvalue){0};
    return HSC_OK;
}

static hsc_status evaluate_index(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc__jvalue of, index, list;
    HSC_TRY(evaluate(r, node->kids[0], &of));
    HSC_TRY(evaluate(r, node->kids[1], &index));
    if (index.kind == HSC__J_STRING) return get_attribute(r, node, &of, index.text, index.n, out);
    if (index.kind != HSC__J_INT || of.kind == HSC__J_DICT)
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%s is no index of %s", hsc__jkind_name(&index),
                              hsc__jkind_name(&of));
    HSC_TRY(hsc__jelements(r, node->line, &of, &list));
    int64_t at = index.number < 0 ? index.number + (int64_t)list.n : index.number;
    *out = at >= 0 && at < (int64_t)list.n ? list.items[at] : (hsc__jvalue){0};
    return HSC_OK;
}

/* list[a:b:c] and text[a:b:c], with Python's rules for what is negative or absent. */
static hsc_status evaluate_slice(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc__jvalue of, list, part[3];
    int64_t bound[3] = {0, INT64_MAX, 1};
    HSC_TRY(evaluate(r, node->kids[0], &of));
    HSC_TRY(hsc__jelements(r, node->line, &of, &list));
    int64_t n = (int64_t)list.n;
    for (int i = 2; i >= 0; i--) {
        bool backwards = bound[2] < 0;
        bound[i] = i == 2 ? 1 : (i == 0) == backwards ? n : backwards ? -1 : 0;
        if (i == 0 && backwards) bound[i] = n - 1;
        if (!node->kids[1 + i]) continue;
        HSC_TRY(evaluate(r, node->kids[1 + i], &part[i]));
        if (part[i].kind == HSC__J_NONE) continue;
        if (part[i].kind != HSC__J_INT || (i == 2 && !part[i].number))
            return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%s in a slice", hsc__jkind_name(&part[i]));
        int64_t value = part[i].number, low = backwards ? -1 : 0, high = backwards ? n - 1 : n;
        if (i < 2 && value < 0) value += n;
        bound[i] = i == 2 ? value : value < low ? low : value > high ? high : value;
    }
    hsc__jvalue *items = hsc__arena_alloc(r->arena, (list.n + 1) * sizeof *items);
    if (!items) return hsc__fail_memory(r->err, list.n * sizeof *items, "a slice");
    *out = (hsc__jvalue){.kind = HSC__J_LIST, .items = items};
    for (int64_t i = bound[0]; bound[2] > 0 ? i < bound[1] : i > bound[1]; i += bound[2])
        items[out->n++] = list.items[i];
    if (of.kind != HSC__J_STRING) return HSC_OK;
    hsc__string text = {0};
    for (size_t i = 0; i < out->n; i++) hsc__string_add(&text, items[i].text, items[i].n);
    return hsc__jkeep(r, HSC_OK, &text, out);
}

static hsc_status evaluate_list(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc__jvalue *items = hsc__arena_alloc(r->arena, (node->n_kids + 1) * sizeof *items);
    if (!items) return hsc__fail_memory(r->err, node->n_kids * sizeof *items, "a list");
    for (size_t i = 0; i < node->n_kids; i++) HSC_TRY(evaluate(r, node->kids[i], &items[i]));
    *out = (hsc__jvalue){.kind = HSC__J_LIST, .items = items, .n = node->n_kids};
    return HSC_OK;
}

static hsc_status new_dict(hsc__jrun *r, hsc__jvalue *out)
{
    hsc__jdict *dict = hsc__arena_alloc(r->arena, sizeof *dict);
    if (!dict) return hsc__fail_memory(r->err, sizeof *dict, "a mapping");
    *dict = (hsc__jdict){0};
    *out = (hsc__jvalue){.kind = HSC__J_DICT, .dict = dict};
    return HSC_OK;
}

static hsc_status evaluate_dict(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc__jvalue key, value;
    HSC_TRY(new_dict(r, out));
    for (size_t i = 0; i + 1 < node->n_kids; i += 2) {
        HSC_TRY(evaluate(r, node->kids[i], &key));
        HSC_TRY(evaluate(r, node->kids[i + 1], &value));
        if (key.kind != HSC__J_STRING)
            return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "%s as a key", hsc__jkind_name(&key));
        if (!hsc__jput(r->arena, out->dict, key.text, key.n, &value))
            return hsc__fail_memory(r->err, key.n, "a mapping");
    }
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------- calls ---- */

/* Whether what is applied has a parameter of this name at this place. */
static bool has_parameter(const hsc__jnode *node, const hsc__jnode *keyword, size_t place)
{
    bool defaults = named(node, "default") || named(node, "d");
    return (place == 2 && defaults && named(keyword, "boolean")) ||
           (place == 1 && named(node, "trim") && named(keyword, "chars"));
}

/* Arguments from kid 1 on go behind the n that args holds. */
static hsc_status evaluate_arguments(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *args, size_t *n)
{
    for (size_t i = 1; i < node->n_kids; i++) {
        if (*n == MAX_ARGS)
            return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "more than %d arguments", (int)MAX_ARGS - 1);
        const hsc__jnode *kid = node->kids[i];
        if (kid->kind == HSC__J_KEYWORD && !has_parameter(node, kid, *n))
            return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "an argument named '%.*s'", (int)kid->n, kid->text);
        if (kid->kind == HSC__J_KEYWORD) kid = kid->kids[0];
        HSC_TRY(evaluate(r, kid, &args[(*n)++]));
    }
    return HSC_OK;
}

static hsc_status make_namespace(hsc__jrun *r, const hsc__jnode *node, bool is_namespace, hsc__jvalue *out)
{
    hsc__jvalue value;
    HSC_TRY(new_dict(r, out));
    out->dict->is_namespace = is_namespace;
    for (size_t i = 1; i < node->n_kids; i++) {
        const hsc__jnode *kid = node->kids[i];
        if (kid->kind != HSC__J_KEYWORD)
            return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "a namespace of what has no name");
        HSC_TRY(evaluate(r, kid->kids[0], &value));
        if (!hsc__jput(r->arena, out->dict, kid->text, kid->n, &value))
            return hsc__fail_memory(r->err, kid->n, "a name");
    }
    return HSC_OK;
}

/* The macro's parameters in its frame: what the call gives, then defaults, which may name parameters before them. */
static hsc_status set_parameters(hsc__jrun *r, const hsc__jnode *node, const hsc__jnode *macro, hsc__jframe *frame)
{
    hsc__jframe *outer = r->frame;
    hsc__jvalue value;
    size_t position = 0;
    for (size_t i = 1; i < node->n_kids; i++) {
        const hsc__jnode *kid = node->kids[i], *name = kid->kind == HSC__J_KEYWORD ? kid : NULL;
        if (!name && position < macro->names->n_kids) name = macro->names->kids[position++];
        if (!name) return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "too many arguments of a macro");
        HSC_TRY(evaluate(r, kid->kind == HSC__J_KEYWORD ? kid->kids[0] : kid, &value));
        HSC_TRY(set_name(r, frame, name->text, name->n, &value));
    }
    for (size_t i = 0; i < macro->names->n_kids; i++) {
        const hsc__jnode *name = macro->names->kids[i];
        if (hsc__jget(&frame->names, name->text, name->n)) continue;
        value = (hsc__jvalue){0};
        r->frame = frame;
        hsc_status status = macro->kids[1 + i] ? evaluate(r, macro->kids[1 + i], &value) : HSC_OK;
        r->frame = outer;
        HSC_TRY(status);
        HSC_TRY(set_name(r, frame, name->text, name->n, &value));
    }
    return HSC_OK;
}

/* A macro sees the template's own names and its parameters, and gives the text that it writes. */
static hsc_status call_macro(hsc__jrun *r, const hsc__jnode *node, const hsc__jnode *macro, hsc__jvalue *out)
{
    hsc__jframe *outer = r->frame, *global = r->frame;
    while (global->outer) global = global->outer;
    hsc__jframe frame = {.outer = global};
    hsc__string text = {0}, *before = r->out;
    HSC_TRY(set_parameters(r, node, macro, &frame));
    r->frame = &frame;
    r->out = &text;
    hsc_status status = execute(r, macro->kids[0]);
    r->frame = outer;
    r->out = before;
    return hsc__jkeep(r, status, &text, out);
}

static hsc_status evaluate_call(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    const hsc__jnode *callee = node->kids[0];
    hsc__jvalue args[MAX_ARGS], function;
    size_t n = 0;
    if (callee->kind == HSC__J_ATTRIBUTE) {
        HSC_TRY(evaluate(r, callee->kids[0], &args[n++]));
        HSC_TRY(evaluate_arguments(r, node, args, &n));
        return hsc__jmethod(r, node, callee->text, callee->n, args, n, out);
    }
    HSC_TRY(evaluate(r, callee, &function));
    if (function.kind == HSC__J_MACRO) return call_macro(r, node, function.macro, out);
    if (function.kind != HSC__J_FUNCTION)
        return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "unknown function '%.*s'", (int)callee->n,
                              callee->text ? callee->text : "");
    bool is_namespace = named(callee, "namespace");
    if (is_namespace || named(callee, "dict")) return make_namespace(r, node, is_namespace, out);
    HSC_TRY(evaluate_arguments(r, node, args, &n));
    return hsc__jfunction(r, node, callee->text, callee->n, args, n, out);
}

static hsc_status evaluate_applied(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc__jvalue args[MAX_ARGS];
    size_t n = 1;
    bool holds;
    HSC_TRY(evaluate(r, node->kids[0], &args[0]));
    HSC_TRY(evaluate_arguments(r, node, args, &n));
    if (node->kind == HSC__J_FILTER) return hsc__jfilter(r, node, args, n, out);
    HSC_TRY(hsc__jtest(r, node, args, n, &holds));
    *out = hsc__jbool(holds);
    return HSC_OK;
}

static hsc_status evaluate_simple(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc__jvalue value;
    HSC_TRY(evaluate(r, node->kids[0], &value));
    if (node->kind == HSC__J_ATTRIBUTE) return get_attribute(r, node, &value, node->text, node->n, out);
    if (node->kind == HSC__J_NOT) *out = hsc__jbool(!hsc__jtruth(&value));
    else if (node->kind == HSC__J_CHOICE) {
        const hsc__jnode *chosen = node->kids[hsc__jtruth(&value) ? 1 : 2];
        *out = (hsc__jvalue){0};
        return chosen ? evaluate(r, chosen, out) : HSC_OK;
    } else if (value.kind == HSC__J_INT) *out = hsc__jint(-value.number);
    else return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%s cannot be negative", hsc__jkind_name(&value));
    return HSC_OK;
}

/* One more step of a template that a file brought: it may be made to run for ever, or to eat all memory. */
static hsc_status step(hsc__jrun *r, const hsc__jnode *node)
{
    if (++r->steps > MAX_STEPS || r->depth > MAX_DEPTH || r->arena->held > MAX_HELD)
        return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "it does not come to an end");
    return HSC_OK;
}

static hsc_status evaluate(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *out)
{
    hsc_status status;
    HSC_TRY(step(r, node));
    r->depth++;
    switch (node->kind) {
    case HSC__J_LITERAL:
        *out = node->value;
        status = HSC_OK;
        break;
    case HSC__J_NAME: status = evaluate_name(r, node, out); break;
    case HSC__J_LIST_OF: status = evaluate_list(r, node, out); break;
    case HSC__J_DICT_OF: status = evaluate_dict(r, node, out); break;
    case HSC__J_INDEX: status = evaluate_index(r, node, out); break;
    case HSC__J_SLICE: status = evaluate_slice(r, node, out); break;
    case HSC__J_CALL: status = evaluate_call(r, node, out); break;
    case HSC__J_FILTER:
    case HSC__J_TEST: status = evaluate_applied(r, node, out); break;
    case HSC__J_BINARY: status = evaluate_binary(r, node, out); break;
    default: status = evaluate_simple(r, node, out); break;
    }
    r->depth--;
    return status;
}

/* -------------------------------------------------------------------------------------------------- statements ---- */

/* loop.index and its like, for element `at` of `list`. */
static hsc_status set_loop(hsc__jrun *r, hsc__jframe *frame, const hsc__jvalue *list, size_t at)
{
    hsc__jvalue loop, undefined = {0};
    HSC_TRY(new_dict(r, &loop));
    const struct {
        const char *name;
        hsc__jvalue value;
    } fields[] = {{"index", hsc__jint((int64_t)at + 1)},
                  {"index0", hsc__jint((int64_t)at)},
                  {"revindex", hsc__jint((int64_t)(list->n - at))},
                  {"revindex0", hsc__jint((int64_t)(list->n - at) - 1)},
                  {"first", hsc__jbool(at == 0)},
                  {"last", hsc__jbool(at + 1 == list->n)},
                  {"depth", hsc__jint(1)}, /* of a loop that calls itself, which none here does */
                  {"depth0", hsc__jint(0)},
                  {"length", hsc__jint((int64_t)list->n)},
                  {"previtem", at ? list->items[at - 1] : undefined},
                  {"nextitem", at + 1 < list->n ? list->items[at + 1] : undefined}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!hsc__jput(r->arena, loop.dict, fields[i].name, strlen(fields[i].name), &fields[i].value))
            return hsc__fail_memory(r->err, sizeof loop, "a loop");
    return set_name(r, frame, "loop", 4, &loop);
}

static hsc_status set_targets(hsc__jrun *r, const hsc__jnode *node, hsc__jframe *frame, const hsc__jvalue *value)
{
    const hsc__jnode *names = node->names;
    if (names->n_kids == 1) return set_name(r, frame, names->kids[0]->text, names->kids[0]->n, value);
    if (value->kind != HSC__J_LIST || value->n != names->n_kids)
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%s cannot be taken apart into %zu names",
                              hsc__jkind_name(value), names->n_kids);
    for (size_t i = 0; i < names->n_kids; i++)
        HSC_TRY(set_name(r, frame, names->kids[i]->text, names->kids[i]->n, &value->items[i]));
    return HSC_OK;
}

/* Leaves in list what the condition of "for x in list if condition" lets through. */
static hsc_status filter_elements(hsc__jrun *r, const hsc__jnode *node, hsc__jvalue *list)
{
    hsc__jvalue value, *items = hsc__arena_alloc(r->arena, (list->n + 1) * sizeof *items);
    size_t n = 0;
    if (!items) return hsc__fail_memory(r->err, list->n * sizeof *items, "a loop");
    for (size_t i = 0; i < list->n; i++) {
        hsc__jframe frame = {.outer = r->frame};
        HSC_TRY(set_targets(r, node, &frame, &list->items[i]));
        r->frame = &frame;
        hsc_status status = evaluate(r, node->kids[1], &value);
        r->frame = frame.outer;
        HSC_TRY(status);
        if (hsc__jtruth(&value)) items[n++] = list->items[i];
    }
    *list = (hsc__jvalue){.kind = HSC__J_LIST, .items = items, .n = n};
    return HSC_OK;
}

static hsc_status execute_for(hsc__jrun *r, const hsc__jnode *node)
{
    hsc__jvalue value, list;
    HSC_TRY(evaluate(r, node->kids[0], &value));
    HSC_TRY(hsc__jelements(r, node->line, &value, &list));
    if (node->kids[1]) HSC_TRY(filter_elements(r, node, &list));
    if (!list.n) return node->kids[3] ? execute(r, node->kids[3]) : HSC_OK;
    for (size_t i = 0; i < list.n; i++) {
        hsc__jframe frame = {.outer = r->frame};
        HSC_TRY(step(r, node));
        HSC_TRY(set_loop(r, &frame, &list, i));
        HSC_TRY(set_targets(r, node, &frame, &list.items[i]));
        r->frame = &frame;
        hsc_status status = execute(r, node->kids[2]);
        r->frame = frame.outer;
        HSC_TRY(status);
        r->continued = false;
        if (r->broke) break;
    }
    r->broke = false;
    return HSC_OK;
}

static hsc_status execute_set(hsc__jrun *r, const hsc__jnode *node)
{
    const hsc__jnode *target = node->kids[0];
    hsc__jvalue value, object;
    if (node->kind == HSC__J_SET_BLOCK) {
        hsc__string text = {0}, *before = r->out;
        r->out = &text;
        hsc_status status = execute(r, node->kids[1]);
        r->out = before;
        HSC_TRY(hsc__jkeep(r, status, &text, &value));
    } else {
        HSC_TRY(evaluate(r, node->kids[1], &value));
    }
    if (target->kind == HSC__J_NAME) return set_name(r, r->frame, target->text, target->n, &value);
    HSC_TRY(evaluate(r, target->kids[0], &object));
    if (object.kind != HSC__J_DICT || !object.dict->is_namespace)
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "only a namespace's names can be set");
    if (!hsc__jput(r->arena, object.dict, target->text, target->n, &value))
        return hsc__fail_memory(r->err, target->n, "a name");
    return HSC_OK;
}

static hsc_status execute_if(hsc__jrun *r, const hsc__jnode *node)
{
    hsc__jvalue value;
    HSC_TRY(evaluate(r, node->kids[0], &value));
    const hsc__jnode *chosen = node->kids[hsc__jtruth(&value) ? 1 : 2];
    return chosen ? execute(r, chosen) : HSC_OK;
}

static hsc_status execute(hsc__jrun *r, const hsc__jnode *node)
{
    hsc__jvalue value;
    switch (node->kind) {
    case HSC__J_BODY:
        for (size_t i = 0; i < node->n_kids && !r->broke && !r->continued; i++) HSC_TRY(execute(r, node->kids[i]));
        return HSC_OK;
    case HSC__J_TEXT: return hsc__jadd(r, node->line, r->out, node->text, node->n);
    case HSC__J_OUTPUT:
        HSC_TRY(evaluate(r, node->kids[0], &value));
        return hsc__jwrite(r, node->line, r->out, &value, false);
    case HSC__J_IF: return execute_if(r, node);
    case HSC__J_FOR: return execute_for(r, node);
    case HSC__J_MACRO_DEF:
        if (r->frame->outer) return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "a macro inside a loop or a macro");
        value = (hsc__jvalue){.kind = HSC__J_MACRO, .macro = node};
        return set_name(r, r->frame, node->text, node->n, &value);
    case HSC__J_BREAK: r->broke = true; return HSC_OK;
    case HSC__J_CONTINUE: r->continued = true; return HSC_OK;
    default: return execute_set(r, node);
    }
}

hsc_status hsc__jrender(const char *text, size_t n, hsc__arena *arena, const hsc__jdict *globals, hsc__string *out,
                        hsc_error *err)
{
    hsc__jnode *root;
    hsc__jframe frame = {.names = *globals};
    hsc__jrun run = {.arena = arena, .frame = &frame, .out = out, .err = err};
    HSC_TRY(hsc__jparse(arena, text, n, &root, err));
    HSC_TRY(execute(&run, root));
    if (out->failed) return hsc__fail_memory(err, out->n, "a conversation");
    return HSC_OK;
}
