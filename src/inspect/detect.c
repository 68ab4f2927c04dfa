/*
 * The detectors as an object, and their scores: means over windows of what detect_run.c kept of each. Random sequences
 * and the text have a pile of results each.
 */
#include "inspect/detect.h"
#include "model/texts.h"

#include "base/status.h"

#include <math.h>
#include <string.h>

const char *hsc_detector_name(hsc_detector detector)
{
    static const char *const names[] = {
#define DETECTOR_NAME(id, name, meaning) name,
        HSC_DETECTOR_LIST(DETECTOR_NAME)
#undef DETECTOR_NAME
    };
    return (unsigned)detector < HSC_N_DETECTORS ? names[detector] : NULL;
}

const char *hsc_detector_meaning(hsc_detector detector)
{
    static const char *const meanings[] = {
#define DETECTOR_MEANING(id, name, meaning) meaning,
        HSC_DETECTOR_LIST(DETECTOR_MEANING)
#undef DETECTOR_MEANING
    };
    return (unsigned)detector < HSC_N_DETECTORS ? meanings[detector] : NULL;
}

hsc_status hsc_detect_run(hsc_detect **out, const hsc_model *model, const char *text, size_t n,
                          const hsc_detect_options *options, hsc_error *err)
{
    static const hsc_detect_options defaults;
    *out = NULL;
    hsc__error_clear(err);
    hsc_detect *detect = hsc__calloc(1, sizeof *detect);
    if (!detect) return hsc__fail_memory(err, sizeof *detect, "the detectors");
    detect->options = options ? *options : defaults;
    detect->config = hsc__texts_config(model);
    detect->n_heads = detect->config->n_layers * detect->config->n_heads;
    hsc_status status = hsc__detect_pass(detect, model, text, n, err);
    if (status == HSC_OK) *out = detect;
    else hsc_detect_free(detect);
    return status;
}

static void free_pile(hsc__pile *p)
{
    hsc__free(p->values);
    hsc__free(p->examples);
}

void hsc_detect_free(hsc_detect *detect)
{
    if (!detect) return;
    free_pile(&detect->text);
    free_pile(&detect->random);
    hsc__free(detect);
}

/* --------------------------------------------------------------------------------------------------------- scores ----
 */

hsc_detect_counts hsc_detect_count(const hsc_detect *detect)
{
    return detect->counts;
}

static const hsc__pile *pile_of(const hsc_detect *detect, hsc_detector detector)
{
    return detector == HSC_DETECT_INDUCTION || detect->counts.on_random ? &detect->random : &detect->text;
}

/* The windows in which the detector has a figure; which ones is decided by their tokens, so it is the same for every
 * head. Returns how many. */
static int gather(const hsc_detect *detect, const hsc__pile *p, hsc_detector detector, double *table)
{
    size_t n_heads = (size_t)detect->n_heads;
    int n = 0;
    for (int i = 0; i < p->n_windows; i++) {
        const double *row = p->values + ((size_t)i * HSC__N_FIGURES + (size_t)detector) * n_heads;
        if (!isnan(row[0])) memcpy(table + (size_t)n++ * n_heads, row, n_heads * sizeof *table);
    }
    return n;
}

/* Over all windows, in their order. */
static double mean_over(const hsc_detect *detect, const hsc__pile *p, int figure, int head)
{
    size_t n_heads = (size_t)detect->n_heads;
    double sum = 0;
    for (int i = 0; i < p->n_windows; i++)
        sum += p->values[((size_t)i * HSC__N_FIGURES + (size_t)figure) * n_heads + (size_t)head];
    return sum / p->n_windows;
}

static double tl_score(const hsc_detect *detect, const hsc__pile *p, hsc_detector detector, int head)
{
    int which = detector == HSC_DETECT_PREVIOUS    ? HSC__TL_PREVIOUS
                : detector == HSC_DETECT_DUPLICATE ? HSC__TL_DUPLICATE
                : detector == HSC_DETECT_INDUCTION ? HSC__TL_INDUCTION
                                                   : -1;
    if (which < 0) return NAN;
    return mean_over(detect, p, HSC__FIRST_TL + which, head);
}

static hsc_status fill_scores(const hsc_detect *detect, hsc_detector detector, double *values, hsc_interval *ci,
                              hsc_detect_score *out, hsc_error *err)
{
    const hsc__pile *p = pile_of(detect, detector);
    hsc_table table = {values, gather(detect, p, detector, values), detect->n_heads};
    hsc_bootstrap_options bootstrap = {.n_draws = detect->options.n_bootstrap,
                                       .seed = detect->options.seed,
                                       .n_threads = detect->options.session.n_threads};
    if (table.n_clusters > 1) HSC_TRY(hsc_bootstrap(&table, &bootstrap, ci, err));
    for (int h = 0; h < detect->n_heads; h++) {
        out[h] = (hsc_detect_score){.score = NAN, .ci = {NAN, NAN}, .tl = tl_score(detect, p, detector, h)};
        out[h].best = p->examples[(size_t)detector * (size_t)detect->n_heads + (size_t)h];
        if (table.n_clusters > 0) out[h].score = hsc_effect_size(values + h, table.n_clusters, detect->n_heads).mean;
        if (table.n_clusters > 1) out[h].ci = ci[h];
    }
    return HSC_OK;
}

hsc_status hsc_detect_scores(const hsc_detect *detect, hsc_detector detector, hsc_detect_score *out, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_FAIL_IF((unsigned)detector >= HSC_N_DETECTORS, HSC_EINVAL, "there is no detector %d", (int)detector);
    size_t n_heads = (size_t)detect->n_heads, n = (size_t)pile_of(detect, detector)->n_windows * n_heads;
    double *values = hsc__calloc(n, sizeof *values);
    hsc_interval *ci = hsc__calloc(n_heads, sizeof *ci);
    hsc_status status = values && ci ? fill_scores(detect, detector, values, ci, out, err)
                                     : hsc__fail_memory(err, n * sizeof *values, "the detectors' scores");
    hsc__free(values);
    hsc__free(ci);
    return status;
}

void hsc_detect_profile(const hsc_detect *detect, double *out)
{
    const hsc__pile *p = detect->counts.on_random ? &detect->random : &detect->text;
    for (int h = 0; h < detect->n_heads; h++)
        for (int b = 0; b < HSC_DETECT_BINS; b++)
            out[(size_t)h * HSC_DETECT_BINS + (size_t)b] = mean_over(detect, p, HSC__FIRST_BIN + b, h);
}
