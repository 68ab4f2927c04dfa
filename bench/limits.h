/* What the machine allows, measured: multiply-adds in registers and bytes read, on all threads. */
#ifndef HSC_BENCH_LIMITS_H
#define HSC_BENCH_LIMITS_H

#include <stddef.h>

/* Wall time; after use_own_time the processor time of the calling thread, which other processes do not lengthen. */
double seconds(void);
void use_own_time(void);

/* The median; sorts the values. */
double median(double *values, int n);

/* Floating-point operations a second of a register-only float32 multiply-add loop in the widest vectors of this CPU. */
double limit_peak(int threads);

/* Bytes a second of threads that sum n_bytes at p once, in the order and pieces of a product's tasks. */
double limit_read(int threads, const void *p, size_t n_bytes);

#endif
