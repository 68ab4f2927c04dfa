/* Names, shapes and meanings of the sites, from the one list in headscope.h. */
#include "model/session.h"

#include <string.h>

static const struct {
    const char *name, *shape, *meaning;
    int per_layer;
} sites[HSC_N_SITES] = {
#define HSC_SITE_ROW(id, name, per_layer, shape, meaning) [id] = {name, shape, meaning, per_layer},
    HSC_SITE_LIST(HSC_SITE_ROW)
#undef HSC_SITE_ROW
};

static int valid(hsc_site site)
{
    return (unsigned)site < HSC_N_SITES;
}

const char *hsc_site_name(hsc_site site)
{
    return valid(site) ? sites[site].name : NULL;
}

hsc_site hsc_site_find(const char *name)
{
    int i = 0;
    while (i < HSC_N_SITES && strcmp(sites[i].name, name) != 0) i++;
    return (hsc_site)i;
}

int hsc_site_per_layer(hsc_site site)
{
    return valid(site) && sites[site].per_layer;
}

const char *hsc_site_shape(hsc_site site)
{
    return valid(site) ? sites[site].shape : NULL;
}

const char *hsc_site_meaning(hsc_site site)
{
    return valid(site) ? sites[site].meaning : NULL;
}

/* What the encoder's sites are in its own session; the others are HSC_EMBED, which is 0 and HSC_ENC_EMBED's alone. */
static const hsc_site in_encoder[HSC_N_SITES] = {
    [HSC_ENC_EMBED] = HSC_EMBED,
    [HSC_ENC_POS_EMBED] = HSC_POS_EMBED,
    [HSC_ENC_RESID_PRE] = HSC_RESID_PRE,
    [HSC_ENC_LN1] = HSC_LN1,
    [HSC_ENC_Q] = HSC_Q,
    [HSC_ENC_K] = HSC_K,
    [HSC_ENC_V] = HSC_V,
    [HSC_ENC_ATTN_SCORES] = HSC_ATTN_SCORES,
    [HSC_ENC_PATTERN] = HSC_PATTERN,
    [HSC_ENC_Z] = HSC_Z,
    [HSC_ENC_ATTN_OUT] = HSC_ATTN_OUT,
    [HSC_ENC_RESID_MID] = HSC_RESID_MID,
    [HSC_ENC_LN2] = HSC_LN2,
    [HSC_ENC_MLP_PRE] = HSC_MLP_PRE,
    [HSC_ENC_MLP_UP] = HSC_MLP_UP,
    [HSC_ENC_MLP_POST] = HSC_MLP_POST,
    [HSC_ENC_MLP_OUT] = HSC_MLP_OUT,
    [HSC_ENC_RESID_POST] = HSC_RESID_POST,
    [HSC_ENC_LN_FINAL] = HSC_LN_FINAL,
};

hsc_site hsc__site_in_encoder(hsc_site site)
{
    return valid(site) && (in_encoder[site] != HSC_EMBED || site == HSC_ENC_EMBED) ? in_encoder[site] : HSC_N_SITES;
}

hsc_site hsc__site_outside(const hsc_session *s, hsc_site site)
{
    if (!s->reader || hsc__site_is_cross(site)) return site;
    int outside = HSC_ENC_EMBED;
    while (outside < HSC_N_SITES && in_encoder[outside] != site) outside++;
    return (hsc_site)outside;
}

int hsc_site_is_map(hsc_site site)
{
    return site == HSC_ATTN_SCORES || site == HSC_PATTERN || site == HSC_CROSS_ATTN_SCORES ||
           site == HSC_CROSS_PATTERN || site == HSC_ENC_ATTN_SCORES || site == HSC_ENC_PATTERN;
}

hsc_heads hsc_site_heads(hsc_site site)
{
    hsc_site inner = hsc__site_in_encoder(site);
    switch (inner == HSC_N_SITES ? site : inner) {
    case HSC_Q:
    case HSC_ROT_Q:
    case HSC_Z:
    case HSC_ATTN_SCORES:
    case HSC_PATTERN:
    case HSC_CROSS_Q:
    case HSC_CROSS_Z:
    case HSC_CROSS_ATTN_SCORES:
    case HSC_CROSS_PATTERN: return HSC_QUERY_HEADS;
    case HSC_K:
    case HSC_ROT_K:
    case HSC_V:
    case HSC_CROSS_K:
    case HSC_CROSS_V: return HSC_KV_HEADS;
    default: return HSC_NO_HEADS;
    }
}

int hsc_site_is_of_source(hsc_site site)
{
    return site == HSC_CROSS_K || site == HSC_CROSS_V || hsc__site_in_encoder(site) != HSC_N_SITES;
}

int hsc_model_site_layers(const hsc_model *m, hsc_site site)
{
    if (!hsc_model_has_site(m, site)) return 0;
    if (!hsc_site_per_layer(site)) return 1;
    return hsc__site_in_encoder(site) == HSC_N_SITES ? m->desc.config.n_layers : m->desc.encoder->config.n_layers;
}

static int stack_has_site(const hsc__desc *desc, hsc_site site)
{
    const hsc_config *c = &desc->config;
    if (hsc__site_is_cross(site)) return desc->encoder != NULL;
    if (site == HSC_POS_EMBED) return c->has_pos_embed;
    if (site == HSC_ROT_Q || site == HSC_ROT_K) return c->is_rotary;
    if (site == HSC_MLP_UP) return c->is_gated;
    if (site == HSC_RESID_MID) return !desc->parallel;
    if (site == HSC_TOKEN_TYPE_EMBED) return c->n_segments > 0;
    if (site == HSC_POOLED) return desc->pooler.data != NULL;
    if (site == HSC_LN_HEAD) return desc->w_head.data != NULL;
    if (site == HSC_LOGITS) return desc->unembed.data != NULL;
    return 1;
}

int hsc_model_has_site(const hsc_model *m, hsc_site site)
{
    hsc_site inner = hsc__site_in_encoder(site);
    if (!valid(site)) return 0;
    if (inner == HSC_N_SITES) return stack_has_site(&m->desc, site);
    return m->desc.encoder && stack_has_site(m->desc.encoder, inner);
}
