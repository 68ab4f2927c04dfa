/* `headscope scan --json`: one object with what was read, what could have been found, and a row for every head. */
#include "cli/scan.h"

#include <math.h>

static void set(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, hsc__json_number(value));
}

static json_t *skipped_lines(const hsc_scan *scan)
{
    json_t *list = json_array();
    const hsc_skipped *s;
    for (int i = 0; (s = hsc_scan_skipped(scan, i)); i++) {
        json_t *line = json_pack("{s:i}", "line", s->line);
        json_object_set_new(line, "why", json_string(s->why));
        json_array_append_new(list, line);
    }
    return list;
}

static json_t *rules(const hsc_scan *scan)
{
    static const char *const names[] = {
#define RULE_NAME(id, name, meaning) [id] = name,
        HSC_RULE_LIST(RULE_NAME)
#undef RULE_NAME
    };
    json_t *object = json_object(), *pairs = json_object();
    for (int r = 0; r < HSC_N_RULES; r++) {
        hsc_scan_rule rule = hsc_scan_rule_figures(scan, (hsc_rule)r);
        set(object, names[r], rule.accuracy);
        set(pairs, names[r], rule.pair_accuracy);
        if (r == HSC_RULE_OFFSET) json_object_set_new(pairs, "offset_tokens", json_integer(rule.offset));
    }
    json_object_set_new(object, "pairs", pairs);
    return object;
}

static json_t *held_out(const hsc_held_out *h)
{
    if (!h) return json_null();
    json_t *object = json_object();
    set(object, "shift", h->shift);
    json_object_set_new(object, "ci", hsc__json_interval(h->ci));
    set(object, "p", h->p);
    set(object, "accuracy", h->accuracy);
    json_object_set_new(object, "acc_ci", hsc__json_interval(h->acc_ci));
    json_object_set_new(object, "n_clusters", json_integer(h->n_clusters));
    return object;
}

static json_t *control(const hsc_scan_difference *d)
{
    json_t *object = json_object();
    set(object, "control", d->control);
    set(object, "shift", d->shift);
    json_object_set_new(object, "ci", hsc__json_interval(d->ci));
    set(object, "p", d->p);
    set(object, "p_fwer", d->p_fwer);
    return object;
}

static void set_tests(json_t *object, const hsc_scan_head *h)
{
    static const char *const names[] = {
#define RULE_NAME(id, name, meaning) [id] = name,
        HSC_RULE_LIST(RULE_NAME)
#undef RULE_NAME
    };
    json_t *against = json_object();
    set(object, "p", h->p);
    set(object, "p_fwer", h->p_fwer);
    set(object, "q", h->q);
    set(object, "accuracy", h->accuracy);
    json_object_set_new(object, "acc_ci", hsc__json_interval(h->acc_ci));
    set(object, "accuracy_equal", h->accuracy_equal);
    set(object, "pair_accuracy", h->pair_accuracy);
    set(object, "p_pairs", h->p_pairs);
    for (int r = 0; r < HSC_N_RULES; r++) set(against, names[r], h->p_rules[r]);
    json_object_set_new(object, "p_rules", against);
}

static json_t *head(const hsc__scan *scan, int index)
{
    const hsc_scan_head *h = &scan->heads[index];
    char name[32];
    snprintf(name, sizeof name, "L%dH%d", h->layer, h->head);
    json_t *object = json_pack("{s:i,s:i,s:s}", "layer", h->layer, "head", h->head, "name", name);
    set(object, "a1", h->a1);
    set(object, "b1", h->b1);
    set(object, "a2", h->a2);
    set(object, "b2", h->b2);
    set(object, "shift", h->shift);
    json_object_set_new(object, "ci", hsc__json_interval(h->ci));
    set(object, "dz", h->dz);
    set(object, "share", h->share);
    set(object, "mass", h->mass);
    set(object, "sink", h->sink);
    set_tests(object, h);
    json_object_set_new(object, "held_out", held_out(hsc__scan_held(scan, index)));
    if (scan->options->control) json_object_set_new(object, "control", control(&scan->difference[index]));
    if (scan->options->cross) {
        json_t *cross = json_pack("{s:i}", "chosen", scan->cross[index]);
        set(cross, "median_shift", scan->cross_median[index]);
        json_object_set_new(object, "cross", cross);
    }
    return object;
}

static void set_run(json_t *root, const hsc__scan *scan)
{
    const hsc__scan_options *o = scan->options;
    const hsc_scan_counts *c = &scan->counts;
    static const char *const keys[] = {"sum", "mean", "last"}, *const by[] = {"shift", "t", "accuracy"};
    int tests = hsc__scan_tests(scan);
    json_object_set_new(root, "n_pairs", json_integer(c->n_pairs));
    json_object_set_new(root, "n_clusters", json_integer(c->n_clusters));
    json_object_set_new(root, "n_used", json_integer(c->n_used));
    json_object_set_new(root, "n_same", json_integer(c->n_same));
    json_object_set_new(root, "n_equal", json_integer(c->n_equal));
    json_object_set_new(root, "n_loaded", json_integer(c->n_loaded));
    json_object_set_new(root, "skipped", skipped_lines(scan->main.scan));
    json_object_set_new(root, "query", json_string(scan->query_name));
    json_object_set_new(root, "keys", json_string(keys[o->keys]));
    json_object_set_new(root, "by", json_string(by[o->by]));
    json_object_set_new(root, "fdr", json_string(o->fdr ? "by" : "bh"));
    json_object_set_new(root, "seed", json_integer(o->seed));
    json_object_set_new(root, "draws", json_pack("{s:i,s:i}", "bootstrap", 10000, "flips", 100000));
    json_object_set_new(root, "exact", json_boolean(c->n_clusters <= HSC_EXACT_CLUSTERS));
    json_object_set_new(root, "tests", json_integer(tests));
    set(root, "min_dz", tests ? hsc_min_dz(c->n_clusters, tests, HSC__ALPHA, HSC__POWER) : NAN);
    json_object_set_new(root, "min_clusters", tests ? json_integer(hsc_min_clusters(tests, 0.05)) : json_null());
    json_object_set_new(root, "baselines", rules(scan->main.scan));
}

static json_t *null_search(const hsc__scan *scan)
{
    json_t *null = json_object();
    if (scan->weights) {
        const hsc__scan_weights *w = scan->weights;
        json_object_set_new(null, "weights", json_string("shuffled"));
        json_object_set_new(null, "layer", json_integer(w->layer));
        json_object_set_new(null, "head", json_integer(w->head));
        set(null, "observed", hsc__scan_score(scan, &scan->heads[scan->order[0]]));
        set(null, "best", w->best);
        set(null, "median", w->median);
        set(null, "high", w->high);
        json_object_set_new(null, "n_above", json_integer(w->n_above));
        json_object_set_new(null, "n_used", json_integer(w->counts.n_used));
        return null;
    }
    json_object_set_new(null, "repeats", json_integer(scan->n_null));
    set(null, "observed", scan->null.observed);
    set(null, "median", scan->null.median);
    set(null, "high", scan->null.high);
    set(null, "p", scan->null.p);
    return null;
}

json_t *hsc__scan_json(const hsc__scan *scan)
{
    const hsc__scan_options *o = scan->options;
    json_t *root = json_pack("{s:o}", "model", hsc__json_model(&scan->opened)), *heads = json_array();
    if (hsc_model_encoder(scan->opened.model)) json_object_set_new(root, "side", json_string("encoder"));
    hsc__json_set_pass(root, &o->pass, scan->opened.model);
    set_run(root, scan);
    for (int i = 0; i < scan->n_heads; i++) json_array_append_new(heads, head(scan, scan->order[i]));
    json_object_set_new(root, "heads", heads);
    if (scan->n_null || scan->weights) json_object_set_new(root, "null", null_search(scan));
    if (o->control)
        json_object_set_new(
            root, "control",
            json_pack("{s:i,s:i}", "n_pairs", scan->control_pairs, "n_clusters", scan->control_clusters));
    return root;
}
