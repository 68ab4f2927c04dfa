/* Nested iteration over the steps of a pre-tokenizer. A step's text is a row of spans, matches and the gaps between
 * them; its behavior says how spans become pieces. */
#include "tokenizer/split.h"

#include "base/alloc.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode9.h"

#include <string.h>

hsc_status hsc__splitter_add(hsc__splitter *splitter, hsc__split_step step, hsc_error *err)
{
    if (splitter->n_steps == HSC__MAX_SPLITS) {
        hsc__pattern_free(step.pattern);
        return hsc__fail(err, HSC_EUNSUPPORTED, 0, "a pre-tokenizer of more than %d steps", (int)HSC__MAX_SPLITS);
    }
    splitter->step[splitter->n_steps++] = step;
    return HSC_OK;
}

hsc_status hsc__splitter_add_pattern(hsc__splitter *splitter, const char *pattern, size_t n,
                                     hsc__split_behavior behavior, bool invert, hsc_error *err)
{
    hsc__split_step step = {.kind = HSC__SPLIT_PATTERN, .behavior = behavior, .invert = invert};
    step.scan = hsc__scan_find(pattern, n);
    /* These patterns match everything: isolating the matches and removing what lies between them are the same. */
    if (step.scan && (behavior == HSC__ISOLATED || (behavior == HSC__REMOVED && invert))) step.kind = HSC__SPLIT_SCAN;
    else HSC_TRY(hsc__pattern_compile(&step.pattern, pattern, n, err));
    return hsc__splitter_add(splitter, step, err);
}

void hsc__splitter_free(hsc__splitter *splitter)
{
    for (size_t i = 0; i < splitter->n_steps; i++) hsc__pattern_free(splitter->step[i].pattern);
    splitter->n_steps = 0;
}

void hsc__pieces_free(hsc__pieces *pieces)
{
    hsc__match_free(&pieces->match);
    hsc__free(pieces->cleaned);
    *pieces = (hsc__pieces){0};
}

/* The text as PCRE2 can read it. */
static hsc_status clean(hsc__pieces *p, hsc_error *err)
{
    p->clean = p->text;
    if (hsc__utf8_valid(p->text, p->n)) return HSC_OK;
    HSC_TRY(hsc__grow(&p->cleaned, &p->cleaned_capacity, p->n, 1, err));
    memcpy(p->cleaned, p->text, p->n);
    hsc__text_mask(p->cleaned, p->n);
    p->clean = p->cleaned;
    return HSC_OK;
}

hsc_status hsc__pieces_begin(hsc__pieces *p, const hsc__splitter *splitter, const char *text, size_t n, hsc_error *err)
{
    p->splitter = splitter;
    p->text = text;
    p->n = n;
    p->level[0] = (hsc__split_level){.limit = n};
    for (size_t i = 1; i < splitter->n_steps; i++) p->level[i] = (hsc__split_level){0};
    for (size_t i = 0; i < splitter->n_steps; i++)
        if (splitter->step[i].kind == HSC__SPLIT_PATTERN) return clean(p, err);
    return HSC_OK;
}

/* Whether the step matches the character at text[0..n), whose length goes into *length. */
static bool matches_character(hsc__split_kind kind, const char *text, size_t n, size_t *length)
{
    hsc__class class;
    *length = (size_t)hsc__read_class(text, n, &class);
    if (kind == HSC__SPLIT_SPACES) return class == HSC__SPACE;
    if (class == HSC__LETTER || (class == HSC__SPACE && kind == HSC__SPLIT_PUNCTUATION)) return false;
    int32_t c;
    hsc__utf8_read(text, n, &c);
    if (kind == HSC__SPLIT_NUMBERS) return hsc__is_numeric(c);
    return kind == HSC__SPLIT_PUNCTUATION ? hsc__unicode9_punctuation(c) : !hsc__is_word(c);
}

/* The next match of the step in its piece at or after the cursor; at the limit when there is none. */
static hsc_status find_match(hsc__pieces *p, size_t depth, hsc_error *err)
{
    const hsc__split_step *step = &p->splitter->step[depth];
    hsc__split_level *level = &p->level[depth];
    level->has_match = true;
    level->match_start = level->match_end = level->limit;
    if (step->kind == HSC__SPLIT_PATTERN) {
        size_t start, end, n = level->limit - level->base;
        HSC_TRY(hsc__pattern_find(step->pattern, &p->match, p->clean + level->base, n, level->cursor - level->base,
                                  &start, &end, err));
        level->match_start = level->base + start;
        level->match_end = level->base + end;
        return HSC_OK;
    }
    for (size_t i = level->cursor, length; i < level->limit; i += length) {
        if (!matches_character(step->kind, p->text + i, level->limit - i, &length)) continue;
        level->match_start = i;
        level->match_end = i + length;
        break;
    }
    return HSC_OK;
}

typedef struct span {
    size_t start, end; /* equal: the piece is used up */
    bool is_match;
} span;

/* The span at the cursor: a gap, or the match itself. An empty match only cuts. */
static hsc_status peek(hsc__pieces *p, size_t depth, span *out, hsc_error *err)
{
    hsc__split_level *level = &p->level[depth];
    *out = (span){level->cursor, level->cursor, false};
    if (level->cursor == level->limit) return HSC_OK;
    if (!level->has_match || (level->match_end <= level->cursor && level->match_start < level->limit))
        HSC_TRY(find_match(p, depth, err));
    out->is_match = level->match_start == level->cursor;
    out->end = out->is_match ? level->match_end : level->match_start;
    if (p->splitter->step[depth].invert) out->is_match = !out->is_match;
    return HSC_OK;
}

/* One piece of the step in its own piece; start == end when that is used up. */
static hsc_status cut(hsc__pieces *p, size_t depth, size_t *start, size_t *end, hsc_error *err)
{
    const hsc__split_step *step = &p->splitter->step[depth];
    hsc__split_level *level = &p->level[depth];
    *start = *end = level->cursor;
    if (level->cursor == level->limit) return HSC_OK;
    if (step->kind == HSC__SPLIT_SCAN) {
        *end = level->cursor = step->scan(p->text, level->limit, level->cursor);
        return HSC_OK;
    }
    span first, next;
    HSC_TRY(peek(p, depth, &first, err));
    while (step->behavior == HSC__REMOVED && first.is_match && first.end > first.start) {
        level->cursor = first.end;
        HSC_TRY(peek(p, depth, &first, err));
    }
    *start = first.start;
    *end = level->cursor = first.end;
    bool joins = step->behavior == HSC__CONTIGUOUS ||
                 (step->behavior == HSC__MERGED_WITH_PREVIOUS && !first.is_match) ||
                 (step->behavior == HSC__MERGED_WITH_NEXT && first.is_match);
    while (joins) {
        HSC_TRY(peek(p, depth, &next, err));
        bool same = next.is_match == first.is_match;
        if (next.end == next.start || same != (step->behavior == HSC__CONTIGUOUS)) break;
        *end = level->cursor = next.end;
        joins = step->behavior == HSC__CONTIGUOUS;
    }
    return HSC_OK;
}

hsc_status hsc__pieces_next(hsc__pieces *p, size_t *start, size_t *end, hsc_error *err)
{
    size_t n_steps = p->splitter->n_steps;
    if (n_steps == 0) { /* the whole text is one piece */
        *start = p->level[0].cursor;
        *end = p->level[0].cursor = p->n;
        return HSC_OK;
    }
    /* Go up to the last step that still has text, then down again with what it cuts. */
    size_t depth = n_steps - 1;
    for (;;) {
        HSC_TRY(cut(p, depth, start, end, err));
        if (*start == *end) {
            if (depth == 0) {
                *start = *end = p->n;
                return HSC_OK;
            }
            depth--;
        } else if (depth == n_steps - 1) {
            return HSC_OK;
        } else {
            depth++;
            p->level[depth] = (hsc__split_level){.base = *start, .limit = *end, .cursor = *start};
        }
    }
}
