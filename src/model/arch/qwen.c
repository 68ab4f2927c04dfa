/* Qwen 2 (Yang et al. 2024): Llama's shape with biases of q, k and v. Qwen 3 (Yang et al. 2025) has norms of each
 * head's q and k in their place. The last layers may have a sliding window. */
#include "model/arch/decoder.h"

static hsc_status read_windows(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    bool slides;
    int window = 0, first;
    HSC_TRY(hsc__json_bool(src->config, "use_sliding_window", false, &slides, src->config_path, err));
    HSC_TRY(hsc__config_int_or(src, "max_window_layers", NULL, 28, 0, 1 << 24, &first, err));
    if (slides && !hsc__config_is_null(src, "sliding_window"))
        HSC_TRY(hsc__config_int_or(src, "sliding_window", NULL, 4096, 1, 1 << 24, &window, err));
    return hsc__decoder_windows(src, desc, window, first, 0, err);
}

static const hsc__decoder shape = {
    .n_kv_heads = 32, .n_ctx = 32768, .d_vocab = 151936, .eps = 1e-6, .act = "silu", .rope = {.theta = 10000}};

hsc_status hsc__qwen2_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = shape;
    d.qkv_bias = HSC__BIAS;
    HSC_TRY(hsc__decoder_sizes(src, desc, &d, err));
    HSC_TRY(hsc__decoder_bind(src, desc, &d, err));
    return read_windows(src, desc, err);
}

hsc_status hsc__qwen3_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = shape;
    d.d_head = 128;
    d.qk_norm = true;
    HSC_TRY(hsc__decoder_sizes(src, desc, &d, err));
    HSC_TRY(hsc__decoder_attention_bias(src, &d, err));
    HSC_TRY(hsc__decoder_bind(src, desc, &d, err));
    return read_windows(src, desc, err);
}

static hsc_status from_gguf(hsc__source *src, hsc__desc *desc, bool qk_norm, hsc_error *err)
{
    hsc__decoder d = {.qkv_bias = HSC__BIAS_IF_THERE, .o_bias = HSC__BIAS_IF_THERE, .qk_norm = qk_norm};
    HSC_TRY(hsc__decoder_gguf_sizes(src, desc, err));
    HSC_TRY(hsc__decoder_gguf_bind(src, desc, &d, err));
    return hsc__decoder_gguf_windows(src, desc, 0, 0, err);
}

hsc_status hsc__qwen2_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    return from_gguf(src, desc, false, err);
}

hsc_status hsc__qwen3_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    return from_gguf(src, desc, true, err);
}
