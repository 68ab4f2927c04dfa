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

/* A family's rules and what its names in a folder begin with; the output matrix has no such beginning. */
struct hsc__family {
    const char *arch, *prefix;
    const hsc__name_rule *rules;
    size_t n_rules;
};

static const struct hsc__family families[] = {
    {"gpt2", "transformer.", gpt2, sizeof gpt2 / sizeof *gpt2},
    {"llama", "model.", llama, sizeof llama / sizeof *llama},
    {"mistral", "model.", llama, sizeof llama / sizeof *llama},
    {"qwen2", "model.", qwen, sizeof qwen / sizeof *qwen},
    {"qwen3", "model.", qwen, sizeof qwen / sizeof *qwen},
};

hsc_status hsc__convert_find_family(hsc__convert *c, hsc_error *err)
{
    const char *arch = c->model->desc.config.arch;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].arch, arch) == 0) c->family = &families[i];
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
    const char *prefix = c->family->prefix, *end = strrchr(name, '.');
    *out_of_memory = false;
    if (!end || (strcmp(end, ".weight") != 0 && strcmp(end, ".bias") != 0)) return NULL;
    const char *stem = name;
    if (c->to_gguf && strncmp(name, prefix, strlen(prefix)) == 0) stem += strlen(prefix);
    for (size_t i = 0; i < c->family->n_rules; i++) {
        int layer;
        const hsc__name_rule *r = &c->family->rules[i];
        if (!match(c->to_gguf ? r->folder : r->gguf, stem, (size_t)(end - stem), &layer)) continue;
        hsc__string text = {0};
        if (!c->to_gguf && strcmp(r->folder, "lm_head") != 0) hsc__string_text(&text, prefix);
        fill(&text, c->to_gguf ? r->gguf : r->folder, layer);
        hsc__string_text(&text, end);
        *rule = r;
        return keep(c, &text, out_of_memory);
    }
    return NULL;
}
