/* What a pass will touch, from the same sizes that sessions are made with. */
#include "model/session.h"

#include "base/parallel.h"

static uint64_t threads_of(const hsc_session_options *o)
{
    return (uint64_t)(o->n_threads ? o->n_threads : hsc__default_threads());
}

static uint64_t tensor_bytes(const hsc_model *m)
{
    uint64_t total = 0;
    for (size_t i = 0; i < hsc__tensors_count(m->tensors); i++) total += hsc__tensors_at(m->tensors, i)->n_bytes;
    return total;
}

static uint64_t cache_bytes(const hsc__desc *desc, const hsc_session_options *o, int n_tokens, int max_rows)
{
    return hsc__cache_bytes(desc, o->cache, 1, n_tokens, max_rows, o->mask.window, o->mask.sinks == 0);
}

/* Cosines and sines of every position, a table for each rotation that the layers have. */
static uint64_t rope_floats(const hsc__desc *desc, int n_tokens)
{
    uint64_t pairs = 0;
    for (int i = 0; i < desc->config.n_layers; i++) {
        const hsc__rope *rope = &desc->layers[i].rope;
        bool seen = false;
        for (int j = 0; j < i; j++) seen |= desc->layers[j].rope.inv_freq == rope->inv_freq;
        if (!seen) pairs += (uint64_t)rope->half;
    }
    return 2 * pairs * (uint64_t)n_tokens;
}

static uint64_t activation_bytes(const hsc__desc *desc, const hsc__desc *reader, const hsc_session_options *o,
                                 int n_tokens, int max_rows)
{
    const hsc_config *c = &desc->config;
    uint64_t floats =
        hsc__arena_floats(desc, reader, max_rows) + threads_of(o) * hsc__scratch_floats(c, max_rows, n_tokens);
    floats += rope_floats(desc, n_tokens);
    uint64_t converted = o->compute == HSC_COMPUTE_F32 ? 0 : 2 * (uint64_t)max_rows * (uint64_t)hsc__widest_input(c);
    return floats * sizeof(float) + converted;
}

/* What is mapped of the file. Of an embedding that is the output matrix too, a copy may have taken the place of the
 * second alone: its rows are still looked up where it is mapped. */
static void set_weights(const hsc_model *m, hsc_memory *out)
{
    const hsc__weight *embed = &m->desc.embed, *unembed = &m->desc.unembed;
    const char *copies = m->recast.data, *matrix = unembed->data;
    bool copied = copies && matrix >= copies && matrix < copies + m->recast.n_bytes;
    out->weights = tensor_bytes(m) - m->recast.from_bytes;
    if (copied && m->desc.config.tied) out->weights += hsc__weight_bytes(embed);
    if (matrix && !copied) out->unembed = hsc__weight_bytes(unembed);
    if (embed->data && embed->data != unembed->data) out->looked_up = hsc__weight_bytes(embed);
}

/* Adds what the encoder's session touches for a source of n_tokens: its own, and what the decoder's blocks make of it.
 */
static void add_encoder(const hsc__desc *desc, const hsc_session_options *o, int n_tokens, hsc_memory *out)
{
    const hsc__desc *encoder = desc->encoder;
    hsc_session_options inner = *o;
    if (!encoder) return;
    int max_rows = hsc__chunk_rows(&encoder->config, o, n_tokens, 1);
    inner.mask = (hsc_mask){0};
    out->cache += cache_bytes(encoder, &inner, n_tokens, max_rows) + cache_bytes(desc, &inner, n_tokens, max_rows);
    out->activations += activation_bytes(encoder, desc, o, n_tokens, max_rows);
}

/* All statistics with the default number of keys: four figures, the bins, and two numbers a key of each row; and what a
 * key received, in every layer and, of the layer that runs, by every thread. */
static uint64_t stats_bytes(const hsc_config *c, const hsc_session_options *o, int n_tokens)
{
    uint64_t bins = 1, rows = (uint64_t)n_tokens * (uint64_t)c->n_heads, layers = (uint64_t)c->n_layers;
    while ((1 << (bins - 1)) < n_tokens) bins++;
    return rows * (layers * (4 + bins + 2 * 8) * sizeof(float) + (layers + threads_of(o)) * sizeof(int64_t));
}

hsc_status hsc_model_memory(const hsc_model *m, const hsc_session_options *options, int n_tokens, hsc_memory *out,
                            hsc_error *err)
{
    static const hsc_session_options defaults;
    const hsc_session_options *o = options ? options : &defaults;
    const hsc_config *c = &m->desc.config;
    hsc__error_clear(err);
    int n_ctx = m->desc.encoder && m->desc.encoder->config.n_ctx < c->n_ctx ? m->desc.encoder->config.n_ctx : c->n_ctx;
    HSC_FAIL_IF(n_tokens < 1 || n_tokens > n_ctx, HSC_EINVAL, "n_tokens is %d, the model's context is %d", n_tokens,
                n_ctx);
    int max_rows = hsc__chunk_rows(c, o, n_tokens, 1);
    uint64_t square = (uint64_t)n_tokens * (uint64_t)n_tokens;
    *out = (hsc_memory){.converted = m->recast.n_bytes,
                        .cache = cache_bytes(&m->desc, o, n_tokens, max_rows),
                        .activations = activation_bytes(&m->desc, NULL, o, n_tokens, max_rows),
                        .logits = (uint64_t)c->d_vocab * sizeof(float),
                        .patterns = square * (uint64_t)c->n_heads * (uint64_t)c->n_layers * sizeof(float),
                        .stats = stats_bytes(c, o, n_tokens)};
    set_weights(m, out);
    add_encoder(&m->desc, o, n_tokens, out);
    out->total = out->weights + out->cache + out->activations + out->logits;
    return HSC_OK;
}
