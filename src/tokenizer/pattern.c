/* Compiling and matching with PCRE2; the translation is in pattern_translate.c. */
#include "tokenizer/pattern.h"

#include "base/alloc.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

/* Patterns of real tokenizers need a few steps a character; a hostile one is stopped. */
enum { MATCH_LIMIT = 50000000, STACK_START = 64 * 1024, STACK_MOST = 4 * 1024 * 1024, HEAP_LIMIT_KIB = 256 * 1024 };

struct hsc__pattern {
    pcre2_code *code;
};

static void *allocate(PCRE2_SIZE n_bytes, void *user)
{
    (void)user;
    return hsc__malloc(n_bytes);
}

static void release(void *ptr, void *user)
{
    (void)user;
    hsc__free(ptr);
}

static hsc_status fail_code(int code, PCRE2_SIZE offset, const char *pattern, size_t n, hsc_error *err)
{
    PCRE2_UCHAR reason[160] = "?";
    if (code == PCRE2_ERROR_HEAP_FAILED) return hsc__fail_memory(err, n, "a pattern");
    pcre2_get_error_message(code, reason, sizeof reason);
    return hsc__fail(err, HSC_EFORMAT, 0, "pattern \"%.*s\": %s (at %zu of its translation)", (int)(n > 300 ? 300 : n),
                     pattern, (const char *)reason, (size_t)offset);
}

hsc_status hsc__pattern_compile(hsc__pattern **out, const char *pattern, size_t n, hsc_error *err)
{
    hsc__string translated = {0};
    *out = NULL;
    hsc_status status = hsc__pattern_translate(&translated, pattern, n, err);
    hsc__pattern *made = status == HSC_OK ? hsc__calloc(1, sizeof *made) : NULL;
    pcre2_general_context *memory = made ? pcre2_general_context_create(allocate, release, NULL) : NULL;
    pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
    if (status == HSC_OK && !context) status = hsc__fail_memory(err, sizeof *made, "a pattern");
    if (status == HSC_OK) {
        int code;
        PCRE2_SIZE offset;
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        made->code =
            pcre2_compile((PCRE2_SPTR)translated.data, translated.n,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
        if (!made->code) status = fail_code(code, offset, pattern, n, err);
        else pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE); /* without JIT the interpreter matches */
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    hsc__string_free(&translated);
    if (status != HSC_OK) hsc__pattern_free(made);
    else *out = made;
    return status;
}

void hsc__pattern_free(hsc__pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    hsc__free(pattern);
}

void hsc__match_free(hsc__match *match)
{
    pcre2_match_data_free(match->data);
    pcre2_match_context_free(match->context);
    pcre2_jit_stack_free(match->stack);
    *match = (hsc__match){0};
}

static hsc_status prepare(hsc__match *match, hsc_error *err)
{
    if (match->data) return HSC_OK;
    pcre2_general_context *memory = pcre2_general_context_create(allocate, release, NULL);
    if (memory) {
        match->context = pcre2_match_context_create(memory);
        match->stack = pcre2_jit_stack_create(STACK_START, STACK_MOST, memory);
        match->data = pcre2_match_data_create(1, memory);
        pcre2_general_context_free(memory);
    }
    if (!match->data || !match->context) {
        hsc__match_free(match);
        return hsc__fail_memory(err, STACK_START, "pattern matching");
    }
    pcre2_set_match_limit(match->context, MATCH_LIMIT);
    pcre2_set_heap_limit(match->context, HEAP_LIMIT_KIB);
    if (match->stack) pcre2_jit_stack_assign(match->context, NULL, match->stack);
    return HSC_OK;
}

hsc_status hsc__pattern_find(const hsc__pattern *pattern, hsc__match *match, const char *text, size_t n, size_t from,
                             size_t *start, size_t *end, hsc_error *err)
{
    *start = *end = n;
    HSC_TRY(prepare(match, err));
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY_ATSTART;
    int found = pcre2_match(pattern->code, (PCRE2_SPTR)text, n, from, options, match->data, match->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found =
            pcre2_match(pattern->code, (PCRE2_SPTR)text, n, from, options | PCRE2_NO_JIT, match->data, match->context);
    if (found == PCRE2_ERROR_NOMATCH) return HSC_OK;
    if (found == PCRE2_ERROR_NOMEMORY) return hsc__fail_memory(err, STACK_START, "pattern matching");
    HSC_FAIL_IF(found < 0, HSC_EINVAL,
                "the pre-tokenizer's pattern gives up at byte %zu of %zu: error %d of PCRE2 (its limit is %d steps)",
                from, n, found, (int)MATCH_LIMIT);
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(match->data);
    *start = bounds[0];
    *end = bounds[1];
    return HSC_OK;
}

void hsc__text_mask(char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        int32_t c;
        size_t length = (size_t)hsc__utf8_read(text + i, n - i, &c);
        if (c < 0) memset(text + i, 1, length);
        i += length;
    }
}
