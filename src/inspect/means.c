/* The mean of a site over texts: what mean ablation puts in the place of an activation. Sums are in float64 and in the
 * order of the texts, so that neither threads nor packing show. */
#include "base/alloc.h"
#include "base/status.h"
#include "headscope/intervene.h"

#include <stdbool.h>
#include <string.h>

typedef struct sums {
    double *sum; /* [n_layers][n_pos][row] */
    int n_pos;   /* 1: over positions too */
    int row;
    int only; /* the one position that counts; -1: all but position 0, or with n_pos above 1 all */
    bool at_last;
} sums;

static int add_block(void *user, const hsc_block *block)
{
    const sums *s = user;
    for (int i = 0; i < block->n_rows; i++) {
        int pos = block->first_row + i;
        if (s->only >= 0 ? pos != s->only : s->n_pos == 1 && pos == 0) continue;
        const float *x = block->data + (size_t)i * block->stride;
        double *to =
            s->sum + ((size_t)block->layer * (size_t)s->n_pos + (size_t)(s->n_pos == 1 ? 0 : pos)) * (size_t)s->row;
        for (int k = 0; k < s->row; k++) to[k] += (double)x[k];
    }
    return 0;
}

/* one_each: a text counts once, not by its positions. lengths: of what has the site, texts or their sources. */
static hsc_status check_texts(const hsc_texts *texts, const int *lengths, bool one_each, bool same_length,
                              double *count, int *longest, hsc_error *err)
{
    HSC_FAIL_IF(texts->n_texts < 1, HSC_EINVAL, "a mean wants one text at least");
    *count = 0;
    *longest = 0;
    for (int i = 0; i < texts->n_texts; i++) {
        int n = lengths[i];
        HSC_FAIL_IF(n < 1, HSC_EINVAL, "text %d has %d tokens", i, n);
        HSC_FAIL_IF(same_length && n != lengths[0], HSC_EINVAL,
                    "a mean by position wants texts of one length: text 0 has %d tokens, text %d has %d", lengths[0], i,
                    n);
        *count += one_each ? 1 : n - 1;
        if (n > *longest) *longest = n;
    }
    HSC_FAIL_IF(*count == 0, HSC_EINVAL, "the texts have no position past the first, which the mean leaves out");
    return HSC_OK;
}

static hsc_status run_texts(hsc_session *session, hsc_site site, const hsc_texts *texts, const int *lengths, sums *s,
                            hsc_error *err)
{
    const hsc_token *ids = texts->ids, *source = texts->sources;
    hsc_observer observer = {site, -1, add_block, s};
    HSC_TRY(hsc_session_observe(session, &observer, err));
    for (int i = 0; i < texts->n_texts; i++) {
        hsc_batch batch = {.ids = ids, .n_tokens = texts->lengths[i], .logits = HSC_LOGITS_NONE};
        s->only = s->at_last ? lengths[i] - 1 : -1;
        hsc_session_reset(session);
        if (source) {
            hsc_batch read = {.ids = source, .n_tokens = texts->source_lengths[i]};
            HSC_TRY(hsc_session_read_source(session, &read, err));
            source += texts->source_lengths[i];
        }
        HSC_TRY(hsc_forward(session, &batch, err));
        ids += texts->lengths[i];
    }
    return HSC_OK;
}

static hsc_status take_mean(const hsc_model *model, hsc_site site, const hsc_texts *texts, int by_position,
                            bool at_last, const hsc_lab_options *options, float *out, hsc_error *err)
{
    double count;
    int longest, longest_text = 1, row = hsc_site_row(model, site), n_layers = hsc_model_site_layers(model, site);
    hsc__error_clear(err);
    HSC_FAIL_IF(hsc_model_encoder(model) && !texts->sources, HSC_EINVAL,
                "%s is an encoder-decoder: its texts have sources", hsc_model_config(model)->name);
    HSC_FAIL_IF((unsigned)site >= HSC_N_SITES || !hsc_site_per_layer(site) || !row, HSC_EINVAL,
                "a mean wants a site that each layer has and that is made of rows");
    const int *lengths = hsc_site_is_of_source(site) ? texts->source_lengths : texts->lengths;
    HSC_TRY(check_texts(texts, lengths, by_position || at_last, by_position, &count, &longest, err));
    for (int i = 0; i < texts->n_texts; i++)
        longest_text = texts->lengths[i] > longest_text ? texts->lengths[i] : longest_text;
    hsc_session_options o = {.n_threads = options ? options->n_threads : 0,
                             .max_tokens = longest_text,
                             .compute = options ? options->compute : HSC_COMPUTE_F32};
    sums s = {.n_pos = by_position ? longest : 1, .row = row, .only = -1, .at_last = at_last};
    size_t n = (size_t)n_layers * (size_t)s.n_pos * (size_t)row;
    hsc_session *session = NULL;
    HSC_TRY(hsc_session_new(&session, model, &o, err));
    s.sum = hsc__calloc(n, sizeof *s.sum);
    hsc_status status =
        s.sum ? run_texts(session, site, texts, lengths, &s, err) : hsc__fail_memory(err, n * sizeof *s.sum, "a mean");
    for (size_t i = 0; status == HSC_OK && i < n; i++) out[i] = (float)(s.sum[i] / count);
    hsc__free(s.sum);
    hsc_session_free(session);
    return status;
}

hsc_status hsc_site_mean(const hsc_model *model, hsc_site site, const hsc_texts *texts, int by_position,
                         const hsc_lab_options *options, float *out, hsc_error *err)
{
    return take_mean(model, site, texts, by_position, false, options, out, err);
}

hsc_status hsc_site_difference(const hsc_model *model, hsc_site site, const hsc_texts *toward, const hsc_texts *away,
                               int at_last, const hsc_lab_options *options, float *out, hsc_error *err)
{
    size_t n = (size_t)hsc_model_site_layers(model, site) * (size_t)hsc_site_row(model, site);
    HSC_TRY(take_mean(model, site, toward, 0, at_last, options, out, err));
    float *other = hsc__malloc(n * sizeof *other);
    if (!other) return hsc__fail_memory(err, n * sizeof *other, "a mean");
    hsc_status status = take_mean(model, site, away, 0, at_last, options, other, err);
    for (size_t i = 0; status == HSC_OK && i < n; i++) out[i] -= other[i];
    hsc__free(other);
    return status;
}
