/* What an ablated set does to the loss token by token, and by how far into the text a token stands. */
#include "cli/ablate.h"
#include "cli/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANGES = 32 };

/* Positions [2^k, 2^(k+1)). */
typedef struct range {
    int first, last;
    int n_tokens, n_texts;
    double clean, ablated, control; /* means over texts of the mean over the range's tokens */
    hsc_interval ci;                /* of ablated less clean; NaN with one text */
} range;

/* The positions of text i that are measured, [first, last]; last < first: none. */
static void measured(const hsc__ablate *j, const hsc__item *item, int *first, int *last)
{
    *first = j->metric.first > 1 ? j->metric.first : 1;
    *last = item->n_tokens - 1;
    if (j->metric.last >= 0 && j->metric.last < *last) *last = j->metric.last;
}

/* Means over the range's tokens of one text; false when it has none. */
static bool mean_of(const hsc__ablate *j, size_t i, range *r, double out[3])
{
    int first, last, n = 0;
    measured(j, &j->items.list[i], &first, &last);
    out[0] = out[1] = out[2] = 0;
    for (int pos = first > r->first ? first : r->first; pos <= last && pos <= r->last; pos++, n++)
        for (int k = 0; k < 3; k++) out[k] += j->losses[k][j->first_loss[i] + (size_t)pos];
    for (int k = 0; k < 3 && n; k++) out[k] /= n;
    r->n_tokens += n;
    return n > 0;
}

static hsc_status fill_range(const hsc__ablate *j, range *r, double *effects, hsc_error *err)
{
    for (size_t i = 0; i < j->items.n; i++) {
        double mean[3];
        if (!mean_of(j, i, r, mean)) continue;
        r->clean += mean[0];
        r->ablated += mean[1];
        r->control += mean[2];
        effects[r->n_texts++] = mean[1] - mean[0];
    }
    if (r->n_texts) r->clean /= r->n_texts, r->ablated /= r->n_texts, r->control /= r->n_texts;
    r->ci = (hsc_interval){NAN, NAN};
    if (r->n_texts < 2) return HSC_OK;
    hsc_table table = {effects, r->n_texts, 1};
    hsc_bootstrap_options o = {.seed = (uint64_t)j->options->seed, .n_threads = j->options->threads};
    return hsc_bootstrap(&table, &o, &r->ci, err);
}

static hsc_status find_ranges(const hsc__ablate *j, range *ranges, int *n, hsc_error *err)
{
    int longest = 0;
    double *effects = hsc__calloc(j->items.n, sizeof *effects);
    if (!effects) return hsc__fail_memory(err, j->items.n * sizeof *effects, "effects");
    for (size_t i = 0; i < j->items.n; i++)
        if (j->items.list[i].n_tokens > longest) longest = j->items.list[i].n_tokens;
    hsc_status status = HSC_OK;
    *n = 0;
    for (int first = 1; first < longest && *n < MOST_RANGES && status == HSC_OK; first *= 2) {
        ranges[*n] = (range){.first = first, .last = 2 * first - 1 < longest ? 2 * first - 1 : longest - 1};
        status = fill_range(j, &ranges[*n], effects, err);
        if (ranges[*n].n_texts) ++*n;
    }
    hsc__free(effects);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ text ---- */

static void add_token(const hsc__ablate *j, hsc__string *out, hsc_token id)
{
    const hsc_tokenizer *tokenizer = hsc_model_target_tokenizer(j->opened.model, NULL);
    size_t n = 0;
    const char *bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &n) : NULL;
    if (bytes) hsc__text_repr(out, bytes, n);
    else hsc__string_printf(out, "%d", (int)id);
}

static void add_loss(const hsc__ablate *j, hsc__string *out, size_t text, int pos)
{
    double before = j->losses[0][j->first_loss[text] + (size_t)pos];
    double after = j->losses[1][j->first_loss[text] + (size_t)pos];
    if (j->items.n > 1) hsc__string_printf(out, "%5zu ", text + 1);
    hsc__string_printf(out, "%5d %10.4f %9.4f %+9.4f  ", pos, before, after, after - before);
    add_token(j, out, j->items.list[text].ids[pos]);
    hsc__string_text(out, "\n");
}

/* A token of a corpus. */
typedef struct place {
    size_t text;
    int pos;
    double size;
} place;

static int by_size(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    if (x->text != y->text) return x->text < y->text ? -1 : 1;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

/* The tokens whose loss changes most, of all texts. */
static hsc_status add_largest(const hsc__ablate *j, hsc__string *out, hsc_error *err)
{
    size_t n = 0;
    place *places = hsc__calloc(j->n_losses, sizeof *places);
    if (!places) return hsc__fail_memory(err, j->n_losses * sizeof *places, "tokens");
    for (size_t i = 0; i < j->items.n; i++) {
        int first, last;
        measured(j, &j->items.list[i], &first, &last);
        for (int pos = first; pos <= last; pos++) {
            size_t at = j->first_loss[i] + (size_t)pos;
            places[n++] = (place){i, pos, hsc__rank_size(j->losses[1][at] - j->losses[0][at])};
        }
    }
    qsort(places, n, sizeof *places, by_size);
    size_t shown = n < (size_t)j->options->top ? n : (size_t)j->options->top;
    hsc__string_printf(out, "\nThe %zu token%s of %zu whose loss changes most, in nats:\n", shown, HSC__PLURAL(shown),
                       n);
    hsc__string_text(out, " text   pos   as it is   ablated    effect  token\n");
    for (size_t i = 0; i < shown; i++) add_loss(j, out, places[i].text, places[i].pos);
    hsc__free(places);
    return HSC_OK;
}

static void add_ranges(const hsc__ablate *j, const range *ranges, int n, hsc__string *out)
{
    const hsc__column columns[] = {{.head = "positions", .right = true},
                                   {.head = "tokens", .right = true},
                                   {.head = "as it is", .right = true},
                                   {.head = "ablated", .right = true},
                                   {.head = "effect", .right = true},
                                   {.head = n && !isnan(ranges[0].ci.low) ? "95 % interval" : "", .right = true},
                                   {.head = j->n_controls ? "control" : "", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < n; i++) {
        const range *r = &ranges[i];
        hsc__string_printf(&table.cells, r->first == r->last ? "%d\t" : "%d to %d\t", r->first, r->last);
        hsc__string_printf(&table.cells, "%d\t%.4f\t%.4f\t%+.4f\t", r->n_tokens, r->clean, r->ablated,
                           r->ablated - r->clean);
        if (!isnan(r->ci.low)) hsc__string_printf(&table.cells, "%+.4f to %+.4f", r->ci.low, r->ci.high);
        hsc__string_text(&table.cells, "\t");
        if (j->n_controls) hsc__string_printf(&table.cells, "%+.4f", r->control - r->clean);
        hsc__string_text(&table.cells, "\t");
    }
    hsc__cli_table(out, &table);
}

hsc_status hsc__ablate_add_losses(const hsc__ablate *j, hsc__string *out, hsc_error *err)
{
    range ranges[MOST_RANGES];
    int n, first, last;
    HSC_TRY(find_ranges(j, ranges, &n, err));
    hsc__string_printf(out, "\nBy position, means over texts, in nats%s:\n",
                       j->n_controls ? "; control: mean effect of the ten draws" : "");
    add_ranges(j, ranges, n, out);
    if (j->items.n > 1) return add_largest(j, out, err);
    hsc__string_text(out, "\n  pos   as it is   ablated    effect  token (loss in nats)\n");
    measured(j, &j->items.list[0], &first, &last);
    for (int pos = first; pos <= last; pos++) add_loss(j, out, 0, pos);
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------ JSON ---- */

static json_t *list_of(const double *losses, int n)
{
    json_t *list = json_array();
    for (int pos = 0; pos < n; pos++) json_array_append_new(list, pos ? hsc__json_number(losses[pos]) : json_null());
    return list;
}

static json_t *text_losses(const hsc__ablate *j, size_t i)
{
    int n = j->items.list[i].n_tokens;
    return json_pack("{s:o,s:o}", "clean", list_of(j->losses[0] + j->first_loss[i], n), "ablated",
                     list_of(j->losses[1] + j->first_loss[i], n));
}

hsc_status hsc__ablate_json_losses(const hsc__ablate *j, json_t *root, hsc_error *err)
{
    range ranges[MOST_RANGES];
    int n;
    HSC_TRY(find_ranges(j, ranges, &n, err));
    json_t *list = json_array(), *texts = json_array();
    for (int i = 0; i < n; i++) {
        const range *r = &ranges[i];
        json_t *o = json_pack("{s:i,s:i,s:i,s:i}", "first", r->first, "last", r->last, "n_tokens", r->n_tokens,
                              "n_texts", r->n_texts);
        json_object_set_new(o, "clean", hsc__json_number(r->clean));
        json_object_set_new(o, "ablated", hsc__json_number(r->ablated));
        json_object_set_new(o, "effect", hsc__json_number(r->ablated - r->clean));
        if (j->n_controls) json_object_set_new(o, "control", hsc__json_number(r->control - r->clean));
        if (!isnan(r->ci.low)) json_object_set_new(o, "ci", hsc__json_interval(r->ci));
        json_array_append_new(list, o);
    }
    json_object_set_new(root, "ranges", list);
    for (size_t i = 0; i < j->items.n; i++) json_array_append_new(texts, text_losses(j, i));
    if (j->items.n == 1) json_object_set_new(root, "losses", text_losses(j, 0));
    json_object_set_new(root, "texts", texts);
    return HSC_OK;
}
