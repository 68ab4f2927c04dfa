/* UTF-8, labels and locale-free numbers. Widths and categories come from utf8proc. */
#define _GNU_SOURCE      /* uselocale, newlocale, memmem */
#define _DARWIN_C_SOURCE /* memmem */
#include "base/text.h"

#include "base/alloc.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

int hsc__utf8_read(const char *text, size_t n, int32_t *code_point)
{
    const unsigned char *b = (const unsigned char *)text;
    *code_point = -1;
    if (b[0] < 0x80) {
        *code_point = b[0];
        return 1;
    }
    int length;
    unsigned low = 0x80, high = 0xBF; /* bounds of the second byte (Unicode table 3-7) */
    int32_t value;
    if (b[0] >= 0xC2 && b[0] <= 0xDF) {
        length = 2;
        value = b[0] & 0x1F;
    } else if (b[0] >= 0xE0 && b[0] <= 0xEF) {
        length = 3;
        value = b[0] & 0x0F;
        if (b[0] == 0xE0) low = 0xA0;
        if (b[0] == 0xED) high = 0x9F;
    } else if (b[0] >= 0xF0 && b[0] <= 0xF4) {
        length = 4;
        value = b[0] & 0x07;
        if (b[0] == 0xF0) low = 0x90;
        if (b[0] == 0xF4) high = 0x8F;
    } else {
        return 1;
    }
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n || b[i] < low || b[i] > high) return i;
        value = value << 6 | (b[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    *code_point = value;
    return length;
}

int hsc__utf8_write(int32_t c, char *out)
{
    if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
    return (int)utf8proc_encode_char(c, (utf8proc_uint8_t *)out);
}

size_t hsc__utf8_prefix(const char *text, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char b = (unsigned char)text[n - back];
        if (b < 0x80) return n;
        if (b < 0xC0) continue;
        int32_t c;
        int length = hsc__utf8_read(text + n - back, back, &c);
        int want = b >= 0xF0 ? 4 : b >= 0xE0 ? 3 : 2;
        /* unfinished: ill-formed only because the text ends here */
        return c < 0 && (size_t)length == back && (size_t)want > back && b <= 0xF4 && b >= 0xC2 ? n - back : n;
    }
    return n;
}

bool hsc__utf8_valid(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        int32_t c;
        i += (size_t)hsc__utf8_read(text + i, n - i, &c);
        if (c < 0) return false;
    }
    return true;
}

const char *hsc__text_find(const char *text, size_t n, const char *part, size_t n_part)
{
    if (!n_part) return text;
    return n < n_part ? NULL : memmem(text, n, part, n_part);
}

bool hsc__ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

void hsc__string_add(hsc__string *s, const char *bytes, size_t n)
{
    if (s->failed) return;
    if (n > SIZE_MAX - s->n - 1 || hsc__grow(&s->data, &s->capacity, s->n + n + 1, 1, NULL) != HSC_OK) {
        s->failed = true;
        return;
    }
    if (n) memcpy(s->data + s->n, bytes, n);
    s->n += n;
    s->data[s->n] = '\0';
}

void hsc__string_text(hsc__string *s, const char *text)
{
    hsc__string_add(s, text, strlen(text));
}

/* How long the text is that the first n bytes of a format make. */
static size_t length_of(const char *format, size_t n, va_list args)
{
    char beginning[1024];
    va_list again;
    if (n >= sizeof beginning) return 0; /* no format is so long */
    memcpy(beginning, format, n);
    beginning[n] = '\0';
    va_copy(again, args);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* a part of a format that was checked as a whole */
    int length = hsc__format(NULL, 0, beginning, again);
#pragma GCC diagnostic pop
    va_end(again);
    return length > 0 ? (size_t)length : 0;
}

/* What is no number comes out of printf as "nan" or "-nan", by the processor's mood: "-" takes its place, and the width
 * that the format gives; numbers are flush right. text[n] is what the format made of args. Returns the new length. */
static size_t dash_nans(char *text, size_t n, const char *format, va_list args)
{
    size_t shorter = 0; /* by how much */
    for (size_t from = 0, to; format[from]; from = to) {
        to = from + strcspn(format + from, "%");
        if (!format[to]) break;
        size_t number = to, point = to + 1 + strspn(format + to + 1, "-+ #0123456789*");
        bool wide = memchr(format + to, '*', point - to) || strcspn(format + to, "123456789") < point - to;
        to = point + strspn(format + point, ".0123456789*hlzjt");
        to += format[to] != '\0';
        if (!strchr("fFeEgG", format[to - 1])) continue;
        size_t start = length_of(format, number, args) - shorter, end = length_of(format, to, args) - shorter;
        if (end <= start || end > n || text[end - 1] != 'n') continue;
        size_t kept = wide ? end - start : 1;
        memset(text + start, ' ', kept);
        text[start + kept - 1] = '-';
        memmove(text + start + kept, text + end, n - end + 1);
        n -= end - start - kept;
        shorter += end - start - kept;
    }
    return n;
}

void hsc__string_printf(hsc__string *s, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = hsc__format(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || s->failed || hsc__grow(&s->data, &s->capacity, s->n + (size_t)n + 1, 1, NULL) != HSC_OK) {
        s->failed = true;
    } else {
        va_copy(args, again);
        hsc__format(s->data + s->n, (size_t)n + 1, format, args);
        va_end(args);
        bool has_nan = n > 0 && strstr(s->data + s->n, "nan");
        s->n += has_nan ? dash_nans(s->data + s->n, (size_t)n, format, again) : (size_t)n;
    }
    va_end(again);
}

void hsc__string_free(hsc__string *s)
{
    hsc__free(s->data);
    *s = (hsc__string){0};
}

static void add_code_point(hsc__string *out, int32_t c)
{
    char bytes[4];
    hsc__string_add(out, bytes, (size_t)hsc__utf8_write(c, bytes));
}

void hsc__text_decode(hsc__string *out, const char *bytes, size_t n)
{
    hsc__string_add(out, "", 0);
    for (size_t i = 0; i < n;) {
        int32_t c;
        i += (size_t)hsc__utf8_read(bytes + i, n - i, &c);
        add_code_point(out, c);
    }
}

int hsc__text_cells(const char *text, size_t n)
{
    int cells = 0;
    for (size_t i = 0; i < n;) {
        int32_t c;
        i += (size_t)hsc__utf8_read(text + i, n - i, &c);
        cells += c < 0 ? 1 : utf8proc_charwidth(c);
    }
    return cells;
}

size_t hsc__text_fit(const char *text, size_t n, int max_cells, int *cells)
{
    size_t fits = 0;
    int taken = 0, total = 0;
    int32_t before = 0;
    utf8proc_int32_t state = 0;
    for (size_t i = 0; i < n;) {
        int32_t c;
        size_t length = (size_t)hsc__utf8_read(text + i, n - i, &c);
        if (c < 0) c = 0xFFFD;
        if (i > 0 && utf8proc_grapheme_break_stateful(before, c, &state)) {
            fits = i;
            taken = total;
        }
        total += utf8proc_charwidth(c);
        if (total > max_cells) break;
        before = c;
        i += length;
    }
    if (total <= max_cells) {
        fits = n;
        taken = total;
    }
    if (cells) *cells = taken;
    return fits;
}

void hsc__text_cut(hsc__string *out, const char *text, size_t n, int max_cells)
{
    size_t fits = hsc__text_fit(text, n, max_cells, NULL);
    if (fits == n) {
        hsc__string_add(out, text, n);
        return;
    }
    hsc__string_add(out, text, hsc__text_fit(text, n, max_cells - 1, NULL));
    add_code_point(out, 0x2026);
}

/* The length of an escape sequence (ESC [ ... letter) at the start of the text; 0 where there is none. */
static size_t escape_length(const char *text, size_t n)
{
    if (n < 2 || text[0] != '\x1b' || text[1] != '[') return 0;
    size_t i = 2;
    while (i < n && (unsigned char)text[i] < '@') i++;
    return i < n ? i + 1 : n;
}

/* Cells of a text that may have escape sequences. */
static int shown_cells(const char *text, size_t n)
{
    int cells = 0;
    for (size_t i = 0; i < n;) {
        size_t escape = escape_length(text + i, n - i), end = i + escape;
        if (!escape)
            while (end < n && text[end] != '\x1b') end++;
        if (!escape && end == i) end++; /* an escape character alone */
        if (!escape) cells += hsc__text_cells(text + i, end - i);
        i = end;
    }
    return cells;
}

/* Where the rest of a folded line begins. */
static int hang_of(const char *line, size_t n, int width, int hang)
{
    size_t indent = 0, i;
    while (indent < n && line[indent] == ' ') indent++;
    for (i = indent; i + 1 < n && !(line[i] == ' ' && line[i + 1] == ' ') && line[i] != '\x1b'; i++) continue;
    if (i + 1 >= n || line[i] != ' ') return (int)indent + hang;
    while (i < n && line[i] == ' ') i++;
    int under = hsc__text_cells(line, i);
    return i < n && under <= width / 3 ? under : (int)indent + hang;
}

/* The end of a word: the next blank, but what stands in quotes is one word when it is not long. */
static size_t word_end(const char *line, size_t n, size_t from)
{
    enum { LONG = 40 };
    size_t end = from;
    bool quoted = from < n && (line[from] == '\'' || line[from] == '"');
    for (size_t i = from + 1; quoted && i < n && i - from < LONG; i++) {
        unsigned char next = i + 1 < n ? (unsigned char)line[i + 1] : ' ';
        if (line[i] != line[from] || next >= 0x80 || (next | 0x20U) - 'a' < 26U) continue;
        end = i + 1;
        break;
    }
    while (end < n && line[end] != ' ') end++;
    return end;
}

static void fold_line(hsc__string *out, const char *line, size_t n, int width, int hang)
{
    int cells = 0, left = hang_of(line, n, width, hang);
    bool fresh = true; /* no word stands on the line yet */
    for (size_t i = 0; i < n;) {
        size_t word = i;
        while (word < n && line[word] == ' ') word++;
        size_t end = word_end(line, n, word);
        int gap = (int)(word - i), more = shown_cells(line + word, end - word);
        if (!fresh && cells + gap + more > width) {
            if (word == n) return; /* blanks at the end */
            hsc__string_printf(out, "\n%*s", left, "");
            cells = left;
            gap = 0;
        }
        hsc__string_printf(out, "%*s", gap, "");
        hsc__string_add(out, line + word, end - word);
        cells += gap + more;
        fresh = false;
        i = end;
    }
}

void hsc__text_fold(hsc__string *out, const char *text, size_t n, int width, int hang)
{
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end ? (size_t)(end - text) - at : n - at;
        if (width > 0 && shown_cells(text + at, length) > width) fold_line(out, text + at, length, width, hang);
        else hsc__string_add(out, text + at, length);
        at += length;
        if (end) hsc__string_text(out, "\n");
        at += end != NULL;
    }
}

/* Python's str.isprintable for one character: everything but Other (C*) and Separator (Z*), the blank excepted. */
static bool printable(int32_t c)
{
    if (c == ' ') return true;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
}

/* Bytes that are no whole character: <E2><82>. */
static void add_bytes(hsc__string *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) hsc__string_printf(out, "<%02X>", (unsigned char)bytes[i]);
}

void hsc__text_repr(hsc__string *out, const char *bytes, size_t n)
{
    bool single = n && memchr(bytes, '\'', n), twice = n && memchr(bytes, '"', n);
    char quote = single && !twice ? '"' : '\'';
    hsc__string_add(out, &quote, 1);
    for (size_t i = 0; i < n;) {
        int32_t c;
        size_t length = (size_t)hsc__utf8_read(bytes + i, n - i, &c);
        if (c < 0) add_bytes(out, bytes + i, length);
        else if (c == quote || c == '\\') hsc__string_printf(out, "\\%c", (char)c);
        else if (c == '\n') hsc__string_text(out, "\\n");
        else if (c == '\r') hsc__string_text(out, "\\r");
        else if (c == '\t') hsc__string_text(out, "\\t");
        else if (printable(c)) add_code_point(out, c);
        else if (c < 0x100) hsc__string_printf(out, "\\x%02x", (unsigned)c);
        else if (c < 0x10000) hsc__string_printf(out, "\\u%04x", (unsigned)c);
        else hsc__string_printf(out, "\\U%08x", (unsigned)c);
        i += length;
    }
    hsc__string_add(out, &quote, 1);
}

/* Marks that draw on the character before them. */
static bool combines(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return true;
    default: return false;
    }
}

void hsc__text_label(hsc__string *out, const char *bytes, size_t n)
{
    hsc__string_add(out, "", 0);
    for (size_t i = 0; i < n;) {
        int32_t c;
        size_t length = (size_t)hsc__utf8_read(bytes + i, n - i, &c);
        bool first = i == 0, last = i + length == n;
        if (c < 0) {
            add_bytes(out, bytes + i, length);
        } else if (c == ' ') {
            bool alone = !first && !last && bytes[i - 1] != ' ' && bytes[i + 1] != ' ';
            add_code_point(out, alone ? ' ' : 0x2423);
        } else if (c == '\n') {
            add_code_point(out, 0x21B5);
        } else if (c == '\r') {
            add_code_point(out, 0x240D);
        } else if (c == '\t') {
            add_code_point(out, 0x21E5);
        } else if (printable(c) || (c == 0x200D && !first && !last)) { /* U+200D joins the parts of an emoji */
            if (first && combines(c)) add_code_point(out, 0x25CC);
            add_code_point(out, c);
        } else {
            hsc__string_printf(out, "<U+%04X>", (unsigned)c);
        }
        i += length;
    }
}

/* The C locale, made once; a race makes it twice and frees one. */
static locale_t c_locale(void)
{
    static void *made;
    void *have = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
    if (have) return (locale_t)have;
    locale_t fresh = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    void *none = NULL;
    if (fresh && !__atomic_compare_exchange_n(&made, &none, (void *)fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        freelocale(fresh);
        fresh = (locale_t)none;
    }
    return fresh;
}

size_t hsc__text_mark(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

bool hsc__next_line(const char *text, size_t n, size_t *at, const char **line, size_t *n_line)
{
    if (*at == 0) *at = hsc__text_mark(text, n);
    if (*at >= n) return false;
    const char *start = text + *at, *end = memchr(start, '\n', n - *at);
    size_t length = end ? (size_t)(end - start) : n - *at;
    *at += length + (end != NULL);
    *line = start;
    *n_line = end && length && start[length - 1] == '\r' ? length - 1 : length;
    return true;
}

bool hsc__parse_double(const char *text, double *out)
{
    locale_t c = c_locale();
    char *end;
    double value = c ? strtod_l(text, &end, c) : strtod(text, &end);
    if (end == text || *end != '\0') return false;
    *out = value;
    return true;
}

int hsc__format(char *out, size_t capacity, const char *format, va_list args)
{
    locale_t c = c_locale();
    locale_t old = c ? uselocale(c) : (locale_t)0;
    int n = vsnprintf(out, capacity, format, args);
    if (c) uselocale(old);
    return n;
}

static void format_text(char *out, size_t capacity, const char *format, ...) HSC_PRINTF(3, 4);
static void format_text(char *out, size_t capacity, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hsc__format(out, capacity, format, args);
    va_end(args);
}

void hsc__format_double(char *out, size_t capacity, int digits, double value)
{
    format_text(out, capacity, "%.*g", digits, isnan(value) ? fabs(value) : value);
}

void hsc__string_double(hsc__string *s, int digits, double value)
{
    char text[64];
    hsc__format_double(text, sizeof text, digits, value);
    hsc__string_text(s, text);
}
