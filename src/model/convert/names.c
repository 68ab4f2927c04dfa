/* What Hugging Face and llama.cpp call the tensors of each family, and how their rows differ. */
#include "model/convert/convert.h"

#include <string.h>

static const hsc__name_rule gpt2[] = {
    {"token_embd", "wte", HSC__AS_STORED, false},
    {"position_embd", "wpe", HSC__AS_STORED, false},
    {"output_norm", "ln_f", HSC__AS_STORED, false},
    {"output", "lm_head", HSC__AS_STORED, false},
    {"blk.%d.attn_norm", "h.%d.ln_1", HSC__AS_STORED, false},
    {"blk.%d.attn_qkv", "h.%d.attn.c_attn", HSC__TURNED, false},
    {"blk.%d.attn_output", "h.%d.attn.c_proj", HSC__TURNED, false},
    {"blk.%d.ffn_norm", "h.%d.ln_2", HSC__AS_STORED, false},
    {"blk.%d.ffn_up", "h.%d.mlp.c_fc", HSC__TURNED, false},
    {"blk.%d.ffn_down", "h.%d.mlp.c_proj", HSC__TURNED, false},
};

static const hsc__name_rule llama[] = {
    {"token_embd", "embed_tokens", HSC__AS_STORED, false},
    {"output_norm", "norm", HSC__AS_STORED, false},
    {"output", "lm_head", HSC__AS_STORED, false},
    {"blk.%d.attn_norm", "layers.%d.input_layernorm", HSC__AS_STORED, false},
    {"blk.%d.attn_q", "layers.%d.self_attn.q_proj", HSC__PAIRED, false},
    {"blk.%d.attn_k", "layers.%d.self_attn.k_proj", HSC__PAIRED, true},
    {"blk.%d.attn_v", "layers.%d.self_attn.v_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_output", "layers.%d.self_attn.o_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_norm", "layers.%d.post_attention_layernorm", HSC__AS_STORED, false},
    {"blk.%d.ffn_gate", "layers.%d.mlp.gate_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_up", "layers.%d.mlp.up_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_down", "layers.%d.mlp.down_proj", HSC__AS_STORED, false},
};

/* Llama's shape whose heads are rotated in halves in GGUF too; those without norms of q and k have no such tensors. */
static const hsc__name_rule qwen[] = {
    {"token_embd", "embed_tokens", HSC__AS_STORED, false},
    {"output_norm", "norm", HSC__AS_STORED, false},
    {"output", "lm_head", HSC__AS_STORED, false},
    {"blk.%d.attn_norm", "layers.%d.input_layernorm", HSC__AS_STORED, false},
    {"blk.%d.attn_q", "layers.%d.self_attn.q_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_k", "layers.%d.self_attn.k_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_v", "layers.%d.self_attn.v_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_q_norm", "layers.%d.self_attn.q_norm", HSC__AS_STORED, false},
    {"blk.%d.attn_k_norm", "layers.%d.self_attn.k_norm", HSC__AS_STORED, false},
    {"blk.%d.attn_output", "layers.%d.self_attn.o_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_norm", "layers.%d.post_attention_layernorm", HSC__AS_STORED, false},
    {"blk.%d.ffn_gate", "layers.%d.mlp.gate_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_up", "layers.%d.mlp.up_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_down", "layers.%d.mlp.down_proj", HSC__AS_STORED, false},
};

static const hsc__name_rule phi3[] = {
    {"token_embd", "embed_tokens", HSC__AS_STORED, false},
    {"output_norm", "norm", HSC__AS_STORED, false},
    {"output", "lm_head", HSC__AS_STORED, false},
    {"blk.%d.attn_norm", "layers.%d.input_layernorm", HSC__AS_STORED, false},
    {"blk.%d.attn_qkv", "layers.%d.self_attn.qkv_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_output", "layers.%d.self_attn.o_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_norm", "layers.%d.post_attention_layernorm", HSC__AS_STORED, false},
    {"blk.%d.ffn_up", "layers.%d.mlp.gate_up_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_down", "layers.%d.mlp.down_proj", HSC__AS_STORED, false},
};

/* Gains are stored less 1 in a folder. Gemma 2 has no norms of q and k. */
static const hsc__name_rule gemma[] = {
    {"token_embd", "embed_tokens", HSC__AS_STORED, false},
    {"output_norm", "norm", HSC__ONE_MORE, false},
    {"output", "lm_head", HSC__AS_STORED, false},
    {"blk.%d.attn_norm", "layers.%d.input_layernorm", HSC__ONE_MORE, false},
    {"blk.%d.attn_q", "layers.%d.self_attn.q_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_k", "layers.%d.self_attn.k_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_v", "layers.%d.self_attn.v_proj", HSC__AS_STORED, false},
    {"blk.%d.attn_q_norm", "layers.%d.self_attn.q_norm", HSC__ONE_MORE, false},
    {"blk.%d.attn_k_norm", "layers.%d.self_attn.k_norm", HSC__ONE_MORE, false},
    {"blk.%d.attn_output", "layers.%d.self_attn.o_proj", HSC__AS_STORED, false},
    {"blk.%d.post_attention_norm", "layers.%d.post_attention_layernorm", HSC__ONE_MORE, false},
    {"blk.%d.ffn_norm", "layers.%d.pre_feedforward_layernorm", HSC__ONE_MORE, false},
    {"blk.%d.ffn_gate", "layers.%d.mlp.gate_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_up", "layers.%d.mlp.up_proj", HSC__AS_STORED, false},
    {"blk.%d.ffn_down", "layers.%d.mlp.down_proj", HSC__AS_STORED, false},
    {"blk.%d.post_ffw_norm", "layers.%d.post_feedforward_layernorm", HSC__ONE_MORE, false},
};

static const hsc__name_rule gptneox[] = {
    {"token_embd", "embed_in", HSC__AS_STORED, false},
    {"output_norm", "final_layer_norm", HSC__AS_STORED, false},
    {"output", "embed_out", HSC__AS_STORED, false},
    {"output", "lm_head", HSC__AS_STORED, false},
    {"blk.%d.attn_norm", "layers.%d.input_layernorm", HSC__AS_STORED, false},
    {"blk.%d.attn_qkv", "layers.%d.attention.query_key_value", HSC__PARTED, false},
    {"blk.%d.attn_output", "layers.%d.attention.dense", HSC__AS_STORED, false},
    {"blk.%d.ffn_norm", "layers.%d.post_attention_layernorm", HSC__AS_STORED, false},
    {"blk.%d.ffn_up", "layers.%d.mlp.dense_h_to_4h", HSC__AS_STORED, false},
    {"blk.%d.ffn_down", "layers.%d.mlp.dense_4h_to_h", HSC__AS_STORED, false},
};

/* The masked-word head and the pooler have no place in GGUF. */
#define BERT_RULES(RULE, positions)                                                                                    \
    RULE("token_embd", "embeddings.word_embeddings", HSC__AS_STORED)                                                   \
    RULE("position_embd", "embeddings.position_embeddings", positions)                                                 \
    RULE("token_types", "embeddings.token_type_embeddings", HSC__AS_STORED)                                            \
    RULE("token_embd_norm", "embeddings.LayerNorm", HSC__AS_STORED)                                                    \
    RULE("blk.%d.attn_q", "encoder.layer.%d.attention.self.query", HSC__AS_STORED)                                     \
    RULE("blk.%d.attn_k", "encoder.layer.%d.attention.self.key", HSC__AS_STORED)                                       \
    RULE("blk.%d.attn_v", "encoder.layer.%d.attention.self.value", HSC__AS_STORED)                                     \
    RULE("blk.%d.attn_output", "encoder.layer.%d.attention.output.dense", HSC__AS_STORED)                              \
    RULE("blk.%d.attn_output_norm", "encoder.layer.%d.attention.output.LayerNorm", HSC__AS_STORED)                     \
    RULE("blk.%d.ffn_up", "encoder.layer.%d.intermediate.dense", HSC__AS_STORED)                                       \
    RULE("blk.%d.ffn_down", "encoder.layer.%d.output.dense", HSC__AS_STORED)                                           \
    RULE("blk.%d.layer_output_norm", "encoder.layer.%d.output.LayerNorm", HSC__AS_STORED)
#define RULE(gguf, folder, how) {gguf, folder, how, false},

static const hsc__name_rule bert[] = {BERT_RULES(RULE, HSC__AS_STORED)};
/* Positions begin behind the row of the padding id: GGUF has those that texts may have. */
static const hsc__name_rule roberta[] = {BERT_RULES(RULE, HSC__LAST_ROWS)};
#undef RULE
#undef BERT_RULES

static const hsc__name_rule bloom[] = {
    {"token_embd", "word_embeddings", HSC__AS_STORED, false},
    {"token_embd_norm", "word_embeddings_layernorm", HSC__AS_STORED, false},
    {"output_norm", "ln_f", HSC__AS_STORED, false},
    {"output", "lm_head", HSC__AS_STORED, false},
    {"blk.%d.attn_norm", "h.%d.input_layernorm", HSC__AS_STORED, false},
    {"blk.%d.attn_qkv", "h.%d.self_attention.query_key_value", HSC__PARTED, false},
    {"blk.%d.attn_output", "h.%d.self_attention.dense", HSC__AS_STORED, false},
    {"blk.%d.ffn_norm", "h.%d.post_attention_layernorm", HSC__AS_STORED, false},
    {"blk.%d.ffn_up", "h.%d.mlp.dense_h_to_4h", HSC__AS_STORED, false},
    {"blk.%d.ffn_down", "h.%d.mlp.dense_4h_to_h", HSC__AS_STORED, false},
};

#define RULES(list) list, sizeof list / sizeof *list

/* Of two families with one name in GGUF the first is what such a file becomes. */
static const hsc__family families[] = {
    {"gpt2", "gpt2", "GPT2LMHeadModel", "transformer.", RULES(gpt2), HSC__ACT_GELU_TANH, 0},
    {"llama", "llama", "LlamaForCausalLM", "model.", RULES(llama), HSC__ACT_SILU, 0},
    {"mistral", "llama", "MistralForCausalLM", "model.", RULES(llama), HSC__ACT_SILU, 0},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", "model.", RULES(qwen), HSC__ACT_SILU, 0},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", "model.", RULES(qwen), HSC__ACT_SILU, 0},
    {"phi3", "phi3", "Phi3ForCausalLM", "model.", RULES(phi3), HSC__ACT_SILU, 1},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", "model.", RULES(gemma), HSC__ACT_GELU_TANH, 2},
    {"gemma3_text", "gemma3", "Gemma3ForCausalLM", "model.", RULES(gemma), HSC__ACT_GELU_TANH, 6},
    {"gpt_neox", "gptneox", "GPTNeoXForCausalLM", "gpt_neox.", RULES(gptneox), HSC__ACT_GELU, 0},
    {"bloom", "bloom", "BloomForCausalLM", "transformer.", RULES(bloom), HSC__ACT_GELU_TANH, 0},
    {"bert", "bert", "BertModel", "bert.", RULES(bert), HSC__ACT_GELU, 0},
    {"roberta", "bert", "RobertaModel", "roberta.", RULES(roberta), HSC__ACT_GELU, 0},
    {"xlm-roberta", "bert", "XLMRobertaModel", "roberta.", RULES(roberta), HSC__ACT_GELU, 0},
};

hsc_status hsc__convert_find_family(hsc__convert *c, hsc_error *err)
{
    const char *arch = c->model->desc.config.arch;
    for (size_t i = 0; i < sizeof families / sizeof *families && !c->family; i++) {
        if (strcmp(c->to_gguf ? families[i].folder : families[i].gguf, arch) == 0) c->family = &families[i];
    }
    HSC_FAIL_IF(!c->family, HSC_EUNSUPPORTED,
                "%s: models of architecture \"%s\" are not converted between folders "
                "and GGUF",
                c->in, arch);
    return HSC_OK;
}

/* True when text[0..n) is the pattern with a number in place of %d; *layer is that number, or 0 without a %d. */
static bool match(const char *pattern, const char *text, size_t n, int *layer)
{
    const char *slot = strstr(pattern, "%d");
    *layer = 0;
    if (!slot) return strlen(pattern) == n && memcmp(pattern, text, n) == 0;
    size_t head = (size_t)(slot - pattern), tail = strlen(slot + 2);
    if (n <= head + tail || n > head + tail + 4) return false;
    if (memcmp(pattern, text, head) != 0 || memcmp(slot + 2, text + n - tail, tail) != 0) return false;
    for (size_t i = head; i < n - tail; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *layer = 10 * *layer + (text[i] - '0');
    }
    return true;
}

/* The pattern with the layer put in. */
static void fill(hsc__string *out, const char *pattern, int layer)
{
    const char *slot = strstr(pattern, "%d");
    hsc__string_add(out, pattern, slot ? (size_t)(slot - pattern) : strlen(pattern));
    if (slot) hsc__string_printf(out, "%d%s", layer, slot + 2);
}

static const char *keep(hsc__convert *c, hsc__string *text, bool *out_of_memory)
{
    const char *kept = text->failed ? NULL : hsc__arena_strndup(&c->arena, text->data, text->n);
    *out_of_memory = !kept;
    hsc__string_free(text);
    return kept;
}

const char *hsc__convert_name(hsc__convert *c, const char *name, const hsc__name_rule **rule, bool *out_of_memory)
{
    const char *prefix = c->family->prefix, *end = strrchr(name, '.'), *kind;
    *out_of_memory = false;
    if (end && strcmp(end, ".gamma") == 0) kind = ".weight"; /* as old checkpoints have it */
    else if (end && strcmp(end, ".beta") == 0) kind = ".bias";
    else kind = end;
    if (!kind || (strcmp(kind, ".weight") != 0 && strcmp(kind, ".bias") != 0)) return NULL;
    const char *stem = name;
    if (c->to_gguf && strncmp(name, prefix, strlen(prefix)) == 0) stem += strlen(prefix);
    for (size_t i = 0; i < c->family->n_rules; i++) {
        int layer;
        const hsc__name_rule *r = &c->family->rules[i];
        if (!match(c->to_gguf ? r->folder : r->gguf, stem, (size_t)(end - stem), &layer)) continue;
        hsc__string text = {0};
        if (!c->to_gguf && strcmp(r->gguf, "output") != 0) hsc__string_text(&text, prefix);
        fill(&text, c->to_gguf ? r->gguf : r->folder, layer);
        hsc__string_text(&text, kind);
        *rule = r;
        return keep(c, &text, out_of_memory);
    }
    return NULL;
}
