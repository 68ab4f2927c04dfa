/*
 * headscope/random.h: PyTorch's random numbers.
 *
 * The same seed gives what torch.manual_seed gives on the CPU: the same integers, permutations and uniform numbers to
 * the bit, normal numbers within 4e-6 (PyTorch's vector code is itself 2e-6 away from the exact transform). A call
 * takes as many draws from the generator as PyTorch's, so sequences of calls agree too:
 *
 *     hsc_random r;                                  torch
 *     hsc_random_seed(&r, 0);                        torch.manual_seed(0)
 *     hsc_random_normal(&r, 0, 1, 80, x);            x = torch.randn(5, 16)
 *     hsc_random_uniform(&r, 0, 1, 3, u);            u = torch.rand(3)
 *     hsc_random_integers(&r, 0, 10, 3, i, NULL);    i = torch.randint(0, 10, (3,))
 *     hsc_random_permutation(&r, 5, p, NULL);        p = torch.randperm(5)
 *
 * What counts for the draws is the number of values, not the shape; values are written in row-major order. PyTorch
 * means its float32 and int64 tensors, contiguous, on a CPU with AVX2 or later (without, its uniform numbers in a range
 * round twice where these round once).
 */
#ifndef HEADSCOPE_RANDOM_H
#define HEADSCOPE_RANDOM_H

#include "headscope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A generator: the Mersenne Twister mt19937 (Matsumoto and Nishimura 1998) and, as in PyTorch, the second of a pair of
 * normal numbers that the next short call takes. It owns no memory and may be copied; one per thread. The fields are
 * the library's own. Seed it before its first use. */
typedef struct hsc_random {
    uint32_t state[624];
    int used;       /* words of the state that were given out */
    int has_normal; /* whether `normal` waits */
    double normal;
} hsc_random;

/* torch.manual_seed(seed). As there, only the low 32 bits count. */
HSC_API void hsc_random_seed(hsc_random *random, uint64_t seed);

/* The next 32 bits; the next 64 (two draws, the high half first). */
HSC_API uint32_t hsc_random_bits32(hsc_random *random);
HSC_API uint64_t hsc_random_bits64(hsc_random *random);

/* out[n] uniform in [low, high): torch.rand(n) with 0 and 1, tensor.uniform_(low, high). 24 bits a value; rounding may
 * reach `high` itself where the range is far from 0, as in PyTorch. */
HSC_API void hsc_random_uniform(hsc_random *random, float low, float high, size_t n, float *out);

/* out[n] normal: torch.randn(n) with 0 and 1, tensor.normal_(mean, std). By Box and Muller (1958), in PyTorch's two
 * ways: fewer than 16 values come one by one from 53-bit draws, in pairs that may span calls; 16 and more in blocks of
 * 16 from 24-bit draws, value j of a block being paired with j + 8, and what is left over by redrawing the last 16. */
HSC_API void hsc_random_normal(hsc_random *random, float mean, float std, size_t n, float *out);

/* out[n] integers in [low, high): torch.randint(low, high, (n,)). HSC_EINVAL: low >= high. */
HSC_API HSC_MUST_CHECK hsc_status hsc_random_integers(hsc_random *random, int64_t low, int64_t high, size_t n,
                                                      int64_t *out, hsc_error *err);

/* out[n]: 0 .. n-1 in random order: torch.randperm(n). HSC_EINVAL: n is above 214748363, from where PyTorch goes about
 * it in another way. */
HSC_API HSC_MUST_CHECK hsc_status hsc_random_permutation(hsc_random *random, int64_t n, int64_t *out, hsc_error *err);

/* w [n_out][n_in], uniform in +-gain * sqrt(3 / n_in), gain = sqrt(2 / (1 + a^2)):
 * torch.nn.init.kaiming_uniform_(w, a=a) (He et al. 2015). nn.Linear takes a = sqrt(5). */
HSC_API void hsc_random_kaiming_uniform(hsc_random *random, int n_out, int n_in, double a, float *w);

/* w [n_out][n_in], uniform in +-gain * sqrt(6 / (n_in + n_out)): torch.nn.init.xavier_uniform_(w, gain)
 * (Glorot and Bengio 2010). */
HSC_API void hsc_random_xavier_uniform(hsc_random *random, int n_out, int n_in, double gain, float *w);

#ifdef __cplusplus
}
#endif
#endif
