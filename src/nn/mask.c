/* Masks as tables of bytes: not 0, may look. */
#include "headscope/nn.h"

void hsc_nn_mask_sliding(int n_query, int n_key, int window, unsigned char *allowed)
{
    for (int q = 0; q < n_query; q++) {
        int position = n_key - n_query + q;
        for (int k = 0; k < n_key; k++) *allowed++ = k <= position && (window <= 0 || k > position - window);
    }
}

void hsc_nn_mask_causal(int n_query, int n_key, unsigned char *allowed)
{
    hsc_nn_mask_sliding(n_query, n_key, 0, allowed);
}

void hsc_nn_mask_padding(const unsigned char *real, int n_batch, int n_query, int n_key, unsigned char *allowed)
{
    for (int b = 0; b < n_batch; b++, real += n_key) {
        for (int q = 0; q < n_query; q++) {
            for (int k = 0; k < n_key; k++) *allowed++ = real[k] != 0;
        }
    }
}

void hsc_nn_mask_and(const unsigned char *a, const unsigned char *b, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++) out[i] = a[i] && b[i];
}

void hsc_nn_mask_invert(const unsigned char *a, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++) out[i] = !a[i];
}
