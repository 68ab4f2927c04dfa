/* What one row of one head's pattern says to every detector. Rows know nothing of each other, so threads may take them
 * in any order. */
#include "inspect/detect.h"

#include <math.h>

/* Sums weights on several keys and remembers the heaviest. */
typedef struct sum {
    double weight;
    int n, key;
} sum;

static void add_key(sum *s, const float *weights, int key)
{
    if (s->n++ == 0 || weights[key] > weights[s->key]) s->key = key;
    s->weight += (double)weights[key];
}

static void put(hsc__row *out, hsc_detector detector, const sum *s)
{
    if (!s->n) return;
    out->figure[detector] = (float)s->weight;
    out->key[detector] = (short)s->key;
}

static void put_key(hsc__row *out, hsc_detector detector, const float *weights, int key)
{
    out->figure[detector] = weights[key];
    out->key[detector] = (short)key;
}

static int bin_of(int distance)
{
    int bin = 0;
    while (distance > 0 && bin < HSC_DETECT_BINS - 1) {
        distance /= 2;
        bin++;
    }
    return bin;
}

/* Entropy and distances are about all that the row sees. */
static void take_shape(int query, const float *weights, int n_keys, hsc__row *out)
{
    double entropy = 0, bins[HSC_DETECT_BINS] = {0};
    for (int k = 0; k < n_keys; k++) {
        double p = (double)weights[k];
        if (p > 0) entropy -= p * log(p);
        bins[bin_of(k < query ? query - k : k - query)] += p;
    }
    out->figure[HSC_DETECT_ENTROPY] = (float)entropy;
    for (int b = 0; b < HSC_DETECT_BINS; b++) out->bins[b] = (float)bins[b];
}

/* TransformerLens counts every row and every token, special ones too. */
static void take_tl(const hsc__window *w, int query, const float *weights, hsc__row *out)
{
    double duplicate = 0, induction = 0;
    for (int k = w->places[query].same; k >= 0; k = w->places[k].same) {
        duplicate += (double)weights[k];
        induction += (double)weights[k + 1];
    }
    out->tl[HSC__TL_PREVIOUS] = query ? weights[query - 1] : 0;
    out->tl[HSC__TL_DUPLICATE] = (float)duplicate;
    out->tl[HSC__TL_INDUCTION] = (float)induction;
}

static void take_neighbours(const hsc__window *w, bool causal, int query, const float *weights, hsc__row *out)
{
    const hsc__place *places = w->places;
    if (!places[query - 1].special) put_key(out, HSC_DETECT_PREVIOUS, weights, query - 1);
    put_key(out, HSC_DETECT_SELF, weights, query);
    if (causal || !places[0].special) put_key(out, HSC_DETECT_FIRST, weights, 0);
    else put_key(out, HSC_DETECT_CLS, weights, 0);
    if (!causal && query + 1 < w->n && !places[query + 1].special) put_key(out, HSC_DETECT_NEXT, weights, query + 1);
    if (places[query].first_piece >= 0) put_key(out, HSC_DETECT_PIECE, weights, places[query].first_piece);
    if (w->half && query >= w->start + w->half && query < w->start + 2 * w->half)
        put_key(out, HSC_DETECT_INDUCTION, weights, query - w->half + 1);
}

static void take_sums(const hsc__window *w, bool causal, int query, const float *weights, int n_keys, hsc__row *out)
{
    sum duplicate = {0}, punctuation = {0}, sep = {0};
    for (int k = w->places[query].same; k >= 0; k = w->places[k].same)
        if (!w->places[k].special) add_key(&duplicate, weights, k);
    for (int k = 0; k < n_keys; k++) {
        if (w->places[k].punctuation) add_key(&punctuation, weights, k);
        if (!causal && k > 0 && w->places[k].special) add_key(&sep, weights, k);
    }
    put(out, HSC_DETECT_DUPLICATE, &duplicate);
    put(out, HSC_DETECT_PUNCTUATION, &punctuation);
    put(out, HSC_DETECT_SEP, &sep);
}

void hsc__row_take(const hsc__window *window, bool causal, int query, const float *weights, int n_keys, hsc__row *out)
{
    *out = (hsc__row){0};
    for (int d = 0; d < HSC_N_DETECTORS; d++) {
        out->figure[d] = NAN;
        out->key[d] = -1;
    }
    take_tl(window, query, weights, out);
    if (query == 0 || window->places[query].special) return;
    take_neighbours(window, causal, query, weights, out);
    take_sums(window, causal, query, weights, n_keys, out);
    take_shape(query, weights, n_keys, out);
}
