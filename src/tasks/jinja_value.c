/* Values of a template, and how Python writes them. */
#include "tasks/jinja.h"

#include <string.h>

hsc__jvalue hsc__jstring(const char *text, size_t n)
{
    return (hsc__jvalue){.kind = HSC__J_STRING, .text = text, .n = n};
}

hsc__jvalue hsc__jbool(bool is_true)
{
    return (hsc__jvalue){.kind = HSC__J_BOOL, .is_true = is_true};
}

hsc__jvalue hsc__jint(int64_t number)
{
    return (hsc__jvalue){.kind = HSC__J_INT, .number = number};
}

bool hsc__jtruth(const hsc__jvalue *v)
{
    switch (v->kind) {
    case HSC__J_UNDEFINED:
    case HSC__J_NONE: return false;
    case HSC__J_BOOL: return v->is_true;
    case HSC__J_INT: return v->number != 0;
    case HSC__J_STRING:
    case HSC__J_LIST: return v->n != 0;
    case HSC__J_DICT: return v->dict->n != 0 || v->dict->is_namespace;
    case HSC__J_FUNCTION:
    case HSC__J_MACRO: break;
    }
    return true;
}

static bool is_number(const hsc__jvalue *v)
{
    return v->kind == HSC__J_INT || v->kind == HSC__J_BOOL;
}

enum { MAX_NESTED = 200, MAX_COMPARED = 1 << 20, MAX_WRITTEN = 1 << 24, MAX_TEXT = 1 << 28 };

static bool equal(const hsc__jvalue *a, const hsc__jvalue *b, int depth, int *left);

/* The same keys with equal values; a namespace is equal to itself alone. */
static bool equal_dicts(const hsc__jdict *a, const hsc__jdict *b, int depth, int *left)
{
    if (a->n != b->n || a->is_namespace || b->is_namespace) return false;
    for (size_t i = 0; i < a->n; i++) {
        const hsc__jvalue *key = &a->items[2 * i], *other = hsc__jget(b, key->text, key->n);
        if (!other || !equal(key + 1, other, depth + 1, left)) return false;
    }
    return true;
}

/* `left`: comparisons that may still be made. A namespace can make lists that hold one another many times over. */
static bool equal(const hsc__jvalue *a, const hsc__jvalue *b, int depth, int *left)
{
    if (depth > MAX_NESTED || --*left < 0) return false;
    if (is_number(a) && is_number(b))
        return (a->kind == HSC__J_INT ? a->number : a->is_true) == (b->kind == HSC__J_INT ? b->number : b->is_true);
    if (a->kind != b->kind) return false;
    if (a->kind == HSC__J_STRING) return a->n == b->n && (a->n == 0 || memcmp(a->text, b->text, a->n) == 0);
    if (a->kind == HSC__J_LIST) {
        for (size_t i = 0; i < a->n && a->n == b->n; i++)
            if (!equal(&a->items[i], &b->items[i], depth + 1, left)) return false;
        return a->n == b->n;
    }
    if (a->kind == HSC__J_DICT) return a->dict == b->dict || equal_dicts(a->dict, b->dict, depth, left);
    return a->kind == HSC__J_NONE || a->kind == HSC__J_UNDEFINED;
}

bool hsc__jequal(const hsc__jvalue *a, const hsc__jvalue *b)
{
    int left = MAX_COMPARED;
    return equal(a, b, 0, &left);
}

const char *hsc__jkind_name(const hsc__jvalue *v)
{
    static const char *const names[] = {"an undefined value", "none",       "a truth value",
                                        "a number",           "a text",     "a list",
                                        "a mapping",          "a function", "a macro"};
    return names[v->kind];
}

const hsc__jvalue *hsc__jget(const hsc__jdict *dict, const char *key, size_t n)
{
    for (size_t i = 0; i < dict->n; i++) {
        const hsc__jvalue *k = &dict->items[2 * i];
        if (k->n == n && memcmp(k->text, key, n) == 0) return k + 1;
    }
    return NULL;
}

bool hsc__jput(hsc__arena *arena, hsc__jdict *dict, const char *key, size_t n, const hsc__jvalue *value)
{
    hsc__jvalue *found = (hsc__jvalue *)(uintptr_t)hsc__jget(dict, key, n);
    if (found) {
        *found = *value;
        return true;
    }
    if (dict->n == dict->capacity) {
        size_t capacity = dict->capacity ? 2 * dict->capacity : 8;
        hsc__jvalue *items = hsc__arena_alloc(arena, 2 * capacity * sizeof *items);
        if (!items) return false;
        if (dict->n) memcpy(items, dict->items, 2 * dict->n * sizeof *items);
        dict->items = items;
        dict->capacity = capacity;
    }
    dict->items[2 * dict->n] = hsc__jstring(key, n);
    dict->items[2 * dict->n + 1] = *value;
    dict->n++;
    return true;
}

/* ----------------------------------------------------------------------------------------------------- writing ---- */

/* As json.dumps or as repr() writes a text. What repr() would escape beyond ASCII (U+3000, say) stays as it is. */
static void write_quoted(hsc__string *out, const hsc__jvalue *v, bool json)
{
    char quote = json || (v->n && memchr(v->text, '\'', v->n) && !memchr(v->text, '"', v->n)) ? '"' : '\'';
    hsc__string_add(out, &quote, 1);
    for (size_t i = 0; i < v->n; i++) {
        char c = v->text[i];
        if (c == quote || c == '\\') hsc__string_printf(out, "\\%c", c);
        else if (c == '\n') hsc__string_text(out, "\\n");
        else if (c == '\r') hsc__string_text(out, "\\r");
        else if (c == '\t') hsc__string_text(out, "\\t");
        else if (json && (c == '\b' || c == '\f')) hsc__string_text(out, c == '\b' ? "\\b" : "\\f");
        else if ((unsigned char)c < 0x20) hsc__string_printf(out, json ? "\\u%04x" : "\\x%02x", (unsigned)c);
        else if (c == 0x7F && !json) hsc__string_text(out, "\\x7f");
        else hsc__string_add(out, &c, 1);
    }
    hsc__string_add(out, &quote, 1);
}

static bool write_nested(hsc__string *out, const hsc__jvalue *v, bool json, int depth);

static bool write_elements(hsc__string *out, const hsc__jvalue *v, bool json, int depth)
{
    bool dict = v->kind == HSC__J_DICT;
    size_t n = dict ? v->dict->n : v->n;
    hsc__string_text(out, dict ? "{" : "[");
    for (size_t i = 0; i < n; i++) {
        if (i) hsc__string_text(out, ", ");
        if (dict && !write_nested(out, &v->dict->items[2 * i], json, depth)) return false;
        if (dict) hsc__string_text(out, ": ");
        if (!write_nested(out, dict ? &v->dict->items[2 * i + 1] : &v->items[i], json, depth)) return false;
    }
    hsc__string_text(out, dict ? "}" : "]");
    return true;
}

/* Inside a list or mapping, and at the top of JSON. False: a namespace that holds itself, or a text without end. */
static bool write_nested(hsc__string *out, const hsc__jvalue *v, bool json, int depth)
{
    if (out->failed) return true; /* whoever keeps the text sees it */
    if (depth > MAX_NESTED || out->n > MAX_WRITTEN) return false;
    switch (v->kind) {
    case HSC__J_STRING: write_quoted(out, v, json); break;
    case HSC__J_LIST:
    case HSC__J_DICT: return write_elements(out, v, json, depth + 1);
    case HSC__J_BOOL:
        hsc__string_text(out, json ? (v->is_true ? "true" : "false") : v->is_true ? "True" : "False");
        break;
    case HSC__J_NONE: hsc__string_text(out, json ? "null" : "None"); break;
    case HSC__J_INT: hsc__string_printf(out, "%lld", (long long)v->number); break;
    case HSC__J_UNDEFINED:
    case HSC__J_FUNCTION:
    case HSC__J_MACRO: break;
    }
    return true;
}

hsc_status hsc__jadd(hsc__jrun *r, int line, hsc__string *out, const char *text, size_t n)
{
    if (n > MAX_TEXT || out->n > MAX_TEXT - n)
        return hsc__jrun_fail(r, line, HSC_EUNSUPPORTED, "a text of more than %d bytes", (int)MAX_TEXT);
    hsc__string_add(out, text, n);
    return HSC_OK;
}

hsc_status hsc__jwrite(hsc__jrun *r, int line, hsc__string *out, const hsc__jvalue *v, bool json)
{
    if (v->kind == HSC__J_STRING && !json) return hsc__jadd(r, line, out, v->text, v->n);
    if (!write_nested(out, v, json, 0))
        return hsc__jrun_fail(r, line, HSC_EUNSUPPORTED, "a value does not come to an end");
    return HSC_OK;
}
