/* Edits: whether one fits a model and a text, where a run with it may begin, and its arithmetic on a block of rows. */
#include "base/status.h"
#include "inspect/lab.h"
#include "model/session.h"

#include <math.h>

static bool is_cross_pattern(hsc_site site)
{
    return site == HSC_CROSS_ATTN_SCORES || site == HSC_CROSS_PATTERN;
}

/* The stack of blocks that has this site. */
static const hsc_config *stack_of(const hsc_model *model, hsc_site site)
{
    return hsc__site_in_encoder(site) == HSC_N_SITES ? &model->desc.config : &model->desc.encoder->config;
}

int hsc_site_row(const hsc_model *model, hsc_site site)
{
    hsc_site inner = hsc__site_in_encoder(site);
    if (!hsc_model_has_site(model, site)) return 0;
    return inner == HSC_N_SITES ? hsc__site_row_size(&model->desc, site)
                                : hsc__site_row_size(model->desc.encoder, inner);
}

hsc_status hsc_edit_head(hsc_edit *out, const hsc_model *model, hsc_site site, int layer, int head, hsc_error *err)
{
    bool kv = hsc_site_heads(site) == HSC_KV_HEADS;
    hsc__error_clear(err);
    HSC_FAIL_IF(hsc_site_heads(site) == HSC_NO_HEADS || hsc_site_is_map(site), HSC_EINVAL,
                "site %d has no rows that are made of heads", (int)site);
    HSC_FAIL_IF(!hsc_model_has_site(model, site), HSC_EINVAL, "a model of architecture %s has no site \"%s\"",
                hsc_model_config(model)->arch, hsc_site_name(site));
    const hsc_config *c = stack_of(model, site);
    int n = kv ? c->n_kv_heads : c->n_heads;
    HSC_FAIL_IF(layer < 0 || layer >= c->n_layers, HSC_EINVAL, "layer %d does not exist, the model has %d", layer,
                c->n_layers);
    HSC_FAIL_IF(head < 0 || head >= n, HSC_EINVAL, "%s %d does not exist, a layer has %d", kv ? "kv head" : "head",
                head, n);
    *out = (hsc_edit){.site = site, .layer = layer, .first = head * c->d_head, .n = c->d_head};
    return HSC_OK;
}

hsc_status hsc_edit_knock_out(hsc_edit *out, const hsc_model *model, int layer, int head, int first_query,
                              int n_queries, int first_key, int n_keys, int renormalise, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(model);
    hsc__error_clear(err);
    HSC_FAIL_IF(layer < 0 || layer >= c->n_layers, HSC_EINVAL, "layer %d does not exist, the model has %d", layer,
                c->n_layers);
    HSC_FAIL_IF(head < 0 || head >= c->n_heads, HSC_EINVAL, "head %d does not exist, a layer has %d", head, c->n_heads);
    *out = (hsc_edit){.site = renormalise ? HSC_ATTN_SCORES : HSC_PATTERN,
                      .layer = layer,
                      .head = head,
                      .first_pos = first_query,
                      .n_pos = n_queries,
                      .first = first_key,
                      .n = n_keys,
                      .constant = renormalise ? -INFINITY : 0};
    return HSC_OK;
}

int hsc__edit_first_layer(const hsc_edit *edit, int n_layers)
{
    if (hsc_site_per_layer(edit->site)) return edit->layer;
    return edit->site <= HSC_POS_EMBED ? -1 : n_layers; /* the embeddings, or what follows the last layer */
}

int hsc__edit_first_pos(const hsc_edit *edit, int n_tokens)
{
    return edit->first_pos < n_tokens ? edit->first_pos : n_tokens;
}

hsc_status hsc__edit_check(const hsc_edit *e, const hsc_model *model, int n_tokens, int n_source, hsc_error *err)
{
    HSC_FAIL_IF((unsigned)e->site >= HSC_N_SITES, HSC_EINVAL, "site %d does not exist", (int)e->site);
    HSC_FAIL_IF(!hsc_model_has_site(model, e->site), HSC_EINVAL, "a model of architecture %s has no site \"%s\"",
                hsc_model_config(model)->arch, hsc_site_name(e->site));
    const hsc_config *c = stack_of(model, e->site);
    int n_rows = hsc_site_is_of_source(e->site) ? n_source : n_tokens;
    HSC_FAIL_IF(hsc_site_per_layer(e->site) && (e->layer < 0 || e->layer >= c->n_layers), HSC_EINVAL,
                "layer %d does not exist, the model has %d", e->layer, c->n_layers);
    HSC_FAIL_IF(hsc_site_is_map(e->site) && (e->head < 0 || e->head >= c->n_heads), HSC_EINVAL,
                "head %d does not exist, a layer has %d", e->head, c->n_heads);
    HSC_FAIL_IF(e->first_pos < 0 || e->n_pos < 0 || e->first_pos >= n_rows || e->n_pos > n_rows - e->first_pos,
                HSC_EINVAL, "positions %d to %lld do not exist, the text has %d tokens", e->first_pos,
                (long long)e->first_pos + e->n_pos - 1, n_rows);
    int n_keys = is_cross_pattern(e->site) ? n_source : n_rows;
    int row = hsc_site_is_map(e->site) ? n_keys : hsc_site_row(model, e->site);
    HSC_FAIL_IF(e->first < 0 || e->n < 0 || e->first >= row || e->n > row - e->first, HSC_EINVAL,
                "numbers %d to %lld of %s do not exist, a row has %d", e->first, (long long)e->first + e->n - 1,
                hsc_site_name(e->site), row);
    return HSC_OK;
}

static void edit_row(const hsc_edit *e, const float *values, int n, float *x)
{
    for (int i = 0; i < n; i++) {
        float add = values ? values[i] : e->constant;
        x[i] = e->keep == 0 ? add : e->keep * x[i] + add;
    }
}

void hsc__edit_apply(const hsc_edit *e, const hsc_block *block)
{
    if (block->site != e->site || (hsc_site_per_layer(e->site) && block->layer != e->layer)) return;
    if (hsc_site_is_map(e->site) && block->head != e->head) return;
    int low = e->first_pos > block->first_row ? e->first_pos : block->first_row;
    int high = block->first_row + block->n_rows, n = block->row_size - e->first;
    if (e->n_pos && e->first_pos + e->n_pos < high) high = e->first_pos + e->n_pos;
    if (e->n && e->n < n) n = e->n;
    for (int pos = low; pos < high; pos++) {
        const float *values = e->values ? e->values + (size_t)(pos - e->first_pos) * e->stride : NULL;
        edit_row(e, values, n, block->data + (size_t)(pos - block->first_row) * block->stride + e->first);
    }
}
