/* What a vector level has: the sizes of its tiles and its entries. The rest of the table stays as the level below has
 * it. */
#ifndef HSC_KERNELS_SIMD_INIT_H
#define HSC_KERNELS_SIMD_INIT_H

#define SIMD_ENTRIES(X)                                                                                                \
    X(dequantise)                                                                                                      \
    X(pack)                                                                                                            \
    X(pack_t) X(gemm) X(few) X(few_t) X(layer_norm) X(rms_norm) X(softmax) X(scale_cap) X(act) X(gate) X(add) X(rope)

static void fill_table(hsc__kernels *table, const char *name, int few_rows)
{
    table->name = name;
    table->nr = NR;
    table->mr = MR;
    table->few_rows = few_rows;
#define SIMD_ENTRY(entry) table->entry = KERNEL(entry);
    SIMD_ENTRIES(SIMD_ENTRY)
#undef SIMD_ENTRY
}

#endif
