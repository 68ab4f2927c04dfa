/* Makes small random checkpoints in a temporary folder: GPT-2 and Llama shapes, every tensor random, scores well
 * spread. */
#ifndef HSC_TESTS_TINY_MODEL_H
#define HSC_TESTS_TINY_MODEL_H

#include "headscope.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TINY_TENSORS = 128 };

typedef struct {
    char dir[64];
    hsc_named_array arrays[TINY_TENSORS];
    size_t n;
    uint64_t state;
} tiny_model;

static inline float tiny_random(tiny_model *m)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (float)(m->state >> 40) / (float)(1 << 23) - 1;
}

/* Tokens of the vocabulary that all models here have. */
enum { TINY_VOCAB = 97 };
static inline void tiny_ids(hsc_token *ids, int n)
{
    for (int i = 0; i < n; i++) ids[i] = (hsc_token)((i * 7 + 3) % TINY_VOCAB);
}

/* Adds a tensor of uniform values of about the given standard deviation around `middle`. */
static inline void tiny_add(tiny_model *m, const char *name, int rows, int columns, float deviation, float middle)
{
    size_t n = (size_t)rows * (size_t)(columns ? columns : 1);
    float *data = malloc(n * sizeof *data);
    for (size_t i = 0; i < n; i++) data[i] = middle + 1.73f * deviation * tiny_random(m);
    m->arrays[m->n++] = (hsc_named_array){strdup(name), HSC_F32, columns ? 2 : 1, {rows, columns}, data};
}

/* Takes the tensor that was added last away again. */
static inline void tiny_drop(tiny_model *m)
{
    m->n--;
    free((void *)(uintptr_t)m->arrays[m->n].name);
    free((void *)(uintptr_t)m->arrays[m->n].data);
}

static inline void tiny_config(tiny_model *m, const char *text)
{
    char path[128];
    snprintf(m->dir, sizeof m->dir, "/tmp/headscope-test-XXXXXX");
    if (!mkdtemp(m->dir)) abort();
    snprintf(path, sizeof path, "%s/config.json", m->dir);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) abort();
}

static inline void tiny_save(tiny_model *m)
{
    char path[128];
    hsc_error err = {0};
    snprintf(path, sizeof path, "%s/model.safetensors", m->dir);
    if (hsc_write_arrays(path, m->arrays, m->n, &err) != HSC_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
}

static inline void tiny_remove(tiny_model *m)
{
    char path[128];
    for (size_t i = 0; i < m->n; i++) {
        free((void *)(uintptr_t)m->arrays[i].name);
        free((void *)(uintptr_t)m->arrays[i].data);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", m->dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", m->dir);
    unlink(path);
    rmdir(m->dir);
    m->n = 0;
}

enum { TINY_CTX = 80, TINY_LAYERS = 3 };

/* GPT-2: 3 heads of 16, 3 layers, feed-forward 4 x 48, under the prefix "transformer.". */
static inline void tiny_gpt2_add(tiny_model *m)
{
    const int d = 48;
    char name[128];
    m->state = 7;
    tiny_add(m, "transformer.wte.weight", TINY_VOCAB, d, 1, 0);
    tiny_add(m, "transformer.wpe.weight", TINY_CTX, d, 0.5f, 0);
    tiny_add(m, "transformer.ln_f.weight", d, 0, 0.2f, 1);
    tiny_add(m, "transformer.ln_f.bias", d, 0, 0.2f, 0);
    for (int i = 0; i < TINY_LAYERS; i++) {
        static const struct {
            const char *name;
            int rows, columns;
            float deviation, middle;
        } parts[] = {{"ln_1.weight", 48, 0, 0.2f, 1},          {"ln_1.bias", 48, 0, 0.2f, 0},
                     {"ln_2.weight", 48, 0, 0.2f, 1},          {"ln_2.bias", 48, 0, 0.2f, 0},
                     {"attn.c_attn.weight", 48, 144, 0.2f, 0}, {"attn.c_attn.bias", 144, 0, 0.2f, 0},
                     {"attn.c_proj.weight", 48, 48, 0.15f, 0}, {"attn.c_proj.bias", 48, 0, 0.2f, 0},
                     {"mlp.c_fc.weight", 48, 192, 0.15f, 0},   {"mlp.c_fc.bias", 192, 0, 0.2f, 0},
                     {"mlp.c_proj.weight", 192, 48, 0.1f, 0},  {"mlp.c_proj.bias", 48, 0, 0.2f, 0}};
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            snprintf(name, sizeof name, "transformer.h.%d.%s", i, parts[p].name);
            tiny_add(m, name, parts[p].rows, parts[p].columns, parts[p].deviation, parts[p].middle);
        }
    }
}

static inline void tiny_gpt2(tiny_model *m)
{
    *m = (tiny_model){0};
    tiny_config(m, "{\"model_type\":\"gpt2\",\"n_embd\":48,\"n_layer\":3,\"n_head\":3,\"n_positions\":80,"
                   "\"vocab_size\":97,\"layer_norm_epsilon\":1e-05}");
    tiny_gpt2_add(m);
    tiny_save(m);
}

/* BLOOM: so many heads of 8, 3 layers, under the prefix "transformer.". Not a word is said by blind queries: all rows
 * of q are 0. */
static inline void tiny_bloom_of(tiny_model *m, int n_heads, bool blind)
{
    enum { D_HEAD = 8 };
    char name[128], config[256];
    int d = n_heads * D_HEAD;
    const struct {
        const char *name;
        int rows, columns;
        float deviation, middle;
    } parts[] = {{"input_layernorm.weight", d, 0, 0.2f, 1},
                 {"input_layernorm.bias", d, 0, 0.2f, 0},
                 {"post_attention_layernorm.weight", d, 0, 0.2f, 1},
                 {"post_attention_layernorm.bias", d, 0, 0.2f, 0},
                 {"self_attention.dense.weight", d, d, 0.15f, 0},
                 {"self_attention.dense.bias", d, 0, 0.2f, 0},
                 {"mlp.dense_h_to_4h.weight", 4 * d, d, 0.15f, 0},
                 {"mlp.dense_h_to_4h.bias", 4 * d, 0, 0.2f, 0},
                 {"mlp.dense_4h_to_h.weight", d, 4 * d, 0.1f, 0},
                 {"mlp.dense_4h_to_h.bias", d, 0, 0.2f, 0},
                 {"self_attention.query_key_value.bias", 3 * d, 0, 0.2f, 0},
                 {"self_attention.query_key_value.weight", 3 * d, d, 0.3f, 0}};
    *m = (tiny_model){.state = 17};
    snprintf(config, sizeof config,
             "{\"model_type\":\"bloom\",\"hidden_size\":%d,\"n_layer\":3,\"n_head\":%d,\"vocab_size\":97,"
             "\"seq_length\":80}",
             d, n_heads);
    tiny_config(m, config);
    tiny_add(m, "transformer.word_embeddings.weight", TINY_VOCAB, d, 1, 0);
    tiny_add(m, "transformer.word_embeddings_layernorm.weight", d, 0, 0.2f, 1);
    tiny_add(m, "transformer.word_embeddings_layernorm.bias", d, 0, 0.2f, 0);
    tiny_add(m, "transformer.ln_f.weight", d, 0, 0.2f, 1);
    tiny_add(m, "transformer.ln_f.bias", d, 0, 0.2f, 0);
    for (int i = 0; i < TINY_LAYERS; i++) {
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            snprintf(name, sizeof name, "transformer.h.%d.%s", i, parts[p].name);
            tiny_add(m, name, parts[p].rows, parts[p].columns, parts[p].deviation, parts[p].middle);
        }
        for (int back = 1; blind && back <= 2; back++) { /* the last two: [n_heads][3][D_HEAD] rows */
            float *data = (float *)(uintptr_t)m->arrays[m->n - (size_t)back].data;
            int row = back == 1 ? d : 1;
            for (int h = 0; h < n_heads; h++)
                memset(data + 3 * h * D_HEAD * row, 0, (size_t)(D_HEAD * row) * sizeof *data);
        }
    }
    tiny_save(m);
}

/* 6 heads, whose slopes are of two kinds. */
static inline void tiny_bloom(tiny_model *m)
{
    tiny_bloom_of(m, 6, false);
}

typedef struct {
    int d_model, n_heads, n_kv_heads, d_head, d_mlp, n_layers, n_ctx;
    bool tied;
} tiny_shape;

/* A checkpoint of the Llama family in that shape, under the prefix "model.". */
static inline void tiny_llama_of(tiny_model *m, tiny_shape s)
{
    char config[512], name[128];
    int d = s.d_model, q = s.n_heads * s.d_head, kv = s.n_kv_heads * s.d_head;
    const struct {
        const char *name;
        int rows, columns;
        float deviation, middle;
    } parts[] = {{"input_layernorm.weight", d, 0, 0.2f, 1},     {"post_attention_layernorm.weight", d, 0, 0.2f, 1},
                 {"self_attn.q_proj.weight", q, d, 0.2f, 0},    {"self_attn.k_proj.weight", kv, d, 0.2f, 0},
                 {"self_attn.v_proj.weight", kv, d, 0.2f, 0},   {"self_attn.o_proj.weight", d, q, 0.15f, 0},
                 {"mlp.gate_proj.weight", s.d_mlp, d, 0.2f, 0}, {"mlp.up_proj.weight", s.d_mlp, d, 0.2f, 0},
                 {"mlp.down_proj.weight", d, s.d_mlp, 0.15f, 0}};
    *m = (tiny_model){.state = 11};
    snprintf(config, sizeof config,
             "{\"model_type\":\"llama\",\"hidden_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
             "\"num_key_value_heads\":%d,\"head_dim\":%d,\"intermediate_size\":%d,\"vocab_size\":%d,"
             "\"max_position_embeddings\":%d,\"rms_norm_eps\":1e-06,\"tie_word_embeddings\":%s}",
             d, s.n_layers, s.n_heads, s.n_kv_heads, s.d_head, s.d_mlp, TINY_VOCAB, s.n_ctx, s.tied ? "true" : "false");
    tiny_config(m, config);
    tiny_add(m, "model.embed_tokens.weight", TINY_VOCAB, d, 1, 0);
    if (!s.tied) tiny_add(m, "lm_head.weight", TINY_VOCAB, d, 0.3f, 0);
    tiny_add(m, "model.norm.weight", d, 0, 0.2f, 1);
    for (int i = 0; i < s.n_layers; i++) {
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            snprintf(name, sizeof name, "model.layers.%d.%s", i, parts[p].name);
            tiny_add(m, name, parts[p].rows, parts[p].columns, parts[p].deviation, parts[p].middle);
        }
    }
    tiny_save(m);
}

/* 4 heads of 20 on 2 kv heads, 3 layers, untied output. */
static inline void tiny_llama(tiny_model *m)
{
    tiny_llama_of(m, (tiny_shape){40, 4, 2, 20, 72, TINY_LAYERS, TINY_CTX, false});
}

/* BERT's masked-word head; its output matrix is the embedding. */
static inline void tiny_bert_head(tiny_model *m)
{
    tiny_add(m, "cls.predictions.transform.dense.weight", 48, 48, 0.2f, 0);
    tiny_add(m, "cls.predictions.transform.dense.bias", 48, 0, 0.2f, 0);
    tiny_add(m, "cls.predictions.transform.LayerNorm.weight", 48, 0, 0.2f, 1);
    tiny_add(m, "cls.predictions.transform.LayerNorm.bias", 48, 0, 0.2f, 0);
    tiny_add(m, "cls.predictions.bias", TINY_VOCAB, 0, 0.5f, 0);
}

/* BERT: 3 heads of 16, 2 segments, 3 layers. */
static inline void tiny_bert_of(tiny_model *m, bool head)
{
    static const struct {
        const char *name;
        int rows, columns;
        float deviation, middle;
    } parts[] = {{"attention.self.query.weight", 48, 48, 0.2f, 0},
                 {"attention.self.query.bias", 48, 0, 0.2f, 0},
                 {"attention.self.key.weight", 48, 48, 0.2f, 0},
                 {"attention.self.key.bias", 48, 0, 0.2f, 0},
                 {"attention.self.value.weight", 48, 48, 0.2f, 0},
                 {"attention.self.value.bias", 48, 0, 0.2f, 0},
                 {"attention.output.dense.weight", 48, 48, 0.2f, 0},
                 {"attention.output.dense.bias", 48, 0, 0.2f, 0},
                 {"attention.output.LayerNorm.weight", 48, 0, 0.2f, 1},
                 {"attention.output.LayerNorm.bias", 48, 0, 0.2f, 0},
                 {"intermediate.dense.weight", 96, 48, 0.2f, 0},
                 {"intermediate.dense.bias", 96, 0, 0.2f, 0},
                 {"output.dense.weight", 48, 96, 0.15f, 0},
                 {"output.dense.bias", 48, 0, 0.2f, 0},
                 {"output.LayerNorm.weight", 48, 0, 0.2f, 1},
                 {"output.LayerNorm.bias", 48, 0, 0.2f, 0}};
    char name[128];
    *m = (tiny_model){.state = 13};
    tiny_config(m, "{\"model_type\":\"bert\",\"hidden_size\":48,\"num_hidden_layers\":3,\"num_attention_heads\":3,"
                   "\"intermediate_size\":96,\"vocab_size\":97,\"max_position_embeddings\":80}");
    tiny_add(m, "embeddings.word_embeddings.weight", TINY_VOCAB, 48, 1, 0);
    tiny_add(m, "embeddings.position_embeddings.weight", TINY_CTX, 48, 0.5f, 0);
    tiny_add(m, "embeddings.token_type_embeddings.weight", 2, 48, 0.5f, 0);
    tiny_add(m, "embeddings.LayerNorm.weight", 48, 0, 0.2f, 1);
    tiny_add(m, "embeddings.LayerNorm.bias", 48, 0, 0.2f, 0);
    for (int i = 0; i < TINY_LAYERS; i++) {
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            snprintf(name, sizeof name, "encoder.layer.%d.%s", i, parts[p].name);
            tiny_add(m, name, parts[p].rows, parts[p].columns, parts[p].deviation, parts[p].middle);
        }
    }
    if (head) tiny_bert_head(m);
    tiny_save(m);
}

/* The same without a masked-word head. */
static inline void tiny_bert(tiny_model *m)
{
    tiny_bert_of(m, false);
}

#endif
