/* The neon level of the kernel table. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/init.h"

void hsc__kernels_init_neon(hsc__kernels *table)
{
    fill_table(table, "neon", 64);
    table->nr_bf16 = table->nr_q8 = NR;
    table->few_rows_bf16 = MR;
    table->few_rows_q8 = 4;
    SIMD_BF16_ENTRIES(SIMD_ENTRY)
    SIMD_Q8_ENTRIES(SIMD_ENTRY)
    SIMD_STATS_ENTRIES(SIMD_ENTRY)
}
