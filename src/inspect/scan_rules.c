/*
 * Rules that know no meaning, as rivals of the heads: the candidate that stands first, the nearest to the query, the
 * one of more tokens, and what stands at the best fixed distance. They see token positions alone.
 */
#include "base/status.h"
#include "inspect/scan.h"

#include <string.h>

/* Whether a rule prefers a: 1, b: 0, neither: 0.5. */
static double prefer(double a, double b)
{
    return hsc__right(a, b);
}

/* Tokens between a candidate and the query, on either side. */
static int distance(hsc__range key, hsc__range query)
{
    return key.last < query.first ? query.first - key.last : key.first > query.last ? key.first - query.last : 0;
}

static bool holds(hsc__range range, int position)
{
    return position >= range.first && position <= range.last;
}

static double vote(hsc_rule rule, const hsc__said *s, int offset)
{
    switch (rule) {
    case HSC_RULE_FIRST: return prefer(-s->a.first, -s->b.first);
    case HSC_RULE_NEAREST: return prefer(-distance(s->a, s->query), -distance(s->b, s->query));
    case HSC_RULE_LONGEST: return prefer(s->a.last - s->a.first, s->b.last - s->b.first);
    case HSC_RULE_OFFSET: return prefer(holds(s->a, s->query.last - offset), holds(s->b, s->query.last - offset));
    case HSC_N_RULES: break;
    }
    return 0.5;
}

/* The two wordings' marks: in the first a is right, in the second b. */
static double right_of(hsc_rule rule, const hsc__scan_pair *p, int offset, double *both)
{
    double first = vote(rule, &p->said[0], offset), second = 1 - vote(rule, &p->said[1], offset);
    *both = first == 1 && second == 1;
    return (first + second) / 2;
}

/* Fills out[n_clusters] with means over pairs, and the figures over clusters. counts, both: [n_clusters]. */
static hsc_scan_rule judge(const hsc_scan *scan, hsc_rule rule, int offset, double *out, double *both, int *counts)
{
    size_t n = (size_t)scan->n_clusters;
    hsc_scan_rule figures = {.offset = offset};
    memset(out, 0, n * sizeof *out);
    memset(both, 0, n * sizeof *both);
    memset(counts, 0, n * sizeof *counts);
    for (int i = 0; i < scan->n_used; i++) {
        double pair;
        out[scan->pairs[i].cluster] += right_of(rule, &scan->pairs[i], offset, &pair);
        both[scan->pairs[i].cluster] += pair;
        counts[scan->pairs[i].cluster]++;
    }
    for (size_t c = 0; c < n; c++) {
        out[c] /= counts[c];
        figures.accuracy += out[c] / (double)n;
        figures.pair_accuracy += both[c] / counts[c] / (double)n;
    }
    return figures;
}

/* The distances between the two that any candidate lies at. */
static void find_reach(const hsc_scan *scan, int *low, int *high)
{
    *low = *high = 0;
    for (int i = 0; i < scan->n_used; i++) {
        for (int w = 0; w < 2; w++) {
            const hsc__said *s = &scan->pairs[i].said[w];
            int nearest = s->query.last - (s->a.last > s->b.last ? s->a.last : s->b.last);
            int farthest = s->query.last - (s->a.first < s->b.first ? s->a.first : s->b.first);
            if (nearest < *low) *low = nearest;
            if (farthest > *high) *high = farthest;
        }
    }
}

hsc_status hsc__scan_rules(hsc_scan *scan, hsc_error *err)
{
    size_t n = (size_t)scan->n_clusters;
    int low, high, best = 0;
    double best_accuracy = -1;
    scan->rules = hsc__calloc(HSC_N_RULES * n, sizeof *scan->rules);
    double *both = hsc__calloc(n, sizeof *both);
    int *counts = hsc__calloc(n, sizeof *counts);
    if (scan->rules && both && counts) {
        double *offsets = scan->rules + (size_t)HSC_RULE_OFFSET * n;
        find_reach(scan, &low, &high);
        for (int offset = low; offset <= high; offset++) { /* the lowest of equals */
            hsc_scan_rule r = judge(scan, HSC_RULE_OFFSET, offset, offsets, both, counts);
            if (r.accuracy <= best_accuracy) continue;
            best_accuracy = r.accuracy;
            best = offset;
        }
        for (int rule = 0; rule < HSC_N_RULES; rule++)
            scan->rule[rule] = judge(scan, (hsc_rule)rule, rule == HSC_RULE_OFFSET ? best : 0,
                                     scan->rules + (size_t)rule * n, both, counts);
    }
    hsc_status status =
        scan->rules && both && counts ? HSC_OK : hsc__fail_memory(err, HSC_N_RULES * n * sizeof *both, "the rules");
    hsc__free(both);
    hsc__free(counts);
    return status;
}

hsc_scan_rule hsc_scan_rule_figures(const hsc_scan *scan, hsc_rule rule)
{
    return rule < HSC_N_RULES ? scan->rule[rule] : (hsc_scan_rule){0};
}
