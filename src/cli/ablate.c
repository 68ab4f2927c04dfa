/* headscope ablate: switch off heads, layers or neurons and measure what it does to a logit, an answer or a loss. */
#include "cli/ablate.h"

#include <string.h>

#define OPTION(...) HSC__OPTION(hsc__ablate_options, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__ablate_options, model),
    HSC__OPTION_HEADING("What is measured"),
    OPTION(
        "metric", 0, HSC__OPT_TEXT, "METRIC", metric, 0, 0,
        "\"logit: dog - cat\": the logit of one token minus that of another, where the text goes on; \"logit: dog\"; "
        "or \"loss\": mean negative log probability of the text's own tokens. A word is the token with a blank "
        "before it, if there is one; \"in quotes\" as it stands; #123 is an id."),
    OPTION("file", 'f', HSC__OPT_TEXT, "FILE", file, 0, 0,
           "Texts, one a line, instead of TEXT. Without --metric it is loss; a logit is where each text goes on."),
    OPTION("pairs", 0, HSC__OPT_TEXT, "FILE", pairs, 0, 0,
           "Pairs as scan reads them, marked text or JSONL: each wording up to its query is a prompt, its answer the "
           "candidate that it means. Or JSONL with \"prompt\", \"right\" and \"wrong\". The metric is the logit of the "
           "right answer's first token minus the wrong one's. Of an encoder-decoder lines of JSONL with \"source\", "
           "which it "
           "reads, \"prompt\", what it has written of its target so far (nothing, if left out), \"right\" and "
           "\"wrong\", and "
           "perhaps \"id\", \"cluster\", and \"twin\", the id of the line that resample takes from."),
    OPTION("ids", 0, HSC__OPT_IDS, "IDS", ids, 0, 0, "Token ids such as 1,2,3 instead of TEXT."),
    HSC__OPTIONS_TARGET(hsc__ablate_options, target),
    OPTION("limit", 0, HSC__OPT_INT, "N", limit, 1, INT32_MAX, "The first N lines of the file. Default: all."),
    OPTION("positions", 0, HSC__OPT_TEXT, "A-B", range, 0, 0,
           "With loss: only the tokens at positions A to B, from 0. Default: 1 to the last."),
    OPTION("per-token", 0, HSC__OPT_FLAG, NULL, per_token, 0, 0,
           "With loss and a named set: the loss of every token before and after, and by how far into the text it "
           "stands; of a file, the tokens that change most."),
    HSC__OPTION_HEADING("What is ablated. Default: every head in turn"),
    OPTION("side", 0, HSC__OPT_CHOICE, "cross|encoder|decoder", side, 0, 0,
           "Of an encoder-decoder: whose heads, layers and neurons are meant; cross (default) is the decoder's "
           "attention to the source."),
    OPTION("sweep", 0, HSC__OPT_CHOICE, "heads|attn|mlp|layers|neurons", sweep, 0, 0,
           "In turn: every head (default), every layer's attention, its MLP, both, or every neuron of --layer."),
    OPTION("layer", 0, HSC__OPT_LAYERS, "LAYERS", layers, 0, 0, "Sweep these layers alone: L4, L0-L11."),
    OPTION("heads", 0, HSC__OPT_HEADS, "HEADS", heads, 0, 0, "These heads together: L3H1,L4H2."),
    OPTION("attn", 0, HSC__OPT_LAYERS, "LAYERS", attn, 0, 0, "The attention of these layers, with what is named else."),
    OPTION("mlp", 0, HSC__OPT_LAYERS, "LAYERS", mlp, 0, 0, "The MLPs of these layers, with what is named else."),
    OPTION("neurons", 0, HSC__OPT_NEURONS, "NEURONS", neurons, 0, 0,
           "These neurons of the MLPs, L3N1500,L4N7, with what is named else."),
    OPTION("then", 0, HSC__OPT_TEXT, "HEADS|all", then, 0, 0,
           "After the set is ablated, ablate each of these heads too: a head that counts for more then than alone may "
           "stand in for the set (a backup head)."),
    HSC__OPTION_HEADING("How"),
    OPTION("how", 0, HSC__OPT_CHOICE, "zero|mean|resample", how, 0, 0,
           "What takes its place: 0 (default; of a head's z, so that the layer's output bias stays), its mean over "
           "--corpus, or what it holds in --donor or, over a pair file, in the twin, whose words may be of another "
           "number of tokens: they are aligned from their end, which is told."),
    OPTION("corpus", 0, HSC__OPT_TEXT, "FILE", corpus, 0, 0,
           "With mean: texts, one a line. Position 0 is left out of the mean."),
    OPTION("by-position", 0, HSC__OPT_FLAG, NULL, by_position, 0, 0,
           "A mean for every position; all texts must have the same number of tokens."),
    OPTION("donor", 0, HSC__OPT_TEXTS, "TEXT", donors, 0, 0,
           "With resample: a text of as many tokens, position by position, or of another number of them in one word. "
           "Repeated: the mean metric over donors."),
    OPTION("donors", 0, HSC__OPT_INT, "N", n_donors, 1, 1000,
           "With resample over a pair file: the mean over N seeded texts of other clusters, of as many tokens, instead "
           "of the twin."),
    OPTION("no-controls", 0, HSC__OPT_FLAG, NULL, no_controls, 0, 0,
           "Do not run ten random sets of other heads of the same layers beside a named set."),
    HSC__OPTION_HEADING("Choosing and judging, in a sweep over many texts"),
    HSC__OPTIONS_SWEEP(hsc__ablate_options, search),
    OPTION("seed", 0, HSC__OPT_INT, "N", seed, 0, INT32_MAX,
           "Of controls, donors, intervals, signs and the split. Default: 0."),
    HSC__OPTION_HEADING("Otherwise"),
    OPTION("top", 0, HSC__OPT_INT, "N", top, 1, 100000, "Rows of the table. Default: 10."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", plot, 0, 0, "The map of a sweep as .png, .svg or .pdf."),
    HSC__OPTION_COMPUTE(hsc__ablate_options, compute),
    HSC__OPTION_NO_SPECIAL(hsc__ablate_options, no_special),
    HSC__OPTION_PARSE_SPECIAL(hsc__ablate_options, parse_special),
    HSC__OPTION_THREADS(hsc__ablate_options, threads),
    HSC__OPTION_JSON(hsc__ablate_options, json),
    HSC__OPTION_CSV(hsc__ablate_options, csv),
};

static const hsc__command command = {
    .name = "ablate",
    .usage = "-m MODEL --metric \"logit: A - B\" TEXT\n-m MODEL --metric loss (TEXT | --file FILE)\n"
             "-m MODEL --pairs FILE [--heads HEADS] [--then HEADS]",
    .about =
        "Switches off parts of a model and measures what that does. The effect is the metric with the part "
        "ablated minus the metric as it is: a negative effect on a logit difference means that the part works for "
        "the first word.\n"
        "Each run begins at the ablated layer, on what the run as it is left before it; heads of a layer run "
        "together. Quantised files work as they are.\n"
        "A sweep is a search: its largest effect is the largest of many. Over many texts p_fwer is the chance that "
        "the largest of all would reach as far with no effect anywhere, and --holdout judges the largest on texts "
        "that did not choose it. Zero is a value that a head may never take; compare --how mean.\n"
        "An encoder-decoder (T5, BART, Marian) reads TEXT and is asked about --target: its loss, the end of it "
        "included (without --target that of the text that it writes), or a logit where it goes on (without --target "
        "where a text begins). A line of a file, of --corpus and a --donor are then a source and a "
        "target with a tab between them.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope ablate -m gpt2 --metric \"logit: Mary - John\" \\\n"
                "    \"When Mary and John went to the store, John gave a drink to\"\n"
                "    every head in turn, with a map\n"
                "headscope ablate -m gpt2 --pairs data/pairs/names.txt --heads L9H9,L9H6 --then all\n"
                "    right answers with two heads off, and which heads then count for more\n"
                "headscope ablate -m gpt2 --pairs data/pairs/names.txt --holdout 0.5 --choose 3\n"
                "    every head in turn; the three largest effects of one half judged on the other\n"
                "headscope ablate -m gpt2 --metric loss --file texts.txt --sweep mlp\n"
                "    what each MLP is worth in nats a token\n"
                "headscope ablate -m gpt2 --pairs data/pairs/names.txt --how mean --corpus texts.txt\n"
                "    mean ablation of every head\n"
                "headscope ablate -m opus --metric loss \"Good day\" --target \"Guten Tag\" --side encoder\n"
                "    which of the encoder's heads a translation needs",
    .min_args = 0,
    .max_args = 1,
    .encoder_decoders = true,
};

static bool parse_range(const char *text, hsc__metric *metric)
{
    int n = 0;
    if (sscanf(text, "%d-%d%n", &metric->first, &metric->last, &n) != 2 || text[n]) return false;
    return metric->first >= 1 && metric->last >= metric->first;
}

static int check_metric(hsc__ablate *j)
{
    const hsc__ablate_options *v = j->options;
    j->metric = (hsc__metric){.kind = HSC__METRIC_DIFF, .text = "right - wrong", .first = 1, .last = -1};
    if (v->pairs && v->metric) return hsc__cli_misuse(&command, "--pairs brings its own metric: leave --metric out");
    if (v->file && !v->metric) j->metric.kind = HSC__METRIC_LOSS;
    if (!v->pairs && !v->file && !v->metric) return hsc__cli_misuse(&command, "--metric is missing: what is measured?");
    if (v->metric && !hsc__metric_parse(v->metric, &j->metric))
        return hsc__cli_misuse(&command, "--metric: '%s' is neither \"logit: A - B\", \"logit: A\" nor \"loss\"",
                               v->metric);
    bool loss = j->metric.kind == HSC__METRIC_LOSS;
    if (v->range && (!loss || !parse_range(v->range, &j->metric)))
        return hsc__cli_misuse(&command, "--positions goes with loss and looks like 5-20; position 0 is predicted by "
                                         "nothing");
    if (v->per_token && !loss) return hsc__cli_misuse(&command, "--per-token goes with --metric loss");
    return HSC__CLI_GO_ON;
}

static int check(hsc__ablate *j, const hsc__args *args)
{
    const hsc__ablate_options *v = j->options;
    int n_inputs = args->n + (v->file != NULL) + (v->pairs != NULL) + (v->ids.ids != NULL);
    bool set = v->heads.n || v->attn.n || v->mlp.n || v->neurons.n;
    bool target = v->target.text || v->target.ids.ids;
    if (v->json && v->csv) return hsc__cli_misuse(&command, "--json and --csv: one of the two");
    if (n_inputs != 1) return hsc__cli_misuse(&command, "give one of TEXT, --file, --pairs and --ids");
    if (v->limit && !v->file && !v->pairs) return hsc__cli_misuse(&command, "--limit goes with --file and --pairs");
    if (target && (v->file || v->pairs)) return hsc__cli_misuse(&command, "--target goes with TEXT or --ids");
    if (hsc__target_check(&command, &v->target) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    int status = check_metric(j);
    if (status != HSC__CLI_GO_ON) return status;
    if (set && v->sweep) return hsc__cli_misuse(&command, "--sweep takes parts in turn, a named set goes together");
    if (v->per_token && !set) return hsc__cli_misuse(&command, "--per-token wants a set: --heads, --attn, --mlp");
    if (v->per_token && v->csv) return hsc__cli_misuse(&command, "--per-token has no CSV: --json has every token");
    if (v->then && !set) return hsc__cli_misuse(&command, "--then comes after a set: name it with --heads, for one");
    if ((v->how == HSC__ABLATE_MEAN) != (v->corpus != NULL))
        return hsc__cli_misuse(&command, "--how mean and --corpus FILE go together");
    if ((v->how == HSC__ABLATE_RESAMPLE) != (v->donors.n > 0 || (v->how == HSC__ABLATE_RESAMPLE && v->pairs)))
        return hsc__cli_misuse(&command, "--how resample and --donor TEXT, or --pairs, go together");
    if (v->n_donors && (v->how != HSC__ABLATE_RESAMPLE || !v->pairs))
        return hsc__cli_misuse(&command, "--donors goes with --how resample and --pairs");
    if (v->sweep == HSC__SWEEP_NEURONS && !v->layers.n)
        return hsc__cli_misuse(&command, "--sweep neurons wants --layer: a model has tens of thousands");
    if (v->layers.n && set) return hsc__cli_misuse(&command, "--layer goes with a sweep, not with a named set");
    if (v->donors.n && (v->file || v->pairs)) return hsc__cli_misuse(&command, "--donor goes with one text");
    if (v->by_position && !v->corpus) return hsc__cli_misuse(&command, "--by-position goes with --how mean");
    if (hsc__sweep_check(&command, &j->tests, !set && (v->file || v->pairs)) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (v->plot && set) return hsc__cli_misuse(&command, "--plot draws a sweep, not a named set");
    return hsc__check_plot(&command, v->plot);
}

/* Whose heads are meant. */
static hsc_status choose_side(hsc__ablate *j, hsc_error *err)
{
    const hsc__ablate_options *v = j->options;
    const hsc_config *encoder = hsc_model_encoder(j->opened.model);
    HSC_TRY(hsc__target_allowed(&j->opened, &v->target, err));
    HSC_FAIL_IF(v->side >= 0 && !encoder, HSC_EINVAL,
                "--side is about encoder-decoders; %s (%s) has one stack of blocks", j->opened.name,
                j->opened.config->arch);
    j->side = !encoder ? HSC__SIDE_OWN : v->side < 0 ? HSC__SIDE_CROSS : 1 + v->side;
    j->stack = j->side == HSC__SIDE_ENCODER ? encoder : j->opened.config;
    return HSC_OK;
}

static hsc_status read_items(hsc__ablate *j, const hsc__args *args, hsc_error *err)
{
    const hsc__ablate_options *v = j->options;
    unsigned flags = hsc__encode_flags(v->no_special, v->parse_special);
    bool reads_source = hsc_model_encoder(j->opened.model) != NULL;
    HSC_TRY(choose_side(j, err));
    j->items.with_end = j->metric.kind == HSC__METRIC_LOSS;
    if (v->pairs) return hsc__items_add_pairs(&j->items, &j->opened, v->pairs, flags, v->limit, err);
    if (v->file) HSC_TRY(hsc__items_add_lines(&j->items, &j->opened, v->file, flags, v->limit, err));
    else if (reads_source)
        HSC_TRY(hsc__items_add_source(&j->items, &j->opened,
                                      &(hsc__source_options){.text = args->n ? args->list[0] : NULL,
                                                             .ids = &v->ids,
                                                             .target = &v->target,
                                                             .compute = v->compute,
                                                             .n_threads = v->threads,
                                                             .flags = flags},
                                      err));
    else if (v->ids.ids) HSC_TRY(hsc__items_add_ids(&j->items, &v->ids, err));
    else {
        j->text = args->list[0];
        HSC_TRY(hsc__items_add_text(&j->items, &j->opened, j->text, strlen(j->text), flags, err));
    }
    hsc_token a, b;
    HSC_TRY(hsc__metric_tokens(&j->metric, &j->opened, &a, &b, err));
    for (size_t i = 0; i < j->items.n; i++) {
        j->items.list[i].a = a;
        j->items.list[i].b = b;
        HSC_FAIL_IF(j->metric.kind == HSC__METRIC_LOSS && j->items.list[i].n_tokens <= j->metric.first, HSC_EINVAL,
                    "text %zu has %d token%s: a loss wants at least %d", i + 1, j->items.list[i].n_tokens,
                    HSC__PLURAL(j->items.list[i].n_tokens), j->metric.first + 1);
    }
    return HSC_OK;
}

static void free_job(hsc__ablate *j)
{
    for (int site = 0; site < HSC_N_SITES; site++) hsc__free(j->fills[site]);
    hsc__items_free(&j->items);
    hsc__free(j->units);
    hsc__free(j->targets);
    hsc__sweep_free(&j->tests);
    hsc__free(j->values);
    hsc__free(j->losses[0]);
    hsc__free(j->losses[1]);
    hsc__free(j->losses[2]);
    hsc__free(j->first_loss);
    hsc__free(j->donors);
    hsc__free(j->n_donors);
    hsc__cli_close(&j->opened);
}

int hsc__cli_ablate(int argc, char **argv)
{
    hsc__ablate_options v = {.top = 10, .side = -1};
    hsc__ablate j = {.options = &v, .tests.options = &v.search};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&j, &args);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, 0, true, &j.opened);
    if (result == HSC__CLI_GO_ON) {
        hsc_status status = read_items(&j, &args, &err);
        if (status == HSC_OK) status = hsc__ablate_run(&j, &err);
        if (status != HSC_OK) result = hsc__cli_fail(&err);
        else result = v.json ? hsc__ablate_print_json(&j) : v.csv ? hsc__ablate_print_csv(&j) : hsc__ablate_print(&j);
    }
    free_job(&j);
    hsc__free(v.ids.ids);
    hsc__free(v.target.ids.ids);
    return result;
}
