/* What few_q8 works on at a time, on every level. Before it stands MOST_ROWS: rows of activations that one strip takes.
 */
#ifndef HSC_KERNELS_SIMD_FEW_Q8_STRIP_H
#define HSC_KERNELS_SIMD_FEW_Q8_STRIP_H

/* VL outputs for n_rows rows of activations. */
typedef struct strip {
    const unsigned char *rows[VL];
    const hsc__x8 *x;
    int n_rows;
    const unsigned char *ahead; /* what is read after these rows, in the order in which it lies */
    vf total[MOST_ROWS];        /* of the chunk */
} strip;

#endif
