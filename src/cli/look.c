/*
 * headscope look: the arguments, the pass, and the choice of the view. While the model runs, observers take only what
 * the view needs (one row or column a head, or sums), so a long text needs no table of n x n weights; --stats has the
 * session take sums; pictures and --head alone record whole patterns.
 */
#include "cli/look.h"

#include <math.h>
#include <string.h>

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__look_options, model),
    HSC__OPTION_HEADING("Which token"),
    {"token", 0, HSC__OPT_TEXT, "TEXT", offsetof(hsc__look_options, token), 0, 0,
     "What does this token look at? TEXT is the token exactly, its leading blank included: \" it\"."},
    {"pos", 0, HSC__OPT_INT, "N", offsetof(hsc__look_options, pos), 0, INT32_MAX, "The same by position, from 0."},
    {"to", 0, HSC__OPT_TEXT, "TEXT", offsetof(hsc__look_options, to), 0, 0,
     "Who looks at this token? With --token: which heads join the two."},
    {"to-pos", 0, HSC__OPT_INT, "N", offsetof(hsc__look_options, to_pos), 0, INT32_MAX,
     "The same by position, from 0."},
    HSC__OPTION_HEADING("Which heads"),
    {"layer", 'l', HSC__OPT_LAYERS, "LAYER", offsetof(hsc__look_options, layers), 0, 0,
     "5 (counted from 1), L4 (from 0), L0-L11, or a comma list. Default: every layer."},
    {"head", 0, HSC__OPT_HEAD, "HEAD", offsetof(hsc__look_options, head), 0, 0,
     "One head, L4H3 (layer and head from 0). Without a token: what each token looks at in it."},
    HSC__OPTION_HEADING("How much"),
    {"top", 'k', HSC__OPT_INT, "K", offsetof(hsc__look_options, top), 1, HSC__LOOK_MAX_TOP,
     "The K best instead of the best; with --vs or both tokens the K best heads instead of 10."},
    {"vs", 0, HSC__OPT_TEXT, "TEXT2", offsetof(hsc__look_options, versus), 0, 0,
     "Compare with a second text: the heads whose weights from the token (the last one, unless --token or --pos says "
     "another) move most, what they left and what they went to."},
    {"stats", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__look_options, stats), 0, 0,
     "Every head in figures, over the whole text and however long: mean entropy of a row in nats; mean weight on the "
     "first token, the token itself, the one before, and by distance; and the token that receives most from all."},
    {"include-first", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__look_options, include_first), 0, 0,
     "Let the first token win too. It draws weight that means nothing (a sink), so it is left out of the maximum."},
    HSC__OPTION_HEADING("Pictures and formats"),
    {"plot", 0, HSC__OPT_TEXT, "FILE", offsetof(hsc__look_options, plot), 0, 0,
     "Write a heatmap, .png, .svg or .pdf: of the head of --head, else a grid of the layer's or the model's heads."},
    {"heatmap", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__look_options, heatmap), 0, 0,
     "Draw in the terminal the head of --head, or all heads of the layers of --layer."},
    {"scale", 0, HSC__OPT_CHOICE, "fixed|max|row|log", offsetof(hsc__look_options, scale), 0, 0,
     "What the darkest colour means: weight 1 (default), the largest weight, each row's largest, or a logarithmic "
     "scale."},
    HSC__OPTION_JSON(hsc__look_options, json),
    HSC__OPTION_CSV(hsc__look_options, csv),
    HSC__OPTION_HEADING("Input"),
    {"pair", 'p', HSC__OPT_TEXT, "TEXT", offsetof(hsc__look_options, second), 0, 0,
     "A second text of the same sequence, joined to the first as the tokenizer joins a pair ([CLS] A [SEP] B [SEP]), "
     "in "
     "the segments that the model has for it. With --vs it joins either text."},
    {"file", 'f', HSC__OPT_TEXT, "FILE", offsetof(hsc__look_options, file), 0, 0,
     "Read the text from a file; as from standard input, one line end at its end is not part of it."},
    {"ids", 0, HSC__OPT_IDS, "IDS", offsetof(hsc__look_options, ids), 0, 0,
     "Token ids such as 1,2,3 instead of a text. Without a tokenizer a token's text is its id."},
    HSC__OPTION_NO_SPECIAL(hsc__look_options, no_special),
    HSC__OPTION_PARSE_SPECIAL(hsc__look_options, parse_special),
    HSC__OPTION_HEADING("Encoder-decoders"),
    HSC__OPTIONS_TARGET(hsc__look_options, target),
    {"vs-target", 0, HSC__OPT_TEXT, "TEXT", offsetof(hsc__look_options, versus_target), 0, 0,
     "Compare with a second target, about the text of --vs or else the same text. Without it the target of --vs is "
     "that "
     "of --target, or what the model writes about either text."},
    {"side", 0, HSC__OPT_CHOICE, "cross|encoder|decoder", offsetof(hsc__look_options, side), 0, 0,
     "cross (default): what the target's tokens look at in the text, the source; or one of the two by itself."},
    HSC__OPTION_HEADING("The pass"),
    HSC__OPTIONS_PASS(hsc__look_options, pass),
    HSC__OPTION_THREADS(hsc__look_options, threads),
};

static const hsc__command command = {
    .name = "look",
    .usage = "-m MODEL TEXT [options]\n-m MODEL -              (standard input)",
    .about =
        "Shows what each attention head looks at. Without a token: an overview, one letter a head and the strongest "
        "links. With --token, a line a head: the token that gets most of its weight, and the weight.\n"
        "A layer is counted from 1 and a head from 0; L4H3 counts both from 0 (layer 5, head 3). Positions count "
        "from 0. Equal weights go to the lower position.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope look -m gpt2 \"The animal didn't cross the street because it was too tired\"\n"
                "    the overview: which heads do what, and the strongest links\n"
                "headscope look -m gpt2 \"The animal ... too tired\" --layer 5 --token \" it\"\n"
                "    what \" it\" looks at in each head of the fifth layer\n"
                "headscope look -m gpt2 \"The animal ... too tired\" --head L4H3 --plot l4h3.png\n"
                "    one head: what each token looks at, and its heatmap\n"
                "headscope look -m gpt2 \"The animal ... too tired\" --to \" animal\" --layer 5 --top 3\n"
                "    the column under \" animal\": who looks at it\n"
                "headscope look -m gpt2 \"The animal ... too tired\" --vs \"The animal ... too wide\"\n"
                "    which heads move when the last word changes\n"
                "headscope look -m gpt2 --file chapter.txt --stats --csv\n"
                "    every head of a long text in figures\n"
                "headscope look -m t5-small \"The house is small.\" --target \"Das Haus ist klein.\"\n"
                "    which words of the source the heads of cross-attention look at",
    .encoder_decoders = true,
    .max_args = 1,
};

/* --------------------------------------------------------------------------------------------------- arguments ---- */

static hsc__look_mode choose_mode(const hsc__look_options *o)
{
    bool query = o->token || o->pos >= 0, key = o->to || o->to_pos >= 0;
    if (o->stats) return HSC__LOOK_STATS;
    if (o->versus || o->versus_target) return HSC__LOOK_VERSUS;
    if (query && key) return HSC__LOOK_PAIR;
    if (query) return HSC__LOOK_QUERY;
    if (key) return HSC__LOOK_KEY;
    return o->head.given ? HSC__LOOK_HEAD : HSC__LOOK_OVERVIEW;
}

/* --stats is about every token of one text. */
static int check_stats(const hsc__look_options *o)
{
    if (!o->stats) return HSC__CLI_GO_ON;
    if (o->token || o->pos >= 0 || o->to || o->to_pos >= 0)
        return hsc__cli_misuse(&command, "--stats sums up all tokens: not with --token, --pos, --to or --to-pos");
    if (o->versus || o->versus_target) return hsc__cli_misuse(&command, "--stats and --vs: one of the two");
    if (o->top) return hsc__cli_misuse(&command, "--stats has no list for --top to cut");
    if (o->plot || o->heatmap)
        return hsc__cli_misuse(&command, "--stats keeps no patterns to draw: not with --plot or --heatmap");
    return HSC__CLI_GO_ON;
}

static int check_versus(const hsc__look_options *o)
{
    bool target = o->target.text || o->target.ids.ids || o->versus_target;
    if (o->side == HSC__LOOK_ENCODER && target) return hsc__cli_misuse(&command, "--side encoder reads no target");
    if (!o->versus && !o->versus_target) return HSC__CLI_GO_ON;
    if (o->to || o->to_pos >= 0)
        return hsc__cli_misuse(&command,
                               "--vs compares what a token looks at: it goes with --token or --pos, not with --to");
    if (o->plot || o->heatmap) return hsc__cli_misuse(&command, "--vs draws no heatmap; draw each text by itself");
    return HSC__CLI_GO_ON;
}

/* What the arguments alone can show. */
static int check(const hsc__look_options *o, int n_texts)
{
    int n_inputs = n_texts + (o->file != NULL) + (o->ids.ids != NULL);
    if (n_inputs == 0) return hsc__cli_misuse(&command, "no text: give TEXT, - for standard input, --file or --ids");
    if (n_inputs > 1) return hsc__cli_misuse(&command, "more than one of TEXT, --file and --ids");
    if (o->token && o->pos >= 0) return hsc__cli_misuse(&command, "--token and --pos both name the token");
    if (o->to && o->to_pos >= 0) return hsc__cli_misuse(&command, "--to and --to-pos both name the token");
    int result = check_versus(o);
    if (result != HSC__CLI_GO_ON) return result;
    if (o->second && o->ids.ids) return hsc__cli_misuse(&command, "--pair joins texts: not with --ids");
    if (o->json && o->csv) return hsc__cli_misuse(&command, "--json and --csv: one of the two");
    if (o->heatmap && (o->json || o->csv))
        return hsc__cli_misuse(&command, "--heatmap draws in the terminal and does not go with --json or --csv");
    if (o->heatmap && !o->head.given && !o->layers.n)
        return hsc__cli_misuse(&command, "--heatmap wants --head or --layer");
    if (o->head.given && !hsc__layers_have(&o->layers, o->head.layer))
        return hsc__cli_misuse(&command, "--head L%dH%d is not in the layers of --layer", o->head.layer, o->head.head);
    result = hsc__check_plot(&command, o->plot);
    if (result == HSC__CLI_GO_ON) result = check_stats(o);
    if (result == HSC__CLI_GO_ON) result = hsc__target_check(&command, &o->target);
    return result == HSC__CLI_GO_ON ? hsc__pass_check(&command, &o->pass) : result;
}

/* ------------------------------------------------------------------------------------------------------- input ---- */

static hsc_status encode(const hsc__look *look, hsc__look_pass *pass, const char *text, size_t n, hsc_error *err)
{
    const hsc_tokenizer *tokenizer;
    const hsc__look_options *o = look->options;
    HSC_TRY(hsc__cli_tokenizer(&look->opened, &tokenizer, err));
    unsigned flags = hsc__encode_flags(o->no_special, o->parse_special);
    if (!o->second) return hsc__tokens_encode(&pass->tokens, tokenizer, text, n, flags, err);
    return hsc__tokens_encode_pair(&pass->tokens, tokenizer, text, n, o->second, strlen(o->second), flags, err);
}

static hsc_status finish_tokens(hsc__look_pass *pass, hsc_error *err)
{
    HSC_FAIL_IF(pass->tokens.encoding.n == 0, HSC_EINVAL, "the text is empty: there is nothing to look at");
    HSC_FAIL_IF(pass->tokens.encoding.n > INT32_MAX, HSC_EINVAL, "the text has %zu tokens, too many",
                pass->tokens.encoding.n);
    pass->n_tokens = pass->n_keys = (int)pass->tokens.encoding.n;
    pass->keys = &pass->tokens;
    pass->query = pass->key = -1;
    return HSC_OK;
}

/* The text that was read becomes the source, and the target's tokens are those that look. */
static hsc_status find_target(const hsc__look *look, const hsc__target_options *target, hsc__look_pass *pass,
                              hsc_error *err)
{
    HSC_TRY(hsc__source_fits(&look->opened, (size_t)pass->n_tokens, err));
    if (look->side == HSC__LOOK_ENCODER) return HSC_OK;
    pass->source = pass->tokens;
    pass->tokens = (hsc__tokens){0};
    HSC_TRY(hsc__target_find(&look->opened, target, &look->options->pass, look->options->threads,
                             pass->source.encoding.ids, pass->n_tokens, &pass->tokens, err));
    HSC_TRY(finish_tokens(pass, err));
    if (look->side == HSC__LOOK_DECODER) return HSC_OK;
    pass->keys = &pass->source;
    pass->n_keys = (int)pass->source.encoding.n;
    return HSC_OK;
}

/* What is looked at, and what an encoder-decoder has no place for. */
static hsc_status choose_side(hsc__look *look, hsc_error *err)
{
    const hsc__look_options *o = look->options;
    const hsc_config *encoder = hsc_model_encoder(look->opened.model), *c = look->opened.config;
    static const hsc_site sites[] = {HSC_CROSS_PATTERN, HSC_ENC_PATTERN, HSC_PATTERN, HSC_PATTERN};
    HSC_TRY(hsc__target_allowed(&look->opened, &o->target, err));
    HSC_FAIL_IF(o->versus_target && !encoder, HSC_EINVAL,
                "--vs-target is what a decoder reads beside a source; %s (%s) has one stack of blocks",
                look->opened.name, c->arch);
    HSC_FAIL_IF(o->side != HSC__LOOK_UNSET && !encoder, HSC_EINVAL,
                "--side is about encoder-decoders; %s (%s) has one stack of blocks", look->opened.name, c->arch);
    look->side = !encoder ? HSC__LOOK_OWN : o->side == HSC__LOOK_UNSET ? HSC__LOOK_CROSS : (hsc__look_side)o->side;
    HSC_FAIL_IF(encoder && o->stats && look->side == HSC__LOOK_CROSS, HSC_EINVAL,
                "--stats sums up what a text looks at in itself: --side encoder or --side decoder");
    if (look->side == HSC__LOOK_ENCODER) c = encoder;
    look->site = sites[look->side];
    look->n_layers = c->n_layers;
    look->n_heads = c->n_heads;
    look->causal = c->causal && look->side != HSC__LOOK_CROSS;
    return HSC_OK;
}

static hsc_status read_first(hsc__look *look, const char *argument, hsc_error *err)
{
    hsc__string text = {0};
    if (look->options->ids.ids) {
        const hsc_tokenizer *tokenizer = hsc_model_tokenizer(look->opened.model, NULL);
        HSC_TRY(hsc__tokens_from_ids(&look->first.tokens, tokenizer, &look->options->ids, err));
        return finish_tokens(&look->first, err);
    }
    hsc_status status = hsc__cli_read_text(argument, look->options->file, &text, err);
    if (status == HSC_OK) status = encode(look, &look->first, text.data, text.n, err);
    hsc__string_free(&text);
    HSC_TRY(status);
    return finish_tokens(&look->first, err);
}

/* A second text or target where the first one is a list of ids. Free ids->ids either way. */
static hsc_status parse_second(const char *option, const char *text, hsc__ids *ids, hsc_error *err)
{
    HSC_FAIL_IF(!hsc__ids_parse(text, ids), HSC_EINVAL, "%s wants token ids as the first has them, not '%s'", option,
                text);
    return HSC_OK;
}

/* Without --vs it is the first source once more. */
static hsc_status read_second_text(hsc__look *look, hsc_error *err)
{
    const char *text = look->options->versus;
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(look->opened.model, NULL);
    const hsc_encoding *first = &look->first.source.encoding;
    if (!text) return hsc__tokens_from_ids(&look->second.tokens, tokenizer, &(hsc__ids){first->ids, first->n}, err);
    if (!look->options->ids.ids) return encode(look, &look->second, text, strlen(text), err);
    hsc__ids ids = {0};
    hsc_status status = parse_second("--vs", text, &ids, err);
    if (status == HSC_OK) status = hsc__tokens_from_ids(&look->second.tokens, tokenizer, &ids, err);
    hsc__free(ids.ids);
    return status;
}

/* With --ids the second text is a list of ids too, and with --target-ids, or no --target beside --ids, a target. */
static hsc_status read_second(hsc__look *look, hsc_error *err)
{
    const hsc__look_options *o = look->options;
    hsc__target_options target = o->target;
    hsc__ids ids = {0};
    HSC_TRY(read_second_text(look, err));
    HSC_TRY(finish_tokens(&look->second, err));
    if (look->side == HSC__LOOK_OWN) return HSC_OK;
    hsc_status status = HSC_OK;
    if (o->versus_target) {
        bool as_ids = o->target.ids.ids || (o->ids.ids && !o->target.text);
        target = (hsc__target_options){.text = as_ids ? NULL : o->versus_target};
        if (as_ids) status = parse_second("--vs-target", o->versus_target, &target.ids, err);
        ids = target.ids;
    }
    if (status == HSC_OK) status = find_target(look, &target, &look->second, err);
    hsc__free(ids.ids);
    return status;
}

static hsc_status find(const hsc__tokens *tokens, const char *text, int wanted, const char *option, const char *other,
                       int *pos, hsc_error *err)
{
    int n = (int)tokens->encoding.n;
    if (text) return hsc__look_find(tokens, text, option, other, pos, err);
    HSC_FAIL_IF(wanted >= n, HSC_EINVAL, "%s %d: the text has %d tokens, positions 0 to %d", other, wanted, n, n - 1);
    *pos = wanted;
    return HSC_OK;
}

/* Checks layers and head against the model and finds the tokens. */
static hsc_status resolve(hsc__look *look, hsc_error *err)
{
    const hsc__look_options *o = look->options;
    HSC_TRY(hsc__layers_check(&o->layers, look->n_layers, err));
    if (o->head.given)
        HSC_TRY(hsc__place_check("--head", "head", o->head.layer, o->head.head, look->n_layers, look->n_heads, err));
    HSC_TRY(find(&look->first.tokens, o->token, o->pos, "--token", "--pos", &look->first.query, err));
    HSC_TRY(find(look->first.keys, o->to, o->to_pos, "--to", "--to-pos", &look->first.key, err));
    return look->mode == HSC__LOOK_VERSUS ? hsc__look_align(look, err) : HSC_OK;
}

/* -------------------------------------------------------------------------------------------------------- pass ---- */

typedef struct catcher {
    const hsc__look *look;
    hsc__look_pass *pass;
} catcher;

/* Keeps the query's row, or each row's weight on the key. Blocks never share an element. */
static int catch_weights(void *user, const hsc_block *block)
{
    const catcher *c = user;
    hsc__look_pass *pass = c->pass;
    if (!hsc__look_chosen(c->look, block->layer, block->head)) return 0;
    float *weights = hsc__look_weights(c->look, pass, block->layer, block->head);
    for (int r = 0; r < block->n_rows; r++) {
        int query = block->first_row + r;
        const float *row = block->data + (size_t)r * block->stride;
        if (query == pass->query) memcpy(weights, row, (size_t)block->row_size * sizeof *row);
        if (pass->query < 0) weights[query] = pass->key < block->row_size ? row[pass->key] : 0;
    }
    return 0;
}

static hsc_status watch_weights(const hsc__look *look, hsc__look_pass *pass, catcher *c, hsc_error *err)
{
    size_t width = (size_t)(pass->n_tokens > pass->n_keys ? pass->n_tokens : pass->n_keys);
    size_t n = (size_t)look->n_layers * (size_t)look->n_heads * width;
    *c = (catcher){look, pass};
    pass->weights = hsc__calloc(n, sizeof *pass->weights);
    if (!pass->weights) return hsc__fail_memory(err, n * sizeof *pass->weights, "the weights");
    for (int layer = 0; layer < look->n_layers; layer++) {
        if (!hsc__layers_have(&look->options->layers, layer)) continue;
        hsc_observer observer = {.site = look->site, .layer = layer, .fn = catch_weights, .user = c};
        HSC_TRY(hsc_session_observe(pass->session, &observer, err));
    }
    return HSC_OK;
}

static hsc_status check_memory(const hsc__look *look, const hsc__look_pass *pass, hsc_error *err)
{
    double n_maps = 0, limit = hsc__cli_room();
    for (int layer = 0; layer < look->n_layers; layer++)
        for (int head = 0; head < look->n_heads; head++) n_maps += hsc__look_chosen(look, layer, head);
    double need = n_maps * pass->n_tokens * pass->n_keys * (double)sizeof(float);
    HSC_FAIL_IF(
        need > limit, HSC_ENOMEM,
        "%.0f patterns of %d x %d weights take %.1f GiB, more than this machine has to spare (%.1f GiB); --layer or "
        "--head chooses fewer",
        n_maps, pass->n_tokens, pass->n_keys, need / (1 << 30), limit / (1 << 30));
    return HSC_OK;
}

/* Whole patterns, for pictures and for --head alone. */
static hsc_status record_patterns(const hsc__look *look, hsc__look_pass *pass, hsc_error *err)
{
    const hsc__head *one = &look->options->head;
    HSC_TRY(check_memory(look, pass, err));
    for (int layer = 0; layer < look->n_layers; layer++) {
        if (!hsc__layers_have(&look->options->layers, layer) || (one->given && one->layer != layer)) continue;
        hsc_record record = {.site = look->site, .layer = layer, .head = one->given ? one->head : -1, .query = -1};
        HSC_TRY(hsc_session_record(pass->session, &record, err));
    }
    return HSC_OK;
}

static hsc_status make_session(const hsc__look *look, hsc__look_pass *pass, hsc_error *err)
{
    const hsc__look_options *o = look->options;
    bool encoder = look->side == HSC__LOOK_ENCODER;
    hsc_session_options session = hsc__pass_session(&o->pass, o->threads, encoder ? 1 : pass->n_tokens);
    if (look->side != HSC__LOOK_OWN) session.max_source = encoder ? pass->n_tokens : (int)pass->source.encoding.n;
    return hsc_session_new(&pass->session, look->opened.model, &session, err);
}

static hsc_status forward(const hsc__look *look, const hsc__look_pass *pass, hsc_error *err)
{
    const hsc__tokens *source = look->side == HSC__LOOK_ENCODER ? &pass->tokens : &pass->source;
    hsc_batch batch = {.ids = source->encoding.ids, .n_tokens = (int)source->encoding.n, .logits = HSC_LOGITS_NONE};
    if (look->side != HSC__LOOK_OWN) HSC_TRY(hsc_session_read_source(pass->session, &batch, err));
    if (look->side == HSC__LOOK_ENCODER) return HSC_OK;
    batch.ids = pass->tokens.encoding.ids;
    batch.n_tokens = pass->n_tokens;
    if (look->options->second && look->opened.config->n_segments > 0) batch.segments = pass->tokens.encoding.segments;
    return hsc_forward(pass->session, &batch, err);
}

static hsc_status run_pass(hsc__look *look, hsc__look_pass *pass, hsc_error *err)
{
    const hsc__look_options *o = look->options;
    catcher c;
    hsc__progress progress = {0};
    HSC_FAIL_IF(look->side == HSC__LOOK_OWN && pass->n_tokens > look->opened.config->n_ctx, HSC_EINVAL,
                "the text has %d token%s, %s sees at most %d (its context)", pass->n_tokens,
                HSC__PLURAL(pass->n_tokens), look->opened.name, look->opened.config->n_ctx);
    HSC_TRY(make_session(look, pass, err));
    if (look->mode == HSC__LOOK_OVERVIEW)
        HSC_TRY(hsc_overview_new(&pass->overview, pass->session, look->site, pass->n_tokens, HSC__LOOK_LINKS, err));
    else if (look->mode == HSC__LOOK_STATS) HSC_TRY(hsc__look_collect(look, pass->session, err));
    else if (look->mode != HSC__LOOK_HEAD) HSC_TRY(watch_weights(look, pass, &c, err));
    if (look->mode == HSC__LOOK_HEAD || o->plot || o->heatmap) HSC_TRY(record_patterns(look, pass, err));
    HSC_TRY(hsc__progress_watch(&progress, pass->session, (size_t)pass->n_tokens, err));
    hsc_status status = forward(look, pass, err);
    hsc_session_observe_clear(pass->session); /* what it observed for lies on this function's stack */
    hsc__cli_progress_end();
    return status;
}

/* A maximum over NaN means nothing, so there is no table with one. */
static hsc_status check_numbers(const hsc__look *look, const hsc__look_pass *pass, hsc_error *err)
{
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            if (pass->overview && isnan(hsc_overview_head(pass->overview, layer, head).other))
                return hsc__look_fail_number(layer, head, err);
            for (int i = 0; pass->weights && i < (pass->query < 0 ? pass->n_tokens : pass->n_keys); i++)
                if (isnan(hsc__look_weights(look, pass, layer, head)[i]))
                    return hsc__look_fail_number(layer, head, err);
        }
    }
    return HSC_OK;
}

static hsc_status fetch_pattern(hsc__look *look, hsc_error *err)
{
    hsc_view view;
    const hsc__head *one = &look->options->head;
    size_t n = (size_t)look->first.n_tokens * (size_t)look->first.n_keys;
    HSC_TRY(hsc_session_activation(look->first.session, look->site, one->layer, 0, &view, err));
    look->pattern = view.data;
    for (size_t i = 0; i < n; i++)
        if (isnan(look->pattern[i])) return hsc__look_fail_number(one->layer, one->head, err);
    return HSC_OK;
}

/* -------------------------------------------------------------------------------------------------------- view ---- */

typedef struct view {
    hsc__look_text_fn text, csv;
    hsc__look_json_fn json;
} view;

static const view views[] = {
    [HSC__LOOK_OVERVIEW] = {hsc__look_overview_text, hsc__look_overview_csv, hsc__look_overview_json},
    [HSC__LOOK_QUERY] = {hsc__look_heads_text, hsc__look_heads_csv, hsc__look_heads_json},
    [HSC__LOOK_KEY] = {hsc__look_heads_text, hsc__look_heads_csv, hsc__look_heads_json},
    [HSC__LOOK_PAIR] = {hsc__look_pair_text, hsc__look_pair_csv, hsc__look_pair_json},
    [HSC__LOOK_HEAD] = {hsc__look_rows_text, hsc__look_rows_csv, hsc__look_rows_json},
    [HSC__LOOK_VERSUS] = {hsc__look_versus_text, hsc__look_versus_csv, hsc__look_versus_json},
    [HSC__LOOK_STATS] = {hsc__look_stats_text, hsc__look_stats_csv, hsc__look_stats_json},
};

/* What one must know to read the table. */
static void say_notes(const hsc__look *look)
{
    const hsc__look_pass *pass = &look->first;
    bool whole = look->mode == HSC__LOOK_HEAD || look->mode == HSC__LOOK_STATS;
    bool maximum = look->side != HSC__LOOK_CROSS &&
                   ((look->mode == HSC__LOOK_QUERY && pass->query > 0) || (whole && pass->n_tokens > 1));
    hsc__string text = {0}, how = {0};
    hsc__look_repr(&text, &pass->tokens, 0);
    hsc__pass_describe(&how, &look->options->pass, look->opened.model);
    if (text.failed || how.failed) hsc__cli_no_memory();
    else if (maximum && !look->options->include_first)
        hsc__cli_note("the first token, %s, is left out of the maximum; --include-first puts it back (%s)", text.data,
                      how.data);
    else if (hsc__pass_special(&look->options->pass, look->opened.model)) hsc__cli_note("%s", how.data);
    hsc__string_free(&text);
    hsc__string_free(&how);
}

static int show(const hsc__look *look)
{
    const hsc__look_options *o = look->options;
    const view *v = &views[look->mode];
    hsc__string out = {0};
    hsc_error err = {0};
    if (o->plot && hsc__look_plot(look, &err) != HSC_OK) return hsc__cli_fail(&err);
    say_notes(look);
    if (o->json) return hsc__json_print(v->json(look));
    if (o->heatmap) {
        hsc_status status = hsc__look_heatmaps(look, &out, &err);
        int result = hsc__cli_show(&out);
        return status != HSC_OK ? hsc__cli_fail(&err) : result;
    }
    (o->csv ? v->csv : v->text)(look, &out);
    return o->csv ? hsc__cli_write_string(&out) : hsc__cli_show(&out);
}

/* -------------------------------------------------------------------------------------------------------- main ---- */

static hsc_status prepare(hsc__look *look, const char *argument, hsc_error *err)
{
    HSC_TRY(choose_side(look, err));
    HSC_TRY(read_first(look, argument, err));
    if (look->side != HSC__LOOK_OWN) HSC_TRY(find_target(look, &look->options->target, &look->first, err));
    if (look->mode == HSC__LOOK_VERSUS) HSC_TRY(read_second(look, err));
    return resolve(look, err);
}

static hsc_status compute(hsc__look *look, hsc_error *err)
{
    HSC_TRY(run_pass(look, &look->first, err));
    HSC_TRY(check_numbers(look, &look->first, err));
    if (look->mode == HSC__LOOK_HEAD) HSC_TRY(fetch_pattern(look, err));
    if (look->mode == HSC__LOOK_STATS) HSC_TRY(hsc__look_summarise(look, err));
    if (look->mode != HSC__LOOK_VERSUS) return HSC_OK;
    HSC_TRY(run_pass(look, &look->second, err));
    return check_numbers(look, &look->second, err);
}

static int run(hsc__look *look, const char *argument)
{
    hsc_error err = {0};
    hsc_status status = prepare(look, argument, &err);
    if (status != HSC_OK) {
        int result = hsc__cli_fail(&err);
        if (status == HSC_ENOTFOUND && look->first.n_tokens)
            hsc__look_list_tokens(look->first.query < 0 && look->options->token ? &look->first.tokens
                                                                                : look->first.keys);
        return result;
    }
    return compute(look, &err) == HSC_OK ? show(look) : hsc__cli_fail(&err);
}

static void free_pass(hsc__look_pass *pass)
{
    hsc_session_free(pass->session);
    hsc_overview_free(pass->overview);
    hsc__free(pass->weights);
    hsc__tokens_free(&pass->tokens);
    hsc__tokens_free(&pass->source);
}

int hsc__cli_look(int argc, char **argv)
{
    hsc__look_options o = {.pos = -1, .to_pos = -1, .side = HSC__LOOK_UNSET};
    hsc__look look = {.options = &o};
    hsc__args args;
    int result = hsc__cli_parse(&command, argc, argv, &o, &args);
    if (result == HSC__CLI_GO_ON) result = check(&o, args.n);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, o.model, o.pass.dtype, true, &look.opened);
    if (result == HSC__CLI_GO_ON) {
        look.mode = choose_mode(&o);
        result = run(&look, args.n ? args.list[0] : NULL);
    }
    free_pass(&look.first);
    free_pass(&look.second);
    hsc__free(look.stats);
    hsc__cli_close(&look.opened);
    hsc__free(o.ids.ids);
    hsc__free(o.target.ids.ids);
    return result;
}
