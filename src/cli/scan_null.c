/* headscope scan --null weights: the same pairs and the same statistics where the model's weights stand in a random
 * order. What its best head reaches is what the search finds where nothing was learnt. */
#include "cli/scan.h"
#include "cli/team.h"

#include <math.h>
#include <stdlib.h>

double hsc__scan_score(const hsc__scan *scan, const hsc_scan_head *head)
{
    if (isnan(head->p)) return -INFINITY;
    if (scan->options->by == HSC_BY_T) return fabs(head->dz);
    return scan->options->by == HSC_BY_ACCURACY ? head->accuracy : fabs(head->shift);
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(hsc__scan *scan, const hsc_scan_head *heads, double *scores)
{
    hsc__scan_weights *w = scan->weights;
    int n = 0;
    w->best = -INFINITY;
    for (int h = 0; h < scan->n_heads; h++) {
        double score = hsc__scan_score(scan, &heads[h]);
        if (isinf(score)) continue;
        scores[n++] = score;
        if (score <= w->best) continue;
        w->best = score;
        w->layer = heads[h].layer;
        w->head = heads[h].head;
    }
    qsort(scores, (size_t)n, sizeof *scores, rising);
    w->median = n ? scores[n / 2] : NAN;
    w->high = n ? scores[(n - 1) * 95 / 100] : NAN;
    for (int h = 0; h < scan->n_heads; h++) w->n_above += hsc__scan_score(scan, &scan->heads[h]) > w->best;
}

/* Only the figures that rank are wanted: few draws. */
static hsc_status search(hsc__scan *scan, const hsc_model *model, const hsc_scan_options *run, hsc_scan_head *heads,
                         double *scores, hsc_error *err)
{
    hsc_scan *shuffled = NULL;
    hsc_scan_statistics few = {.n_bootstrap = 1, .n_flips = 1, .n_threads = scan->options->threads};
    HSC_TRY(hsc_scan_run(&shuffled, model, scan->main.pairs, run, err));
    hsc__cli_progress_end();
    scan->weights->counts = hsc_scan_count(shuffled);
    hsc_status status = hsc__team_speaks() ? hsc_scan_figures(shuffled, &few, heads, err) : HSC_OK;
    if (status == HSC_OK && hsc__team_speaks()) compare(scan, heads, scores);
    hsc_scan_free(shuffled);
    return status;
}

hsc_status hsc__scan_shuffled(hsc__scan *scan, const hsc_scan_options *run, hsc_error *err)
{
    const hsc__scan_options *o = scan->options;
    hsc_model *model = NULL;
    hsc_model_options options = {.n_threads = o->threads, .shuffle = 1, .shuffle_seed = (uint64_t)o->seed};
    size_t n = (size_t)scan->n_heads;
    scan->weights = hsc__calloc(1, sizeof *scan->weights);
    hsc_scan_head *heads = hsc__calloc(n, sizeof *heads);
    double *scores = hsc__calloc(n, sizeof *scores);
    hsc_status status = hsc__fail_memory(err, n * sizeof *heads, "the figures");
    if (scan->weights && heads && scores) status = hsc_model_open(&model, scan->opened.path, &options, err);
    if (status == HSC_OK) status = search(scan, model, run, heads, scores, err);
    hsc_model_close(model);
    hsc__free(heads);
    hsc__free(scores);
    return status;
}
