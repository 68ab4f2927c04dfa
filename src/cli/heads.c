/* Numbers in tables, the map of layers and heads as a picture and in the terminal, progress by count: what the commands
 * about every head share. */
#include "cli/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- tables ----
 */

void hsc__add_p(hsc__string *out, double p)
{
    if (isnan(p)) hsc__string_text(out, "-");
    else hsc__string_printf(out, p < 0.001 ? "%.1e" : "%.3f", p);
}

void hsc__add_power(hsc__string *out, int n_clusters, int n_tests)
{
    double least = n_tests ? hsc_min_dz(n_clusters, n_tests, HSC__ALPHA, HSC__POWER) : NAN;
    if (n_tests && n_clusters < hsc_min_clusters(n_tests, HSC__ALPHA))
        hsc__string_printf(out,
                           "with %d cluster%s none by itself can pass: %d tests want %d clusters at least (2^(1-n) <= "
                           "0.05 / tests)\n",
                           n_clusters, HSC__PLURAL(n_clusters), n_tests, hsc_min_clusters(n_tests, HSC__ALPHA));
    else if (!isnan(least))
        hsc__string_printf(out, "could have been found: |d_z| of %.2f or more (power 0.8 at 0.05 / %d)\n", least,
                           n_tests);
}

int hsc__share_check(const hsc__command *command, const char *text, double *out)
{
    if (hsc__parse_double(text, out) && *out > 0 && *out < 1) return HSC__CLI_GO_ON;
    return hsc__cli_misuse(command, "--holdout %s: a share between 0 and 1 is wanted, such as 0.5", text);
}

void hsc__cell_number(hsc__string *cells, int decimals, double value)
{
    if (isnan(value)) hsc__string_text(cells, "-\t");
    else hsc__string_printf(cells, "%.*f\t", decimals, value);
}

void hsc__cell_interval(hsc__string *cells, hsc_interval ci)
{
    if (isnan(ci.low)) hsc__string_text(cells, "-\t");
    else hsc__string_printf(cells, "[%7.4f, %7.4f]\t", ci.low, ci.high);
}

void hsc__cell_p(hsc__string *cells, double p)
{
    hsc__add_p(cells, p);
    hsc__string_text(cells, "\t");
}

void hsc__cell_head(hsc__string *cells, int layer, int head)
{
    hsc__string_printf(cells, "L%dH%d\t", layer, head);
}

void hsc__cell_head_name(hsc__string *cells, int layer, int head)
{
    enum { WIDE = 72 };
    if (hsc__cli_width() < WIDE) hsc__string_printf(cells, "L%dH%d\t", layer, head);
    else hsc__string_printf(cells, "layer %d, head %d (L%dH%d)\t", layer + 1, head, layer, head);
}

void hsc__csv_number(hsc__string *out, double value)
{
    hsc__string_text(out, ",");
    if (isfinite(value)) hsc__string_double(out, 9, value);
}

json_t *hsc__json_interval(hsc_interval ci)
{
    if (isnan(ci.low)) return json_null();
    json_t *list = json_array();
    json_array_append_new(list, hsc__json_number(ci.low));
    json_array_append_new(list, hsc__json_number(ci.high));
    return list;
}

/* ------------------------------------------------------------------------------------------------------------ map ----
 */

/* What a heatmap borrows. */
typedef struct drawing {
    float *values;
    hsc__label *rows, *columns;
    hsc__arena names;
} drawing;

static void free_drawing(drawing *d)
{
    hsc__free(d->values);
    hsc__free(d->rows);
    hsc__free(d->columns);
    hsc__arena_free(&d->names);
}

static bool add_labels(drawing *d, hsc__label *labels, int n, char letter)
{
    for (int i = 0; i < n; i++) {
        char name[16];
        labels[i].n = (size_t)snprintf(name, sizeof name, "%c%d", letter, i);
        labels[i].bytes = hsc__arena_strndup(&d->names, name, labels[i].n);
        if (!labels[i].bytes) return false;
    }
    return true;
}

static hsc_status draw(const hsc__head_map *map, drawing *d, hsc__heatmap *out, hsc_error *err)
{
    size_t n = (size_t)map->n_layers * (size_t)map->n_heads;
    d->values = hsc__calloc(n, sizeof *d->values);
    d->rows = hsc__calloc((size_t)map->n_layers, sizeof *d->rows);
    d->columns = hsc__calloc((size_t)map->n_heads, sizeof *d->columns);
    if (!d->values || !d->rows || !d->columns || !add_labels(d, d->rows, map->n_layers, 'L') ||
        !add_labels(d, d->columns, map->n_heads, 'H'))
        return hsc__fail_memory(err, n * sizeof *d->values, "the map");
    for (size_t i = 0; i < n; i++) d->values[i] = isnan(map->values[i]) ? 0 : (float)map->values[i];
    *out = (hsc__heatmap){.title = map->title,
                          .x_title = "head",
                          .y_title = "layer",
                          .value_title = map->value_title,
                          .n_rows = map->n_layers,
                          .n_cols = map->n_heads,
                          .values = d->values,
                          .row_labels = d->rows,
                          .n_row_labels = (size_t)map->n_layers,
                          .col_labels = d->columns,
                          .n_col_labels = (size_t)map->n_heads,
                          .scale = HSC__SCALE_MAX};
    return HSC_OK;
}

hsc_status hsc__head_map_plot(const char *path, const hsc__head_map *map, hsc_error *err)
{
    drawing d = {0};
    hsc__heatmap heatmap;
    hsc_status status = draw(map, &d, &heatmap, err);
    hsc__cli_hold_interrupt(true);
    if (status == HSC_OK) status = hsc__plot_heatmap(path, &heatmap, err);
    hsc__cli_hold_interrupt(false);
    if (status == HSC_OK) hsc__cli_note("wrote %s", path);
    free_drawing(&d);
    return status;
}

hsc_status hsc__head_map_show(hsc__string *out, const hsc__head_map *map, hsc_error *err)
{
    drawing d = {0};
    hsc__heatmap heatmap;
    hsc__terminal_mode mode =
        hsc__terminal_choose(hsc__cli_terminal(stdout), getenv("TERM"), getenv("COLORTERM"), getenv("NO_COLOR"));
    hsc_status status = draw(map, &d, &heatmap, err);
    if (status == HSC_OK) status = hsc__terminal_heatmap(out, &heatmap, mode, hsc__cli_width(), err);
    free_drawing(&d);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- progress ----
 */

static double seconds_since(const struct timespec *start)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - start->tv_sec) + (double)(t.tv_nsec - start->tv_nsec) * 1e-9;
}

void hsc__counting_start(hsc__counting *counting)
{
    counting->n_first = -1;
    counting->shown = 0;
    clock_gettime(CLOCK_MONOTONIC, &counting->started);
}

/* What is wider than the terminal would leave pieces behind when it is rewritten. */
static void show_line(const char *path, const char *line)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s: %s", path, line);
    size_t room = (size_t)hsc__cli_width_of(stderr) - 1;
    hsc__cli_progress("%.*s", (int)hsc__utf8_prefix(whole, strnlen(whole, room)), whole);
}

static void show_counting(hsc__counting *c, int n_done, int n_all)
{
    bool terminal = hsc__cli_terminal(stderr);
    double t = seconds_since(&c->started), rate = (n_done - c->n_first) / fmax(t, 1e-9);
    if (n_done == c->n_first || t < 1 || t - c->shown < (terminal ? 0.2 : 10)) return;
    c->shown = t;
    double per_second = c->per_thing * rate;
    int decimals = per_second < 9.95 ? 1 : 0;
    char line[512], end[64] = "";
    if (n_all) snprintf(end, sizeof end, ", %.0f s left", (n_all - n_done) / rate);
    if (n_all)
        snprintf(line, sizeof line, "%s %d of %d, %.*f %s a second%s", c->thing, n_done, n_all, decimals, per_second,
                 c->unit, end);
    else snprintf(line, sizeof line, "%s %d, %.*f %s a second", c->thing, n_done, decimals, per_second, c->unit);
    if (terminal) show_line(c->path, line);
    else hsc__cli_note("%s: %s", c->path, line);
}

int hsc__counting_tell(void *counting, int n_done, int n_all)
{
    hsc__counting *c = counting;
    if (c->n_first < 0) c->n_first = n_done;
    show_counting(c, n_done, n_all);
    if (n_all) hsc__cli_at("%s: %s %d of %d", c->path, c->thing, n_done, n_all);
    else hsc__cli_at("%s: %s %d", c->path, c->thing, n_done);
    return 0;
}

void hsc__counting_text(hsc__counting *c, const char *doing, size_t i, size_t n)
{
    if (n < 2) return;
    if (i == 0) {
        *c = (hsc__counting){.path = doing, .thing = "text", .unit = "texts", .per_thing = 1};
        hsc__counting_start(c);
        hsc__cli_progress("%s: text 1 of %zu", doing, n);
    }
    hsc__counting_tell(c, (int)i, (int)n);
    hsc__cli_at("%s: text %zu of %zu", doing, i + 1, n);
}

/* ------------------------------------------------------------------------------------------------------------ BOS ----
 */

hsc_status hsc__cli_find_bos(const hsc__opened *opened, const char *text, hsc_token *out, hsc_error *err)
{
    const hsc_tokenizer *tokenizer;
    HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err));
    bool own = strcmp(text, "own") == 0;
    *out = own ? hsc_tokenizer_bos(tokenizer) : hsc_token_find(tokenizer, text, strlen(text));
    HSC_FAIL_IF(own && *out < 0, HSC_ENOTFOUND, "--bos own: the files of %s name no BOS; give its text", opened->name);
    HSC_FAIL_IF(*out < 0, HSC_ENOTFOUND, "--bos %s: no token of %s is that", text, opened->name);
    return HSC_OK;
}
