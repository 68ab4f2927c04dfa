/*
 * A model's mark: what tells it from another of the same shape, at the price of a few bytes of each tensor. It covers
 * the settings that keys and values depend on, every tensor's name, type and shape with a sample of its bytes, and a
 * sample of converted weights. Where the files lie and how the model is called do not count.
 */
#include "base/digest.h"
#include "model/model.h"

#include <string.h>

enum {
    RUN = 64,    /* bytes of a run of the sample */
    N_RUNS = 3,  /* of a tensor: at its beginning, in its middle, at its end */
    N_WIDE = 256 /* of all converted weights together */
};

static void add_int(uint64_t *mark, int64_t value)
{
    hsc__digest_add(mark, &value, sizeof value);
}

static void add_text(uint64_t *mark, const char *text)
{
    hsc__digest_add(mark, text, strlen(text) + 1);
}

/* n_runs runs, evenly from the beginning to the end. */
static void add_sample(uint64_t *mark, const void *data, uint64_t n_bytes, uint64_t n_runs)
{
    uint64_t run = n_bytes < RUN ? n_bytes : RUN, gap = n_bytes - run;
    for (uint64_t i = 0; i < n_runs && run; i++)
        hsc__digest_add(mark, (const char *)data + (gap / (n_runs - 1) * i + gap % (n_runs - 1) * i / (n_runs - 1)),
                        (size_t)run);
}

static void add_layer(uint64_t *mark, const hsc__layer *l)
{
    const float scales[] = {l->attn_scale, l->attn_cap, l->rope.scale};
    hsc__digest_add(mark, scales, sizeof scales);
    add_int(mark, l->window);
    add_int(mark, l->rope.interleaved);
    add_int(mark, l->rope.half);
    hsc__digest_add(mark, l->rope.inv_freq, (size_t)l->rope.half * sizeof *l->rope.inv_freq);
}

uint64_t hsc__model_mark(const hsc_model *m)
{
    const hsc__desc *d = &m->desc;
    const hsc_config *c = &d->config;
    const float numbers[] = {d->norm_eps, d->embed_scale};
    uint64_t mark = HSC__DIGEST_START;
    add_text(&mark, c->arch);
    const int sizes[] = {c->n_layers, c->n_heads, c->n_kv_heads, c->d_model,  c->d_head,
                         c->d_mlp,    c->d_vocab, (int)d->act,   d->parallel, d->post_norm};
    hsc__digest_add(&mark, sizes, sizeof sizes);
    hsc__digest_add(&mark, numbers, sizeof numbers);
    for (int i = 0; i < c->n_layers; i++) add_layer(&mark, &d->layers[i]);
    for (size_t i = 0; i < hsc__tensors_count(m->tensors); i++) {
        const hsc__tensor *t = hsc__tensors_at(m->tensors, i);
        add_text(&mark, t->name);
        add_text(&mark, t->dtype_name);
        hsc__digest_add(&mark, t->shape, (size_t)t->n_dims * sizeof *t->shape);
        add_sample(&mark, t->data, t->n_bytes, N_RUNS);
    }
    add_sample(&mark, m->recast.data, m->recast.n_bytes, N_WIDE);
    return mark;
}
