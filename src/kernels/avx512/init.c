/* The avx512 level of the kernel table: entries that it has replace those of the level below. */
#include "kernels/simd/vec_avx512.h"

void hsc__kernels_init_avx512(hsc__kernels *table)
{
    table->name = "avx512";
    table->nr = NR;
    table->mr = MR;
    table->few_rows = MR;
    table->pack = KERNEL(pack);
    table->pack_t = KERNEL(pack_t);
    table->gemm = KERNEL(gemm);
    table->few = KERNEL(few);
    table->few_t = KERNEL(few_t);
}
