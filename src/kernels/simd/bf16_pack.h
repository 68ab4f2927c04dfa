/* pack_bf16 and pack_t_bf16 of every level. Before it is included the level defines
 *   pair_up(wide, n_k, panel): rows of floats [n_k][NR] become rows of pairs;
 *   pack_pairs(rows, row_bytes, n_k, panel): VL rows of bfloat16, row_bytes apart in the file, become columns of pairs.
 */
#ifndef HSC_KERNELS_SIMD_BF16_PACK_H
#define HSC_KERNELS_SIMD_BF16_PACK_H

static void pack_bf16_rows(const unsigned char *w, size_t row_bytes, int n_out, int64_t k0, int n_k, uint32_t *panel)
{
    static const unsigned char zeros[2 * HSC__K_CHUNK];
    for (int v = 0; v < NV; v++) {
        const unsigned char *rows[VL];
        for (int i = 0; i < VL; i++) {
            int o = v * VL + i;
            rows[i] = o < n_out ? w + (size_t)o * row_bytes + 2 * (size_t)k0 : zeros;
        }
        pack_pairs(rows, row_bytes, n_k, panel + v * VL);
    }
}

void KERNEL(pack_bf16)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k,
                       uint32_t *panel)
{
    float wide[HSC__K_CHUNK * NR];
    for (int done = 0; done < n_k; done += HSC__K_CHUNK, panel += HSC__K_CHUNK / 2 * NR) {
        int n = n_k - done < HSC__K_CHUNK ? n_k - done : HSC__K_CHUNK;
        if (dtype == HSC_BF16) {
            pack_bf16_rows(w, row_bytes, n_out, k0 + done, n, panel);
            continue;
        }
        KERNEL(pack)(dtype, w, row_bytes, n_out, k0 + done, n, wide);
        pair_up(wide, n, panel);
    }
}

void KERNEL(pack_t_bf16)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, uint32_t *panel)
{
    float wide[HSC__K_CHUNK * NR];
    for (int done = 0; done < n_k; done += HSC__K_CHUNK, panel += HSC__K_CHUNK / 2 * NR) {
        int n = n_k - done < HSC__K_CHUNK ? n_k - done : HSC__K_CHUNK;
        KERNEL(pack_t)(dtype, (const char *)w + (size_t)done * row_bytes, row_bytes, n_out, n, wide);
        pair_up(wide, n, panel);
    }
}

#endif
