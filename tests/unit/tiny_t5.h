/* A small random T5 in a temporary folder, and texts for it. */
#ifndef HSC_TESTS_TINY_T5_H
#define HSC_TESTS_TINY_T5_H

#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), HSC_OK)

enum { D = 16, HEADS = 2, VOCABULARY = 23, N_SOURCE = 9, N_TARGET = 7 };

static const hsc_token source[2 * N_SOURCE] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3};
static const hsc_token target[2 * N_TARGET] = {0, 2, 7, 1, 8, 2, 8, 0, 1, 8, 2, 8, 4, 5};

static void add_attention(tiny_model *m, const char *at)
{
    char name[128];
    for (const char *part = "qkvo"; *part; part++) {
        snprintf(name, sizeof name, "%s.%c.weight", at, *part);
        tiny_add(m, name, D, D, 0.4f, 0);
    }
}

static void add_block(tiny_model *m, const char *side, int layer, int ff)
{
    char name[128];
    snprintf(name, sizeof name, "%s.block.%d.layer.0.SelfAttention", side, layer);
    add_attention(m, name);
    snprintf(name, sizeof name, "%s.block.%d.layer.1.EncDecAttention", side, layer);
    if (ff == 2) add_attention(m, name);
    for (int i = 0; i <= ff; i++) {
        snprintf(name, sizeof name, "%s.block.%d.layer.%d.layer_norm.weight", side, layer, i);
        tiny_add(m, name, D, 0, 0.3f, 1);
    }
    snprintf(name, sizeof name, "%s.block.%d.layer.%d.DenseReluDense.wi.weight", side, layer, ff);
    tiny_add(m, name, 3 * D, D, 0.3f, 0);
    snprintf(name, sizeof name, "%s.block.%d.layer.%d.DenseReluDense.wo.weight", side, layer, ff);
    tiny_add(m, name, D, 3 * D, 0.2f, 0);
}

static void add_side(tiny_model *m, const char *side, int ff)
{
    char name[128];
    for (int layer = 0; layer < 2; layer++) add_block(m, side, layer, ff);
    snprintf(name, sizeof name, "%s.final_layer_norm.weight", side);
    tiny_add(m, name, D, 0, 0.3f, 1);
    snprintf(name, sizeof name, "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight", side);
    tiny_add(m, name, 8, HEADS, 0.5f, 0);
}

/* A small T5 in a folder; tiny_save writes it. */
static void make_t5(tiny_model *m)
{
    *m = (tiny_model){.state = 11};
    tiny_config(m, "{\"model_type\":\"t5\",\"vocab_size\":23,\"d_model\":16,\"d_kv\":8,\"d_ff\":48,\"num_layers\":2,"
                   "\"num_heads\":2,\"relative_attention_num_buckets\":8,\"relative_attention_max_distance\":6}");
    tiny_add(m, "shared.weight", VOCABULARY, D, 1, 0);
    add_side(m, "encoder", 1);
    add_side(m, "decoder", 2);
}

/* The same, written and opened. */
static inline hsc_model *open_t5(tiny_model *m)
{
    hsc_model *model;
    hsc_error err = {0};
    make_t5(m);
    tiny_save(m);
    if (hsc_model_open(&model, m->dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    return model;
}

#endif
