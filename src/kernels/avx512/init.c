/* The avx512 level of the kernel table. */
#include "kernels/simd/vec_avx512.h"

#include "kernels/simd/init.h"

void hsc__kernels_init_avx512(hsc__kernels *table)
{
    fill_table(table, "avx512", 64);
    SIMD_STATS_ENTRIES(SIMD_ENTRY)
    table->quantise = hsc__avx512_quantise;
}
