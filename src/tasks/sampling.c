/* From logits to the next token: penalties, temperature, the filters, and the draw. The order of the steps and what
 * each keeps are those of transformers' logits processors; sums of probabilities are taken in double. */
#include "base/alloc.h"
#include "base/text.h"
#include "headscope/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A token that is still in the running, with what a step sorts by. */
typedef struct candidate {
    double key;
    double prob;
    int id;
} candidate;

/* ------------------------------------------------------------------------------------------------------ limits ---- */

static hsc_status check_number(const char *name, float value, float low, float high, hsc_error *err)
{
    char shown[32], least[32], most[32];
    if (value >= low && value <= high) return HSC_OK; /* NaN is outside */
    hsc__format_double(shown, sizeof shown, 6, (double)value);
    hsc__format_double(least, sizeof least, 6, (double)low);
    hsc__format_double(most, sizeof most, 6, (double)high);
    return hsc__fail(err, HSC_EINVAL, 0, "%s is %s; it goes from %s to %s", name, shown, least, most);
}

hsc_status hsc_sampling_check(const hsc_sampling *s, hsc_error *err)
{
    HSC_TRY(check_number("the repetition penalty", s->repetition, 0, 1000, err));
    HSC_TRY(check_number("the presence penalty", s->presence, -1000, 1000, err));
    HSC_TRY(check_number("the frequency penalty", s->frequency, -1000, 1000, err));
    HSC_TRY(check_number("the temperature", s->temperature, 0, 1000, err));
    HSC_FAIL_IF(s->top_k < 0, HSC_EINVAL, "top_k is %d; it goes from 0 (off) up", s->top_k);
    HSC_TRY(check_number("top_p", s->top_p, 0, 1, err));
    HSC_TRY(check_number("min_p", s->min_p, 0, 1, err));
    return check_number("typical_p", s->typical_p, 0, 1, err);
}

static hsc_status check_logits(const float *logits, int n, hsc_error *err)
{
    for (int i = 0; i < n; i++)
        HSC_FAIL_IF(isnan(logits[i]), HSC_EINVAL, "the logit of token %d is not a number: there is no next token", i);
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------- penalties ---- */

/* A token is penalised once, however often it occurs; `seen` [n_vocab] are flags. */
static void penalise_repetition(float penalty, const hsc_token *ids, size_t n_ids, float *logits, int n_vocab,
                                unsigned char *seen)
{
    for (size_t i = 0; i < n_ids; i++) {
        hsc_token id = ids[i];
        if (id < 0 || id >= n_vocab || seen[id]) continue;
        seen[id] = 1;
        logits[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
    }
}

static void penalise_counts(const hsc_sampling *s, const hsc_token *ids, size_t n_ids, float *logits, int n_vocab,
                            unsigned char *seen)
{
    for (size_t i = 0; i < n_ids; i++) {
        hsc_token id = ids[i];
        if (id < 0 || id >= n_vocab) continue;
        logits[id] -= s->frequency + (seen[id] ? 0.0F : s->presence);
        seen[id] = 1;
    }
}

static hsc_status penalise(const hsc_sampling *s, const hsc_token *ids, size_t n_ids, size_t n_prompt, float *logits,
                           int n_vocab, hsc_error *err)
{
    bool repetition = s->repetition != 0 && s->repetition != 1, counts = s->presence != 0 || s->frequency != 0;
    if (!repetition && !counts) return HSC_OK;
    unsigned char *seen = hsc__calloc((size_t)n_vocab, 1);
    if (!seen) return hsc__fail_memory(err, (size_t)n_vocab, "the tokens seen");
    if (repetition) penalise_repetition(s->repetition, ids, n_ids, logits, n_vocab, seen);
    memset(seen, 0, (size_t)n_vocab);
    if (counts) penalise_counts(s, ids + n_prompt, n_ids - n_prompt, logits, n_vocab, seen);
    hsc__free(seen);
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- filters ---- */

static float largest(const float *logits, int n)
{
    float best = -INFINITY;
    for (int i = 0; i < n; i++) best = logits[i] > best ? logits[i] : best;
    return best;
}

/* sum exp(logits - top) in double. */
static double sum_exp(const float *logits, int n, float top)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (logits[i] > -INFINITY) sum += exp((double)logits[i] - (double)top);
    return sum;
}

static int rising(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The k-th largest of the n values, which are moved about (quickselect, Hoare 1961). */
static float kth_largest(float *values, int n, int k)
{
    int low = 0, high = n - 1, at = k - 1;
    while (low < high) {
        float pivot = values[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (values[i] > pivot) i++;
            while (values[j] < pivot) j--;
            if (i > j) break;
            float swapped = values[i];
            values[i++] = values[j];
            values[j--] = swapped;
        }
        if (at <= j) high = j;
        else if (at >= i) low = i;
        else break;
    }
    return values[at];
}

static void keep_top_k(int k, float *logits, int n, float *scratch)
{
    if (k == 0 || k >= n) return;
    memcpy(scratch, logits, (size_t)n * sizeof *scratch);
    float least = kth_largest(scratch, n, k);
    for (int i = 0; i < n; i++)
        if (logits[i] < least) logits[i] = -INFINITY;
}

/* Removes from the smallest on while the sum stays within 1 - top_p. What cannot add up to that, however many there
 * are, is removed unsorted: only a few hundred of a vocabulary are left to sort. */
static void keep_top_p(float top_p, float *logits, int n, candidate *list)
{
    if (top_p == 0 || top_p >= 1) return;
    float top = largest(logits, n);
    double total = sum_exp(logits, n, top), limit = 1 - (double)top_p, sum = 0;
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (logits[i] == -INFINITY) continue;
        double prob = exp((double)logits[i] - (double)top) / total;
        if (prob * n < limit && logits[i] < top) {
            sum += prob;
            logits[i] = -INFINITY;
        } else {
            list[count++] = (candidate){-(double)logits[i], prob, i};
        }
    }
    qsort(list, (size_t)count, sizeof *list, rising);
    for (int i = count - 1; i > 0; i--) { /* of equals the lower id stays */
        sum += list[i].prob;
        if (sum <= limit) logits[list[i].id] = -INFINITY;
    }
}

static void keep_min_p(float min_p, float *logits, int n)
{
    if (min_p == 0) return;
    float top = largest(logits, n);
    for (int i = 0; i < n; i++)
        if (exp((double)logits[i] - (double)top) < (double)min_p) logits[i] = -INFINITY;
}

static void keep_typical(float mass, float *logits, int n, candidate *list)
{
    if (mass == 0 || mass >= 1) return;
    float top = largest(logits, n);
    double log_total = log(sum_exp(logits, n, top)), entropy = 0, sum = 0;
    int count = 0, last = 0;
    for (int i = 0; i < n; i++) {
        if (logits[i] == -INFINITY) continue;
        double log_prob = (double)logits[i] - (double)top - log_total;
        entropy -= log_prob * exp(log_prob);
        list[count++] = (candidate){-log_prob, exp(log_prob), i};
    }
    for (int i = 0; i < count; i++) list[i].key = fabs(list[i].key - entropy);
    qsort(list, (size_t)count, sizeof *list, rising);
    while (last < count - 1 && (sum += list[last].prob) < (double)mass) last++;
    for (int i = 1; i < count; i++)
        if (list[i].key > list[last].key) logits[list[i].id] = -INFINITY;
}

static hsc_status filter(const hsc_sampling *s, float *logits, int n, hsc_error *err)
{
    bool sorts = (s->top_p > 0 && s->top_p < 1) || (s->typical_p > 0 && s->typical_p < 1) || s->top_k;
    candidate *list = NULL;
    for (int i = 0; s->temperature != 1 && i < n; i++) logits[i] /= s->temperature;
    if (sorts) {
        list = hsc__calloc((size_t)n, sizeof *list);
        if (!list) return hsc__fail_memory(err, (size_t)n * sizeof *list, "sorting the next tokens");
    }
    keep_top_k(s->top_k, logits, n, (float *)(void *)list);
    keep_top_p(s->top_p, logits, n, list);
    keep_min_p(s->min_p, logits, n);
    keep_typical(s->typical_p, logits, n, list);
    hsc__free(list);
    return HSC_OK;
}

hsc_status hsc_filter_logits(const hsc_sampling *s, const hsc_token *ids, size_t n_ids, size_t n_prompt, float *logits,
                             int n_vocab, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_FAIL_IF(n_vocab < 1, HSC_EINVAL, "there are %d logits", n_vocab);
    HSC_FAIL_IF(n_prompt > n_ids, HSC_EINVAL, "the prompt has %zu tokens, the whole text %zu", n_prompt, n_ids);
    HSC_TRY(hsc_sampling_check(s, err));
    HSC_TRY(check_logits(logits, n_vocab, err));
    HSC_TRY(penalise(s, ids, n_ids, n_prompt, logits, n_vocab, err));
    return s->temperature > 0 ? filter(s, logits, n_vocab, err) : HSC_OK;
}

/* ---------------------------------------------------------------------------------------------------- the draw ---- */

static hsc_token argmax(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++) best = logits[i] > logits[best] ? i : best;
    return best;
}

hsc_status hsc_sample_token(const float *logits, int n_vocab, hsc_random *random, hsc_token *out, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_FAIL_IF(n_vocab < 1, HSC_EINVAL, "there are %d logits", n_vocab);
    HSC_TRY(check_logits(logits, n_vocab, err));
    hsc_token best = argmax(logits, n_vocab);
    HSC_FAIL_IF(!isfinite(logits[best]), HSC_EINVAL, "no token is possible: the largest logit is not finite");
    *out = best;
    if (!random) return HSC_OK;
    double total = sum_exp(logits, n_vocab, logits[best]), sum = 0;
    double target = (double)(hsc_random_bits64(random) >> 11) * 0x1p-53 * total;
    for (int i = 0; i < n_vocab; i++) {
        if (logits[i] == -INFINITY) continue;
        sum += exp((double)logits[i] - (double)logits[best]);
        *out = i; /* stays at the last possible one when rounding leaves the sum short */
        if (sum > target) break;
    }
    return HSC_OK;
}

double hsc_log_prob(const float *logits, int n_vocab, hsc_token token)
{
    float top = largest(logits, n_vocab);
    return (double)logits[token] - (double)top - log(sum_exp(logits, n_vocab, top));
}
