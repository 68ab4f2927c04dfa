/* The byte alphabet, both ways. */
#include "tokenizer/byte_level.h"

#include "base/text.h"

#include <string.h>

static bool stands_for_itself(int32_t c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

/* The 68 others, in rising order: 00-20, 7F-A0, AD. */
static int32_t code_point_of(unsigned char b)
{
    if (stands_for_itself(b)) return b;
    if (b <= 0x20) return 0x100 + b;
    if (b <= 0xA0) return 0x121 + (b - 0x7F);
    return 0x143;
}

int hsc__byte_of(int32_t c)
{
    if (stands_for_itself(c)) return c;
    if (c < 0x100 || c > 0x143) return -1;
    if (c <= 0x120) return c - 0x100;
    if (c <= 0x142) return c - 0x121 + 0x7F;
    return 0xAD;
}

int hsc__byte_spell(unsigned char b, char *out)
{
    return hsc__utf8_write(code_point_of(b), out);
}

/* Every character of the alphabet is one byte of ASCII or two bytes that start C2 to C5. Returns the bytes written to
 * out[text.n], or -1 when a character is outside the alphabet. */
static long decode(hsc__bytes text, char *out)
{
    long n = 0;
    for (size_t i = 0; i < text.n; n++) {
        unsigned char lead = (unsigned char)text.data[i];
        int b;
        if (lead < 0x80) {
            b = hsc__byte_of(lead);
            i++;
        } else {
            unsigned char next = i + 1 < text.n ? (unsigned char)text.data[i + 1] : 0;
            if (lead < 0xC2 || lead > 0xC5 || (next & 0xC0) != 0x80) return -1;
            b = hsc__byte_of((lead & 0x1F) << 6 | (next & 0x3F));
            i += 2;
        }
        if (b < 0) return -1;
        out[n] = (char)b;
    }
    return n;
}

hsc_status hsc__byte_level_decode(hsc__vocab *vocab, hsc__arena *arena, hsc_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < vocab->n; i++)
        if (vocab->kind[i] == HSC__TOKEN_NORMAL) total += vocab->text[i].n;
    char *out = hsc__arena_alloc(arena, total);
    if (!out) return hsc__fail_memory(err, total, "the tokens' bytes");
    for (size_t i = 0; i < vocab->n; i++) {
        if (vocab->kind[i] != HSC__TOKEN_NORMAL) continue;
        long n = decode(vocab->text[i], out);
        if (n < 0) continue;
        vocab->bytes[i] = (hsc__bytes){out, (size_t)n};
        out += n;
    }
    return HSC_OK;
}

size_t hsc__byte_level_spell(const char *bytes, size_t n, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        char one[4];
        size_t step = (size_t)hsc__byte_spell((unsigned char)bytes[i], one);
        memcpy(out + length, one, step);
        length += step;
    }
    return length;
}
