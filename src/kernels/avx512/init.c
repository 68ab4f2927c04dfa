/* The avx512 level of the kernel table. */
#include "kernels/simd/vec_avx512.h"

#include "kernels/simd/init.h"

void hsc__kernels_init_avx512(hsc__kernels *table)
{
    fill_table(table, "avx512", 64);
    table->row_sum = hsc__avx512_row_sum;
    table->row_entropy = hsc__avx512_row_entropy;
    table->row_above = hsc__avx512_row_above;
    table->row_maxima = hsc__avx512_row_maxima;
    table->row_received = hsc__avx512_row_received;
    table->quantise = hsc__avx512_quantise;
}
