/* Maps for the tests of src/plot: tokens, patterns and the ramp as it is defined (not as the code under test has it).
 */
#ifndef TESTS_PLOT_MAPS_H
#define TESTS_PLOT_MAPS_H

#include "plot/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fontconfig reads its configuration once and never gives all of it back. */
HSC_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfontconfig";
}

/* Tokens that break a careless view, and what each must look like. */
static const struct {
    const char *bytes, *shown;
} hard_tokens[] = {
    {"The", "The"},
    {" animal", "\u2423animal"},
    {"\n", "\u21B5"},
    {"\t", "\u21E5"},
    {"$x_1$", "$x_1$"},
    {"<b>", "<b>"},
    {"&amp;\"'", "&amp;\"'"},
    {"\u65e5\u672c", "\u65e5\u672c"},
    {"\U0001F642", "\U0001F642"},
    {"\xF0\x9F", "<F0><9F>"},
    {"\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"},
    {" \u0645\u0631\u062d\u0628\u0627", "\u2423\u0645\u0631\u062d\u0628\u0627"},
    {"\x1b[31m", "<U+001B>[31m"},
    {"\u202Ex", "<U+202E>x"},
    {"e\u0301", "e\u0301"},
    {"]]>", "]]>"},
    {"\u0120", "\u0120"},
};
enum { N_HARD = sizeof hard_tokens / sizeof *hard_tokens };

static inline void fill_labels(hsc__label *labels, int n)
{
    for (int i = 0; i < n; i++) {
        const char *bytes = hard_tokens[i % N_HARD].bytes;
        labels[i] = (hsc__label){bytes, strlen(bytes)};
    }
}

/* A pattern [n][n] whose rows sum to 1 up to the diagonal, the same every time. Rows beyond it hold 9, which no view
 * may show. To be freed. */
static inline float *make_pattern(int n, unsigned seed)
{
    float *p = malloc(sizeof *p * (size_t)n * (size_t)n);
    for (int i = 0; i < n; i++) {
        float sum = 0, *row = p + (size_t)i * (size_t)n;
        for (int j = 0; j < n; j++) {
            seed = seed * 1664525u + 1013904223u;
            row[j] = j > i ? 9 : expf((float)(seed >> 16) / 9000.0f);
            if (j <= i) sum += row[j];
        }
        for (int j = 0; j <= i; j++) row[j] /= sum;
    }
    return p;
}

/* A causal map on its own memory; free_map gives it back. */
static inline hsc__heatmap make_map(int n, unsigned seed)
{
    hsc__label *labels = malloc(sizeof *labels * (size_t)n);
    fill_labels(labels, n);
    return (hsc__heatmap){.title = "GPT-2 layer 5, head 3 (L4H3)",
                          .n_rows = n,
                          .n_cols = n,
                          .values = make_pattern(n, seed),
                          .row_labels = labels,
                          .n_row_labels = (size_t)n,
                          .col_labels = labels,
                          .n_col_labels = (size_t)n,
                          .causal = true};
}

static inline void free_map(hsc__heatmap *map)
{
    free((void *)map->values);
    free((void *)map->row_labels);
}

/* Blues: nine colours that lie evenly on [0, 1], linear between. */
static inline unsigned blues(double shade)
{
    static const unsigned char anchors[9][3] = {{247, 251, 255}, {222, 235, 247}, {198, 219, 239},
                                                {158, 202, 225}, {107, 174, 214}, {66, 146, 198},
                                                {33, 113, 181},  {8, 81, 156},    {8, 48, 107}};
    double at = 8 * shade;
    int low = at >= 8 ? 7 : (int)at;
    unsigned colour = 0;
    for (int k = 0; k < 3; k++)
        colour = colour << 8 | (unsigned)lround(anchors[low][k] + (at - low) * (anchors[low + 1][k] - anchors[low][k]));
    return colour;
}

/* Largest difference of a channel; rounding may differ by 1. */
static inline int colour_distance(unsigned a, unsigned b)
{
    int most = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        int d = abs((int)(a >> shift & 0xff) - (int)(b >> shift & 0xff));
        if (d > most) most = d;
    }
    return most;
}

#endif
