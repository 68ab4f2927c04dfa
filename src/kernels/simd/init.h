/* What a vector level has: the sizes of its tiles and its entries. The rest of the table stays as the level below has
 * it. */
#ifndef HSC_KERNELS_SIMD_INIT_H
#define HSC_KERNELS_SIMD_INIT_H

#define SIMD_ENTRIES(X)                                                                                                \
    X(dequantise)                                                                                                      \
    X(pack)                                                                                                            \
    X(pack_t) X(gemm) X(few) X(few_t) X(layer_norm) X(rms_norm) X(softmax) X(scale_cap) X(act) X(gate) X(add) X(rope)

/* The other kinds, and statistics, of the levels that take them from this folder. */
#define SIMD_BF16_ENTRIES(X) X(round_bf16) X(pack_bf16) X(pack_t_bf16) X(gemm_bf16) X(few_bf16) X(few_t_bf16)
#define SIMD_Q8_ENTRIES(X) X(quantise_x) X(pack_q8) X(gemm_q8) X(few_q8)
#define SIMD_STATS_ENTRIES(X) X(row_sum) X(row_entropy) X(row_above) X(row_maxima) X(row_received)

#define SIMD_ENTRY(entry) table->entry = KERNEL(entry);

INLINE void fill_table(hsc__kernels *table, const char *name, int few_rows)
{
    table->name = name;
    table->nr = NR;
    table->mr = MR;
    table->few_rows = few_rows;
    SIMD_ENTRIES(SIMD_ENTRY)
}

/* A level that takes all it has from this folder. */
INLINE void fill_whole_table(hsc__kernels *table, const char *name)
{
    fill_table(table, name, 64);
    table->nr_bf16 = table->nr_q8 = NR;
    table->few_rows_bf16 = MR;
    table->few_rows_q8 = 4;
    SIMD_BF16_ENTRIES(SIMD_ENTRY)
    SIMD_Q8_ENTRIES(SIMD_ENTRY)
    SIMD_STATS_ENTRIES(SIMD_ENTRY)
}

#endif
