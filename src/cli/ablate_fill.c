/* What takes the place of an ablated activation: its mean over a corpus, or what it is in other texts, the donors. */
#include "cli/ablate.h"
#include "headscope/random.h"

#include <string.h>

hsc_lab_options hsc__ablate_lab_options(const hsc__ablate *j)
{
    return (hsc_lab_options){.n_threads = j->options->threads,
                             .compute = (hsc_compute)j->options->compute,
                             .logits = hsc__metric_rows(&j->metric)};
}

static hsc_status fill_mean(hsc__ablate *j, hsc_site site, const hsc__items *corpus, hsc_error *err)
{
    hsc_site meant = hsc__ablate_site(j, site);
    int n_pos = j->options->by_position ? hsc__ablate_rows(j, &corpus->list[0]) : 1;
    size_t n = (size_t)j->stack->n_layers * (size_t)n_pos * (size_t)hsc_site_row(j->opened.model, meant);
    hsc_texts texts = {0};
    hsc_lab_options o = hsc__ablate_lab_options(j);
    j->fills[site] = hsc__malloc(n * sizeof(float));
    if (!j->fills[site]) return hsc__fail_memory(err, n * sizeof(float), "means");
    hsc_status status = hsc__items_join(corpus, &texts, err);
    if (status == HSC_OK)
        status = hsc_site_mean(j->opened.model, meant, &texts, j->options->by_position, &o, j->fills[site], err);
    j->n_fill = n_pos;
    hsc__joined_free(&texts);
    return status;
}

static bool uses_site(const hsc__ablate *j, hsc_site site)
{
    for (size_t i = 0; i < j->n_units; i++) {
        if (j->units[i].site == site) return true;
    }
    return false;
}

static const hsc_site ablated_sites[] = {HSC_Z, HSC_ATTN_OUT, HSC_MLP_OUT, HSC_MLP_POST};
enum { N_ABLATED = sizeof ablated_sites / sizeof ablated_sites[0] };

hsc_status hsc__ablate_fill_corpus(hsc__ablate *j, hsc_error *err)
{
    hsc__items corpus = {0};
    unsigned flags = hsc__encode_flags(j->options->no_special, j->options->parse_special);
    hsc_status status = hsc__items_add_lines(&corpus, &j->opened, j->options->corpus, flags, 0, err);
    for (int i = 0; i < N_ABLATED && status == HSC_OK; i++) {
        if (uses_site(j, ablated_sites[i])) status = fill_mean(j, ablated_sites[i], &corpus, err);
    }
    hsc__items_free(&corpus);
    return status;
}

/* The donor's activations, position by position. */
static hsc_status run_donor(hsc__ablate *j, const hsc__item *donor, hsc_lab *lab, hsc_error *err)
{
    size_t n_layers = (size_t)j->stack->n_layers;
    for (int i = 0; i < N_ABLATED; i++) {
        if (uses_site(j, ablated_sites[i])) HSC_TRY(hsc_lab_keep(lab, hsc__ablate_site(j, ablated_sites[i]), -1, err));
    }
    if (donor->source) HSC_TRY(hsc_lab_source(lab, donor->source, donor->n_source, err));
    HSC_TRY(hsc_lab_text(lab, donor->ids, donor->n_tokens, err));
    for (int i = 0; i < N_ABLATED; i++) {
        hsc_site site = ablated_sites[i], meant = hsc__ablate_site(j, site);
        size_t n = (size_t)hsc__ablate_rows(j, donor) * (size_t)hsc_site_row(j->opened.model, meant);
        if (!uses_site(j, site)) continue;
        if (!j->fills[site]) j->fills[site] = hsc__malloc(n_layers * n * sizeof(float));
        if (!j->fills[site]) return hsc__fail_memory(err, n_layers * n * sizeof(float), "a donor's activations");
        for (size_t layer = 0; layer < n_layers; layer++) {
            hsc_view view;
            HSC_TRY(hsc_lab_clean(lab, meant, (int)layer, &view, err));
            memcpy(j->fills[site] + layer * n, view.data, n * sizeof(float));
        }
    }
    j->n_fill = hsc__ablate_rows(j, donor);
    return HSC_OK;
}

/* The donor's activations become what is put in. */
static hsc_status fill_from_item(hsc__ablate *j, const hsc__item *donor, hsc_error *err)
{
    hsc_lab *lab = NULL;
    hsc_lab_options o = {
        .n_threads = j->options->threads, .compute = (hsc_compute)j->options->compute, .logits = HSC_LOGITS_NONE};
    for (int site = 0; site < HSC_N_SITES; site++) { /* the last donor may have had another length */
        hsc__free(j->fills[site]);
        j->fills[site] = NULL;
    }
    hsc_status status = hsc_lab_new(&lab, j->opened.model, &o, err);
    if (status == HSC_OK) status = run_donor(j, donor, lab, err);
    hsc_lab_free(lab);
    return status;
}

static hsc_status align_text(hsc__ablate *j, const hsc__item *donor, const char *text, unsigned flags, hsc_error *err)
{
    int word = -1;
    const hsc__item *x = &j->items.list[0];
    int n = hsc__ablate_rows(j, x), n_donor = hsc__ablate_rows(j, donor);
    bool of_source = j->side == HSC__SIDE_ENCODER;
    if (j->text) HSC_TRY(hsc__differing_word(&j->opened, j->text, text, flags, &word, err));
    HSC_TRY(hsc_align(of_source ? x->source : x->ids, n, of_source ? donor->source : donor->ids, n_donor, word,
                      &j->seam, err));
    j->items.n_aligned += n != n_donor;
    return HSC_OK;
}

static hsc_status fill_from_text(hsc__ablate *j, const char *text, hsc_error *err)
{
    hsc__items donor = {.with_end = j->items.with_end};
    unsigned flags = hsc__encode_flags(j->options->no_special, j->options->parse_special);
    hsc_status status = hsc__items_add_text(&donor, &j->opened, text, strlen(text), flags, err);
    if (status == HSC_OK) {
        status = align_text(j, &donor.list[0], text, flags, err);
        if (status != HSC_OK) status = hsc__fail_prefix(err, status, "--donor: '%s' does not fit", text);
    }
    if (status == HSC_OK) status = fill_from_item(j, &donor.list[0], err);
    hsc__items_free(&donor);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- donors ---- */

static bool can_give(const hsc__ablate *j, size_t item, size_t donor)
{
    const hsc__item *x = &j->items.list[item], *y = &j->items.list[donor];
    bool same = x->cluster && y->cluster ? strcmp(x->cluster, y->cluster) == 0 : item == donor;
    return !same && hsc__ablate_rows(j, x) == hsc__ablate_rows(j, y);
}

/* The donors of a text of a pair file: seeded others of other clusters, without repeats. */
static int draw_donors(const hsc__ablate *j, size_t item, hsc_random *random, size_t *out)
{
    int n = 0, wanted = j->options->n_donors, seen = 0;
    for (size_t d = 0; d < j->items.n; d++) { /* reservoir sampling */
        if (!can_give(j, item, d)) continue;
        uint32_t at = hsc_random_bits32(random) % (uint32_t)++seen;
        if (n < wanted) out[n++] = d;
        else if (at < (uint32_t)wanted) out[at] = d;
    }
    return n;
}

static hsc_status find_others(hsc__ablate *j, size_t most, hsc_error *err)
{
    hsc_random random;
    hsc_random_seed(&random, (uint64_t)j->options->seed);
    for (size_t i = 0; i < j->items.n; i++) {
        j->n_donors[i] = draw_donors(j, i, &random, j->donors + i * most);
        if (j->n_donors[i]) continue;
        HSC_TRY(hsc__items_leave_unused(&j->items, i, "no other cluster has a text of as many tokens", err));
    }
    HSC_FAIL_IF(j->items.n_unused == j->items.n, HSC_EINVAL,
                "%s: no text has a donor of as many tokens: no two clusters have texts of one length",
                j->options->pairs);
    return HSC_OK;
}

static hsc_status find_twins(hsc__ablate *j, hsc_error *err)
{
    HSC_TRY(hsc__items_align_twins(&j->items, j->options->pairs, j->side == HSC__SIDE_ENCODER, err));
    for (size_t i = 0; i < j->items.n; i++) {
        if (j->items.list[i].unused) continue;
        j->donors[i] = (size_t)j->items.list[i].twin;
        j->n_donors[i] = 1;
    }
    return HSC_OK;
}

hsc_status hsc__ablate_find_donors(hsc__ablate *j, hsc_error *err)
{
    const hsc__ablate_options *o = j->options;
    size_t most = o->n_donors ? (size_t)o->n_donors : 1;
    if (o->how != HSC__ABLATE_RESAMPLE || o->donors.n) return HSC_OK;
    j->donors = hsc__calloc(j->items.n * most, sizeof *j->donors);
    j->n_donors = hsc__calloc(j->items.n, sizeof *j->n_donors);
    if (!j->donors || !j->n_donors) return hsc__fail_memory(err, j->items.n * most * sizeof *j->donors, "the donors");
    return o->n_donors ? find_others(j, most, err) : find_twins(j, err);
}

int hsc__ablate_n_donors(const hsc__ablate *j, size_t item)
{
    return j->options->donors.n ? j->options->donors.n : j->n_donors ? j->n_donors[item] : 0;
}

hsc_status hsc__ablate_fill_donor(hsc__ablate *j, size_t item, int donor, hsc_error *err)
{
    size_t most = j->options->n_donors ? (size_t)j->options->n_donors : 1;
    if (j->options->donors.n) return fill_from_text(j, j->options->donors.list[donor], err);
    j->seam = j->items.list[item].seam;
    return fill_from_item(j, &j->items.list[j->donors[item * most + (size_t)donor]], err);
}
