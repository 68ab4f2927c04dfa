/* What `headscope scan` shows people: a header that says what was tested and what could have been found, the ranked
 * table, what held-out data say, and the sentences where a head fails. And the same as CSV. */
#include "cli/scan.h"

#include <math.h>
#include <string.h>

enum { SHOWN_SKIPPED = 5, SHOWN_FAILURES = 20, TOP = 10 };

/* ------------------------------------------------------------------------------------------------------ the header
 * ---- */

static void add_left_out(const hsc__scan *scan, hsc__string *out)
{
    const hsc_scan_counts *c = &scan->counts;
    const hsc_skipped *s;
    if (c->n_same)
        hsc__string_printf(
            out,
            "%d pair%s read%s the same up to the query, so a causal model's heads differ by exactly 0 there; "
            "%s in no figure\n",
            c->n_same, HSC__PLURAL(c->n_same), c->n_same == 1 ? "s" : "", c->n_same == 1 ? "it is" : "they are");
    if (!c->n_skipped) return;
    hsc__string_printf(out, "%d line%s left out:", c->n_skipped, HSC__PLURAL(c->n_skipped));
    for (int i = 0; i < SHOWN_SKIPPED && (s = hsc_scan_skipped(scan->main.scan, i)); i++)
        hsc__string_printf(out, "%s line %d (%s)", i ? ";" : "", s->line, s->why);
    hsc__string_text(out, c->n_skipped > SHOWN_SKIPPED ? "; --json lists all\n" : "\n");
}

static void add_rules(const hsc__scan *scan, hsc__string *out)
{
    hsc_scan_rule offset = hsc_scan_rule_figures(scan->main.scan, HSC_RULE_OFFSET);
    hsc__string_printf(out,
                       "rules without meaning: first mentioned %.3f, nearest to the query %.3f, more tokens %.3f, best "
                       "fixed distance (%d) %.3f\n",
                       hsc_scan_rule_figures(scan->main.scan, HSC_RULE_FIRST).accuracy,
                       hsc_scan_rule_figures(scan->main.scan, HSC_RULE_NEAREST).accuracy,
                       hsc_scan_rule_figures(scan->main.scan, HSC_RULE_LONGEST).accuracy, offset.offset,
                       offset.accuracy);
    hsc__string_text(out, "a head blind to the swap has shift 0, accuracy 0.5 and both right 0\n");
}

/* What --bos puts before each sentence. */
static void add_bos(const hsc__scan *scan, hsc__string *out)
{
    size_t n;
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(scan->opened.model, NULL);
    const char *bytes = scan->options->bos && tokenizer ? hsc_token_bytes(tokenizer, scan->bos, &n) : NULL;
    if (!bytes) return;
    hsc__string_text(out, "before every sentence: ");
    hsc__text_label(out, bytes, n);
    hsc__string_text(out, "\n");
}

static void add_header(const hsc__scan *scan, hsc__string *out)
{
    const hsc_scan_counts *c = &scan->counts;
    bool exact = c->n_clusters <= HSC_EXACT_CLUSTERS;
    hsc__string_printf(out, "%s: %d layers; %d heads per layer (", scan->opened.name, c->n_layers, c->n_heads);
    hsc__pass_describe(out, &scan->options->pass, scan->opened.model);
    hsc__string_printf(out, ")\n%s: %d pair%s, %d used, in %d cluster%s; from the query '%s'", scan->main.path,
                       c->n_pairs, HSC__PLURAL(c->n_pairs), c->n_used, c->n_clusters, HSC__PLURAL(c->n_clusters),
                       scan->query_name);
    if (c->n_loaded)
        hsc__string_printf(out, "; %d pair%s came from %s", c->n_loaded, HSC__PLURAL(c->n_loaded), scan->options->db);
    hsc__string_text(out, "\n");
    add_left_out(scan, out);
    if (c->n_equal < c->n_used)
        hsc__string_printf(out, "%d pair%s ha%s candidates of unequally many tokens; keys are %s\n",
                           c->n_used - c->n_equal, HSC__PLURAL((c->n_used - c->n_equal)),
                           c->n_used - c->n_equal == 1 ? "s" : "ve",
                           scan->options->keys == 0   ? "summed"
                           : scan->options->keys == 1 ? "averaged"
                                                      : "the last token");
    add_bos(scan, out);
    int n_none = scan->n_heads - hsc__scan_tests(scan);
    if (n_none)
        hsc__string_printf(out, "%d head%s never tell%s the wordings apart and ha%s no test\n", n_none,
                           HSC__PLURAL(n_none), n_none == 1 ? "s" : "", n_none == 1 ? "s" : "ve");
    hsc__string_printf(out, "tested: %d head%s; p by %s sign flips of clusters, p_fwer by max |t|, q by %s; seed %d\n",
                       hsc__scan_tests(scan), HSC__PLURAL(hsc__scan_tests(scan)), exact ? "all" : "100,000 random",
                       scan->options->fdr ? "BY" : "BH", scan->options->seed);
    hsc__add_power(out, scan->counts.n_clusters, hsc__scan_tests(scan));
    add_rules(scan, out);
    if (scan->query == HSC_QUERY_SWAP && !scan->options->control)
        hsc__string_text(out, "the query itself differs between the wordings: what the word does alone is in every "
                              "shift; --control takes it away\n");
}

/* -------------------------------------------------------------------------------------------------------- the table
 * ---- */

static void add_table(const hsc__scan *scan, hsc__string *out)
{
    static const char *const by[] = {"|shift|", "|t|", "accuracy"};
    static const hsc__column columns[] = {
        {.head = "head"},
        {.head = "shift", .right = true},
        {.head = "95% interval", .right = true},
        {.head = "d_z", .right = true},
        {.head = "p", .right = true},
        {.head = "p_fwer", .right = true},
        {.head = "q", .right = true},
        {.head = "right", .right = true},
        {.head = "both", .right = true},
        {.head = "a1", .right = true},
        {.head = "b1", .right = true},
        {.head = "a2", .right = true},
        {.head = "b2", .right = true},
        {.head = "sink", .right = true},
    };
    int n = scan->options->top ? scan->options->top : TOP;
    hsc__string_printf(out, "\nranked by %s, on the pairs that rank: the first is the best of %d\n",
                       by[scan->options->by], hsc__scan_tests(scan));
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < n && i < scan->n_heads; i++) {
        const hsc_scan_head *h = &scan->heads[scan->order[i]];
        hsc__cell_head(&table.cells, h->layer, h->head);
        hsc__cell_number(&table.cells, 4, h->shift);
        hsc__cell_interval(&table.cells, h->ci);
        hsc__cell_number(&table.cells, 2, h->dz);
        hsc__cell_p(&table.cells, h->p);
        hsc__cell_p(&table.cells, h->p_fwer);
        hsc__cell_p(&table.cells, h->q);
        hsc__cell_number(&table.cells, 3, h->accuracy);
        hsc__cell_number(&table.cells, 2, h->pair_accuracy);
        hsc__cell_number(&table.cells, 4, h->a1);
        hsc__cell_number(&table.cells, 4, h->b1);
        hsc__cell_number(&table.cells, 4, h->a2);
        hsc__cell_number(&table.cells, 4, h->b2);
        hsc__cell_number(&table.cells, 3, h->sink);
    }
    hsc__cli_table(out, &table);
}

/* The best head of the table against the rules; Holm over the heads would be stricter, so the raw p is called that. */
static void add_best(const hsc__scan *scan, hsc__string *out)
{
    static const char *const names[] = {"first mentioned", "nearest", "more tokens", "fixed distance"};
    const hsc_scan_head *h = &scan->heads[scan->order[0]];
    if (isnan(h->p)) return;
    hsc__string_printf(out, "\nL%dH%d right %.3f [%.3f, %.3f]; both right against both wrong p ", h->layer, h->head,
                       h->accuracy, h->acc_ci.low, h->acc_ci.high);
    hsc__add_p(out, h->p_pairs);
    hsc__string_text(out, "; against the rules, paired and uncorrected:");
    for (int r = 0; r < HSC_N_RULES; r++) {
        hsc__string_printf(out, "%s %s p ", r ? "," : "", names[r]);
        hsc__add_p(out, h->p_rules[r]);
    }
    hsc__string_text(out, "\n");
}

static void add_held_out(const hsc__scan *scan, hsc__string *out)
{
    static const hsc__column columns[] = {
        {.head = "head"},
        {.head = "shift", .right = true},
        {.head = "95% interval", .right = true},
        {.head = "p", .right = true},
        {.head = "right", .right = true},
        {.head = "shift where it was chosen", .right = true},
    };
    if (!scan->n_held) return;
    const hsc_held_out *first = &scan->held[0];
    if (scan->options->confirm)
        hsc__string_printf(out, "\nchosen on %s, judged on %s (%d clusters); p is Holm's over the chosen\n",
                           scan->main.path, scan->options->confirm, first->n_clusters);
    else
        hsc__string_printf(out,
                           "\nchosen on %d clusters, judged on the %d others (seed %d); p is Holm's over the chosen\n",
                           scan->counts.n_clusters - first->n_clusters, first->n_clusters, scan->options->seed);
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < scan->n_held; i++) {
        const hsc_held_out *h = &scan->held[i];
        hsc__cell_head(&table.cells, h->layer, h->head);
        hsc__cell_number(&table.cells, 4, h->shift);
        hsc__cell_interval(&table.cells, h->ci);
        hsc__cell_p(&table.cells, h->p);
        hsc__cell_number(&table.cells, 3, h->accuracy);
        hsc__cell_number(&table.cells, 4, h->chosen_shift);
    }
    hsc__cli_table(out, &table);
}

/* Heads by how often they were chosen. */
static void add_cross(const hsc__scan *scan, hsc__string *out)
{
    static const hsc__column columns[] = {{.head = NULL}, {.right = true}, {.right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    if (!scan->options->cross) return;
    hsc__string_printf(out, "\n%d random splits: how often chosen, median held-out shift\n", scan->options->cross);
    for (int limit = INT32_MAX, shown = 0; shown < TOP;) {
        int next = 0;
        for (int h = 0; h < scan->n_heads; h++)
            if (scan->cross[h] < limit && scan->cross[h] > next) next = scan->cross[h];
        if (next == 0) break;
        for (int h = 0; h < scan->n_heads && shown < TOP; h++) {
            if (scan->cross[h] != next) continue;
            hsc__cell_head(&table.cells, scan->heads[h].layer, scan->heads[h].head);
            hsc__string_printf(&table.cells, "%d\t", next);
            hsc__cell_number(&table.cells, 4, scan->cross_median[h]);
            shown++;
        }
        limit = next;
    }
    hsc__cli_table(out, &table);
}

static void add_control(const hsc__scan *scan, hsc__string *out)
{
    static const hsc__column columns[] = {
        {.head = "head"},
        {.head = "shift", .right = true},
        {.head = "control", .right = true},
        {.head = "less", .right = true},
        {.head = "95% interval", .right = true},
        {.head = "p", .right = true},
        {.head = "p_fwer", .right = true},
    };
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    int n = scan->options->top ? scan->options->top : TOP;
    if (!scan->options->control) return;
    hsc__string_printf(out, "\nless the control of %s: %d of %d pairs have one at their place, in %d cluster%s\n",
                       scan->options->control, scan->control_pairs, scan->counts.n_used, scan->control_clusters,
                       HSC__PLURAL(scan->control_clusters));
    for (int i = 0; i < n && i < scan->n_heads; i++) {
        const hsc_scan_difference *d = &scan->difference[scan->order[i]];
        hsc__cell_head(&table.cells, scan->heads[scan->order[i]].layer, scan->heads[scan->order[i]].head);
        hsc__cell_number(&table.cells, 4, scan->heads[scan->order[i]].shift);
        hsc__cell_number(&table.cells, 4, d->control);
        hsc__cell_number(&table.cells, 4, d->shift);
        hsc__cell_interval(&table.cells, d->ci);
        hsc__cell_p(&table.cells, d->p);
        hsc__cell_p(&table.cells, d->p_fwer);
    }
    hsc__cli_table(out, &table);
}

static void add_weights(const hsc__scan *scan, hsc__string *out)
{
    static const char *const by[] = {"|shift|", "|d_z|", "accuracy"};
    const hsc__scan_weights *w = scan->weights;
    hsc__string_printf(
        out,
        "\nthe same search with the model's weights in a random order (seed %d): best L%dH%d, %s %.4f; 95 of "
        "100 heads below %.4f, median %.4f; %d heads of the model as it is lie above that best\n",
        scan->options->seed, w->layer, w->head, by[scan->options->by], w->best, w->high, w->median, w->n_above);
}

static void add_null(const hsc__scan *scan, hsc__string *out)
{
    if (scan->weights) add_weights(scan, out);
    if (!scan->n_null) return;
    hsc__string_printf(
        out,
        "\nthe search with wordings exchanged at random, %d time%s: best %.4f as observed; median %.4f and "
        "95th percentile %.4f of the best by chance; p ",
        scan->n_null, HSC__PLURAL(scan->n_null), scan->null.observed, scan->null.median, scan->null.high);
    hsc__add_p(out, scan->null.p);
    hsc__string_text(out, "\n");
}

void hsc__scan_text(const hsc__scan *scan, hsc__string *out)
{
    add_header(scan, out);
    add_table(scan, out);
    add_best(scan, out);
    if (!scan->n_held && !scan->options->cross)
        hsc__string_text(out, "these are figures of the pairs that chose; --holdout 0.5, --cross 100 or --confirm FILE "
                              "judge on others\n");
    add_held_out(scan, out);
    add_cross(scan, out);
    add_control(scan, out);
    add_null(scan, out);
    hsc__string_text(out, "\n");
}

/* ----------------------------------------------------------------------------------------------------------- CSV ----
 */

void hsc__scan_csv(const hsc__scan *scan, hsc__string *out)
{
    hsc__string_text(out, "layer,head,name"
#define COLUMN(name, value) "," #name
                     HSC__HEAD_FIGURES(COLUMN)
#undef COLUMN
                         ",accuracy_equal,p_pairs,held_out_shift,held_out_low,held_out_high,held_out_p,"
                         "held_out_accuracy\n");
    for (int i = 0; i < scan->n_heads; i++) {
        static const hsc_held_out unchosen = {.shift = NAN, .ci = {NAN, NAN}, .p = NAN, .accuracy = NAN};
        const hsc_scan_head *h = &scan->heads[scan->order[i]];
        const hsc_held_out *o = hsc__scan_held(scan, scan->order[i]);
        if (!o) o = &unchosen;
        const double values[] = {
#define VALUE(name, value) value,
            HSC__HEAD_FIGURES(VALUE)
#undef VALUE
                h->accuracy_equal,
            h->p_pairs,
            o->shift,
            o->ci.low,
            o->ci.high,
            o->p,
            o->accuracy};
        hsc__string_printf(out, "%d,%d,L%dH%d", h->layer, h->head, h->layer, h->head);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) hsc__csv_number(out, values[k]);
        hsc__string_text(out, "\n");
    }
}

/* ------------------------------------------------------------------------------------------ where a head is wrong ----
 */

/* How far the answer's weight lies below the other's in a wording; above 0: wrong. */
static double lack(const hsc_seen *seen, int wording)
{
    return wording ? (double)seen->a - (double)seen->b : (double)seen->b - (double)seen->a;
}

/* A sentence where the head is wrong. */
typedef struct failure {
    double lack;
    int pair, wording;
    hsc_seen seen;
} failure;

/* Sorts one into the worst so far; of equals the earlier sentence stands first. Returns how many there are now. */
static int keep_worst(failure *worst, int n, const failure *one)
{
    if (n == SHOWN_FAILURES && one->lack <= worst[n - 1].lack) return n;
    int at = n < SHOWN_FAILURES ? n++ : n - 1;
    for (; at > 0 && worst[at - 1].lack < one->lack; at--) worst[at] = worst[at - 1];
    worst[at] = *one;
    return n;
}

/* seen: room for the weights of a pair. *n_wrong: sentences the head is wrong in; *n_kept: those of them in worst. */
static hsc_status find_failures(const hsc__scan *scan, int head, hsc_seen *seen, failure *worst, int *n_kept,
                                int *n_wrong, hsc_error *err)
{
    for (int i = 0; i < scan->counts.n_used; i++) {
        HSC_TRY(hsc_scan_seen(scan->main.scan, i, seen, err));
        for (int w = 0; w < 2; w++) {
            failure one = {.pair = i, .wording = w, .seen = seen[w * scan->n_heads + head]};
            one.lack = lack(&one.seen, w);
            if (one.lack <= 0) continue;
            ++*n_wrong;
            *n_kept = keep_worst(worst, *n_kept, &one);
        }
    }
    return HSC_OK;
}

static void add_failure(const hsc_wording *w, const hsc_seen *seen, int wording, hsc__string *out)
{
    hsc__string_printf(out, "line %d: a %.4f, b %.4f, the answer is %s", w->line, (double)seen->a, (double)seen->b,
                       wording ? "b" : "a");
    if (w->text) {
        hsc_span answer = wording ? w->b : w->a;
        hsc__string_text(out, " (");
        hsc__text_label(out, w->text + answer.start, answer.end - answer.start);
        hsc__string_text(out, "): ");
        hsc__text_label(out, w->text, w->n_text);
    }
    hsc__string_text(out, "\n");
}

hsc_status hsc__scan_failures(const hsc__scan *scan, hsc__string *out, hsc_error *err)
{
    const hsc__head *head = &scan->options->head;
    failure worst[SHOWN_FAILURES];
    int n_wrong = 0, n_kept = 0, at = head->layer * scan->counts.n_heads + head->head;
    size_t n = 2 * (size_t)scan->n_heads;
    hsc_seen *seen = hsc__calloc(n, sizeof *seen);
    hsc_status status = seen ? find_failures(scan, at, seen, worst, &n_kept, &n_wrong, err)
                             : hsc__fail_memory(err, n * sizeof *seen, "the weights of a pair");
    hsc__free(seen);
    if (status != HSC_OK) return status;
    hsc__string_printf(out, "\nL%dH%d is wrong in %d of %d sentences%s\n", head->layer, head->head, n_wrong,
                       2 * scan->counts.n_used, n_wrong ? ", worst first:" : "");
    for (int i = 0; i < n_kept; i++) {
        const hsc_pair *pair = hsc_scan_pair(scan->main.scan, worst[i].pair);
        add_failure(&pair->wording[worst[i].wording], &worst[i].seen, worst[i].wording, out);
    }
    if (n_wrong > n_kept) hsc__string_printf(out, "and %d more\n", n_wrong - n_kept);
    return HSC_OK;
}
