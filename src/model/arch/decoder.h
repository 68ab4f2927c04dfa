/*
 * What decoders of Llama's shape share: RMS norms, rotary positions, grouped heads, a gated feed-forward, and the names
 * of their fields, keys and tensors. A family says what it assumes and what its blocks have; the rest is here.
 */
#ifndef HSC_MODEL_ARCH_DECODER_H
#define HSC_MODEL_ARCH_DECODER_H

#include "model/arch/arch.h"
#include "model/rope.h"

typedef struct hsc__decoder {
    /* Where config.json is silent. */
    int n_kv_heads, d_head; /* 0: as many as heads; d_model / n_heads */
    int n_ctx, d_vocab;
    double eps;
    const char *act_field, *act;
    bool tie; /* tie_word_embeddings, replaced by what the file says */
    hsc__rope_defaults rope;

    /* What blocks have. */
    hsc__bias qkv_bias, o_bias, mlp_bias;
    bool qk_norm;      /* norms of each head's q and k */
    bool branch_norms; /* norms of the branches before they are added */
    bool fused;        /* q, k and v in one matrix, gate and up in another */
    bool less_one;     /* gains are stored less 1 */
    bool own_rope;     /* the family reads its rotations itself */
} hsc__decoder;

/* What all of them are. */
void hsc__decoder_fill(hsc__desc *desc);

/* Sizes, activation, epsilon and tying of config.json. */
hsc_status hsc__decoder_sizes(hsc__source *src, hsc__desc *desc, hsc__decoder *d, hsc_error *err);
/* Layers, tensors, one rotation and one scale for all layers. After hsc__decoder_sizes. */
hsc_status hsc__decoder_bind(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, hsc_error *err);

/* attention_bias of config.json. */
hsc_status hsc__decoder_attention_bias(hsc__source *src, hsc__decoder *d, hsc_error *err);

/* Which layers have the sliding window: those that layer_types names, or without it, from layer `first` on, all but
 * each `every`th (0: all). window 0: no layer may have one. */
hsc_status hsc__decoder_windows(hsc__source *src, hsc__desc *desc, int window, int first, int every, hsc_error *err);

/* The same steps from GGUF: sizes, the layers and their tensors, and these with the rotation. */
hsc_status hsc__decoder_gguf_sizes(hsc__source *src, hsc__desc *desc, hsc_error *err);
hsc_status hsc__decoder_gguf_tensors(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, hsc_error *err);
hsc_status hsc__decoder_gguf_bind(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, hsc_error *err);

/* One rotation for all layers. */
void hsc__decoder_share_rope(hsc__desc *desc, const hsc__rope *rope);

/* attention.sliding_window, or `fallback`, in all layers but each `every`th (0: all), unless the file says otherwise.
 */
hsc_status hsc__decoder_gguf_windows(hsc__source *src, hsc__desc *desc, int fallback, int every, hsc_error *err);

#endif
