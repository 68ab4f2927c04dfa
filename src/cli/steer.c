/* headscope steer: the mean difference of two sets of texts, added to the stream at a layer, in several doses; what
 * that does to a metric, beside random directions of the same length, and what the model writes with it. */
#include "cli/steer.h"
#include "cli/heads.h"

#include "headscope/random.h"
#include "headscope/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OPTION(...) HSC__OPTION(hsc__steer_options, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__steer_options, r.model),
    HSC__OPTION_HEADING("The direction"),
    OPTION("toward", 0, HSC__OPT_TEXT, "FILE", toward, 0, 0,
           "Texts, one a line, of what there should be more of; of an encoder-decoder a source, a tab and a target a "
           "line, "
           "or with --side encoder a source."),
    OPTION("away", 0, HSC__OPT_TEXT, "FILE", away, 0, 0, "The same of what there should be less of."),
    OPTION("at", 0, HSC__OPT_CHOICE, "mean|last", at, 0, 0,
           "Their mean over all tokens but the first (default), or over the last token of each text."),
    OPTION("site", 0, HSC__OPT_CHOICE, "resid_post|resid_pre|attn_out|mlp_out", site, 0, 0,
           "Where it is taken from and added. Default: resid_post."),
    OPTION("side", 0, HSC__OPT_CHOICE, "encoder|decoder", side, 0, 0,
           "Of an encoder-decoder: whose layers are meant. Default: the decoder's."),
    OPTION("layer", 'l', HSC__OPT_LAYERS, "LAYERS", layers, 0, 0,
           "Each of these layers by itself. Default: every layer."),
    OPTION("dose", 0, HSC__OPT_TEXT, "LIST", doses, 0, 0,
           "Multiples of the difference that are added at every position but the first, at most 32. Default: "
           "-2,-1,-0.5,0.5,1,2."),
    HSC__OPTION_HEADING("What is measured"),
    OPTION(
        "metric", 0, HSC__OPT_TEXT, "METRIC", metric, 0, 0,
        "\"logit: dog - cat\": the logit of one token minus that of another, where the text goes on; \"logit: dog\"; "
        "or \"loss\". As in ablate."),
    OPTION("pairs", 0, HSC__OPT_TEXT, "FILE", pairs, 0, 0,
           "A pair file as in ablate, instead of TEXT and a metric: the right answer's lead over the wrong one's."),
    OPTION("limit", 0, HSC__OPT_INT, "N", limit, 1, INT32_MAX, "The first N lines of --pairs. Default: all."),
    HSC__OPTIONS_TARGET(hsc__steer_options, r.target),
    OPTION("no-controls", 0, HSC__OPT_FLAG, NULL, no_controls, 0, 0,
           "Do not run five random directions of the same length beside it."),
    OPTION("seed", 0, HSC__OPT_INT, "N", seed, 0, INT32_MAX, "Of controls and intervals. Default: 0."),
    OPTION("write", 'n', HSC__OPT_INT, "N", write, 1, 4096,
           "Write N tokens on from TEXT with each dose, the likeliest each time; of an encoder-decoder about TEXT, on "
           "from "
           "--target. Wants one layer."),
    HSC__OPTION_HEADING("Otherwise"),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", r.plot, 0, 0,
           "The dose curve of one layer, or the map of several, as .png, .svg or .pdf."),
    HSC__READING_PASS(hsc__steer_options, r),
};

enum { ENCODER }; /* of --side */

static const hsc__command command = {
    .name = "steer",
    .usage = "-m MODEL --toward FILE --away FILE --metric METRIC TEXT\n"
             "-m MODEL --toward FILE --away FILE --layer L12 -n 30 TEXT",
    .about =
        "Steering: the mean of the stream over one set of texts less that over another is a direction; added while the "
        "model reads and writes, it may turn what it says. Each dose is a multiple of the difference; position 0, "
        "which "
        "is like no other, is left alone.\n"
        "Large doses break any model: look at the loss of ordinary text (--metric loss), and compare with random "
        "directions of the same length, which stand beside each effect. Choosing a layer by the effect is a search: "
        "judge it on other texts.\n"
        "An encoder-decoder (T5, BART, Marian) reads TEXT and is asked about --target as in ablate.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope steer -m gpt2 --toward glad.txt --away sad.txt \\\n"
                "    --metric \"logit: good - bad\" \"I think the film was\"\n"
                "    every layer and dose, as a map\n"
                "headscope steer -m gpt2 --toward glad.txt --away sad.txt --layer L6 \\\n"
                "    --dose=-4,0,4 --write 20 \"I think the film was\"\n"
                "    what it writes",
    .min_args = 0,
    .max_args = 1,
    .encoder_decoders = true,
};

static bool parse_doses(hsc__steer *s, const char *text)
{
    char number[64];
    for (const char *at = text; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (n >= sizeof number || s->n_doses == HSC__STEER_DOSES) return false;
        memcpy(number, at, n);
        number[n] = '\0';
        if (!hsc__parse_double(number, &s->doses[s->n_doses]) || !isfinite(s->doses[s->n_doses])) return false;
        s->n_doses++;
        at += n;
    }
    return s->n_doses > 0;
}

static int check(hsc__steer *s, const hsc__args *args)
{
    const hsc__steer_options *v = s->options;
    int n_inputs = args->n + (v->r.ids.ids != NULL) + (v->pairs != NULL);
    if (!v->toward || !v->away) return hsc__cli_misuse(&command, "--toward FILE and --away FILE make the direction");
    if (n_inputs != 1) return hsc__cli_misuse(&command, "give one of TEXT, --ids and --pairs");
    bool target = v->r.target.text || v->r.target.ids.ids;
    if (target && v->pairs) return hsc__cli_misuse(&command, "--pairs brings its own targets: leave --target out");
    if (hsc__target_check(&command, &v->r.target) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (v->limit && !v->pairs) return hsc__cli_misuse(&command, "--limit goes with --pairs");
    if (v->pairs && (v->metric || v->write))
        return hsc__cli_misuse(&command, "--pairs brings its own metric and has no one text to write on from");
    if (!v->pairs && !v->metric && !v->write)
        return hsc__cli_misuse(&command, "--metric, --pairs or --write is missing");
    if (!parse_doses(s, v->doses))
        return hsc__cli_misuse(&command, "--dose: '%s' is no list of 1 to %d numbers such as -1,0.5,2", v->doses,
                               (int)HSC__STEER_DOSES);
    s->measured = v->pairs || v->metric;
    s->metric = (hsc__metric){.kind = HSC__METRIC_DIFF, .text = "right - wrong", .first = 1, .last = -1};
    if (v->metric && !hsc__metric_parse(v->metric, &s->metric))
        return hsc__cli_misuse(&command, "--metric: '%s' is neither \"logit: A - B\", \"logit: A\" nor \"loss\"",
                               v->metric);
    if (v->r.plot && !s->measured) return hsc__cli_misuse(&command, "--plot wants a metric");
    return hsc__reading_check_output(&command, &v->r);
}

/* -------------------------------------------------------------------------------------------------- the direction ----
 */

double hsc__steer_length(const hsc__steer *s, int layer)
{
    size_t row = (size_t)hsc_site_row(s->opened.model, s->site);
    double sum = 0;
    for (size_t i = 0; i < row; i++) {
        double x = (double)s->directions[(size_t)layer * row + i];
        sum += x * x;
    }
    return sqrt(sum);
}

static hsc_status make_direction(hsc__steer *s, hsc_error *err)
{
    const hsc__steer_options *v = s->options;
    unsigned flags = hsc__encode_flags(v->r.no_special, v->r.parse_special);
    hsc_lab_options o = {.n_threads = v->r.threads, .compute = (hsc_compute)v->r.compute};
    size_t n = (size_t)s->stack->n_layers * (size_t)hsc_site_row(s->opened.model, s->site);
    s->toward.of_source = s->away.of_source = v->side == ENCODER;
    hsc_texts toward = {0}, away = {0};
    HSC_TRY(hsc__items_add_lines(&s->toward, &s->opened, v->toward, flags, 0, err));
    HSC_TRY(hsc__items_add_lines(&s->away, &s->opened, v->away, flags, 0, err));
    s->directions = hsc__calloc(n, sizeof *s->directions);
    hsc_status status = s->directions ? HSC_OK : hsc__fail_memory(err, n * sizeof *s->directions, "directions");
    if (status == HSC_OK) status = hsc__items_join(&s->toward, &toward, err);
    if (status == HSC_OK) status = hsc__items_join(&s->away, &away, err);
    if (status == HSC_OK)
        status = hsc_site_difference(s->opened.model, s->site, &toward, &away, v->at, &o, s->directions, err);
    hsc__joined_free(&toward);
    hsc__joined_free(&away);
    double longest = 0;
    for (int i = 0; status == HSC_OK && i < s->n_layers; i++)
        longest = fmax(longest, hsc__steer_length(s, s->layers[i]));
    HSC_FAIL_IF(status == HSC_OK && longest == 0, HSC_EINVAL,
                "%s and %s have the same mean, so there is no direction from the one to the other", v->away, v->toward);
    return status;
}

/* Random directions of length 1, the same for all layers. */
static hsc_status make_controls(hsc__steer *s, hsc_error *err)
{
    size_t row = (size_t)hsc_site_row(s->opened.model, s->site);
    hsc_random random;
    s->n_controls = s->measured && !s->options->no_controls ? HSC__STEER_CONTROLS : 0;
    s->random = hsc__calloc((size_t)s->n_controls * row + 1, sizeof *s->random);
    if (!s->random) return hsc__fail_memory(err, (size_t)s->n_controls * row * sizeof *s->random, "random directions");
    hsc_random_seed(&random, (uint64_t)s->options->seed);
    for (int c = 0; c < s->n_controls; c++) {
        float *x = s->random + (size_t)c * row;
        double sum = 0;
        hsc_random_normal(&random, 0, 1, row, x);
        for (size_t i = 0; i < row; i++) sum += (double)x[i] * (double)x[i];
        for (size_t i = 0; i < row; i++) x[i] = (float)((double)x[i] / sqrt(sum));
    }
    return HSC_OK;
}

static hsc_status choose_layers(hsc__steer *s, hsc_error *err)
{
    const hsc_config *c = s->stack;
    HSC_TRY(hsc__layers_check(&s->options->layers, c->n_layers, err));
    s->layers = hsc__calloc((size_t)c->n_layers, sizeof *s->layers);
    if (!s->layers) return hsc__fail_memory(err, (size_t)c->n_layers * sizeof *s->layers, "layers");
    for (int layer = 0; layer < c->n_layers; layer++) {
        if (hsc__layers_have(&s->options->layers, layer)) s->layers[s->n_layers++] = layer;
    }
    HSC_FAIL_IF(s->options->write && s->n_layers != 1, HSC_EINVAL, "--write wants one layer: --layer L%d, for one",
                c->n_layers / 2);
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- measuring ----
 */

static size_t n_variants(const hsc__steer *s)
{
    return (size_t)s->n_layers * (size_t)s->n_doses * (size_t)(1 + s->n_controls);
}

/* What variant i adds: [row] floats. Its direction, or a random one as long. */
static void fill_variant(const hsc__steer *s, size_t i, float *out)
{
    size_t row = (size_t)hsc_site_row(s->opened.model, s->site), kinds = (size_t)(1 + s->n_controls);
    size_t kind = i % kinds, dose = i / kinds % (size_t)s->n_doses;
    int layer = s->layers[i / kinds / (size_t)s->n_doses];
    double scale = s->doses[dose] * (kind ? hsc__steer_length(s, layer) : 1);
    const float *from = kind ? s->random + (kind - 1) * row : s->directions + (size_t)layer * row;
    for (size_t k = 0; k < row; k++) out[k] = (float)(scale * (double)from[k]);
}

typedef struct trials {
    hsc__steer *steer;
    size_t item;
    const double *before;
} trials;

static int take_trial(void *user, const hsc_trial *trial)
{
    const trials *t = user;
    hsc__steer *s = t->steer;
    s->values[t->item * (n_variants(s) + 1) + (size_t)trial->variant] =
        hsc__metric_value(&s->metric, &s->items.list[t->item], trial->logits, s->opened.config->d_vocab,
                          trial->first_row, trial->n_rows, t->before, NULL);
    return 0;
}

static hsc_status run_item(hsc__steer *s, hsc_lab *lab, const hsc_variant *variants, size_t i, hsc_error *err)
{
    const hsc__item *item = &s->items.list[i];
    size_t n = n_variants(s);
    hsc_view logits;
    int n_rows = hsc_site_is_of_source(s->site) ? item->n_source : item->n_tokens;
    HSC_FAIL_IF(n_rows < 2, HSC_EINVAL, "%s %zu has one token, and position 0 is left alone",
                item->source && n_rows == item->n_tokens ? "target" : "text", i + 1);
    double *before = hsc__calloc((size_t)item->n_tokens, sizeof *before);
    if (!before) return hsc__fail_memory(err, (size_t)item->n_tokens * sizeof *before, "losses");
    trials t = {s, i, before};
    hsc_status status = item->source ? hsc_lab_source(lab, item->source, item->n_source, err) : HSC_OK;
    if (status == HSC_OK) status = hsc_lab_text(lab, item->ids, item->n_tokens, err);
    if (status == HSC_OK) status = hsc_lab_logits(lab, &logits, err);
    if (status == HSC_OK) {
        s->values[i * (n + 1) + n] = hsc__metric_value(&s->metric, item, logits.data, (int)logits.shape[1], 0,
                                                       (int)logits.shape[0], NULL, before);
        status = hsc_lab_run(lab, variants, (int)n, take_trial, &t, err);
    }
    hsc__free(before);
    return status;
}

static hsc_status run_items(hsc__steer *s, const hsc_variant *variants, hsc_error *err)
{
    hsc_lab_options o = {.n_threads = s->options->r.threads,
                         .compute = (hsc_compute)s->options->r.compute,
                         .logits = hsc__metric_rows(&s->metric)};
    hsc_lab *lab = NULL;
    hsc__counting counting;
    hsc_status status = hsc_lab_new(&lab, s->opened.model, &o, err);
    for (size_t i = 0; i < s->items.n && status == HSC_OK; i++) {
        hsc__counting_text(&counting, "steering", i, s->items.n);
        status = run_item(s, lab, variants, i, err);
    }
    hsc_lab_free(lab);
    hsc__cli_progress_end();
    return status;
}

/* effects [n_clusters][n + 1]: means over clusters, the run as it is taken from each. */
static void read_points(hsc__steer *s, const double *table, const hsc_interval *ci)
{
    size_t n = n_variants(s), kinds = (size_t)(1 + s->n_controls);
    for (size_t p = 0; p < n / kinds; p++) {
        hsc__steer_point *point = &s->points[p];
        point->control = s->n_controls ? 0 : (double)NAN;
        point->control_low = INFINITY;
        point->control_high = -INFINITY;
        for (size_t kind = 0; kind < kinds; kind++) {
            double effect = 0;
            for (int c = 0; c < s->n_clusters; c++)
                effect += table[(size_t)c * (n + 1) + p * kinds + kind] / s->n_clusters;
            if (kind == 0) {
                point->effect = effect;
                point->value = s->clean + effect;
                point->ci = ci[p * kinds];
                continue;
            }
            point->control += effect / s->n_controls;
            point->control_low = fmin(point->control_low, effect);
            point->control_high = fmax(point->control_high, effect);
        }
        if (isnan(point->control)) point->control_low = point->control_high = (double)NAN;
        for (size_t i = 0; i < s->items.n; i++) point->n_right += s->values[i * (n + 1) + p * kinds] > 0;
    }
}

static hsc_status summarise(hsc__steer *s, hsc_error *err)
{
    size_t n = n_variants(s) + 1, cells = s->items.n * n;
    hsc_bootstrap_options o = {.seed = (uint64_t)s->options->seed, .n_threads = s->options->r.threads};
    double *table = hsc__calloc(cells, sizeof *table);
    hsc_interval *ci = hsc__calloc(n, sizeof *ci);
    hsc_status status = table && ci ? hsc__items_cluster_means(&s->items, s->values, n, table, &s->n_clusters, err)
                                    : hsc__fail_memory(err, cells * sizeof *table, "effects");
    if (status == HSC_OK) {
        for (int c = 0; c < s->n_clusters; c++) {
            double *row = table + (size_t)c * n, clean = row[n - 1];
            s->clean += clean / s->n_clusters;
            for (size_t k = 0; k + 1 < n; k++) row[k] -= clean;
        }
        for (size_t i = 0; i < s->items.n; i++) s->n_right += s->values[i * n + n - 1] > 0;
        hsc_table figures = {table, s->n_clusters, (int)n};
        status = s->n_clusters > 1 ? hsc_bootstrap(&figures, &o, ci, err) : HSC_OK;
    }
    if (status == HSC_OK) read_points(s, table, ci);
    hsc__free(table);
    hsc__free(ci);
    return status;
}

static hsc_status measure(hsc__steer *s, hsc_error *err)
{
    size_t n = n_variants(s), row = (size_t)hsc_site_row(s->opened.model, s->site);
    hsc_edit *edits = hsc__calloc(n, sizeof *edits);
    hsc_variant *variants = hsc__calloc(n, sizeof *variants);
    float *added = hsc__calloc(n * row, sizeof *added);
    s->values = hsc__calloc(s->items.n * (n + 1), sizeof *s->values);
    hsc_status status = hsc__fail_memory(err, (n * row + s->items.n * n * 2) * sizeof *added, "steered runs");
    if (edits && variants && added && s->values) {
        for (size_t i = 0; i < n; i++) {
            int layer = s->layers[i / (size_t)(1 + s->n_controls) / (size_t)s->n_doses];
            fill_variant(s, i, added + i * row);
            edits[i] =
                (hsc_edit){.site = s->site, .layer = layer, .first_pos = 1, .keep = 1, .values = added + i * row};
            variants[i] = (hsc_variant){&edits[i], 1};
        }
        status = run_items(s, variants, err);
    }
    hsc__free(edits);
    hsc__free(variants);
    hsc__free(added);
    return status == HSC_OK ? summarise(s, err) : status;
}

/* ------------------------------------------------------------------------------------------------------- writing ----
 */

typedef struct addition {
    const float *values;
    double dose;
} addition;

/* Adds the direction to every row but position 0. */
static int add_direction(void *user, const hsc_block *b)
{
    const addition *a = user;
    for (int i = 0; i < b->n_rows; i++) {
        float *row = b->data + (size_t)i * b->stride;
        if (b->first_row + i == 0) continue;
        for (int k = 0; k < b->row_size; k++) row[k] += (float)(a->dose * (double)a->values[k]);
    }
    return 0;
}

static const hsc__item *prompt_of(const hsc__steer *s)
{
    return s->prompt.n ? &s->prompt.list[0] : &s->items.list[0];
}

static hsc_status write_on(hsc__steer *s, hsc_session *session, int dose, hsc_error *err)
{
    enum { MAX_ENDS = 16 };
    const hsc__item *item = prompt_of(s);
    int layer = s->layers[0];
    size_t row = (size_t)hsc_site_row(s->opened.model, s->site);
    addition a = {s->directions + (size_t)layer * row, s->doses[dose]};
    hsc_token ends[MAX_ENDS];
    int n_ends = hsc_model_end_tokens(s->opened.model, ends, MAX_ENDS, err);
    hsc_generator *g = NULL;
    if (n_ends < 0) return (hsc_status)n_ends;
    hsc_target how = {0};
    hsc_batch source = {.ids = item->source, .n_tokens = item->n_source};
    if (item->source) HSC_TRY(hsc_model_target(s->opened.model, &how, err));
    hsc_generate_options o = {.max_tokens = s->options->write,
                              .end_tokens = ends,
                              .n_end_tokens = n_ends < MAX_ENDS ? n_ends : MAX_ENDS,
                              .barred = how.barred,
                              .n_barred = how.n_barred};
    hsc_session_reset(session);
    hsc_session_observe_clear(session);
    HSC_TRY(hsc_session_observe(session, &(hsc_observer){s->site, layer, add_direction, &a}, err));
    if (item->source) HSC_TRY(hsc_session_read_source(session, &source, err));
    hsc_status status = hsc_generator_new(&g, session, item->ids, item->n_tokens, &o, err);
    while (status == HSC_OK && hsc_generator_running(g)) status = hsc_generator_next(g, err);
    if (status == HSC_OK) {
        const hsc_sample *sample = hsc_generator_sample(g, 0);
        s->points[dose].text = hsc__strndup(sample->text ? sample->text : "", sample->n_text);
        if (!s->points[dose].text) status = hsc__fail_memory(err, sample->n_text + 1, "a text");
    }
    hsc_generator_free(g);
    return status;
}

static hsc_status write_all(hsc__steer *s, hsc_error *err)
{
    hsc_session *session = NULL;
    const hsc__item *item = prompt_of(s);
    int64_t n_ctx = s->opened.config->n_ctx, most = (int64_t)item->n_tokens + s->options->write;
    hsc_session_options o = {.n_threads = s->options->r.threads,
                             .max_tokens = (int)(most < n_ctx ? most : n_ctx),
                             .max_source = item->n_source,
                             .compute = (hsc_compute)s->options->r.compute};
    hsc_status status = hsc_session_new(&session, s->opened.model, &o, err);
    for (int dose = 0; dose < s->n_doses && status == HSC_OK; dose++) {
        hsc__cli_progress("writing: dose %d of %d", dose + 1, s->n_doses);
        status = write_on(s, session, dose, err);
    }
    hsc__cli_progress_end();
    hsc_session_free(session);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------- run ----
 */

static hsc_status read_items(hsc__steer *s, const hsc__args *args, hsc_error *err)
{
    const hsc__steer_options *v = s->options;
    unsigned flags = hsc__encode_flags(v->r.no_special, v->r.parse_special);
    if (v->pairs) return hsc__items_add_pairs(&s->items, &s->opened, v->pairs, flags, v->limit, err);
    s->items.with_end = s->measured && s->metric.kind == HSC__METRIC_LOSS;
    hsc__source_options source = {.text = args->n ? args->list[0] : NULL,
                                  .ids = &v->r.ids,
                                  .target = &v->r.target,
                                  .compute = v->r.compute,
                                  .n_threads = v->r.threads,
                                  .flags = flags};
    bool encoder = hsc_model_encoder(s->opened.model) != NULL;
    if (encoder && v->write && s->items.with_end) HSC_TRY(hsc__items_add_source(&s->prompt, &s->opened, &source, err));
    if (encoder) HSC_TRY(hsc__items_add_source(&s->items, &s->opened, &source, err));
    else if (v->r.ids.ids) HSC_TRY(hsc__items_add_ids(&s->items, &v->r.ids, err));
    else HSC_TRY(hsc__items_add_text(&s->items, &s->opened, args->list[0], strlen(args->list[0]), flags, err));
    if (!v->metric) return HSC_OK;
    return hsc__metric_tokens(&s->metric, &s->opened, &s->items.list[0].a, &s->items.list[0].b, err);
}

static hsc_status choose_side(hsc__steer *s, hsc_error *err)
{
    static const hsc_site sites[2][4] = {{HSC_RESID_POST, HSC_RESID_PRE, HSC_ATTN_OUT, HSC_MLP_OUT},
                                         {HSC_ENC_RESID_POST, HSC_ENC_RESID_PRE, HSC_ENC_ATTN_OUT, HSC_ENC_MLP_OUT}};
    const hsc_config *encoder = hsc_model_encoder(s->opened.model);
    bool of_encoder = encoder && s->options->side == ENCODER;
    HSC_TRY(hsc__target_allowed(&s->opened, &s->options->r.target, err));
    HSC_FAIL_IF(s->options->side >= 0 && !encoder, HSC_EINVAL,
                "--side is about encoder-decoders; %s (%s) has one stack of blocks", s->opened.name,
                s->opened.config->arch);
    s->stack = of_encoder ? encoder : s->opened.config;
    s->site = sites[of_encoder][s->options->site];
    return HSC_OK;
}

static hsc_status run(hsc__steer *s, const hsc__args *args, hsc_error *err)
{
    HSC_TRY(choose_side(s, err));
    HSC_TRY(choose_layers(s, err));
    HSC_TRY(read_items(s, args, err));
    HSC_TRY(make_direction(s, err));
    HSC_TRY(make_controls(s, err));
    size_t n = (size_t)s->n_layers * (size_t)s->n_doses;
    s->points = hsc__calloc(n, sizeof *s->points);
    if (!s->points) return hsc__fail_memory(err, n * sizeof *s->points, "doses");
    if (s->measured) HSC_TRY(measure(s, err));
    return s->options->write ? write_all(s, err) : HSC_OK;
}

static void free_job(hsc__steer *s)
{
    for (int i = 0; s->points && i < s->n_layers * s->n_doses; i++) hsc__free(s->points[i].text);
    hsc__items_free(&s->items);
    hsc__items_free(&s->prompt);
    hsc__items_free(&s->toward);
    hsc__items_free(&s->away);
    hsc__free(s->directions);
    hsc__free(s->random);
    hsc__free(s->layers);
    hsc__free(s->values);
    hsc__free(s->points);
    hsc__cli_close(&s->opened);
    hsc__free(s->options->r.ids.ids);
    hsc__free(s->options->r.target.ids.ids);
}

int hsc__cli_steer(int argc, char **argv)
{
    hsc__steer_options v = {.side = -1, .doses = "-2,-1,-0.5,0.5,1,2"};
    hsc__steer s = {.options = &v};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&s, &args);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.r.model, 0, true, &s.opened);
    if (result == HSC__CLI_GO_ON) {
        hsc_status status = run(&s, &args, &err);
        if (status != HSC_OK) result = hsc__cli_fail(&err);
        else result = v.r.json ? hsc__steer_print_json(&s) : v.r.csv ? hsc__steer_print_csv(&s) : hsc__steer_print(&s);
    }
    free_job(&s);
    return result;
}
