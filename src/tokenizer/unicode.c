/* Code point classes: see unicode.h. */
#include "tokenizer/unicode.h"

#include <utf8proc.h>

/* clang-format off */
#define O HSC__OTHER
#define L HSC__LETTER
#define N HSC__NUMBER
#define S HSC__SPACE
#define X HSC__NOT_ASCII
const unsigned char hsc__ascii_class[256] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
};
#undef O
#undef L
#undef N
#undef S
#undef X

/* Assigned in Unicode 15 and 16: first, last, general category. */
static const hsc__new_range newer[] = {
    {0x897, 0x897, "Mn"}, {0xCF3, 0xCF3, "Mc"}, {0xECE, 0xECE, "Mn"}, {0x1B4E, 0x1B4F, "Po"}, {0x1B7F, 0x1B7F, "Po"},
    {0x1C89, 0x1C89, "Lu"}, {0x1C8A, 0x1C8A, "Ll"}, {0x2427, 0x2429, "So"}, {0x2FFC, 0x2FFF, "So"},
    {0x31E4, 0x31E5, "So"}, {0x31EF, 0x31EF, "So"}, {0xA7CB, 0xA7CC, "Lu"}, {0xA7CD, 0xA7CD, "Ll"},
    {0xA7DA, 0xA7DA, "Lu"}, {0xA7DB, 0xA7DB, "Ll"}, {0xA7DC, 0xA7DC, "Lu"}, {0x105C0, 0x105F3, "Lo"},
    {0x10D40, 0x10D49, "Nd"}, {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"}, {0x10D4F, 0x10D4F, "Lo"},
    {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "Mn"}, {0x10D6E, 0x10D6E, "Pd"}, {0x10D6F, 0x10D6F, "Lm"},
    {0x10D70, 0x10D85, "Ll"}, {0x10D8E, 0x10D8F, "Sm"}, {0x10EC2, 0x10EC4, "Lo"}, {0x10EFC, 0x10EFF, "Mn"},
    {0x1123F, 0x11240, "Lo"}, {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"}, {0x1138B, 0x1138B, "Lo"},
    {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"}, {0x113B8, 0x113BA, "Mc"},
    {0x113BB, 0x113C0, "Mn"}, {0x113C2, 0x113C2, "Mc"}, {0x113C5, 0x113C5, "Mc"}, {0x113C7, 0x113CA, "Mc"},
    {0x113CC, 0x113CD, "Mc"}, {0x113CE, 0x113CE, "Mn"}, {0x113CF, 0x113CF, "Mc"}, {0x113D0, 0x113D0, "Mn"},
    {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "Mn"}, {0x113D3, 0x113D3, "Lo"}, {0x113D4, 0x113D5, "Po"},
    {0x113D7, 0x113D8, "Po"}, {0x113E1, 0x113E2, "Mn"}, {0x116D0, 0x116E3, "Nd"}, {0x1171E, 0x1171E, "Mc"},
    {0x11B00, 0x11B09, "Po"}, {0x11BC0, 0x11BE0, "Lo"}, {0x11BE1, 0x11BE1, "Po"}, {0x11BF0, 0x11BF9, "Nd"},
    {0x11F00, 0x11F01, "Mn"}, {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "Mc"}, {0x11F04, 0x11F10, "Lo"},
    {0x11F12, 0x11F33, "Lo"}, {0x11F34, 0x11F35, "Mc"}, {0x11F36, 0x11F3A, "Mn"}, {0x11F3E, 0x11F3F, "Mc"},
    {0x11F40, 0x11F40, "Mn"}, {0x11F41, 0x11F41, "Mc"}, {0x11F42, 0x11F42, "Mn"}, {0x11F43, 0x11F4F, "Po"},
    {0x11F50, 0x11F59, "Nd"}, {0x11F5A, 0x11F5A, "Mn"}, {0x1342F, 0x1342F, "Lo"}, {0x13440, 0x13440, "Mn"},
    {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "Mn"}, {0x13460, 0x143FA, "Lo"}, {0x16100, 0x1611D, "Lo"},
    {0x1611E, 0x16129, "Mn"}, {0x1612A, 0x1612C, "Mc"}, {0x1612D, 0x1612F, "Mn"}, {0x16130, 0x16139, "Nd"},
    {0x16D40, 0x16D42, "Lm"}, {0x16D43, 0x16D6A, "Lo"}, {0x16D6B, 0x16D6C, "Lm"}, {0x16D6D, 0x16D6F, "Po"},
    {0x16D70, 0x16D79, "Nd"}, {0x18CFF, 0x18CFF, "Lo"}, {0x1B132, 0x1B132, "Lo"}, {0x1B155, 0x1B155, "Lo"},
    {0x1CC00, 0x1CCEF, "So"}, {0x1CCF0, 0x1CCF9, "Nd"}, {0x1CD00, 0x1CEB3, "So"}, {0x1D2C0, 0x1D2D3, "No"},
    {0x1DF25, 0x1DF2A, "Ll"}, {0x1E030, 0x1E06D, "Lm"}, {0x1E08F, 0x1E08F, "Mn"}, {0x1E4D0, 0x1E4EA, "Lo"},
    {0x1E4EB, 0x1E4EB, "Lm"}, {0x1E4EC, 0x1E4EF, "Mn"}, {0x1E4F0, 0x1E4F9, "Nd"}, {0x1E5D0, 0x1E5ED, "Lo"},
    {0x1E5EE, 0x1E5EF, "Mn"}, {0x1E5F0, 0x1E5F0, "Lo"}, {0x1E5F1, 0x1E5FA, "Nd"}, {0x1E5FF, 0x1E5FF, "Po"},
    {0x1F6DC, 0x1F6DC, "So"}, {0x1F774, 0x1F776, "So"}, {0x1F77B, 0x1F77F, "So"}, {0x1F7D9, 0x1F7D9, "So"},
    {0x1F8B2, 0x1F8BB, "So"}, {0x1F8C0, 0x1F8C1, "So"}, {0x1FA75, 0x1FA77, "So"}, {0x1FA87, 0x1FA89, "So"},
    {0x1FA8F, 0x1FA8F, "So"}, {0x1FAAD, 0x1FAAF, "So"}, {0x1FABB, 0x1FABF, "So"}, {0x1FAC6, 0x1FAC6, "So"},
    {0x1FACE, 0x1FACF, "So"}, {0x1FADA, 0x1FADC, "So"}, {0x1FADF, 0x1FADF, "So"}, {0x1FAE8, 0x1FAE9, "So"},
    {0x1FAF7, 0x1FAF8, "So"}, {0x1FBCB, 0x1FBEF, "So"}, {0x2B739, 0x2B739, "Lo"}, {0x2EBF0, 0x2EE5D, "Lo"},
    {0x31350, 0x323AF, "Lo"},
};
/* clang-format on */

const hsc__new_range *hsc__new_ranges(size_t *n)
{
    *n = sizeof newer / sizeof *newer;
    return newer;
}

/* The row that holds c, or NULL. */
static const hsc__new_range *newer_row(int32_t c)
{
    size_t low = 0, high = sizeof newer / sizeof *newer;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > newer[middle].last) low = middle + 1;
        else high = middle;
    }
    return low < sizeof newer / sizeof *newer && c >= newer[low].first ? &newer[low] : NULL;
}

static char newer_category(int32_t c)
{
    const hsc__new_range *row = newer_row(c);
    return row ? row->category[0] : 'C';
}

bool hsc__is_new(int32_t c)
{
    return newer_row(c) != NULL;
}

char hsc__major_category(int32_t c)
{
    if (c < 0) return 'C';
    char category = utf8proc_category_string(c)[0];
    return category == 'C' && c > 0x377 ? newer_category(c) : category;
}

bool hsc__is_space(int32_t c)
{
    if (c < 0x80) return c >= 0 && hsc__ascii_class[c] == HSC__SPACE;
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t hsc__trim_right(const char *text, size_t start, size_t end)
{
    for (size_t back = 1; back <= 3 && back <= end - start;) { /* no blank takes more than three bytes */
        int32_t c;
        bool whole = hsc__utf8_read(text + end - back, back, &c) == (int)back;
        if (whole && hsc__is_space(c)) {
            end -= back;
            back = 1;
        } else {
            back++;
        }
    }
    return end;
}

hsc__class hsc__class_of(int32_t c)
{
    if (c < 0) return HSC__OTHER;
    if (c < 0x80) return (hsc__class)hsc__ascii_class[c];
    switch (hsc__major_category(c)) {
    case 'L': return HSC__LETTER;
    case 'N': return HSC__NUMBER;
    default: return hsc__is_space(c) ? HSC__SPACE : HSC__OTHER;
    }
}

bool hsc__is_word(int32_t c)
{
    char major = hsc__major_category(c);
    if (major == 'L' || major == 'M') return true;
    const hsc__new_range *row = newer_row(c);
    if (row && row->category[0] == 'N' && row->category[1] == 'd') return true;
    utf8proc_category_t category = c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC ||
           c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool hsc__is_numeric(int32_t c)
{
    bool newest = (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
    return newest || hsc__class_of(c) == HSC__NUMBER;
}

int hsc__read_class_slow(const char *text, size_t n, hsc__class *class)
{
    int32_t c;
    int length = hsc__utf8_read(text, n, &c);
    *class = hsc__class_of(c);
    return c < 0 ? 1 : length;
}

/* Capitals of Unicode 16 and 17, by ranges: first, last, and the lower case of the first. */
static const int32_t newer_capitals[][3] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},    {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},   {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

int hsc__lower(int32_t c, int32_t *out)
{
    out[0] = c;
    if (c < 0x80) {
        if (c >= 'A' && c <= 'Z') out[0] = c + ('a' - 'A');
        return 1;
    }
    if (c == 0x130) { /* the only one whose lower case is two characters: i and a dot above */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; c >= 0x1C89 && i < sizeof newer_capitals / sizeof *newer_capitals; i++) {
        const int32_t *row = newer_capitals[i];
        if (c < row[0] || c > row[1]) continue;
        out[0] = row[2] + (c - row[0]);
        return 1;
    }
    out[0] = utf8proc_tolower(c);
    return 1;
}
