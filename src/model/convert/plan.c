/* Which tensors are written, under which names, in which types: the rules are llama.cpp's where it is GGUF's. */
#include "model/convert/convert.h"

#include "base/dtype.h"
#include "base/text.h"

#include <string.h>

/* Counted while the types are chosen, told once each. */
typedef struct tally {
    size_t odd[HSC_N_DTYPES][HSC_N_DTYPES]; /* matrices whose rows are no whole blocks: by the type they should have
                                               had and the one that they got */
    int64_t odd_row;                        /* the length of the last such row */
    size_t again;                           /* quantised matrices that are quantised anew */
    size_t unknown;                         /* tensors of a type that nothing here computes with */
    const char *head;                       /* the output matrix, when it is to be finer than the rest */
} tally;

static bool is_whole(hsc_dtype dtype, int64_t row)
{
    return row % hsc__dtype_block(dtype) == 0;
}

/* The type that takes the place of one whose blocks do not fit the rows. */
static hsc_dtype fitting(hsc_dtype dtype, int64_t row)
{
    static const hsc_dtype next[HSC_N_DTYPES] = {[HSC_Q4_K] = HSC_Q5_0, [HSC_Q6_K] = HSC_Q8_0};
    if (!is_whole(dtype, row) && next[dtype]) dtype = next[dtype];
    return is_whole(dtype, row) ? dtype : HSC_F16;
}

/* Matrices that stay in float32 in GGUF: what is looked up or scaled with rather than multiplied. */
static bool stays_f32(const char *name)
{
    static const char *const kept[] = {"_norm", "position_embd", "token_types", "ffn_gate_inp", "ssm_conv1d", "rope_"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strstr(name, kept[i])) return true;
    }
    return !hsc__ends_with(name, ".weight");
}

/* The matrix that makes logits: an output of its own, or the embedding where there is none. */
static bool is_head(const hsc__convert *c, const char *name)
{
    bool tied = c->model ? c->model->desc.config.tied : !hsc__tensors_find(c->tensors, "output.weight");
    return strcmp(name, tied ? "token_embd.weight" : "output.weight") == 0;
}

static hsc_dtype gguf_type(const hsc__convert *c, const hsc__item *item, tally *t)
{
    const hsc_convert_options *o = c->options;
    hsc_dtype from = item->from->dtype, wide = from == HSC_F64 ? HSC_F32 : from;
    int64_t row = item->n_dims ? item->shape[item->n_dims - 1] : 1;
    if (item->n_dims < 2 || stays_f32(item->name)) return c->model || o->recast ? HSC_F32 : from;
    if (!o->recast) return wide;
    hsc_dtype wanted = o->dtype;
    bool coarse = wanted == HSC_Q4_0 || wanted == HSC_Q4_1 || wanted == HSC_Q4_K;
    if (coarse && !o->pure && is_head(c, item->name)) {
        wanted = HSC_Q6_K;
        t->head = item->name;
    }
    hsc_dtype dtype = fitting(wanted, row);
    if (dtype != wanted) {
        t->odd[wanted][dtype]++;
        t->odd_row = row;
    }
    return dtype;
}

/* Sets dtype, type_name and n_bytes. */
static void choose_type(const hsc__convert *c, hsc__item *item, tally *t)
{
    const hsc__tensor *from = item->from;
    uint64_t n = 1;
    for (int i = 0; i < item->n_dims; i++) n *= (uint64_t)item->shape[i];
    if (!hsc__kernels_can_read(from->dtype)) { /* integers, or a type that only its file knows: the bytes go over */
        t->unknown++;
        item->dtype = from->dtype;
        item->type_name = from->dtype_name;
        item->n_bytes = from->n_bytes;
        return;
    }
    if (c->to_gguf) item->dtype = gguf_type(c, item, t);
    else if (c->options->recast) item->dtype = c->options->dtype;
    else item->dtype = hsc__dtype_block(from->dtype) > 1 ? HSC_F32 : from->dtype;
    if (hsc__dtype_block(from->dtype) > 1 && hsc__dtype_block(item->dtype) > 1) t->again += item->dtype != from->dtype;
    item->type_name = hsc_dtype_name(item->dtype);
    item->n_bytes = n / (uint64_t)hsc__dtype_block(item->dtype) * (uint64_t)hsc__dtype_block_bytes(item->dtype);
}

/* A folder whose output is tied may store the shared matrix under the output's name alone; GGUF wants the embedding's.
 */
static bool is_shared_head(const hsc__convert *c, const char *name)
{
    return c->to_gguf && strcmp(name, "output.weight") == 0 && c->model->desc.config.tied;
}

/* A rule's arrangement, which it says on the way to GGUF. */
static hsc__how way(const hsc__convert *c, hsc__how how)
{
    if (c->to_gguf) return how;
    switch (how) {
    case HSC__PAIRED: return HSC__UNPAIRED;
    case HSC__PARTED: return HSC__JOINED;
    case HSC__ONE_MORE: return HSC__ONE_LESS;
    default: return how;
    }
}

/* Name and arrangement on the other side; *known false when the architecture has no such tensor. */
static hsc_status rename_item(hsc__convert *c, hsc__item *item, bool *known, hsc_error *err)
{
    bool out_of_memory;
    const hsc__name_rule *rule;
    const hsc_config *config = &c->model->desc.config;
    item->name = hsc__convert_name(c, item->from->name, &rule, &out_of_memory);
    if (out_of_memory) return hsc__fail_memory(err, strlen(item->from->name), "a name");
    *known = item->name != NULL;
    if (*known && is_shared_head(c, item->name)) item->name = "token_embd.weight";
    if (!*known || rule->how == HSC__AS_STORED || (rule->how == HSC__TURNED && item->n_dims != 2)) return HSC_OK;
    item->how = way(c, rule->how);
    if (rule->how == HSC__TURNED) {
        item->shape[0] = item->from->shape[1];
        item->shape[1] = item->from->shape[0];
        return HSC_OK;
    }
    if (rule->how == HSC__LAST_ROWS) {
        item->shape[0] = config->n_ctx;
        item->n_before = (int)(item->from->shape[0] - item->shape[0]);
        return HSC_OK;
    }
    item->n_heads = rule->is_key ? config->n_kv_heads : config->n_heads;
    return HSC_OK;
}

static hsc_status plan_tensor(hsc__convert *c, const hsc__tensor *from, bool rename, tally *t, hsc_error *err)
{
    hsc__item item = {.from = from, .name = from->name, .n_dims = from->n_dims};
    bool known = true;
    memcpy(item.shape, from->shape, sizeof item.shape);
    if (rename) HSC_TRY(rename_item(c, &item, &known, err));
    if (!known) {
        if (!hsc__ends_with(from->name, ".attn.bias") && !hsc__ends_with(from->name, ".masked_bias") &&
            !hsc__ends_with(from->name, ".inv_freq") && !hsc__ends_with(from->name, ".position_ids"))
            hsc__convert_note(c, "%s is no weight of this architecture and is left out", from->name);
        return HSC_OK;
    }
    choose_type(c, &item, t);
    c->total += from->n_bytes;
    c->items[c->n_items++] = item;
    return HSC_OK;
}

static void tell_odd(const hsc__convert *c, const tally *t, hsc_dtype wanted)
{
    for (int i = 0; i < HSC_N_DTYPES; i++) {
        size_t n = t->odd[wanted][i];
        if (n)
            hsc__convert_note(c, "%zu %s rows of no whole blocks of %s (%lld values, for instance): stored as %s", n,
                              n == 1 ? "matrix has" : "matrices have", hsc_dtype_name(wanted), (long long)t->odd_row,
                              hsc_dtype_name((hsc_dtype)i));
    }
}

static void tell(const hsc__convert *c, const tally *t)
{
    if (t->head)
        hsc__convert_note(c, "%s makes the logits and is to be finer than %s", t->head,
                          hsc_dtype_name(c->options->dtype));
    for (int i = 0; i < HSC_N_DTYPES; i++) tell_odd(c, t, (hsc_dtype)i);
    if (t->again)
        hsc__convert_note(c, "%zu %s quantised already: rounding anew adds to the error, the original would do better",
                          t->again, t->again == 1 ? "matrix is" : "matrices are");
    if (t->unknown)
        hsc__convert_note(c, "%zu tensors are of types that are not computed with: copied as they are", t->unknown);
}

hsc_status hsc__convert_plan(hsc__convert *c, hsc_error *err)
{
    size_t n = hsc__tensors_count(c->tensors);
    tally t = {0};
    bool rename = c->model && c->to_gguf == !c->model->gguf; /* to the other container */
    c->items = hsc__calloc(n, sizeof *c->items);
    if (!c->items) return hsc__fail_memory(err, n * sizeof *c->items, "the list of tensors");
    if (rename) HSC_TRY(hsc__convert_find_family(c, err));
    for (size_t i = 0; i < n; i++) HSC_TRY(plan_tensor(c, hsc__tensors_at(c->tensors, i), rename, &t, err));
    tell(c, &t);
    return HSC_OK;
}
