/* The neon level of the kernel table: entries that it has replace those of the level below. */
#include "kernels/kernels.h"

void hsc__kernels_init_neon(hsc__kernels *table)
{
    table->name = "neon";
}
