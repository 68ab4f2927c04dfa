/*
 * The architecture description: everything that one forward pass needs to run any stack of blocks, as data; an
 * encoder-decoder is two of them. An architecture file (arch/<family>.c) fills it from the configuration and maps
 * tensor names; nothing else knows a family's name. What is absent is zero.
 */
#ifndef HSC_MODEL_DESC_H
#define HSC_MODEL_DESC_H

#include "nn/rows.h"

enum { HSC__MAX_D_HEAD = 1024 }; /* wider heads are refused; it bounds buffers on the stack */

typedef struct hsc__norm {
    bool present;             /* false: what would be normalised passes as it is */
    const float *gain, *bias; /* [d_model]; either may be NULL */
} hsc__norm;

/* Rotary embedding (Su et al. 2021): angle of pair i at position p is p * inv_freq[i], as hsc__nn_angles makes it. */
typedef struct hsc__rope {
    int half;              /* pairs that are rotated; 0: none */
    const float *inv_freq; /* [half] */
    float scale;           /* of sines and cosines, and so of rot_q and rot_k (yarn, longrope); else 1 */
    bool interleaved;      /* pairs (2i, 2i+1), else (i, i + half) */
    bool scaled;           /* the frequencies are not base^(-i/half) */
} hsc__rope;

/* Attention to what the encoder made of the source (Vaswani et al. 2017, 3.2.3), between a block's own attention and
 * its feed-forward. */
typedef struct hsc__cross {
    hsc__norm ln;
    hsc__weight w_q, w_k, w_v, w_o; /* w_q.data is NULL: the block has none */
} hsc__cross;

/* One block. What may differ from layer to layer stands here and not in hsc__desc. */
typedef struct hsc__layer {
    hsc__norm ln1, ln2;           /* of attention and feed-forward; post_norm says where */
    hsc__norm ln1_post, ln2_post; /* of a branch, before it is added (Gemma) */
    hsc__norm q_norm, k_norm;     /* of each head, [d_head], before rotation (Qwen 3, Gemma 3) */
    hsc__weight w_q, w_k, w_v, w_o;
    hsc__weight w_in, w_up, w_out; /* w_up.data is NULL without a gate; with one, w_in makes the gate */
    float attn_scale;              /* of the scores */
    float attn_cap;                /* > 0: soft cap of the scores */
    int window;                    /* > 0: keys a query sees up to itself, itself included; as many after it when the
                                      model is not causal */
    hsc__rope rope;
    /* Added to the scores: [n_heads][2 bias_span + 1], by key position - query position from -bias_span on; farther
     * keys have what the ends have (T5). NULL: none. */
    const float *bias;
    int bias_span;
    const float *alibi; /* [n_heads]: slope times (key position - query position) is added too (BLOOM). NULL: none */
    hsc__cross cross;   /* scores are scaled by attn_scale too */
} hsc__layer;

typedef struct hsc__desc hsc__desc;
struct hsc__desc {
    hsc_config config;
    hsc__nn_norm_kind norm_kind;
    float norm_eps;
    hsc__act act;
    bool post_norm; /* ln1 and ln2 stand after the sums (BERT), else before the branches */
    bool parallel;  /* both branches read the same residual (GPT-NeoX), else one after the other */
    /* Rows of w_q and w_k lie as GGUF's llama has them: pair (2i, 2i+1) is the field's (i, i + half). */
    bool interleaved_qk;
    float embed_scale; /* of the token embedding; 0: none */
    float head_scale;  /* of ln_final on its way to the output matrix; 0: none (T5) */
    float logit_cap;   /* > 0: soft cap of the logits */
    /* Stored [d_vocab][d_model], [n_ctx][d_model], [n_segments][d_model]. The last two are added where they exist. */
    hsc__weight embed, pos_embed, segment_embed;
    hsc__weight w_embed; /* makes a narrower embedding as wide as the model (OPT-350M) */
    hsc__norm ln_embed;  /* of their sum */
    hsc__norm ln_final;
    /* Where logits are not made of ln_final itself (BERT's head): w_head, head_act, ln_head come between. */
    hsc__weight w_head; /* its outputs may be fewer than d_model */
    hsc__act head_act;
    hsc__norm ln_head;
    hsc__weight
        unembed; /* [d_vocab][d_model, or the outputs of w_head]; data NULL: the checkpoint has no output matrix */
    hsc__weight pooler; /* [d_model][d_model], followed by tanh (BERT) */
    hsc__layer *layers; /* [n_layers] */
    hsc__desc *encoder; /* the stack whose ln_final the blocks' cross-attention reads; NULL: there is none */
};

#endif
