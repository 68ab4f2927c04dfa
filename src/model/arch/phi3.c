/* Phi-3 (Abdin et al. 2024) and Phi-4-mini: Llama's shape with q, k and v in one matrix, gate and up in another, and
 * longrope. */
#include "model/arch/decoder.h"

hsc_status hsc__phi3_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = {
        .n_ctx = 4096, .d_vocab = 32064, .eps = 1e-5, .act = "silu", .rope = {10000, 1, true, 4096}, .fused = true};
    int window = 0;
    HSC_TRY(hsc__decoder_sizes(src, desc, &d, err));
    if (json_is_integer(json_object_get(src->config, "sliding_window")))
        HSC_TRY(hsc__config_int(src, "sliding_window", NULL, 1, 1 << 24, &window, err));
    HSC_TRY(hsc__decoder_bind(src, desc, &d, err));
    return hsc__decoder_windows(src, desc, window, 0, 0, err);
}

hsc_status hsc__phi3_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = {.fused = true};
    HSC_TRY(hsc__decoder_gguf_sizes(src, desc, err));
    HSC_TRY(hsc__decoder_gguf_bind(src, desc, &d, err));
    return hsc__decoder_gguf_windows(src, desc, 0, 0, err);
}
