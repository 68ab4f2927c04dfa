/* Addressing, storing and unpacking of cached keys and values. */
#include "tensor/kv.h"

#include "base/dtype.h"

#include <string.h>

static size_t row_bytes(const hsc__kv *kv)
{
    return hsc__dtype_bytes(kv->dtype, (size_t)kv->d_head);
}

size_t hsc__kv_head_bytes(hsc_dtype dtype, int d_head, int n_cells)
{
    return hsc__dtype_bytes(dtype, (size_t)d_head) * (size_t)n_cells;
}

bool hsc__kv_can_store(hsc_dtype dtype, int d_head)
{
    return dtype == HSC_F32 || dtype == HSC_F16 || dtype == HSC_BF16 || (dtype == HSC_Q8_0 && d_head % 32 == 0);
}

static size_t cell_of(const hsc__kv *kv, int position)
{
    return (size_t)(position % kv->n_cells);
}

/* Where a float32 key's first value lies; the others follow nr floats apart. */
static float *tiled_key(const hsc__kernels *kernels, const hsc__kv *kv, char *k, int head, int position)
{
    size_t nr = (size_t)kernels->nr, cell = cell_of(kv, position);
    float *head_start = (float *)(void *)(k + (size_t)head * kv->head_bytes);
    return head_start + cell / nr * nr * (size_t)kv->d_head + cell % nr;
}

static void store_key(const hsc__kernels *kernels, const hsc__kv *kv, int head, int position, const float *row)
{
    if (kv->dtype != HSC_F32) {
        char *to = kv->k + (size_t)head * kv->head_bytes + cell_of(kv, position) * row_bytes(kv);
        kernels->quantise(kv->dtype, row, kv->d_head, to);
        return;
    }
    float *tile = tiled_key(kernels, kv, kv->k, head, position);
    for (int i = 0; i < kv->d_head; i++) tile[(size_t)i * (size_t)kernels->nr] = row[i];
}

/* Float32 keys of rows [0, n_rows) from position `first` on. A tile that begins with them is transposed at once; what
 * it has beyond them becomes 0, which is right where nothing was stored yet: in a ring's first round. Later the cells
 * beyond hold positions that a window may still show. */
static void store_tiled_keys(const hsc__kernels *kernels, const hsc__kv *kv, int head, int first, int n_rows,
                             const float *k, size_t k_stride)
{
    int nr = kernels->nr;
    for (int r = 0, n; r < n_rows; r += n) {
        int position = first + r, in_tile = (int)(cell_of(kv, position) % (size_t)nr);
        n = n_rows - r < nr - in_tile ? n_rows - r : nr - in_tile;
        if (in_tile == 0 && (n == nr || position < kv->n_cells)) {
            kernels->pack(HSC_F32, k + (size_t)r * k_stride, k_stride * sizeof *k, n, 0, kv->d_head,
                          tiled_key(kernels, kv, kv->k, head, position));
            continue;
        }
        for (int i = 0; i < n; i++) store_key(kernels, kv, head, position + i, k + (size_t)(r + i) * k_stride);
    }
}

void hsc__kv_store(const hsc__kernels *kernels, const hsc__kv *kv, int first, int n_rows, const float *k,
                   size_t k_stride, const float *v, size_t v_stride)
{
    size_t d = (size_t)kv->d_head;
    for (int h = 0; h < kv->n_kv_heads; h++) {
        bool tiled = kv->dtype == HSC_F32;
        if (tiled) store_tiled_keys(kernels, kv, h, first, n_rows, k + (size_t)h * d, k_stride);
        for (int r = 0; r < n_rows; r++) {
            char *to = kv->v + (size_t)h * kv->head_bytes + cell_of(kv, first + r) * row_bytes(kv);
            if (!tiled) store_key(kernels, kv, h, first + r, k + (size_t)r * k_stride + (size_t)h * d);
            kernels->quantise(kv->dtype, v + (size_t)r * v_stride + (size_t)h * d, kv->d_head, to);
        }
    }
}

const float *hsc__kv_key_panel(const hsc__kernels *kernels, const hsc__kv *kv, int head, int position, float *scratch)
{
    const char *k = position < kv->n_shared ? kv->k_shared : kv->k;
    if (kv->dtype == HSC_F32) return tiled_key(kernels, kv, (char *)(uintptr_t)k, head, position);
    const char *rows = k + (size_t)head * kv->head_bytes + cell_of(kv, position) * row_bytes(kv);
    for (int d = 0; d < kv->d_head; d += HSC__K_CHUNK) {
        int n = kv->d_head - d < HSC__K_CHUNK ? kv->d_head - d : HSC__K_CHUNK;
        kernels->pack(kv->dtype, rows, row_bytes(kv), kernels->nr, d, n, scratch + (size_t)d * (size_t)kernels->nr);
    }
    return scratch;
}

int hsc__kv_run(const hsc__kv *kv, int from, int to)
{
    int end = (from / kv->n_cells + 1) * kv->n_cells;
    if (from < kv->n_shared && kv->n_shared < end) end = kv->n_shared;
    return end < to ? end : to;
}

const float *hsc__kv_value_rows(const hsc__kernels *kernels, const hsc__kv *kv, int head, int from, int to,
                                float *scratch)
{
    const char *v = from < kv->n_shared ? kv->v_shared : kv->v;
    const char *rows = v + (size_t)head * kv->head_bytes + cell_of(kv, from) * row_bytes(kv);
    if (kv->dtype == HSC_F32) return (const float *)(const void *)rows;
    kernels->dequantise(kv->dtype, rows, (int64_t)(to - from) * kv->d_head, scratch);
    return scratch;
}

void hsc__kv_read(const hsc__kernels *kernels, const hsc__kv *kv, int head, int position, float *k, float *v)
{
    const char *from = position < kv->n_shared ? kv->k_shared : kv->k;
    if (kv->dtype == HSC_F32) {
        const float *tile = tiled_key(kernels, kv, (char *)(uintptr_t)from, head, position);
        for (int i = 0; i < kv->d_head; i++) k[i] = tile[(size_t)i * (size_t)kernels->nr];
    } else {
        kernels->dequantise(kv->dtype, from + (size_t)head * kv->head_bytes + cell_of(kv, position) * row_bytes(kv),
                            kv->d_head, k);
    }
    from = position < kv->n_shared ? kv->v_shared : kv->v;
    kernels->dequantise(kv->dtype, from + (size_t)head * kv->head_bytes + cell_of(kv, position) * row_bytes(kv),
                        kv->d_head, v);
}
