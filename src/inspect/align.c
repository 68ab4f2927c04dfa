/*
 * Twins of different lengths: which position of one text has which of the other. What both begin with keeps its
 * numbers; from the seam on positions are counted from the end, and the longer text's surplus at the seam has none.
 */
#include "base/status.h"
#include "headscope/intervene.h"

#include <stdbool.h>

static int common_start(const hsc_token *x, const hsc_token *y, int most)
{
    int n = 0;
    while (n < most && x[n] == y[n]) n++;
    return n;
}

/* x and y are where the texts end. */
static int common_end(const hsc_token *x, const hsc_token *y, int most)
{
    int n = 0;
    while (n < most && x[-1 - n] == y[-1 - n]) n++;
    return n;
}

static bool holds(const hsc_token *list, int n, hsc_token token)
{
    for (int i = 0; i < n; i++)
        if (list[i] == token) return true;
    return false;
}

/* A token of shorter [n] that stands in longer [m] too, but not where it would be aligned; -1: none. */
static hsc_token out_of_place(const hsc_token *shorter, int n, const hsc_token *longer, int m)
{
    for (int i = 0; i < n; i++)
        if (shorter[i] != longer[m - n + i] && holds(longer, m, shorter[i])) return shorter[i];
    return -1;
}

hsc_status hsc_align(const hsc_token *x, int n_x, const hsc_token *y, int n_y, int word, int *seam, hsc_error *err)
{
    const hsc_token *shorter = n_x < n_y ? x : y, *longer = n_x < n_y ? y : x;
    int n = n_x < n_y ? n_x : n_y, surplus = n_x + n_y - 2 * n;
    hsc__error_clear(err);
    *seam = 0;
    HSC_FAIL_IF(n < 1, HSC_EINVAL, "texts of %d and %d tokens: one is empty", n_x, n_y);
    if (!surplus) return HSC_OK;
    int start = common_start(shorter, longer, n), end = common_end(shorter + n, longer + n + surplus, n - start);
    int own = n - start - end;
    HSC_FAIL_IF(start + end < own, HSC_EINVAL,
                "texts of %d and %d tokens have %d at their ends in common and differ in %d or more: no frame", n_x,
                n_y, start + end, own);
    HSC_FAIL_IF(!own && (word < 0 || word >= start), HSC_EINVAL,
                "texts of %d and %d tokens: where one has a word more the other has nothing to align", n_x, n_y);
    hsc_token lost = out_of_place(shorter + start, own, longer + start, own + surplus);
    HSC_FAIL_IF(lost >= 0, HSC_EINVAL,
                "texts of %d and %d tokens differ in more than one place: token %d of both would not meet itself", n_x,
                n_y, (int)lost);
    *seam = own ? start : start - 1;
    return HSC_OK;
}

int hsc_align_rows(int n_tokens, int n_other, int seam, hsc_rows out[2])
{
    int n = 0, surplus = n_tokens - n_other;
    if (!surplus) seam = 0;
    if (seam > 0) out[n++] = (hsc_rows){0, 0, seam};
    int to = surplus > 0 ? seam + surplus : seam, from = surplus < 0 ? seam - surplus : seam;
    out[n++] = (hsc_rows){to, from, n_tokens - to};
    return n;
}
