/* The avx2 level of the kernel table: entries that it has replace those of the level below. */
#include "kernels/kernels.h"

void hsc__kernels_init_avx2(hsc__kernels *table)
{
    table->name = "avx2";
}
