/*
 * Chooses the table once: the reference entries first, then each instruction set that the CPU and the operating system
 * support overrides what it has. HEADSCOPE_ISA names a lower level.
 */
#include "kernels/kernels.h"
#include "kernels/ref/ref.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

enum { MAX_LEVELS = 4 };

static struct {
    hsc__kernels tables[MAX_LEVELS];
    int n_levels, chosen;
} state;

static void fill_ref(hsc__kernels *t)
{
    t->name = "ref";
    t->nr = t->nr_bf16 = t->nr_q8 = HSC__REF_NR;
    t->mr = HSC__REF_MR;
    t->few_rows = t->few_rows_bf16 = t->few_rows_q8 = HSC__REF_FEW;
#define HSC_KERNEL_SET(name, type, parameters) t->name = hsc__ref_##name;
    HSC_KERNEL_LIST(HSC_KERNEL_SET)
#undef HSC_KERNEL_SET
}

/* Adds a level that starts as a copy of the one below. */
static void add_level(void (*init)(hsc__kernels *))
{
    hsc__kernels *t = &state.tables[state.n_levels];
    *t = state.tables[state.n_levels - 1];
    init(t);
    state.n_levels++;
}

#if defined(__x86_64__)
/* Conversions of halves. Asked of the processor itself: not every compiler knows the name "f16c". */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx & bit_F16C;
}
#endif

#if defined(__aarch64__)
/* The 8-bit dot product: every Arm processor of Apple's computers has it, others say so. */
static bool has_dotprod(void)
{
#if defined(__APPLE__)
    return true;
#elif defined(__linux__)
    enum { ASIMDDP = 1 << 20 }; /* bit of AT_HWCAP (Linux, Documentation/arch/arm64/elf_hwcaps.rst) */
    return getauxval(AT_HWCAP) & ASIMDDP;
#else
    return false;
#endif
}
#endif

static void init_once(void)
{
    fill_ref(&state.tables[0]);
    state.n_levels = 1;
#if defined(__x86_64__)
    __builtin_cpu_init(); /* libgcc checks the operating system's saved state too */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
        add_level(hsc__kernels_init_avx2);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            add_level(hsc__kernels_init_avx512);
            hsc__kernels *top = &state.tables[state.n_levels - 1];
            if (__builtin_cpu_supports("avx512bf16")) hsc__kernels_add_avx512_bf16(top);
            if (__builtin_cpu_supports("avx512vnni")) hsc__kernels_add_avx512_vnni(top);
        }
    }
#elif defined(__aarch64__)
    add_level(hsc__kernels_init_neon);
    if (has_dotprod()) hsc__kernels_add_neon_dotprod(&state.tables[state.n_levels - 1]);
#endif
    state.chosen = state.n_levels - 1;
    const char *wanted = getenv("HEADSCOPE_ISA");
    for (int i = 0; wanted && i < state.n_levels; i++) {
        if (strcmp(state.tables[i].name, wanted) == 0) state.chosen = i;
    }
}

static void ensure(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
}

const hsc__kernels *hsc__kernels_get(void)
{
    ensure();
    return &state.tables[state.chosen];
}

const hsc__kernels *hsc__kernels_ref(void)
{
    ensure();
    return &state.tables[0];
}

int hsc__kernels_all(const hsc__kernels **out, int capacity)
{
    ensure();
    for (int i = 0; i < state.n_levels && i < capacity; i++) out[i] = &state.tables[i];
    return state.n_levels;
}

const char *hsc_isa(void)
{
    return hsc__kernels_get()->name;
}
