/* What `headscope bench` shares between its files: the lists that its options take, and the memory of a test. */
#ifndef HSC_CLI_BENCH_H
#define HSC_CLI_BENCH_H

#include "cli/shared.h"

enum { HSC__BENCH_MOST_TESTS = 10000 }; /* values that the lists of an option may spell */

/* Appends numbers from low to high, as llama-bench takes them: 64,512 and the ranges 1-4, 0-2048+512 and 128-4096*2
 * (the last of a range is part of it when a step meets it). False when the text is none, memory is out, or there would
 * be more than HSC__BENCH_MOST_TESTS. Free out->ids either way. */
bool hsc__bench_list(const char *text, int low, int high, hsc__ids *out);

/* Appends two numbers from low to high, "512,128"; as hsc__bench_list besides. */
bool hsc__bench_pair(const char *text, int low, int high, hsc__ids *out);

/* What a test before left behind is given back, and the peak of resident memory begins anew where the system can
 * (Linux); elsewhere it stays that of the whole process. */
void hsc__bench_reset_peak(void);

/* The most memory that was resident since then, in megabytes. */
double hsc__bench_peak_mb(void);

#endif
