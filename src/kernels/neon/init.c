/* The neon level of the kernel table. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/init.h"

void hsc__kernels_init_neon(hsc__kernels *table)
{
    fill_whole_table(table, "neon");
}
