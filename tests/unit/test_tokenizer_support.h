/* What the tests of the tokenizer share: opening, comparing ids, random text, and the test data. */
#ifndef TEST_TOKENIZER_SUPPORT_H
#define TEST_TOKENIZER_SUPPORT_H

#include "base/file.h"
#include "base/text.h"
#include "formats/json.h"
#include "scratch.h"
#include "tokenizer/pipeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNUSED __attribute__((unused))
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Test data; tests that need them are left out where they are not. */
static UNUSED const char *data_path(const char *name)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    const char *root = getenv("HEADSCOPE_TEST_DATA");
    snprintf(path, sizeof paths[0], "%s/%s", root ? root : "", name);
    return path;
}

static UNUSED bool has_data(void)
{
    return hsc__is_dir(data_path("tokenizers/gpt2"));
}

static UNUSED hsc_tokenizer *open_path(const char *path)
{
    hsc_tokenizer *t;
    hsc_error err = {0};
    if (hsc_tokenizer_open(&t, path, &err) != HSC_OK) fail_msg("%s", err.message);
    return t;
}

/* A tokenizer.json in memory; the status instead of a tokenizer when it is refused. */
static UNUSED hsc_status parse_text(hsc_tokenizer **t, const char *text, hsc_error *err)
{
    size_t n = strlen(text);
    return hsc__tokenizer_parse_json(t, hsc__strndup(text, n), n, "test.json", NULL, err);
}

static UNUSED hsc_tokenizer *open_text(const char *text)
{
    hsc_tokenizer *t;
    hsc_error err = {0};
    if (parse_text(&t, text, &err) != HSC_OK) fail_msg("%s", err.message);
    return t;
}

static UNUSED void print_ids(const char *name, const hsc_token *ids, size_t n)
{
    print_error("%s [", name);
    for (size_t i = 0; i < n; i++) print_error("%s%d", i ? "," : "", (int)ids[i]);
    print_error("]\n");
}

/* The ids of text[0..n), which lies in a block of exactly its size, must be ids[0..n_ids). */
static UNUSED void check_ids(const hsc_tokenizer *t, const char *text, size_t n, unsigned flags, const hsc_token *ids,
                             size_t n_ids)
{
    hsc_encoding out = {0};
    hsc_error err = {0};
    char *exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    if (hsc_encode(t, exact, n, flags, &out, &err) != HSC_OK) fail_msg("%s", err.message);
    if (out.n != n_ids || (n_ids && memcmp(out.ids, ids, n_ids * sizeof *ids) != 0)) {
        hsc__string shown = {0};
        hsc__text_repr(&shown, text, n);
        print_error("text %s\n", shown.data);
        print_ids("right", ids, n_ids);
        print_ids("got  ", out.ids, out.n);
        fail();
    }
    size_t end = 0;
    for (size_t i = 0; i < out.n; i++) {
        assert_true(out.spans[i].start <= out.spans[i].end && out.spans[i].end <= n && out.spans[i].end >= end);
        end = out.spans[i].end;
    }
    hsc_encoding_free(&out);
    free(exact);
}

/* ids given as numbers, closed by END. */
#define END (-7)
static UNUSED void check(const hsc_tokenizer *t, const char *text, unsigned flags, ...)
{
    hsc_token ids[64];
    size_t n = 0;
    va_list args;
    va_start(args, flags);
    for (int id; (id = va_arg(args, int)) != END;) ids[n++] = id;
    va_end(args);
    check_ids(t, text, strlen(text), flags, ids, n);
}

static UNUSED char *decode(const hsc_tokenizer *t, const hsc_token *ids, size_t n, size_t *length)
{
    int64_t need = hsc_decode(t, ids, n, NULL, 0);
    assert_true(need >= 0);
    char *out = malloc((size_t)need + 1);
    assert_int_equal(hsc_decode(t, ids, n, out, (size_t)need), need);
    out[need] = '\0';
    *length = (size_t)need;
    return out;
}

/* decode(encode(x)) == x, and the spans lie end to end over x. */
static UNUSED void check_round_trip(const hsc_tokenizer *t, const char *text, size_t n)
{
    hsc_encoding out = {0};
    hsc_error err = {0};
    size_t length, at = 0;
    if (hsc_encode(t, text, n, 0, &out, &err) != HSC_OK) fail_msg("%s", err.message);
    char *back = decode(t, out.ids, out.n, &length);
    assert_int_equal(length, n);
    if (n) assert_memory_equal(back, text, n);
    for (size_t i = 0; i < out.n; i++) {
        size_t bytes;
        const char *token = hsc_token_bytes(t, out.ids[i], &bytes);
        assert_int_equal(out.spans[i].start, at);
        at = out.spans[i].end;
        assert_int_equal(bytes, at - out.spans[i].start);
        assert_memory_equal(token, text + out.spans[i].start, bytes);
    }
    assert_int_equal(at, n);
    free(back);
    hsc_encoding_free(&out);
}

/* ---- random numbers and texts; the same in every run ---- */

static uint64_t random_state = 88172645463325252u;

static UNUSED uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * n >> 32);
}

/* Characters among which splitters choose: blanks of every kind, contractions, letters and numbers of many scripts. */
static UNUSED int random_piece(char *out)
{
    static const char *const pieces[] = {" ",
                                         " ",
                                         "\n",
                                         "\r\n",
                                         "\t",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe2\x80\x89",
                                         "\xe2\x80\x8b",
                                         "\xe3\x80\x80",
                                         "\xe1\xa0\x8e",
                                         "'s",
                                         "'S",
                                         "'re",
                                         "'LL",
                                         "'\xc5\xbf",
                                         "'",
                                         "''",
                                         "don\xe2\x80\x99t",
                                         "e\xcc\x81",
                                         "12",
                                         "\xc2\xb2",
                                         "\xf0\x9f\x99\x82",
                                         "abc",
                                         "<|endoftext|>"};
    uint32_t kind = random_below(10);
    if (kind < 4) {
        const char *piece = pieces[random_below(COUNT(pieces))];
        memcpy(out, piece, strlen(piece));
        return (int)strlen(piece);
    }
    if (kind < 7) return hsc__utf8_write((int32_t)(32 + random_below(95)), out);
    return hsc__utf8_write((int32_t)random_below(kind == 7 ? 0x800 : kind == 8 ? 0x3100 : 0x110000), out);
}

static UNUSED size_t random_text(char *out, size_t pieces)
{
    size_t n = 0;
    for (size_t i = 0; i < pieces; i++) n += (size_t)random_piece(out + n);
    return n;
}

static UNUSED size_t random_bytes(char *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(random_below(3) ? random_below(256) : (uint32_t) "a' \n\xe2\x82\xf0\x9f"[random_below(8)]);
    return n;
}

#endif
