/* Methods of texts and mappings, functions, filters, and tests: those that chat templates use. */
#include "tasks/jinja.h"

#include <string.h>
#include <time.h>

enum { MAX_ELEMENTS = 1 << 22 };

static bool named(const char *name, size_t n, const char *wanted)
{
    return strlen(wanted) == n && memcmp(name, wanted, n) == 0;
}

hsc_status hsc__jkeep(hsc__jrun *r, hsc_status status, hsc__string *text, hsc__jvalue *out)
{
    if (status != HSC_OK) {
        hsc__string_free(text);
        return status;
    }
    char *kept = text->failed ? NULL : hsc__arena_strndup(r->arena, text->data ? text->data : "", text->n);
    size_t n = text->n;
    hsc__string_free(text);
    if (!kept) return hsc__fail_memory(r->err, n, "a chat template's text");
    *out = hsc__jstring(kept, n);
    return HSC_OK;
}

/* Room for n elements. */
static hsc_status new_list(hsc__jrun *r, size_t n, hsc__jvalue *out)
{
    if (n > MAX_ELEMENTS)
        return hsc__fail(r->err, HSC_EUNSUPPORTED, 0, "a list of %zu elements, %d are the most", n, (int)MAX_ELEMENTS);
    hsc__jvalue *items = hsc__arena_alloc(r->arena, (n + 1) * sizeof *items);
    if (!items) return hsc__fail_memory(r->err, n * sizeof *items, "a chat template's list");
    *out = (hsc__jvalue){.kind = HSC__J_LIST, .items = items, .n = 0};
    return HSC_OK;
}

hsc_status hsc__jelements(hsc__jrun *r, int line, const hsc__jvalue *v, hsc__jvalue *out)
{
    if (v->kind == HSC__J_LIST) {
        *out = *v;
        return HSC_OK;
    }
    if (v->kind == HSC__J_UNDEFINED) return new_list(r, 0, out);
    if (v->kind != HSC__J_STRING && v->kind != HSC__J_DICT)
        return hsc__jrun_fail(r, line, HSC_EFORMAT, "%s cannot be gone through", hsc__jkind_name(v));
    HSC_TRY(new_list(r, v->kind == HSC__J_STRING ? v->n : v->dict->n, out));
    if (v->kind == HSC__J_DICT) {
        for (; out->n < v->dict->n; out->n++) out->items[out->n] = v->dict->items[2 * out->n];
        return HSC_OK;
    }
    for (size_t at = 0; at < v->n;) {
        int32_t code_point;
        int n = hsc__utf8_read(v->text + at, v->n - at, &code_point);
        out->items[out->n++] = hsc__jstring(v->text + at, (size_t)n);
        at += (size_t)n;
    }
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- methods ---- */

/* What Python's str.isspace() calls white space. */
static bool is_blank(int32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* Whether the character text[0..n) is one of `set`, or with NULL white space. */
static bool is_one_of(const char *text, size_t n, const hsc__jvalue *set)
{
    int32_t c;
    if (set) return hsc__text_find(set->text, set->n, text, n) != NULL;
    return hsc__utf8_read(text, n, &c) == (int)n && is_blank(c);
}

/* Bytes of the first, or of the last, character of text[0..n). */
static size_t character(const char *text, size_t n, bool first)
{
    int32_t c;
    if (first) return (size_t)hsc__utf8_read(text, n, &c);
    for (size_t back = 1; back <= 4 && back <= n; back++)
        if (hsc__utf8_read(text + n - back, back, &c) == (int)back && c >= 0) return back;
    return 1;
}

/* Python's strip(): the characters of `set`, or white space. */
static hsc__jvalue strip(const hsc__jvalue *s, const hsc__jvalue *set, bool left, bool right)
{
    size_t from = 0, to = s->n;
    if (set && set->kind != HSC__J_STRING) set = NULL;
    for (size_t n; left && from < to; from += n) {
        n = character(s->text + from, to - from, true);
        if (!is_one_of(s->text + from, n, set)) break;
    }
    for (size_t n; right && to > from; to -= n) {
        n = character(s->text + from, to - from, false);
        if (!is_one_of(s->text + to - n, n, set)) break;
    }
    return hsc__jstring(s->text + from, to - from);
}

/* The first white space of the text and its width; NULL when there is none. */
static const char *find_blank(const hsc__jvalue *text, size_t *width)
{
    for (size_t at = 0; at < text->n; at += *width) {
        *width = character(text->text + at, text->n - at, true);
        if (is_one_of(text->text + at, *width, NULL)) return text->text + at;
    }
    return NULL;
}

/* The pieces of a text between separators, of which the first `limit` count, or with NULL between white space. Returns
 * how many there are; out holds them, or is NULL. */
static size_t cut(hsc__jvalue rest, const hsc__jvalue *separator, int64_t limit, hsc__jvalue *out)
{
    for (size_t n = 0;; n++) {
        if (!separator) rest = strip(&rest, NULL, true, false);
        if (!separator && !rest.n) return n;
        size_t width = separator ? separator->n : 0;
        const char *at = NULL;
        if ((int64_t)n < limit)
            at = separator ? hsc__text_find(rest.text, rest.n, separator->text, width) : find_blank(&rest, &width);
        size_t length = at ? (size_t)(at - rest.text) : rest.n;
        if (out) out[n] = hsc__jstring(rest.text, length);
        if (!at) return n + 1;
        rest = hsc__jstring(at + width, rest.n - length - width);
    }
}

/* split(separator), split(separator, limit) and split() at white space. */
static hsc_status split(hsc__jrun *r, int line, const hsc__jvalue *args, size_t n, hsc__jvalue *out)
{
    const hsc__jvalue *separator = n > 1 && args[1].kind == HSC__J_STRING ? &args[1] : NULL;
    int64_t limit = n > 2 && args[2].kind == HSC__J_INT && args[2].number >= 0 ? args[2].number : INT64_MAX;
    if (separator && !separator->n) return hsc__jrun_fail(r, line, HSC_EFORMAT, "split at nothing");
    HSC_TRY(new_list(r, cut(args[0], separator, limit, NULL), out));
    out->n = cut(args[0], separator, limit, out->items);
    return HSC_OK;
}

static hsc_status replace(hsc__jrun *r, int line, const hsc__jvalue *args, hsc__jvalue *out)
{
    hsc__string text = {0};
    hsc_status status = HSC_OK;
    const hsc__jvalue *from = &args[1], *to = &args[2];
    const char *at = args[0].text, *end = at + args[0].n, *hit;
    while (status == HSC_OK && from->n && (hit = hsc__text_find(at, (size_t)(end - at), from->text, from->n))) {
        hsc__string_add(&text, at, (size_t)(hit - at));
        status = hsc__jadd(r, line, &text, to->text, to->n);
        at = hit + from->n;
    }
    hsc__string_add(&text, at, (size_t)(end - at));
    return hsc__jkeep(r, status, &text, out);
}

/* upper, lower, capitalize, title() and the filter title, which begins words at fewer places. Beyond ASCII one letter
 * may become several, and where words begin is another matter: refused. */
static hsc_status change_case(hsc__jrun *r, int line, const hsc__jvalue *s, char how, hsc__jvalue *out)
{
    hsc__string text = {0};
    bool begins = true;
    for (size_t i = 0; i < s->n; i++)
        if ((unsigned char)s->text[i] >= 0x80)
            return hsc__jrun_fail(r, line, HSC_EUNSUPPORTED, "upper and lower case of letters beyond ASCII");
    for (size_t i = 0; i < s->n; i++) {
        char c = s->text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool upper = how == 'u' || (how == 'c' && i == 0) || ((how == 't' || how == 'T') && begins);
        if (letter) c = (char)(upper ? c & ~32 : c | 32);
        begins = how == 't' ? !letter : is_blank(c) || memchr("-({[<", c, 5);
        hsc__string_add(&text, &c, 1);
    }
    return hsc__jkeep(r, HSC_OK, &text, out);
}

static bool ends_in(const hsc__jvalue *s, const hsc__jvalue *part, bool start)
{
    if (part->n > s->n) return false;
    return memcmp(start ? s->text : s->text + s->n - part->n, part->text, part->n) == 0;
}

static hsc_status string_method(hsc__jrun *r, const hsc__jnode *node, const char *name, size_t n_name,
                                const hsc__jvalue *args, size_t n, hsc__jvalue *out)
{
    const hsc__jvalue *set = n > 1 ? &args[1] : NULL;
    bool text = n == 2 && set->kind == HSC__J_STRING;
    if (named(name, n_name, "strip")) *out = strip(&args[0], set, true, true);
    else if (named(name, n_name, "lstrip")) *out = strip(&args[0], set, true, false);
    else if (named(name, n_name, "rstrip")) *out = strip(&args[0], set, false, true);
    else if (text && named(name, n_name, "startswith")) *out = hsc__jbool(ends_in(&args[0], set, true));
    else if (text && named(name, n_name, "endswith")) *out = hsc__jbool(ends_in(&args[0], set, false));
    else if (named(name, n_name, "split")) return split(r, node->line, args, n, out);
    else if (n == 3 && named(name, n_name, "replace") && args[1].kind == HSC__J_STRING && args[2].kind == HSC__J_STRING)
        return replace(r, node->line, args, out);
    else if (named(name, n_name, "upper")) return change_case(r, node->line, &args[0], 'u', out);
    else if (named(name, n_name, "lower")) return change_case(r, node->line, &args[0], 'l', out);
    else if (named(name, n_name, "capitalize")) return change_case(r, node->line, &args[0], 'c', out);
    else if (named(name, n_name, "title")) return change_case(r, node->line, &args[0], 't', out);
    else return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "unknown method '%.*s'", (int)n_name, name);
    return HSC_OK;
}

/* items() as a list of pairs, keys(), values(). */
static hsc_status dict_list(hsc__jrun *r, const hsc__jdict *dict, char what, hsc__jvalue *out)
{
    HSC_TRY(new_list(r, dict->n, out));
    for (; out->n < dict->n; out->n++) {
        hsc__jvalue *pair = &dict->items[2 * out->n];
        if (what == 'i') out->items[out->n] = (hsc__jvalue){.kind = HSC__J_LIST, .items = pair, .n = 2};
        else out->items[out->n] = pair[what == 'v'];
    }
    return HSC_OK;
}

hsc_status hsc__jmethod(hsc__jrun *r, const hsc__jnode *node, const char *name, size_t n_name, const hsc__jvalue *args,
                        size_t n, hsc__jvalue *out)
{
    if (args[0].kind == HSC__J_STRING) return string_method(r, node, name, n_name, args, n, out);
    if (args[0].kind == HSC__J_DICT) {
        const hsc__jdict *dict = args[0].dict;
        if (named(name, n_name, "items")) return dict_list(r, dict, 'i', out);
        if (named(name, n_name, "keys")) return dict_list(r, dict, 'k', out);
        if (named(name, n_name, "values")) return dict_list(r, dict, 'v', out);
        if (named(name, n_name, "get") && n >= 2 && args[1].kind == HSC__J_STRING) {
            const hsc__jvalue *found = hsc__jget(dict, args[1].text, args[1].n);
            *out = found ? *found : n > 2 ? args[2] : (hsc__jvalue){.kind = HSC__J_NONE};
            return HSC_OK;
        }
    }
    return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "%s has no method '%.*s'", hsc__jkind_name(&args[0]),
                          (int)n_name, name);
}

/* --------------------------------------------------------------------------------------------------- functions ---- */

/* One conversion of strftime, with English names whatever the locale. */
static bool write_time(hsc__string *out, char what, const struct tm *now)
{
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    switch (what) {
    case 'Y': hsc__string_printf(out, "%d", now->tm_year + 1900); return true;
    case 'm': hsc__string_printf(out, "%02d", now->tm_mon + 1); return true;
    case 'd': hsc__string_printf(out, "%02d", now->tm_mday); return true;
    case 'H': hsc__string_printf(out, "%02d", now->tm_hour); return true;
    case 'M': hsc__string_printf(out, "%02d", now->tm_min); return true;
    case 'S': hsc__string_printf(out, "%02d", now->tm_sec); return true;
    case 'B': hsc__string_text(out, months[now->tm_mon]); return true;
    case 'b': hsc__string_add(out, months[now->tm_mon], 3); return true;
    case 'A': hsc__string_text(out, days[now->tm_wday]); return true;
    case 'a': hsc__string_add(out, days[now->tm_wday], 3); return true;
    case '%': hsc__string_text(out, "%"); return true;
    default: return false;
    }
}

/* Today, by the machine's own clock and zone. */
static hsc_status format_now(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *format, hsc__jvalue *out)
{
    time_t seconds = time(NULL);
    struct tm now = {0};
    hsc__string text = {0};
    bool known = localtime_r(&seconds, &now) != NULL;
    for (size_t i = 0; i < format->n && known; i++) {
        if (format->text[i] != '%') hsc__string_add(&text, format->text + i, 1);
        else known = ++i < format->n && write_time(&text, format->text[i], &now);
    }
    if (known) return hsc__jkeep(r, HSC_OK, &text, out);
    hsc__string_free(&text);
    return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "strftime_now of '%.*s'",
                          (int)(format->n < 60 ? format->n : 60), format->text);
}

static hsc_status make_range(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *args, size_t n, hsc__jvalue *out)
{
    int64_t from = n > 1 ? args[0].number : 0, to = n ? args[n > 1].number : 0, step = n > 2 ? args[2].number : 1;
    bool fits = n >= 1 && n <= 3 && step && from > -100000 && from < 100000 && to > -100000 && to < 100000;
    for (size_t i = 0; i < n; i++) fits = fits && args[i].kind == HSC__J_INT;
    if (!fits) return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "a range past 100000 or of no numbers");
    size_t most = (size_t)(to > from ? to - from : from - to);
    hsc__jvalue *items = hsc__arena_alloc(r->arena, (most + 1) * sizeof *items);
    if (!items) return hsc__fail_memory(r->err, most * sizeof *items, "a range");
    *out = (hsc__jvalue){.kind = HSC__J_LIST, .items = items};
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) items[out->n++] = hsc__jint(i);
    return HSC_OK;
}

hsc_status hsc__jfunction(hsc__jrun *r, const hsc__jnode *node, const char *name, size_t n_name,
                          const hsc__jvalue *args, size_t n, hsc__jvalue *out)
{
    if (named(name, n_name, "range")) return make_range(r, node, args, n, out);
    if (n != 1 || args[0].kind != HSC__J_STRING)
        return hsc__jrun_fail(r, node->line, HSC_EFORMAT, "%.*s wants one text", (int)n_name, name);
    if (named(name, n_name, "strftime_now")) return format_now(r, node, &args[0], out);
    return hsc__fail(r->err, HSC_EINVAL, 0, "refused: %.*s", (int)args[0].n, args[0].text);
}

/* ----------------------------------------------------------------------------------------------------- filters ---- */

static hsc_status length_of(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *v, hsc__jvalue *out)
{
    hsc__jvalue elements;
    *out = hsc__jint(0);
    if (v->kind == HSC__J_STRING) {
        for (size_t at = 0; at < v->n; out->number++) at += character(v->text + at, v->n - at, true);
        return HSC_OK;
    }
    HSC_TRY(hsc__jelements(r, node->line, v, &elements));
    *out = hsc__jint((int64_t)elements.n);
    return HSC_OK;
}

static hsc_status join(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *args, size_t n, hsc__jvalue *out)
{
    hsc__string text = {0};
    hsc__jvalue list;
    HSC_TRY(hsc__jelements(r, node->line, &args[0], &list));
    hsc_status status = HSC_OK;
    for (size_t i = 0; i < list.n && status == HSC_OK; i++) {
        if (i && n > 1) status = hsc__jwrite(r, node->line, &text, &args[1], false);
        if (status == HSC_OK) status = hsc__jwrite(r, node->line, &text, &list.items[i], false);
    }
    return hsc__jkeep(r, status, &text, out);
}

static hsc_status as_text(hsc__jrun *r, int line, const hsc__jvalue *v, bool json, hsc__jvalue *out)
{
    hsc__string text = {0};
    hsc_status status = hsc__jwrite(r, line, &text, v, json);
    return hsc__jkeep(r, status, &text, out);
}

/* selectattr("role", "equalto", "system"), rejectattr; without a test the attribute's truth. */
static hsc_status select_by(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *args, size_t n, bool wanted,
                            hsc__jvalue *out)
{
    hsc__jvalue list;
    HSC_TRY(hsc__jelements(r, node->line, &args[0], &list));
    HSC_TRY(new_list(r, list.n, out));
    bool equals = n == 4 && args[2].kind == HSC__J_STRING &&
                  (named(args[2].text, args[2].n, "equalto") || named(args[2].text, args[2].n, "==") ||
                   named(args[2].text, args[2].n, "eq"));
    if (n < 2 || args[1].kind != HSC__J_STRING || (n > 2 && !equals))
        return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "selectattr with a test other than equalto");
    for (size_t i = 0; i < list.n; i++) {
        static const hsc__jvalue none;
        const hsc__jvalue *v = &none;
        if (list.items[i].kind == HSC__J_DICT) v = hsc__jget(list.items[i].dict, args[1].text, args[1].n);
        if (!v) v = &none;
        if ((equals ? hsc__jequal(v, &args[3]) : hsc__jtruth(v)) == wanted) out->items[out->n++] = list.items[i];
    }
    return HSC_OK;
}

static hsc_status first_or_last(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *v, bool first,
                                hsc__jvalue *out)
{
    hsc__jvalue list;
    HSC_TRY(hsc__jelements(r, node->line, v, &list));
    *out = list.n ? list.items[first ? 0 : list.n - 1] : (hsc__jvalue){0};
    return HSC_OK;
}

hsc_status hsc__jfilter(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *args, size_t n, hsc__jvalue *out)
{
    const char *name = node->text;
    size_t n_name = node->n;
    bool string = args[0].kind == HSC__J_STRING;
    if (named(name, n_name, "length") || named(name, n_name, "count")) return length_of(r, node, &args[0], out);
    if (named(name, n_name, "trim") && string) return string_method(r, node, "strip", 5, args, n, out);
    if (named(name, n_name, "title") && string) return change_case(r, node->line, &args[0], 'T', out);
    if (named(name, n_name, "tojson") && n == 1) return as_text(r, node->line, &args[0], true, out);
    if (named(name, n_name, "string")) return as_text(r, node->line, &args[0], false, out);
    if (named(name, n_name, "join")) return join(r, node, args, n, out);
    if (named(name, n_name, "list")) return hsc__jelements(r, node->line, &args[0], out);
    if (named(name, n_name, "selectattr")) return select_by(r, node, args, n, true, out);
    if (named(name, n_name, "rejectattr")) return select_by(r, node, args, n, false, out);
    if (named(name, n_name, "first")) return first_or_last(r, node, &args[0], true, out);
    if (named(name, n_name, "last")) return first_or_last(r, node, &args[0], false, out);
    if (named(name, n_name, "items") && args[0].kind == HSC__J_DICT) return dict_list(r, args[0].dict, 'i', out);
    if (named(name, n_name, "safe")) {
        *out = args[0];
        return HSC_OK;
    }
    if (named(name, n_name, "default") || named(name, n_name, "d")) {
        bool absent = args[0].kind == HSC__J_UNDEFINED || (n > 2 && hsc__jtruth(&args[2]) && !hsc__jtruth(&args[0]));
        *out = !absent ? args[0] : n > 1 ? args[1] : hsc__jstring("", 0);
        return HSC_OK;
    }
    static const char *const texts[] = {"upper", "lower", "capitalize", "replace"};
    for (size_t i = 0; string && i < sizeof texts / sizeof *texts; i++)
        if (named(name, n_name, texts[i])) return string_method(r, node, name, n_name, args, n, out);
    return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "unknown filter '%.*s' of %s", (int)n_name, name,
                          hsc__jkind_name(&args[0]));
}

/* ------------------------------------------------------------------------------------------------------- tests ---- */

hsc_status hsc__jtest(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *args, size_t n, bool *out)
{
    const char *name = node->text;
    size_t n_name = node->n;
    const hsc__jvalue *v = &args[0];
    bool text = v->kind == HSC__J_STRING, list = v->kind == HSC__J_LIST, dict = v->kind == HSC__J_DICT;
    const struct {
        const char *name;
        bool holds;
    } tests[] = {{"defined", v->kind != HSC__J_UNDEFINED},
                 {"undefined", v->kind == HSC__J_UNDEFINED},
                 {"none", v->kind == HSC__J_NONE},
                 {"string", text},
                 {"mapping", dict},
                 {"sequence", text || list || dict || v->kind == HSC__J_UNDEFINED},
                 {"iterable", text || list || dict || v->kind == HSC__J_UNDEFINED},
                 {"number", v->kind == HSC__J_INT || v->kind == HSC__J_BOOL},
                 {"integer", v->kind == HSC__J_INT},
                 {"boolean", v->kind == HSC__J_BOOL},
                 {"true", v->kind == HSC__J_BOOL && v->is_true},
                 {"false", v->kind == HSC__J_BOOL && !v->is_true},
                 {"odd", v->kind == HSC__J_INT && v->number % 2 != 0},
                 {"even", v->kind == HSC__J_INT && v->number % 2 == 0},
                 {"callable", v->kind == HSC__J_FUNCTION || v->kind == HSC__J_MACRO},
                 {"equalto", n > 1 && hsc__jequal(v, &args[1])},
                 {"eq", n > 1 && hsc__jequal(v, &args[1])}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!named(name, n_name, tests[i].name)) continue;
        *out = tests[i].holds;
        return HSC_OK;
    }
    return hsc__jrun_fail(r, node->line, HSC_EUNSUPPORTED, "unknown test '%.*s'", (int)n_name, name);
}
