/* The search that a ranked sweep is: its options, its tests, and how they are shown. headscope/inspect.h has the
 * statistics. */
#include "cli/sweep.h"
#include "plot/table.h"

#include <math.h>
#include <string.h>

int hsc__sweep_check(const hsc__command *command, hsc__sweep *sweep, bool many)
{
    const hsc__sweep_options *o = sweep->options;
    if (o->choose && !o->holdout) return hsc__cli_misuse(command, "--choose goes with --holdout");
    if (!o->holdout) return HSC__CLI_GO_ON;
    if (!many)
        return hsc__cli_misuse(command, "--holdout goes with a sweep over many texts: a named set or a single text "
                                        "chooses nothing");
    return hsc__share_check(command, o->holdout, &sweep->share);
}

static hsc_status hold_out(hsc__sweep *s, const hsc_table *effects, const hsc_scan_statistics *o, hsc_error *err)
{
    hsc_scan_choice choice = {.by = HSC_BY_SHIFT, .held_out = s->share, .statistics = *o};
    s->n_held = s->options->choose ? s->options->choose : 1;
    HSC_FAIL_IF(s->n_held > effects->n_columns, HSC_EINVAL, "--choose %d: the sweep tries %d", s->n_held,
                effects->n_columns);
    choice.n_chosen = s->n_held;
    s->held = hsc__calloc((size_t)s->n_held, sizeof *s->held);
    if (!s->held) return hsc__fail_memory(err, (size_t)s->n_held * sizeof *s->held, "the held-out figures");
    return hsc_sweep_hold_out(effects, &choice, s->held, err);
}

static hsc_status test(hsc__sweep *s, const hsc_table *effects, int n_threads, hsc_error *err)
{
    hsc_scan_statistics o = {.seed = (uint64_t)s->seed, .n_threads = n_threads};
    s->effects = hsc__calloc((size_t)s->n, sizeof *s->effects);
    if (!s->effects) return hsc__fail_memory(err, (size_t)s->n * sizeof *s->effects, "the tests");
    HSC_TRY(hsc_sweep_figures(effects, &o, s->effects, err));
    for (int j = 0; j < s->n; j++) s->n_tests += !isnan(s->effects[j].p);
    return s->share > 0 ? hold_out(s, effects, &o, err) : HSC_OK;
}

hsc_status hsc__sweep_test(hsc__sweep *s, const hsc_table *table, int first, int n, int seed, int n_threads,
                           hsc_error *err)
{
    size_t width = (size_t)n * sizeof(double);
    s->n = n;
    s->n_clusters = table->n_clusters;
    s->seed = seed;
    HSC_FAIL_IF(s->share > 0 && s->n_clusters < 4, HSC_EINVAL,
                "--holdout: %d cluster%s cannot be split, two a side at least", s->n_clusters,
                HSC__PLURAL(s->n_clusters));
    if (s->n_clusters < 2) return HSC_OK;
    double *effects = hsc__malloc((size_t)s->n_clusters * width);
    if (!effects) return hsc__fail_memory(err, (size_t)s->n_clusters * width, "the tests");
    for (int c = 0; c < s->n_clusters; c++)
        memcpy(effects + (size_t)c * (size_t)n, table->values + (size_t)c * (size_t)table->n_columns + first, width);
    hsc_status status = test(s, &(hsc_table){effects, s->n_clusters, n}, n_threads, err);
    hsc__free(effects);
    return status;
}

void hsc__sweep_free(hsc__sweep *s)
{
    hsc__free(s->effects);
    hsc__free(s->held);
}

/* --------------------------------------------------------------------------------------------------- for people ----
 */

void hsc__sweep_describe(const hsc__sweep *s, hsc__string *out)
{
    if (!s->effects) return;
    hsc__string_printf(out, "tested: %d; p by %s sign flips of clusters, p_fwer by max |t| over all tested; seed %d\n",
                       s->n_tests, s->n_clusters <= HSC_EXACT_CLUSTERS ? "all" : "100,000 random", s->seed);
    hsc__add_power(out, s->n_clusters, s->n_tests);
}

void hsc__sweep_add_held_out(const hsc__sweep *s, hsc__sweep_name name, const void *user, hsc__string *out)
{
    static const hsc__column columns[] = {{.head = "chosen"},
                                          {.head = "effect", .right = true},
                                          {.head = "95% interval", .right = true},
                                          {.head = "p", .right = true},
                                          {.head = "where chosen", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    if (!s->held) return;
    hsc__string_printf(out, "\nchosen on %d clusters, judged on the %d others (seed %d); p is Holm's over the chosen\n",
                       s->n_clusters - s->held[0].n_clusters, s->held[0].n_clusters, s->seed);
    for (int i = 0; i < s->n_held; i++) {
        const hsc_sweep_held_out *h = &s->held[i];
        name(user, h->column, &table.cells);
        hsc__string_printf(&table.cells, "\t%+.4f\t", h->mean);
        hsc__cell_interval(&table.cells, h->ci);
        hsc__cell_p(&table.cells, h->p);
        hsc__string_printf(&table.cells, "%+.4f\t", h->chosen_mean);
    }
    hsc__cli_table(out, &table);
}

/* ------------------------------------------------------------------------------------------------- for programs ----
 */

/* What held-out clusters say of a column that was chosen; NULL: it was not. */
static const hsc_sweep_held_out *find_held(const hsc__sweep *s, int column)
{
    for (int i = 0; i < s->n_held; i++)
        if (s->held[i].column == column) return &s->held[i];
    return NULL;
}

void hsc__sweep_csv(const hsc__sweep *s, int column, hsc__string *out)
{
    static const hsc_sweep_effect untested = {.p = NAN, .p_fwer = NAN, .q = NAN};
    static const hsc_sweep_held_out unchosen = {.mean = NAN, .ci = {NAN, NAN}, .p = NAN};
    const hsc_sweep_effect *e = s->effects ? &s->effects[column] : &untested;
    const hsc_sweep_held_out *h = find_held(s, column);
    if (!h) h = &unchosen;
    const double figures[] = {e->p, e->p_fwer, e->q, h->mean, h->ci.low, h->ci.high, h->p};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) hsc__csv_number(out, figures[i]);
}

static json_t *json_held_out(const hsc_sweep_held_out *h)
{
    json_t *o = json_pack("{s:i}", "n_clusters", h->n_clusters);
    json_object_set_new(o, "effect", hsc__json_number(h->mean));
    json_object_set_new(o, "ci", hsc__json_interval(h->ci));
    json_object_set_new(o, "p", hsc__json_number(h->p));
    json_object_set_new(o, "chosen_effect", hsc__json_number(h->chosen_mean));
    return o;
}

void hsc__sweep_json(const hsc__sweep *s, int column, json_t *object)
{
    if (!s->effects) return;
    json_object_set_new(object, "dz", hsc__json_number(s->effects[column].dz));
    json_object_set_new(object, "p", hsc__json_number(s->effects[column].p));
    json_object_set_new(object, "p_fwer", hsc__json_number(s->effects[column].p_fwer));
    json_object_set_new(object, "q", hsc__json_number(s->effects[column].q));
    const hsc_sweep_held_out *held = find_held(s, column);
    if (held) json_object_set_new(object, "held_out", json_held_out(held));
}

void hsc__sweep_json_whole(const hsc__sweep *s, json_t *root)
{
    if (!s->effects) return;
    json_object_set_new(root, "seed", json_integer(s->seed));
    json_object_set_new(root, "tests", json_integer(s->n_tests));
    json_object_set_new(
        root, "min_dz",
        hsc__json_number(s->n_tests ? hsc_min_dz(s->n_clusters, s->n_tests, HSC__ALPHA, HSC__POWER) : (double)NAN));
}
