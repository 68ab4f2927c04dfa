/* Names, shapes and meanings of the sites, from the one list in headscope.h. */
#include "model/model.h"

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

int hsc_model_has_site(const hsc_model *m, hsc_site site)
{
    const hsc_config *c = &m->desc.config;
    if (!valid(site)) return 0;
    if (site == HSC_POS_EMBED) return c->has_pos_embed;
    if (site == HSC_ROT_Q || site == HSC_ROT_K) return c->is_rotary;
    if (site == HSC_MLP_UP) return c->is_gated;
    if (site == HSC_RESID_MID) return !m->desc.parallel;
    if (site == HSC_TOKEN_TYPE_EMBED) return c->n_segments > 0;
    if (site == HSC_POOLED) return m->desc.pooler.data != NULL;
    if (site == HSC_LN_HEAD) return m->desc.w_head.data != NULL;
    if (site == HSC_LOGITS) return m->desc.unembed.data != NULL;
    return 1;
}
