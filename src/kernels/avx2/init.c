/* The avx2 level of the kernel table. */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/init.h"

void hsc__kernels_init_avx2(hsc__kernels *table)
{
    fill_table(table, "avx2", 64);
    table->nr_bf16 = table->nr_q8 = NR;
    table->few_rows_bf16 = MR;
    table->few_rows_q8 = 4;
    SIMD_BF16_ENTRIES(SIMD_ENTRY)
    SIMD_Q8_ENTRIES(SIMD_ENTRY)
    SIMD_STATS_ENTRIES(SIMD_ENTRY)
}
