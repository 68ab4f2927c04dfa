/* Lookups in the double array, every index checked, and the two ways to apply it. */
#include "tokenizer/charsmap.h"

#include "base/text.h"
#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

enum { SHORT_CLUSTER = 6 }; /* bytes from which a cluster is taken apart */

static uint32_t unit_at(const hsc__charsmap *map, size_t i)
{
    const unsigned char *u = map->units + i * 4;
    return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

/* The length of a prefix of text[0..n) that is mapped, 0 when there is none, and where it leads. */
static size_t find_prefix(const hsc__charsmap *map, const char *text, size_t n, bool shortest, size_t *value)
{
    size_t node = map->n_units ? offset_of(unit_at(map, 0)) : 0, found = 0;
    for (size_t i = 0; i < n && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        node ^= c;
        if (node >= map->n_units) break;
        uint32_t unit = unit_at(map, node);
        if ((unit & 0x800000FFu) != c) break;
        node ^= offset_of(unit);
        if (node >= map->n_units) break;
        if (!(unit >> 8 & 1)) continue;
        *value = unit_at(map, node) & 0x7FFFFFFF;
        found = i + 1;
        if (shortest) break;
    }
    return found;
}

/* The text that stands at a place of the block. */
static hsc__bytes text_at(const hsc__charsmap *map, size_t at)
{
    if (at >= map->texts.n) return (hsc__bytes){map->texts.data, 0};
    const char *start = map->texts.data + at, *end = memchr(start, '\0', map->texts.n - at);
    return (hsc__bytes){start, end ? (size_t)(end - start) : map->texts.n - at};
}

hsc_status hsc__charsmap_open(hsc__charsmap *map, hsc__bytes bytes, hsc_error *err)
{
    *map = (hsc__charsmap){.units = (const unsigned char *)bytes.data};
    map->n_units = 1;
    size_t n_trie = bytes.n >= 4 ? unit_at(map, 0) : 0;
    HSC_FAIL_IF(bytes.n < 4 || n_trie > bytes.n - 4 || n_trie % 4 || (n_trie && bytes.data[bytes.n - 1]), HSC_EFORMAT,
                "the precompiled_charsmap of %zu bytes is damaged: its trie takes %zu", bytes.n, n_trie);
    map->units += 4;
    map->n_units = n_trie / 4;
    map->texts = (hsc__bytes){bytes.data + 4 + n_trie, bytes.n - 4 - n_trie};
    for (int c = 0; c < 128; c++) {
        char one = (char)c;
        size_t value;
        map->plain[c] = find_prefix(map, &one, 1, true, &value) == 0;
    }
    return HSC_OK;
}

static hsc_status put(const hsc__charsmap *map, size_t value, const hsc__aligned *text, size_t start, size_t end,
                      hsc__aligned *out, hsc_error *err)
{
    hsc__bytes to = text_at(map, value);
    if (to.n == 0) return HSC_OK;
    return hsc__aligned_append(out, to.data, to.n, (hsc_span){text->span[start].start, text->span[end - 1].end}, err);
}

/* Marks that are newer than the system's tables may be: Unicode 15 to 17. */
static bool is_newer_mark(int32_t c)
{
    bool newest = (c >= 0x1ACF && c <= 0x1ADD) || (c >= 0x1AE0 && c <= 0x1AEB) || c == 0x10EFA || c == 0x10EFB ||
                  (c >= 0x11B60 && c <= 0x11B67) || c == 0x1E6E3 || c == 0x1E6E6 || c == 0x1E6EE || c == 0x1E6EF ||
                  c == 0x1E6F5;
    return newest || (hsc__is_new(c) && hsc__major_category(c) == 'M');
}

/* Control characters and line ends are clusters of their own. */
static bool stands_alone(int32_t c)
{
    int class = utf8proc_get_property(c)->boundclass;
    return class == UTF8PROC_BOUNDCLASS_CONTROL || class == UTF8PROC_BOUNDCLASS_CR || class == UTF8PROC_BOUNDCLASS_LF;
}

/* The end of the cluster (what a reader sees as one character) that starts at i. */
static size_t cluster_end(const hsc__aligned *text, size_t i)
{
    utf8proc_int32_t state = 0;
    int32_t before, c;
    i += (size_t)hsc__utf8_read(text->data + i, text->n - i, &before);
    while (before >= 0 && i < text->n) {
        size_t length = (size_t)hsc__utf8_read(text->data + i, text->n - i, &c);
        bool joins = c >= 0 && !utf8proc_grapheme_break_stateful(before, c, &state);
        if (!joins && (stands_alone(before) || !is_newer_mark(c))) break;
        before = c;
        i += length;
    }
    return i;
}

/* Characters one by one. */
static hsc_status map_characters(const hsc__charsmap *map, const hsc__aligned *text, size_t start, size_t end,
                                 hsc__aligned *out, hsc_error *err)
{
    for (size_t i = start, length; i < end; i += length) {
        int32_t c;
        size_t value;
        length = (size_t)hsc__utf8_read(text->data + i, end - i, &c);
        if (find_prefix(map, text->data + i, length, true, &value))
            HSC_TRY(put(map, value, text, i, i + length, out, err));
        else HSC_TRY(hsc__aligned_append_part(out, text, i, i + length, err));
    }
    return HSC_OK;
}

/* The end of a run of plain ASCII from i: bytes that are a cluster each, for ASCII or the end follows. */
static size_t plain_run(const hsc__charsmap *map, const hsc__aligned *text, size_t i)
{
    for (; i < text->n; i++) {
        unsigned char c = (unsigned char)text->data[i];
        if (c >= 0x80 || !map->plain[c] || c == '\r') break;
        if (i + 1 < text->n && (unsigned char)text->data[i + 1] >= 0x80) break;
    }
    return i;
}

hsc_status hsc__charsmap_clusters(const hsc__charsmap *map, const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    for (size_t i = 0, end; i < text->n; i = end) {
        end = plain_run(map, text, i);
        HSC_TRY(hsc__aligned_append_part(out, text, i, end, err));
        if (end > i || end == text->n) continue;
        size_t value;
        end = cluster_end(text, i);
        if (end - i < SHORT_CLUSTER && find_prefix(map, text->data + i, end - i, true, &value))
            HSC_TRY(put(map, value, text, i, end, out, err));
        else HSC_TRY(map_characters(map, text, i, end, out, err));
    }
    return HSC_OK;
}

hsc_status hsc__charsmap_longest(const hsc__charsmap *map, const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    for (size_t i = 0, length; i < text->n; i += length) {
        size_t value = 0;
        int32_t c;
        length = find_prefix(map, text->data + i, text->n - i, false, &value);
        if (length) {
            HSC_TRY(put(map, value, text, i, i + length, out, err));
            continue;
        }
        length = (size_t)hsc__utf8_read(text->data + i, text->n - i, &c);
        HSC_TRY(hsc__aligned_append_part(out, text, i, i + length, err));
    }
    return HSC_OK;
}
