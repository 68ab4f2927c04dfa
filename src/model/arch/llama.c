/*
 * Llama 1 to 3 (Touvron et al. 2023, Grattafiori et al. 2024) and what shares its shape, SmolLM among them; Mistral
 * (Jiang et al. 2023) is the same with a sliding window. Folder: rotary pairs (i, i + d/2). GGUF has both under
 * "llama"; llama.cpp's converter has permuted the rows of q and k within each head so that pairs lie side by side, and
 * the forward pass puts them back.
 */
#include "model/arch/decoder.h"

hsc_status hsc__llama_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = {.n_ctx = 2048, .d_vocab = 32000, .eps = 1e-6, .act = "silu", .rope = {.theta = 10000}};
    bool mlp_bias;
    HSC_TRY(hsc__decoder_sizes(src, desc, &d, err));
    HSC_TRY(hsc__decoder_attention_bias(src, &d, err));
    HSC_TRY(hsc__json_bool(src->config, "mlp_bias", false, &mlp_bias, src->config_path, err));
    HSC_TRY(hsc__config_refuse(src, "attn_logit_softcapping", err));
    HSC_TRY(hsc__config_refuse(src, "final_logit_softcapping", err));
    if (mlp_bias) d.mlp_bias = HSC__BIAS;
    return hsc__decoder_bind(src, desc, &d, err);
}

hsc_status hsc__mistral_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = {
        .n_kv_heads = 8, .n_ctx = 4096 * 32, .d_vocab = 32000, .eps = 1e-6, .act = "silu", .rope = {.theta = 10000}};
    int window = 0;
    HSC_TRY(hsc__decoder_sizes(src, desc, &d, err));
    if (!hsc__config_is_null(src, "sliding_window"))
        HSC_TRY(hsc__config_int_or(src, "sliding_window", NULL, 4096, 1, 1 << 24, &window, err));
    HSC_TRY(hsc__config_refuse(src, "layer_types", err));
    HSC_TRY(hsc__decoder_bind(src, desc, &d, err));
    return hsc__decoder_windows(src, desc, window, 0, 0, err);
}

hsc_status hsc__llama_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = {.qkv_bias = HSC__BIAS_IF_THERE, .o_bias = HSC__BIAS_IF_THERE, .mlp_bias = HSC__BIAS_IF_THERE};
    HSC_TRY(hsc__decoder_gguf_sizes(src, desc, err));
    desc->interleaved_qk = true;
    HSC_TRY(hsc__decoder_gguf_bind(src, desc, &d, err));
    HSC_FAIL_IF(2 * desc->layers[0].rope.half != desc->config.d_head, HSC_EUNSUPPORTED,
                "%s: key llama.rope.dimension_count: %d differs from the head width %d, which is not supported",
                src->path, 2 * desc->layers[0].rope.half, desc->config.d_head);
    return hsc__decoder_gguf_windows(src, desc, 0, 0, err);
}

hsc_status hsc__llama_from_llama2c(hsc__source *src, hsc__desc *desc, const hsc__llama2c *h, hsc_error *err)
{
    hsc_config *c = &desc->config;
    hsc__decoder d = {0};
    hsc__rope rope;
    c->d_model = h->d_model;
    c->d_mlp = h->d_mlp;
    c->n_layers = h->n_layers;
    c->n_heads = h->n_heads;
    c->n_kv_heads = h->n_kv_heads;
    c->d_head = h->d_model / h->n_heads;
    c->d_vocab = h->d_vocab;
    c->n_ctx = h->n_ctx;
    hsc__decoder_fill(desc);
    desc->norm_eps = 1e-5f;
    desc->act = HSC__ACT_SILU;
    desc->interleaved_qk = true;
    HSC_TRY(hsc__decoder_gguf_tensors(src, desc, &d, err));
    HSC_TRY(hsc__rope_plain(src, 10000, c->d_head, &rope, err));
    hsc__decoder_share_rope(desc, &rope);
    return HSC_OK;
}
