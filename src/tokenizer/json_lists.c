/* Reading vocab and merges straight from the text of the file. */
#include "tokenizer/json_lists.h"

#include "base/text.h"

#include <string.h>

enum { MOST_IDS = 1 << 24 };

static size_t skip_blanks(const char *text, size_t n, size_t i)
{
    while (i < n && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t')) i++;
    return i;
}

/* The byte after the string whose opening quote is at i, or n. */
static size_t skip_string(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        if (text[i] == '\\') i++;
    return i < n ? i + 1 : n;
}

/* The byte after the value at i, or n. Only brackets and strings matter. */
static size_t skip_value(const char *text, size_t n, size_t i)
{
    size_t depth = 0;
    while (i < n) {
        char c = text[i];
        if (c == '"') {
            i = skip_string(text, n, i);
            if (depth == 0) return i;
            continue;
        }
        if ((c == ',' || c == '}' || c == ']') && depth == 0) return i;
        if (c == '{' || c == '[') depth++;
        i++;
        if ((c == '}' || c == ']') && --depth == 0) return i;
    }
    return n;
}

/* Steps from one member of an object to the next: *i stands at '{' or behind a member. On true, the key (as it is
 * written) is text[*key..*key + *key_n) and *i stands at its value. */
static bool next_member(const char *text, size_t n, size_t *i, size_t *key, size_t *key_n)
{
    size_t at = skip_blanks(text, n, *i);
    if (at >= n || (text[at] != '{' && text[at] != ',')) return false;
    at = skip_blanks(text, n, at + 1);
    if (at >= n || text[at] != '"') return false;
    *key = at + 1;
    at = skip_string(text, n, at);
    *key_n = at - 1 - *key;
    at = skip_blanks(text, n, at);
    if (at >= n || text[at] != ':') return false;
    *i = skip_blanks(text, n, at + 1);
    return *i < n;
}

static bool is_key(const char *text, size_t key, size_t key_n, const char *name)
{
    return strlen(name) == key_n && memcmp(text + key, name, key_n) == 0;
}

static void find_in_model(const char *text, size_t n, size_t i, hsc__json_range *vocab, hsc__json_range *merges)
{
    size_t key, key_n;
    while (next_member(text, n, &i, &key, &key_n)) {
        size_t end = skip_value(text, n, i);
        bool opens = text[i] == '{' || text[i] == '[';
        if (is_key(text, key, key_n, "vocab") && opens && !vocab->end) *vocab = (hsc__json_range){i, end};
        if (is_key(text, key, key_n, "merges") && text[i] == '[' && !merges->end) *merges = (hsc__json_range){i, end};
        i = end;
    }
}

void hsc__json_find_lists(const char *text, size_t n, hsc__json_range *vocab, hsc__json_range *merges)
{
    *vocab = *merges = (hsc__json_range){0};
    size_t i = hsc__text_mark(text, n), key, key_n;
    while (next_member(text, n, &i, &key, &key_n)) {
        if (is_key(text, key, key_n, "model") && text[i] == '{') {
            find_in_model(text, n, i, vocab, merges);
            return;
        }
        i = skip_value(text, n, i);
    }
}

static hsc_status fail(const hsc__json_reader *r, const char *what, hsc_error *err)
{
    return hsc__fail(err, HSC_EFORMAT, r->at, "%s: %s: byte %zu: %s", r->path, r->field, r->at, what);
}

static char look(hsc__json_reader *r)
{
    r->at = skip_blanks(r->text, r->end, r->at);
    return r->at < r->end ? r->text[r->at] : '\0';
}

static hsc_status expect(hsc__json_reader *r, char wanted, hsc_error *err)
{
    char message[] = "'?' expected";
    message[1] = wanted;
    if (look(r) != wanted) return fail(r, message, err);
    r->at++;
    return HSC_OK;
}

/* Four hexadecimal digits at i, or -1. */
static int32_t hex4(const hsc__json_reader *r, size_t i)
{
    int32_t value = 0;
    if (r->end - i < 4) return -1;
    for (size_t k = i; k < i + 4; k++) {
        char c = r->text[k], letter = (char)(c | 0x20);
        if (c >= '0' && c <= '9') value = value * 16 + (c - '0');
        else if (letter >= 'a' && letter <= 'f') value = value * 16 + (letter - 'a' + 10);
        else return -1;
    }
    return value;
}

/* The escape at r->at (a backslash): writes its character to out[4], returns the length, 0 when it is wrong. */
static int read_escape(hsc__json_reader *r, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at + 1 < r->end ? r->text[r->at + 1] : '\0';
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        r->at += 2;
        *out = to[simple - from];
        return 1;
    }
    int32_t high = c == 'u' ? hex4(r, r->at + 2) : -1;
    if (high < 0 || (high >= 0xDC00 && high <= 0xDFFF)) return 0;
    if (high < 0xD800 || high > 0xDBFF) {
        r->at += 6;
        return hsc__utf8_write(high, out);
    }
    bool paired = r->end - r->at >= 12 && r->text[r->at + 6] == '\\' && r->text[r->at + 7] == 'u';
    int32_t low = paired ? hex4(r, r->at + 8) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return 0; /* a lone surrogate is no character */
    r->at += 12;
    return hsc__utf8_write(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), out);
}

/* The rest of a string from its first escape on; r->at stands there, the plain part before it starts at `start`. */
static hsc_status read_escaped(hsc__json_reader *r, size_t start, hsc__bytes *out, hsc_error *err)
{
    size_t close = skip_string(r->text, r->end, start - 1), n = r->at - start;
    char *copy = hsc__arena_alloc(r->arena, close - start + 4); /* no escape is shorter than its character */
    if (!copy) return hsc__fail_memory(err, close - start, r->path);
    memcpy(copy, r->text + start, n);
    while (r->at < r->end && r->text[r->at] != '"') {
        unsigned char c = (unsigned char)r->text[r->at];
        int32_t point = c;
        int length = c < 0x80 ? 1 : hsc__utf8_read(r->text + r->at, r->end - r->at, &point);
        if (c < 0x20 || point < 0) return fail(r, "a control character or ill-formed UTF-8 in a string", err);
        if (c == '\\') {
            int written = read_escape(r, copy + n);
            if (!written) return fail(r, "a wrong escape or a lone surrogate in a string", err);
            n += (size_t)written;
            continue;
        }
        memcpy(copy + n, r->text + r->at, (size_t)length);
        n += (size_t)length;
        r->at += (size_t)length;
    }
    *out = (hsc__bytes){copy, n};
    return HSC_OK;
}

static hsc_status read_string(hsc__json_reader *r, hsc__bytes *out, hsc_error *err)
{
    HSC_TRY(expect(r, '"', err));
    size_t start = r->at;
    for (; r->at < r->end; r->at++) {
        unsigned char c = (unsigned char)r->text[r->at];
        if (c == '"' || c == '\\') break;
        if (c < 0x20) return fail(r, "a control character in a string", err);
        if (c < 0x80) continue;
        int32_t point;
        int length = hsc__utf8_read(r->text + r->at, r->end - r->at, &point);
        if (point < 0) return fail(r, "ill-formed UTF-8 in a string", err);
        r->at += (size_t)length - 1;
    }
    *out = (hsc__bytes){r->text + start, r->at - start};
    if (r->at < r->end && r->text[r->at] == '\\') HSC_TRY(read_escaped(r, start, out, err));
    if (r->at >= r->end) return fail(r, "a string without its end", err);
    r->at++;
    return HSC_OK;
}

static hsc_status read_id(hsc__json_reader *r, hsc_token *out, hsc_error *err)
{
    look(r);
    size_t start = r->at;
    int64_t value = 0;
    for (; r->at < r->end && r->text[r->at] >= '0' && r->text[r->at] <= '9' && value < MOST_IDS; r->at++)
        value = value * 10 + (r->text[r->at] - '0');
    char next = r->at < r->end ? r->text[r->at] : '\0';
    bool ends = next == ',' || next == '}' || next == ' ' || next == '\n' || next == '\r' || next == '\t';
    if (r->at == start || !ends || value >= MOST_IDS) return fail(r, "an id from 0 to 16777215 expected", err);
    *out = (hsc_token)value;
    return HSC_OK;
}

/* One "token": id. `read` counts the entries so far: ids far past it would only make the arrays huge. */
static hsc_status read_entry(hsc__json_reader *r, hsc__vocab *vocab, size_t read, hsc_error *err)
{
    hsc__bytes text;
    hsc_token id = -1, existing;
    HSC_TRY(read_string(r, &text, err));
    HSC_TRY(expect(r, ':', err));
    HSC_TRY(read_id(r, &id, err));
    if ((size_t)id > read * 4 + (1 << 20)) return fail(r, "an id far beyond the number of tokens", err);
    if ((size_t)id < vocab->n && vocab->kind[id] != HSC__TOKEN_NONE) return fail(r, "an id given twice", err);
    HSC_TRY(hsc__vocab_set(vocab, id, text, HSC__TOKEN_NORMAL, &existing, err));
    return existing >= 0 ? fail(r, "a token given twice", err) : HSC_OK;
}

hsc_status hsc__json_read_vocab(hsc__json_reader *r, hsc__vocab *vocab, hsc_error *err)
{
    HSC_TRY(expect(r, '{', err));
    if (look(r) == '}') return expect(r, '}', err);
    for (size_t read = 0;; read++) {
        HSC_TRY(read_entry(r, vocab, read, err));
        if (look(r) != ',') return expect(r, '}', err);
        r->at++;
    }
}

/* The digits of a number as one integer: those that 64 bits hold, with the power of ten that stands behind it. */
static size_t read_digits(const char *text, size_t i, bool fraction, uint64_t *value, int *power)
{
    for (; text[i] >= '0' && text[i] <= '9'; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        bool fits = *value < (UINT64_MAX - 9) / 10;
        if (fits) *value = *value * 10 + digit;
        *power += fraction ? -(int)fits : !fits;
    }
    return i;
}

/* A decimal number as the peer's reader rounds it: the digits as a double, times or over a power of ten. That may be
 * off by the last bit, which decides between cuts that cost the same. False: not so simple a number. */
static bool parse_simply(const char *text, double *out)
{
    uint64_t value = 0;
    int power = 0;
    size_t start = text[0] == '-', i = read_digits(text, start, false, &value, &power);
    if (i == start) return false;
    if (text[i] == '.') i = read_digits(text, i + 1, true, &value, &power);
    double scale = 1;
    if (text[i] || power > 22 || power < -22) return false; /* powers up to 22 are exact */
    for (int k = 0; k < (power < 0 ? -power : power); k++) scale *= 10;
    double size = power < 0 ? (double)value / scale : (double)value * scale;
    *out = start ? -size : size;
    return true;
}

/* A number as JSON writes it. */
static hsc_status read_score(hsc__json_reader *r, double *out, hsc_error *err)
{
    char number[64];
    size_t n = 0;
    look(r);
    while (r->at + n < r->end && n + 1 < sizeof number && r->text[r->at + n] &&
           strchr("+-.eE0123456789", r->text[r->at + n]))
        n++;
    memcpy(number, r->text + r->at, n);
    number[n] = '\0';
    if (!n || (!parse_simply(number, out) && !hsc__parse_double(number, out))) return fail(r, "a score expected", err);
    r->at += n;
    return HSC_OK;
}

static hsc_status read_piece(hsc__json_reader *r, hsc__vocab *vocab, hsc__unigram *model, hsc_token id, hsc_error *err)
{
    hsc__bytes text;
    double score = 0;
    hsc_token existing;
    HSC_TRY(expect(r, '[', err));
    HSC_TRY(read_string(r, &text, err));
    HSC_TRY(expect(r, ',', err));
    HSC_TRY(read_score(r, &score, err));
    HSC_TRY(expect(r, ']', err));
    if (id >= MOST_IDS) return fail(r, "more than 16777216 tokens", err);
    HSC_TRY(hsc__vocab_set(vocab, id, text, HSC__TOKEN_NORMAL, &existing, err));
    if (existing >= 0) {
        vocab->text[id] = vocab->bytes[id] = text;
        vocab->kind[id] = HSC__TOKEN_NORMAL;
        vocab->has_doubles = true;
    }
    return hsc__unigram_set_score(model, id, score, err);
}

hsc_status hsc__json_read_pieces(hsc__json_reader *r, hsc__vocab *vocab, hsc__unigram *model, hsc_error *err)
{
    HSC_TRY(expect(r, '[', err));
    if (look(r) == ']') return expect(r, ']', err);
    for (hsc_token id = 0;; id++) {
        HSC_TRY(read_piece(r, vocab, model, id, err));
        if (look(r) != ',') return expect(r, ']', err);
        r->at++;
    }
}

/* "a b": two parts and one blank. */
static hsc_status cut_merge(const hsc__json_reader *r, hsc__bytes both, hsc__bytes *left, hsc__bytes *right,
                            hsc_error *err)
{
    const char *blank = memchr(both.data, ' ', both.n);
    size_t n = blank ? (size_t)(blank - both.data) : 0;
    if (n == 0 || n + 1 >= both.n || memchr(blank + 1, ' ', both.n - n - 1))
        return fail(r, "a merge must be two tokens with one blank between them", err);
    *left = (hsc__bytes){both.data, n};
    *right = (hsc__bytes){blank + 1, both.n - n - 1};
    return HSC_OK;
}

static hsc_status read_merge(hsc__json_reader *r, hsc__bytes *left, hsc__bytes *right, hsc_error *err)
{
    char first = look(r);
    if (first == '"') {
        hsc__bytes both;
        HSC_TRY(read_string(r, &both, err));
        return cut_merge(r, both, left, right, err);
    }
    if (first != '[') return fail(r, "a merge must be \"a b\" or [\"a\", \"b\"]", err);
    r->at++;
    HSC_TRY(read_string(r, left, err));
    HSC_TRY(expect(r, ',', err));
    HSC_TRY(read_string(r, right, err));
    return expect(r, ']', err);
}

hsc_status hsc__json_read_merges(hsc__json_reader *r, hsc__bpe *bpe, hsc_error *err)
{
    HSC_TRY(expect(r, '[', err));
    if (look(r) == ']') return expect(r, ']', err);
    for (uint32_t rank = 0;; rank++) {
        hsc__bytes left, right;
        HSC_TRY(read_merge(r, &left, &right, err));
        hsc_status status = hsc__bpe_add(bpe, rank, left, right, r->field, err);
        if (status != HSC_OK) return hsc__fail_prefix(err, status, "%s", r->path);
        if (look(r) != ',') return expect(r, ']', err);
        r->at++;
    }
}
