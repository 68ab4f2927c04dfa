/* From Oniguruma's pattern language (Ruby's syntax, in which tokenizer.json files are written) to PCRE2's. What is
 * known to mean the same passes, what is known to differ is spelled out, anything else is refused. */
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

#include <string.h>

#define SPACES                                                                                                         \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NO_SPACES                                                                                                      \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}" \
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD                                                                                                           \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"    \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define HAN "\\p{sc:Han}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"

typedef struct translation {
    hsc__string *out;
    const char *pattern;
    size_t n, i;
    bool in_class;
    int depth; /* classes inside the class, which are opened up: what they hold belongs to it */
} translation;

static hsc_status refuse(const translation *t, size_t from, size_t to, hsc_error *err)
{
    size_t shown = t->n > 300 ? 300 : t->n, length = to < t->n ? to - from : t->n - from;
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "pattern \"%.*s\": \"%.*s\" at byte %zu is not supported", (int)shown,
                     t->pattern, (int)(length > 60 ? 60 : length), t->pattern + from, from);
}

static char at(const translation *t, size_t i)
{
    return i < t->n ? t->pattern[i] : '\0';
}

/* Characters that the system's PCRE2 may be too old to know, of the categories that start with `prefix`. */
static void add_newer(hsc__string *out, const char *prefix)
{
    size_t n;
    const hsc__new_range *range = hsc__new_ranges(&n);
    for (size_t i = 0; i < n; i++)
        if (strncmp(range[i].category, prefix, strlen(prefix)) == 0)
            hsc__string_printf(out, "\\x{%x}-\\x{%x}", (unsigned)range[i].first, (unsigned)range[i].last);
}

static void open_class(translation *t, bool negated)
{
    if (!t->in_class) hsc__string_text(t->out, negated ? "[^" : "[");
}

static void close_class(translation *t)
{
    if (!t->in_class) hsc__string_text(t->out, "]");
}

/* \p{Name}, \P{Name}, \p{^Name}: a general category or a script. t->i stands behind the letter p. */
static hsc_status translate_property(translation *t, bool negated, hsc_error *err)
{
    size_t start = t->i - 2;
    const char *open = t->pattern + t->i, *close = at(t, t->i) == '{' ? memchr(open, '}', t->n - t->i) : NULL;
    if (!close) return refuse(t, start, t->i + 1, err);
    t->i = (size_t)(close - t->pattern) + 1;
    const char *name = open + 1;
    if (*name == '^') {
        negated = !negated;
        name++;
    }
    char category[3] = {0};
    size_t length = (size_t)(close - name);
    bool is_han = length == 3 && memcmp(name, "Han", 3) == 0;
    bool is_category = (length == 1 || length == 2) && strchr("LMNPSZC", *name);
    if (!is_han && !is_category) return refuse(t, start, t->i, err);
    if (is_category) memcpy(category, name, length);
    if (negated && t->in_class) {
        hsc__string_printf(t->out, is_han ? "\\P{sc:Han}" : "\\P{%s}", category);
        return HSC_OK;
    }
    open_class(t, negated);
    hsc__string_printf(t->out, is_han ? HAN : "\\p{%s}", category);
    if (is_category) add_newer(t->out, category);
    close_class(t);
    return HSC_OK;
}

static void translate_word(translation *t, bool negated)
{
    open_class(t, negated);
    hsc__string_text(t->out, WORD);
    add_newer(t->out, "L");
    add_newer(t->out, "M");
    add_newer(t->out, "Nd");
    close_class(t);
}

static void translate_digit(translation *t, bool negated)
{
    open_class(t, negated);
    hsc__string_text(t->out, "\\p{Nd}");
    add_newer(t->out, "Nd");
    close_class(t);
}

/* \xHH, \x{H...}, \uHHHH: t->i stands behind the letter. */
static hsc_status translate_code(translation *t, char letter, hsc_error *err)
{
    size_t start = t->i - 2;
    bool braced = letter == 'x' && at(t, t->i) == '{';
    size_t i = t->i + braced, most = braced ? 6 : letter == 'u' ? 4 : 2, digits = 0;
    unsigned value = 0;
    for (; digits < most && at(t, i) && strchr("0123456789abcdefABCDEF", at(t, i)); i++, digits++) {
        char c = at(t, i);
        value = value * 16 + (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    bool whole = braced ? digits > 0 && at(t, i) == '}' : digits == most;
    /* Two digits of 80 and above would be a byte of UTF-8, not a character. */
    if (!whole || (most == 2 && value >= 0x80)) return refuse(t, start, i, err);
    t->i = i + braced;
    hsc__string_printf(t->out, "\\x{%x}", value);
    return HSC_OK;
}

static hsc_status translate_escape(translation *t, hsc_error *err)
{
    size_t start = t->i;
    char c = at(t, start + 1);
    t->i += 2;
    switch (c) {
    case 'p':
    case 'P': return translate_property(t, c == 'P', err);
    case 'x':
    case 'u': return translate_code(t, c, err);
    case 's':
    case 'S':
        if (t->in_class) {
            hsc__string_text(t->out, c == 's' ? SPACES : NO_SPACES);
        } else {
            hsc__string_text(t->out, c == 's' ? "[" SPACES "]" : "[^" SPACES "]");
        }
        return HSC_OK;
    case 'w': translate_word(t, false); return HSC_OK;
    case 'd': translate_digit(t, false); return HSC_OK;
    case 'W':
    case 'D':
        if (t->in_class) return refuse(t, start, t->i, err);
        if (c == 'W') translate_word(t, true);
        else translate_digit(t, true);
        return HSC_OK;
    case 'v': hsc__string_text(t->out, "\\x{b}"); return HSC_OK;
    case 'A':
    case 'z':
    case 'Z':
        if (t->in_class) return refuse(t, start, t->i, err);
        break;
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'e':
    case 'a': break;
    default: /* punctuation stands for itself; letters and digits that are not listed might mean anything */
        if (c <= ' ' || c >= 0x7F || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
            return refuse(t, start, t->i, err);
    }
    hsc__string_add(t->out, t->pattern + start, 2);
    return HSC_OK;
}

/* "(?": only what both languages read alike. */
static bool known_group(const translation *t)
{
    static const char *const known[] = {"?:", "?=", "?!", "?>", "?<=", "?<!", "?i:", "?i)", "?-i:", "?-i)"};
    if (at(t, t->i + 1) != '?') return at(t, t->i + 1) != '*';
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        size_t length = strlen(known[k]);
        if (t->n - t->i - 1 >= length && memcmp(t->pattern + t->i + 1, known[k], length) == 0) return true;
    }
    return false;
}

/* {n}, {n,} and {n,m} only: "{,m}" is a literal to PCRE2, and a "+" behind it means repeat to one and possessive to
 * the other. */
static bool known_interval(const translation *t)
{
    size_t i = t->i + 1, digits = 0;
    for (; at(t, i) >= '0' && at(t, i) <= '9'; i++) digits++;
    if (at(t, i) == ',') i++;
    while (at(t, i) >= '0' && at(t, i) <= '9') i++;
    return digits && at(t, i) == '}' && at(t, i + 1) != '+';
}

/* A character of a class. PCRE2 has no classes inside: a plain one is united with the one around it. One that is
 * negated or named, and a hyphen beside one, are refused. */
static hsc_status translate_member(translation *t, char c, hsc_error *err)
{
    char next = at(t, t->i + 1);
    bool hyphen = t->pattern[t->i - 1] == '-' || next == '-';
    bool opens = c == '[' && next != '^' && next != ':' && next != ']' && !hyphen;
    bool closes = c == ']' && t->depth && !hyphen;
    if ((c == '[' && !opens) || (c == ']' && t->depth && !closes) || (c == '&' && next == '&'))
        return refuse(t, t->i, t->i + 2, err);
    t->depth += opens - closes;
    t->i++;
    if (opens || closes) return HSC_OK;
    if (c == ']') t->in_class = false;
    hsc__string_add(t->out, &c, 1);
    return HSC_OK;
}

static hsc_status translate_one(translation *t, hsc_error *err)
{
    char c = at(t, t->i);
    if (c == '\\') return translate_escape(t, err);
    if (t->in_class) return translate_member(t, c, err);
    if (c == '[') {
        t->in_class = true;
        size_t opening = at(t, t->i + 1) == '^' ? 2 : 1;
        if (at(t, t->i + opening) == ']') return refuse(t, t->i, t->i + opening + 1, err);
        hsc__string_add(t->out, t->pattern + t->i, opening);
        t->i += opening;
        return HSC_OK;
    } else if (c == '(' ? !known_group(t) : c == '{' && !known_interval(t)) {
        return refuse(t, t->i, t->i + 4, err);
    }
    hsc__string_add(t->out, &c, 1);
    t->i++;
    return HSC_OK;
}

hsc_status hsc__pattern_translate(hsc__string *out, const char *pattern, size_t n, hsc_error *err)
{
    translation t = {.out = out, .pattern = pattern, .n = n};
    HSC_FAIL_IF(n == 0, HSC_EUNSUPPORTED, "an empty pattern is not supported");
    HSC_FAIL_IF(n > 20000, HSC_EUNSUPPORTED, "a pattern of %zu bytes, at most 20000 are accepted", n);
    HSC_FAIL_IF(!hsc__utf8_valid(pattern, n), HSC_EFORMAT, "a pattern is not valid UTF-8");
    while (t.i < n) HSC_TRY(translate_one(&t, err));
    if (out->failed) return hsc__fail_memory(err, out->n, "a pattern");
    return HSC_OK;
}
