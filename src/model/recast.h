/*
 * Matrices converted once, when the model is opened, into memory of its own: F32 or BF16 for speed where the file is
 * quantised, Q8_0 for less to read. Everything else stays mapped. A converted matrix lies [n_out][n_in], also where the
 * file has it the other way round.
 */
#ifndef HSC_MODEL_RECAST_H
#define HSC_MODEL_RECAST_H

#include "model/desc.h"

/* What it took. Zeros: nothing was converted. */
typedef struct hsc__recast {
    void *data;          /* every converted matrix, one after the other */
    uint64_t n_bytes;    /* of data */
    uint64_t from_bytes; /* of the same matrices in the file, which are not read any more */
    size_t n_matrices;
    size_t n_odd; /* matrices left as they are, because their rows are no whole blocks */
    double seconds;
} hsc__recast;

typedef struct hsc__recast_plan {
    hsc_dtype dtype;
    int n_threads;
    bool shuffle; /* the values of each matrix in a random order of the seed; matrices of the type already as well */
    uint64_t seed;
} hsc__recast_plan;

/* Points the description's weights at their converted selves. HSC_EINVAL: a type that cannot be converted to.
 * HSC_ENOMEM: the description is as it was. */
hsc_status hsc__recast_weights(hsc__desc *desc, const hsc__recast_plan *plan, hsc__recast *out, hsc_error *err);
void hsc__recast_free(hsc__recast *recast);

#endif
