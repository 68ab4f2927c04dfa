/*
 * Rules that know no meaning, as rivals of the heads: the candidate that stands first, the nearest to the query, the
 * one of more tokens, and what stands at the best fixed distance. They see token positions alone. Every distance is
 * judged in one walk over the clusters.
 */
#include "base/status.h"
#include "inspect/scan.h"

#include <string.h>

_Static_assert(HSC_RULE_OFFSET == HSC_N_RULES - 1, "the rule with a distance is the last one");

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
static double right_of(hsc_rule rule, const hsc__said_pair *p, int offset, double *both)
{
    double first = vote(rule, &p->wording[0], offset), second = 1 - vote(rule, &p->wording[1], offset);
    *both = first == 1 && second == 1;
    return (first + second) / 2;
}

/* How often a rule is right, and in both wordings. */
typedef struct tally {
    double right, both;
} tally;

/* The rules but the last, then that one at every distance from `low` on. */
typedef struct contest {
    const hsc_scan *scan;
    int low, n;
    tally *cluster; /* [n] over a cluster's pairs */
    tally *all;     /* [n] over clusters */
} contest;

/* Judges the cluster that begins at by_cluster[*at], which moves to the next one. */
static void judge_cluster(contest *c, int *at)
{
    const hsc_scan *scan = c->scan;
    int n_pairs = 0, cluster = scan->pairs[scan->by_cluster[*at]].cluster;
    memset(c->cluster, 0, (size_t)c->n * sizeof *c->cluster);
    for (; *at < scan->n_used && scan->pairs[scan->by_cluster[*at]].cluster == cluster; ++*at) {
        const hsc__said_pair *said = scan->pairs[scan->by_cluster[*at]].said;
        for (int k = 0; k < c->n; k++) {
            double both;
            hsc_rule rule = k < HSC_RULE_OFFSET ? (hsc_rule)k : HSC_RULE_OFFSET;
            c->cluster[k].right += right_of(rule, said, c->low + k - HSC_RULE_OFFSET, &both);
            c->cluster[k].both += both;
        }
        n_pairs++;
        hsc__scan_forget(scan, (size_t)*at);
    }
    for (int k = 0; k < c->n; k++) {
        c->cluster[k].right /= n_pairs;
        c->cluster[k].both /= n_pairs;
    }
}

static void judge_all(contest *c)
{
    for (int at = 0; at < c->scan->n_used;) {
        judge_cluster(c, &at);
        for (int k = 0; k < c->n; k++) {
            c->all[k].right += c->cluster[k].right / c->scan->n_clusters;
            c->all[k].both += c->cluster[k].both / c->scan->n_clusters;
        }
    }
}

/* The distances between the two that any candidate lies at. */
static void find_reach(const hsc_scan *scan, int *low, int *high)
{
    *low = *high = 0;
    for (int i = 0; i < scan->n_used; i++) {
        for (int w = 0; w < 2; w++) {
            const hsc__said *s = &scan->pairs[i].said->wording[w];
            int nearest = s->query.last - (s->a.last > s->b.last ? s->a.last : s->b.last);
            int farthest = s->query.last - (s->a.first < s->b.first ? s->a.first : s->b.first);
            if (nearest < *low) *low = nearest;
            if (farthest > *high) *high = farthest;
        }
        hsc__scan_forget(scan, (size_t)i);
    }
}

/* The rules' figures, of the last one at its best distance: the lowest of equals. */
static void keep_figures(hsc_scan *scan, const contest *c)
{
    int best = HSC_RULE_OFFSET;
    for (int k = best + 1; k < c->n; k++)
        if (c->all[k].right > c->all[best].right) best = k;
    for (int rule = 0; rule < HSC_N_RULES; rule++) {
        const tally *t = &c->all[rule == HSC_RULE_OFFSET ? best : rule];
        scan->rule[rule] = (hsc_scan_rule){.accuracy = t->right, .pair_accuracy = t->both};
    }
    scan->rule[HSC_RULE_OFFSET].offset = c->low + best - HSC_RULE_OFFSET;
}

/* The accuracy of the rules as they are now, cluster by cluster. */
static hsc_status keep_rows(hsc_scan *scan, contest *c, hsc_error *err)
{
    c->low = scan->rule[HSC_RULE_OFFSET].offset;
    c->n = HSC_N_RULES;
    for (int at = 0; at < scan->n_used;) {
        double row[HSC_N_RULES];
        judge_cluster(c, &at);
        for (int rule = 0; rule < HSC_N_RULES; rule++) row[rule] = c->cluster[rule].right;
        HSC_TRY(hsc__columns_add(&scan->rules, row, err));
    }
    return hsc__columns_end(&scan->rules, err);
}

hsc_status hsc__scan_rules(hsc_scan *scan, hsc_error *err)
{
    int high;
    contest c = {.scan = scan};
    find_reach(scan, &c.low, &high);
    c.n = HSC_RULE_OFFSET + high - c.low + 1;
    c.cluster = hsc__calloc((size_t)c.n, sizeof *c.cluster);
    c.all = hsc__calloc((size_t)c.n, sizeof *c.all);
    hsc_status status =
        c.cluster && c.all ? HSC_OK : hsc__fail_memory(err, 2 * (size_t)c.n * sizeof *c.all, "the rules");
    if (status == HSC_OK)
        status = hsc__columns_open(&scan->rules, scan->n_clusters, HSC_N_RULES, scan->memory / 8, err);
    if (status == HSC_OK) {
        judge_all(&c);
        keep_figures(scan, &c);
        status = keep_rows(scan, &c, err);
    }
    hsc__free(c.cluster);
    hsc__free(c.all);
    return status;
}

hsc_scan_rule hsc_scan_rule_figures(const hsc_scan *scan, hsc_rule rule)
{
    return rule < HSC_N_RULES ? scan->rule[rule] : (hsc_scan_rule){0};
}
