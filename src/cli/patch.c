/* headscope patch: put what one run holds at a place into another run of nearly the same text, place by place or along
 * one path; cut edges of attention; and over a pair file what each head carries. This file reads the arguments. */
#include "cli/patch.h"

#include <stdlib.h>
#include <string.h>

#define OPTION(...) HSC__OPTION(hsc__patch_options, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__patch_options, model),
    OPTION("metric", 0, HSC__OPT_TEXT, "METRIC", metric, 0, 0,
           "\"logit: A - B\": the logit of one token minus that of another, where the text goes on; \"logit: A\". #123 "
           "is an id."),
    HSC__OPTION_HEADING("Two texts"),
    OPTION("corrupted", 0, HSC__OPT_TEXT, "TEXT", corrupted, 0, 0,
           "The other text: TEXT with a word or two exchanged. Where one word has more tokens than the other, they are "
           "aligned from their end."),
    OPTION("noise", 0, HSC__OPT_FLAG, NULL, noise, 0, 0,
           "Patch the corrupted run into the clean one. Default: the clean run into the corrupted one (denoising)."),
    OPTION(
        "site", 0, HSC__OPT_TEXT, "SITE", site, 0, 0,
        "What is patched: any site that a layer has, resid_pre (default), attn_out, mlp_out, q, k, v, z, pattern and "
        "so on; `headscope run --sites help` lists them."),
    HSC__OPTIONS_TARGET(hsc__patch_options, target),
    OPTION("path", 0, HSC__OPT_TEXT, "HEADS|end", path, 0, 0,
           "Path patching: only what each head sends to the input of these heads, L9H9,L9H6, or straight to the end of "
           "the residual stream. All other heads are held."),
    OPTION("input", 0, HSC__OPT_CHOICE, "q|k|v", input, 0, 0,
           "With --path: which input of the heads (default q); k and v are those of their kv head."),
    OPTION("by", 0, HSC__OPT_CHOICE, "default|head|position|layer", by, 0, 0,
           "What a cell is: one head (default where a site is made of heads, and with --cut), one position (default "
           "elsewhere), or a layer as a whole. The key-value heads of k and v are fewer."),
    HSC__OPTION_HEADING("One text"),
    OPTION("cut", 0, HSC__OPT_TEXT, "WORDS|each", cut, 0, 0,
           "Knock out edges of attention: these words, which stand in the text together and once, or positions #3 or "
           "#3-5, are no longer seen; or each token in turn, by all heads of a layer."),
    OPTION("query", 0, HSC__OPT_TEXT, "WORDS", query, 0, 0,
           "With --cut: by whom they are not seen; words or positions. Default: the last token."),
    OPTION("no-renorm", 0, HSC__OPT_FLAG, NULL, no_renorm, 0, 0,
           "With --cut: set the weights to 0 and leave the others as they are. Default: the row sums to 1 again."),
    HSC__OPTION_HEADING("Many pairs"),
    OPTION("pairs", 0, HSC__OPT_TEXT, "FILE", pairs, 0, 0,
           "Pairs as scan reads them, instead of texts: what each head carries from one wording to the other (indirect "
           "effect) and what is left without it (direct effect), beside the total, with intervals. Words of unequal "
           "numbers of tokens are aligned from their end, which is told, as is what cannot be aligned and is left "
           "out."),
    OPTION("limit", 0, HSC__OPT_INT, "N", limit, 1, INT32_MAX, "The first N lines of the file. Default: all."),
    HSC__OPTIONS_SWEEP(hsc__patch_options, search),
    OPTION("seed", 0, HSC__OPT_INT, "N", seed, 0, INT32_MAX, "Of intervals, signs and the split. Default: 0."),
    HSC__OPTION_HEADING("Otherwise"),
    OPTION("ids", 0, HSC__OPT_IDS, "IDS", ids, 0, 0, "Token ids such as 1,2,3 instead of TEXT."),
    OPTION("corrupted-ids", 0, HSC__OPT_IDS, "IDS", corrupted_ids, 0, 0, "Token ids instead of --corrupted."),
    OPTION("top", 0, HSC__OPT_INT, "N", top, 1, 100000, "Rows of the table. Default: 10."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", plot, 0, 0, "The map as .png, .svg or .pdf."),
    HSC__OPTION_COMPUTE(hsc__patch_options, compute),
    HSC__OPTION_NO_SPECIAL(hsc__patch_options, no_special),
    HSC__OPTION_PARSE_SPECIAL(hsc__patch_options, parse_special),
    HSC__OPTION_THREADS(hsc__patch_options, threads),
    HSC__OPTION_JSON(hsc__patch_options, json),
    HSC__OPTION_CSV(hsc__patch_options, csv),
};

static const hsc__command command = {
    .name = "patch",
    .usage = "-m MODEL --metric METRIC --corrupted OTHER TEXT\n"
             "-m MODEL --metric METRIC --cut WORDS TEXT\n"
             "-m MODEL --pairs FILE",
    .about =
        "Activation patching. Two runs: TEXT as it is (clean) and --corrupted. Each place of the one run in turn is "
        "put into the other. A cell is (patched - corrupted) / (clean - corrupted): 0 is the corrupted run, 1 the "
        "clean one. Denoising asks what is enough to bring the answer back, --noise what is needed to keep it; the "
        "two need not agree.\n"
        "--path follows one step: what a head sends to the query (key, value) of others, all else held. --cut leaves "
        "the text alone and stops a token from seeing another. --pairs asks over many pairs how much of the "
        "difference between the wordings each head carries.\n"
        "A map is a search: test a place that stands out on other pairs of texts. --pairs --holdout does that.\n"
        "An encoder-decoder (T5, BART, Marian) reads TEXT and --corrupted about one --target, and the logit is where "
        "that goes on (without --target where a text begins). --site is then one of the encoder (enc_resid_pre, the "
        "default, enc_z), of cross-attention (cross_z, cross_pattern) or of the decoder; --path, --cut and --pairs are "
        "not for such models.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope patch -m gpt2 --metric \"logit: Mary - John\" \\\n"
                "    --corrupted \"When Mary and John went to the store, Mary gave a drink to\" \\\n"
                "    \"When Mary and John went to the store, John gave a drink to\"\n"
                "    where, and in which layer, the second name makes the difference\n"
                "headscope patch ... --site z --plot heads.png\n"
                "    which heads carry it\n"
                "headscope patch ... --site v --by position\n"
                "    from which token on, and in which layer, it is moved\n"
                "headscope patch ... --path L9H9,L9H6 --noise\n"
                "    which heads tell these two where to look\n"
                "headscope patch -m gpt2 --metric \"logit: Mary - John\" --cut Mary \\\n"
                "    \"When Mary and John went to the store, John gave a drink to\"\n"
                "    which heads need to see Mary from the last word\n"
                "headscope patch -m gpt2 --pairs data/pairs/names.txt --plot carriers.png",
    .min_args = 0,
    .max_args = 1,
    .encoder_decoders = true,
};

int hsc__patch_rows(const hsc__patch *j, const hsc__item *item)
{
    return hsc_site_is_of_source(j->site) ? item->n_source : item->n_tokens;
}

/* What is patched and what a cell is. */
static int check_site(hsc__patch *j)
{
    const hsc__patch_options *v = j->options;
    if (j->mode != HSC__PATCH_PLACES) return HSC__CLI_GO_ON;
    j->site = v->site ? hsc_site_find(v->site) : HSC_RESID_PRE;
    if (j->site == HSC_N_SITES || !hsc_site_per_layer(j->site))
        return hsc__cli_misuse(&command, "--site %s: no layer has such a site; `headscope run --sites help` lists them",
                               v->site);
    hsc_heads heads = hsc_site_heads(j->site);
    if (v->by == HSC__BY_HEAD && heads == HSC_NO_HEADS)
        return hsc__cli_misuse(&command, "--by head: %s is not made of heads", hsc_site_name(j->site));
    if (hsc_site_is_map(j->site) && v->by > HSC__BY_HEAD)
        return hsc__cli_misuse(&command, "--by: %s goes head by head", hsc_site_name(j->site));
    j->cols = v->by == HSC__BY_LAYER                               ? HSC__COLS_LAYER
              : v->by == HSC__BY_POSITION || heads == HSC_NO_HEADS ? HSC__COLS_POSITIONS
              : heads == HSC_KV_HEADS                              ? HSC__COLS_KV_HEADS
                                                                   : HSC__COLS_HEADS;
    return HSC__CLI_GO_ON;
}

static int check_mode(hsc__patch *j)
{
    const hsc__patch_options *v = j->options;
    bool second = v->corrupted || v->corrupted_ids.ids;
    j->mode = v->pairs ? HSC__PATCH_PAIRS : v->cut ? HSC__PATCH_CUTS : v->path ? HSC__PATCH_PATHS : HSC__PATCH_PLACES;
    if ((v->pairs != NULL) + (v->cut != NULL) + (v->path != NULL) > 1)
        return hsc__cli_misuse(&command, "--path, --cut and --pairs: one of the three");
    if (hsc__sweep_check(&command, &j->tests, v->pairs != NULL) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (v->cut && (second || v->noise))
        return hsc__cli_misuse(&command, "--cut works on one text, without --corrupted");
    if (v->path && v->site) return hsc__cli_misuse(&command, "--path patches z of a head: leave --site out");
    if (v->input && !v->path) return hsc__cli_misuse(&command, "--input goes with --path");
    if ((v->query || v->no_renorm) && !v->cut)
        return hsc__cli_misuse(&command, "--query and --no-renorm go with --cut");
    if (v->by && (v->path || v->pairs)) return hsc__cli_misuse(&command, "--by is not for --path or --pairs");
    if (v->cut && v->by == HSC__BY_POSITION)
        return hsc__cli_misuse(&command, "--cut goes by heads or layers; --cut each takes the positions in turn");
    if (v->path && strcmp(v->path, "end") != 0 && !hsc__heads_parse(v->path, &j->receivers))
        return hsc__cli_misuse(&command, "--path: '%s' is neither 'end' nor heads such as L9H9,L9H6", v->path);
    if (v->input && !j->receivers.n) return hsc__cli_misuse(&command, "--input goes with heads, not with --path end");
    if (v->limit && !v->pairs) return hsc__cli_misuse(&command, "--limit goes with --pairs");
    if (j->mode != HSC__PATCH_CUTS) return HSC__CLI_GO_ON;
    j->cols = strcmp(v->cut, "each") == 0 ? HSC__COLS_POSITIONS
              : v->by == HSC__BY_LAYER    ? HSC__COLS_LAYER
                                          : HSC__COLS_HEADS;
    return HSC__CLI_GO_ON;
}

static int check(hsc__patch *j, const hsc__args *args)
{
    const hsc__patch_options *v = j->options;
    int status = check_mode(j), n_texts = args->n + (v->ids.ids != NULL);
    if (status == HSC__CLI_GO_ON && v->json && v->csv)
        status = hsc__cli_misuse(&command, "--json and --csv: one of the two");
    if (status == HSC__CLI_GO_ON) status = check_site(j);
    if (status == HSC__CLI_GO_ON) status = hsc__check_plot(&command, v->plot);
    if (status != HSC__CLI_GO_ON) return status;
    if (v->pairs && v->site) return hsc__cli_misuse(&command, "--pairs patches z of every head: leave --site out");
    if (v->pairs && (n_texts || v->corrupted || v->corrupted_ids.ids || v->metric || v->noise))
        return hsc__cli_misuse(&command, "--pairs brings its texts and its metric: give nothing else to measure");
    if (v->pairs) return HSC__CLI_GO_ON;
    if (n_texts != 1) return hsc__cli_misuse(&command, "give one of TEXT, --ids and --pairs");
    if (hsc__target_check(&command, &v->target) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (!v->cut && (v->corrupted != NULL) + (v->corrupted_ids.ids != NULL) != 1)
        return hsc__cli_misuse(&command, "what is done to the text? give one of --corrupted TEXT, --corrupted-ids IDS "
                                         "and --cut WORDS, or --pairs FILE in its place");
    if (!v->metric) return hsc__cli_misuse(&command, "--metric is missing: what is measured?");
    if (!hsc__metric_parse(v->metric, &j->metric) || j->metric.kind == HSC__METRIC_LOSS)
        return hsc__cli_misuse(&command, "--metric: '%s' is neither \"logit: A - B\" nor \"logit: A\"", v->metric);
    return HSC__CLI_GO_ON;
}

/* What was given of an encoder-decoder are two sources; the target of the first is the second's too. */
static hsc_status read_sources(hsc__patch *j, const hsc__args *args, unsigned flags, hsc_error *err)
{
    const hsc__patch_options *v = j->options;
    HSC_FAIL_IF(
        j->mode != HSC__PATCH_PLACES, HSC_EUNSUPPORTED,
        "--%s is not for %s, an encoder-decoder (%s): of these patch takes --corrupted, with --site and --noise%s",
        v->pairs ? "pairs"
        : v->cut ? "cut"
                 : "path",
        j->opened.name, j->opened.config->arch, v->pairs ? "; ablate, steer, lens and score take --pairs of them" : "");
    if (!v->site) j->site = HSC_ENC_RESID_PRE;
    hsc__source_options o = {.text = args->n ? args->list[0] : NULL,
                             .ids = &v->ids,
                             .target = &v->target,
                             .compute = v->compute,
                             .n_threads = v->threads,
                             .flags = flags};
    HSC_TRY(hsc__items_add_source(&j->items, &j->opened, &o, err));
    const hsc__item *first = &j->items.list[0];
    hsc__target_options same = {.ids = {first->ids, (size_t)first->n_tokens}};
    o.text = v->corrupted;
    o.ids = &v->corrupted_ids;
    o.target = &same;
    return hsc__items_add_source(&j->items, &j->opened, &o, err);
}

/* Of the rows that the site has: the table names them. */
static hsc_status name_rows(hsc__patch *j, hsc_error *err)
{
    const hsc__item *clean = &j->items.list[0];
    bool of_source = hsc_site_is_of_source(j->site);
    hsc__ids ids = {of_source ? clean->source : clean->ids, (size_t)hsc__patch_rows(j, clean)};
    const hsc_tokenizer *tokenizer =
        of_source ? hsc_model_tokenizer(j->opened.model, NULL) : hsc_model_target_tokenizer(j->opened.model, NULL);
    return hsc__tokens_from_ids(&j->tokens, tokenizer, &ids, err);
}

/* Tables of weights and paths take every position from its own. */
static hsc_status align(hsc__patch *j, const hsc__item *x, const hsc__item *y, int word, hsc_error *err)
{
    bool own = j->mode == HSC__PATCH_PATHS || hsc_site_is_map(j->site), of_source = hsc_site_is_of_source(j->site);
    int n = x->source ? x->n_source : x->n_tokens, m = x->source ? y->n_source : y->n_tokens;
    HSC_FAIL_IF(own && n != m, HSC_EINVAL,
                "the texts have %d and %d tokens: %s wants as many in both, each position takes from its own", n, m,
                j->mode == HSC__PATCH_PATHS ? "--path" : hsc_site_name(j->site));
    return hsc_align(of_source ? x->source : x->ids, hsc__patch_rows(j, x), of_source ? y->source : y->ids,
                     hsc__patch_rows(j, y), word, &j->seam, err);
}

static hsc_status read_texts(hsc__patch *j, const hsc__args *args, hsc_error *err)
{
    const hsc__patch_options *v = j->options;
    unsigned flags = hsc__encode_flags(v->no_special, v->parse_special);
    bool reads_source = hsc_model_encoder(j->opened.model) != NULL;
    HSC_TRY(hsc__target_allowed(&j->opened, &v->target, err));
    if (reads_source) HSC_TRY(read_sources(j, args, flags, err));
    else if (v->ids.ids) HSC_TRY(hsc__items_add_ids(&j->items, &v->ids, err));
    else HSC_TRY(hsc__items_add_text(&j->items, &j->opened, args->list[0], strlen(args->list[0]), flags, err));
    if (v->corrupted_ids.ids && !reads_source) HSC_TRY(hsc__items_add_ids(&j->items, &v->corrupted_ids, err));
    else if (v->corrupted && !reads_source)
        HSC_TRY(hsc__items_add_text(&j->items, &j->opened, v->corrupted, strlen(v->corrupted), flags, err));
    hsc__item *clean = &j->items.list[0], *other = &j->items.list[j->items.n - 1];
    int word = -1;
    if (v->corrupted && !v->ids.ids && !reads_source)
        HSC_TRY(hsc__differing_word(&j->opened, args->list[0], v->corrupted, flags, &word, err));
    if (j->mode != HSC__PATCH_CUTS) HSC_TRY(align(j, clean, other, word, err));
    HSC_TRY(hsc__metric_tokens(&j->metric, &j->opened, &clean->a, &clean->b, err));
    other->a = clean->a;
    other->b = clean->b;
    if (reads_source) return name_rows(j, err);
    if (!v->ids.ids)
        return hsc__tokens_encode(&j->tokens, hsc_model_tokenizer(j->opened.model, NULL), args->list[0],
                                  strlen(args->list[0]), flags, err);
    hsc__ids ids = {clean->ids, (size_t)clean->n_tokens};
    return hsc__tokens_from_ids(&j->tokens, hsc_model_tokenizer(j->opened.model, NULL), &ids, err);
}

/* ------------------------------------------------------------------------------------------------- positions ---- */

static bool shares_byte(const char *text, hsc_span token, size_t start, size_t end)
{
    for (size_t i = token.start > start ? token.start : start; i < token.end && i < end; i++)
        if (text[i] != ' ') return true;
    return false;
}

/* The tokens that share a byte with [start, start + n) of the text. */
static hsc__positions tokens_at(const hsc__patch *j, const char *text, size_t start, size_t n)
{
    hsc__positions out = {0, 0};
    for (int i = 0; i < j->items.list[0].n_tokens; i++) {
        if (!shares_byte(text, j->tokens.encoding.spans[i], start, start + n)) continue;
        if (!out.n) out.first = i;
        out.n = i - out.first + 1;
    }
    return out;
}

/* Words that stand at several places: says at which, so that one can be chosen. */
static hsc_status several_places(const hsc__patch *j, const char *option, const char *words, const char *text,
                                 hsc_error *err)
{
    hsc__string places = {0};
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words)) {
        hsc__positions p = tokens_at(j, text, (size_t)(at - text), strlen(words));
        hsc__string_printf(&places, p.n > 1 ? "%s#%d-%d" : "%s#%d", places.n ? ", " : "", p.first, p.first + p.n - 1);
    }
    hsc_status status = hsc__fail(err, HSC_EINVAL, 0, "%s: '%s' stands in the text more than once: choose one of %s",
                                  option, words, places.failed ? "its positions, #3-5" : places.data);
    hsc__string_free(&places);
    return status;
}

/* "#3", "#3-5", or words that stand in the text once. */
static hsc_status find_positions(const hsc__patch *j, const char *option, const char *words, const char *text,
                                 hsc__positions *out, hsc_error *err)
{
    int n_tokens = j->items.list[0].n_tokens, first, last, end = 0;
    if (*words == '#') {
        int n = sscanf(words, "#%d%n-%d%n", &first, &end, &last, &end);
        if (n == 1) last = first;
        HSC_FAIL_IF(n < 1 || words[end] || first < 0 || last < first || last >= n_tokens, HSC_EINVAL,
                    "%s: '%s' are no positions of this text, #0 to #%d", option, words, n_tokens - 1);
        *out = (hsc__positions){first, last - first + 1};
        return HSC_OK;
    }
    const char *at = text && *words ? strstr(text, words) : NULL;
    HSC_FAIL_IF(!at, HSC_ENOTFOUND, "%s: '%s' does not stand in the text%s", option, words,
                text ? "" : ", which is token ids: give positions, #3-5");
    if (strstr(at + 1, words)) return several_places(j, option, words, text, err);
    *out = tokens_at(j, text, (size_t)(at - text), strlen(words));
    HSC_FAIL_IF(!out->n, HSC_EINVAL, "%s: '%s' has no token", option, words);
    return HSC_OK;
}

static hsc_status find_spans(hsc__patch *j, const char *text, hsc_error *err)
{
    const hsc__patch_options *v = j->options;
    j->query = (hsc__positions){j->items.list[0].n_tokens - 1, 1};
    if (v->query) HSC_TRY(find_positions(j, "--query", v->query, text, &j->query, err));
    if (j->cols == HSC__COLS_POSITIONS) return HSC_OK;
    HSC_TRY(find_positions(j, "--cut", v->cut, text, &j->cut, err));
    HSC_FAIL_IF(j->opened.config->causal && j->cut.first > j->query.first + j->query.n - 1, HSC_EINVAL,
                "--cut: position %d stands behind the query, which cannot see it anyway", j->cut.first);
    return HSC_OK;
}

int hsc__cli_patch(int argc, char **argv)
{
    hsc__patch_options v = {.top = 10};
    hsc__patch j = {.options = &v, .tests.options = &v.search};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&j, &args);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, 0, true, &j.opened);
    bool reads_source = result == HSC__CLI_GO_ON && hsc_model_encoder(j.opened.model);
    if (result == HSC__CLI_GO_ON && j.mode == HSC__PATCH_PAIRS && !reads_source) {
        result = hsc__patch_pairs(&j);
    } else if (result == HSC__CLI_GO_ON) {
        hsc_status status = read_texts(&j, &args, &err);
        if (status == HSC_OK && j.mode == HSC__PATCH_CUTS)
            status = find_spans(&j, v.ids.ids ? NULL : args.list[0], &err);
        if (status == HSC_OK) status = hsc__patch_run(&j, &err);
        if (status != HSC_OK) result = hsc__cli_fail(&err);
        else result = v.json ? hsc__patch_print_json(&j) : v.csv ? hsc__patch_print_csv(&j) : hsc__patch_print(&j);
    }
    hsc__sweep_free(&j.tests);
    hsc__free(j.cells);
    hsc__tokens_free(&j.tokens);
    hsc__items_free(&j.items);
    hsc__cli_close(&j.opened);
    hsc__free(v.ids.ids);
    hsc__free(v.corrupted_ids.ids);
    hsc__free(v.target.ids.ids);
    return result;
}
