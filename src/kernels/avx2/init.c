/* The avx2 level of the kernel table. */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/init.h"

void hsc__kernels_init_avx2(hsc__kernels *table)
{
    fill_whole_table(table, "avx2");
}
