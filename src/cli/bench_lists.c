/* The lists of lengths that `headscope bench` takes, spelled as llama-bench has them, and the peak of resident memory.
 * Nothing here knows a model. */
#include "cli/bench.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* Reads digits that make a number from low to high; *text moves past them. */
static bool read_number(const char **text, int low, int high, int *out)
{
    int64_t value = 0;
    if (**text < '0' || **text > '9') return false;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        value = value * 10 + (**text - '0');
        if (value > INT_MAX) return false;
    }
    *out = (int)value;
    return value >= low && value <= high;
}

/* Reads "512", "1-4", "0-2048+512" or "128-4096*2". */
static bool read_range(const char **text, int low, int high, int *first, int *last, char *how, int *step)
{
    *how = '+';
    *step = 1;
    if (!read_number(text, low, high, first)) return false;
    *last = *first;
    if (**text != '-') return true;
    (*text)++;
    if (!read_number(text, low, high, last) || *last < *first) return false;
    if (**text != '+' && **text != '*') return true;
    *how = *(*text)++;
    if (!read_number(text, 1, INT_MAX, step)) return false;
    return *how == '+' || (*step > 1 && *first > 0); /* else it would never end */
}

static bool add_range(int first, int last, char how, int step, size_t *capacity, hsc__ids *out)
{
    for (int64_t at = first; at <= last; at = how == '+' ? at + step : at * step) {
        if (out->n == HSC__BENCH_MOST_TESTS) return false;
        if (hsc__grow(&out->ids, capacity, out->n + 1, sizeof *out->ids, NULL) != HSC_OK) return false;
        out->ids[out->n++] = (int)at;
    }
    return true;
}

bool hsc__bench_list(const char *text, int low, int high, hsc__ids *out)
{
    size_t capacity = out->n;
    for (;;) {
        int first, last, step;
        char how;
        if (!read_range(&text, low, high, &first, &last, &how, &step)) return false;
        if (!add_range(first, last, how, step, &capacity, out)) return false;
        if (*text == '\0') return true;
        if (*text++ != ',') return false;
    }
}

bool hsc__bench_pair(const char *text, int low, int high, hsc__ids *out)
{
    size_t capacity = out->n;
    int first, second;
    if (!read_number(&text, low, high, &first) || *text++ != ',') return false;
    if (!read_number(&text, low, high, &second) || *text) return false;
    return add_range(first, first, '+', 1, &capacity, out) && add_range(second, second, '+', 1, &capacity, out);
}

void hsc__bench_reset_peak(void)
{
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

double hsc__bench_peak_mb(void)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmHWM:", 6) == 0) kib = (double)strtol(line + 6, NULL, 10);
    }
    if (file) fclose(file);
    if (kib > 0) return kib * 1024 * 1e-6;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
    return (double)usage.ru_maxrss * 1e-6;
#else
    return (double)usage.ru_maxrss * 1024 * 1e-6;
#endif
}
