/*
 * headscope run: one pass over one or more texts, and what chosen sites held goes into one file of tensors. Several
 * texts are packed end to end as sequences; each tensor then bears the number of its sequence (pattern.4.seq2). Nothing
 * is copied: the arrays are written from where the session recorded them, or collected statistics. Of an
 * encoder-decoder the texts are sources, and each has a target that the decoder reads.
 */
#include "cli/target.h"

#include "base/text.h"

#include <string.h>

typedef struct values {
    const char *model, *text, *file, *sites, *output;
    hsc__ids ids, segments;
    hsc__target_options target;
    hsc__layers layers;
    hsc__pass_options pass;
    int threads;
    int top_k; /* 0: not given */
    bool stats, no_special, parse_special, json;
} values;

enum { MAX_SEQS = 65536, MAX_TOP_K = 64 };

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    HSC__OPTION_HEADING("Input, one of"),
    {"text", 0, HSC__OPT_TEXT, "TEXT", offsetof(values, text), 0, 0, "One text."},
    {"file", 'f', HSC__OPT_TEXT, "FILE", offsetof(values, file), 0, 0,
     "A text a line, - for standard input; several lines run as packed sequences that do not see each other. An empty "
     "line is a text as well: what the tokenizer adds by itself, and an error where it adds nothing."},
    {"ids", 0, HSC__OPT_IDS, "IDS", offsetof(values, ids), 0, 0,
     "Token ids such as 1,2,3; the model needs no tokenizer."},
    {"segments", 0, HSC__OPT_IDS, "SEGMENTS", offsetof(values, segments), 0, 0,
     "With --ids: the segment of each, such as 0,0,1, for models like BERT. Default: all 0."},
    HSC__OPTIONS_TARGET(values, target),
    HSC__OPTION_HEADING("What to save, and where"),
    {"sites", 's', HSC__OPT_TEXT, "SITES", offsetof(values, sites), 0, 0,
     "A comma list such as pattern,resid_post,logits; 'help' lists them with shapes and meanings."},
    {"stats", 0, HSC__OPT_FLAG, NULL, offsetof(values, stats), 0, 0,
     "Save statistics of every head's attention (named above), with sites or instead of them."},
    {"top-k", 'k', HSC__OPT_INT, "K", offsetof(values, top_k), 1, MAX_TOP_K,
     "With --stats: how many of its heaviest keys a row keeps. Default: 8."},
    {"layers", 'l', HSC__OPT_LAYERS, "LAYERS", offsetof(values, layers), 0, 0,
     "L0-L11 or L4,L7 (from 0), or 5 (from 1). Default: every layer."},
    {"output", 'o', HSC__OPT_TEXT, "FILE", offsetof(values, output), 0, 0,
     "A .safetensors or .npz file; it appears when it is complete."},
    HSC__OPTION_HEADING("Otherwise"),
    HSC__OPTIONS_PASS(values, pass),
    HSC__OPTION_NO_SPECIAL(values, no_special),
    HSC__OPTION_PARSE_SPECIAL(values, parse_special),
    HSC__OPTION_THREADS(values, threads),
    HSC__OPTION_JSON(values, json),
};

static const hsc__command command = {
    .name = "run",
    .usage = "-m MODEL --text TEXT --sites SITES -o FILE\n-m MODEL (--file FILE | --ids IDS) --sites SITES -o "
             "FILE\n-m MODEL --text TEXT --stats [--top-k K] -o FILE\n--sites help",
    .about =
        "Runs the model and saves what chosen sites held, as float32 tensors that count layers from 0: pattern.4 "
        "[n_heads][n_query][n_key], resid_post.4 [n_pos][d_model], logits [n_pos][d_vocab], and always ids [n_pos] "
        "(int32). Of an encoder-decoder the texts are what its encoder reads: enc_pattern.4 and other enc_ sites, "
        "cross_pattern.4 [n_heads][n_query][n_source] and source_ids; the other names are the decoder's. With several "
        "texts every name ends in its sequence, from 0: pattern.4.seq0, pattern.4.seq1, "
        "logits.seq0, ids.seq0.\n"
        "--stats saves what each row of attention says, in memory that grows with the text's length and not with its "
        "square: stats.entropy.4 [n_heads][n_query] (in nats); stats.sink.4, stats.self.4, stats.prev.4 "
        "[n_heads][n_query] (weight on the first token, the token itself, the one before); stats.distance.4 "
        "[n_heads][n_query][bins] (bin 0 is the token itself, bin b the keys 2^(b-1) to 2^b - 1 away); "
        "stats.received.4 [n_heads][n_key] (weight that a key gets from all queries); stats.topk_key.4 (int32; -1 "
        "where fewer keys have weight) and stats.topk_weight.4 [n_heads][n_query][k], heaviest first.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope run -m gpt2 --text \"The animal is tired\" --sites pattern -o a.safetensors\n"
                "    every head's attention weights\n"
                "headscope run -m gpt2 --file texts.txt --sites resid_post,logits --layers L0-L5 -o a.npz\n"
                "    a text a line; load with numpy.load(\"a.npz\")[\"resid_post.0.seq0\"]\n"
                "headscope run -m gpt2 --file texts.txt --stats --top-k 16 --layers L5 -o a.npz\n"
                "    what every row of attention says in the sixth layer, however long the texts\n"
                "headscope run -m gpt-nano-sort --ids 0,0,2,1,0,1 --sites pattern,logits -o a.npz\n"
                "    a folder without a tokenizer",
    .encoder_decoders = true,
};

typedef struct job {
    const values *v;
    bool wanted[HSC_N_SITES];
    hsc__opened opened;
    hsc_session *session;
    hsc_token *ids; /* [n_tokens], the sequences end to end */
    size_t n_tokens, ids_capacity;
    int *lengths; /* [n_seqs] */
    size_t n_seqs, lengths_capacity;
    hsc_token *targets; /* of an encoder-decoder: [n_target_tokens], a sequence for each of ids */
    size_t n_target_tokens, targets_capacity;
    int *target_lengths; /* [n_seqs] */
    hsc_named_array *arrays;
    size_t n_arrays, arrays_capacity;
    hsc__arena names;
} job;

/* ------------------------------------------------------------------------------------------------------ sites ---- */

/* The meaning stands in a column of its own, or below where that would be narrow. */
static void describe_site(hsc__string *out, hsc_site site)
{
    enum { BEFORE = 55, BELOW = 6, NARROW = 40 };
    char name[32];
    hsc__string meaning = {0};
    int room = hsc__cli_width() - BEFORE, left = room >= NARROW ? BEFORE : BELOW;
    const char *words = hsc_site_meaning(site);
    snprintf(name, sizeof name, "%s%s", hsc_site_name(site), hsc_site_per_layer(site) ? ".L" : "");
    hsc__string_printf(out, left == BEFORE ? "  %-19s  %-30s" : "  %-19s  %s", name, hsc_site_shape(site));
    hsc__text_fold(&meaning, words, strlen(words), hsc__cli_width() - left, 0);
    for (const char *line = meaning.data; line && *line; line += strcspn(line, "\n") + (strchr(line, '\n') != NULL)) {
        bool beside = line == meaning.data && left == BEFORE;
        hsc__string_printf(out, "%s%*s%.*s", beside ? "" : "\n", beside ? 2 : left, "", (int)strcspn(line, "\n"), line);
    }
    if (meaning.failed) out->failed = true;
    hsc__string_text(out, "\n");
    hsc__string_free(&meaning);
}

static int print_sites(void)
{
    hsc__string out = {0};
    hsc__string_text(&out, "Sites, in the order of the pass; .L stands for a layer from 0.\n\n");
    for (int site = 0; site < HSC_N_SITES; site++) describe_site(&out, (hsc_site)site);
    hsc__string_text(
        &out, "\nn_pos = n_query = n_key: the tokens of the text. A model without rotation has no rot_q and rot_k, one "
              "without a gate no mlp_up, one without positions in the embedding no pos_embed. An encoder-decoder has "
              "three attentions: enc_ sites are the encoder's, over the n_source tokens of the text; cross_ ones what "
              "the decoder sees of these; the others the decoder's, over the target. Statistics of attention are no "
              "sites: --stats saves them.\n");
    return hsc__cli_show(&out);
}

static int unknown_site(const char *name)
{
    static const char *const names[] = {
#define SITE_NAME(id, name, per_layer, shape, meaning) name,
        HSC_SITE_LIST(SITE_NAME)
#undef SITE_NAME
    };
    const char *nearest = hsc__cli_nearest(name, names, sizeof names[0], HSC_N_SITES);
    if (nearest) return hsc__cli_misuse(&command, "--sites: unknown site '%s'; did you mean %s?", name, nearest);
    return hsc__cli_misuse(&command, "--sites: unknown site '%s'; --sites help lists them", name);
}

static int parse_sites(job *j)
{
    for (const char *text = j->v->sites;; text++) {
        char name[32];
        size_t n = strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name), text);
        hsc_site site = hsc_site_find(name);
        if (site == HSC_N_SITES) return unknown_site(name);
        j->wanted[site] = true;
        text += n;
        if (*text == '\0') return HSC__CLI_GO_ON;
    }
}

/* What the arguments alone can show. */
static int check(job *j)
{
    const values *v = j->v;
    int n_inputs = (v->text != NULL) + (v->file != NULL) + (v->ids.ids != NULL);
    if (!v->sites && !v->stats)
        return hsc__cli_misuse(&command, "no sites: --sites pattern,logits or --stats; --sites help lists them");
    int result = v->sites ? parse_sites(j) : HSC__CLI_GO_ON;
    if (result == HSC__CLI_GO_ON) result = hsc__target_check(&command, &v->target);
    if (result == HSC__CLI_GO_ON) result = hsc__pass_check(&command, &v->pass);
    if (result != HSC__CLI_GO_ON) return result;
    if (v->top_k && !v->stats) return hsc__cli_misuse(&command, "--top-k says how many keys --stats keeps");
    if (n_inputs != 1) return hsc__cli_misuse(&command, "exactly one of --text, --file and --ids is needed");
    if (v->segments.ids && v->segments.n != v->ids.n)
        return hsc__cli_misuse(&command, "--segments needs --ids and as many numbers");
    if (!v->output) return hsc__cli_misuse(&command, "no output: -o FILE.safetensors or -o FILE.npz");
    if (!hsc__ends_with(v->output, ".safetensors") && !hsc__ends_with(v->output, ".npz"))
        return hsc__cli_misuse(&command, "-o %s: the name must end in .safetensors or .npz", v->output);
    return HSC__CLI_GO_ON;
}

/* ------------------------------------------------------------------------------------------------------ input ---- */

static hsc_status add_sequence(job *j, const hsc_token *ids, size_t n, hsc_error *err)
{
    HSC_FAIL_IF(j->n_seqs == MAX_SEQS, HSC_EINVAL, "more than %d texts in one run", (int)MAX_SEQS);
    HSC_FAIL_IF(n > INT32_MAX - j->n_tokens, HSC_EINVAL, "more than %d tokens in one run", INT32_MAX);
    HSC_TRY(hsc__grow(&j->ids, &j->ids_capacity, j->n_tokens + n, sizeof *j->ids, err));
    HSC_TRY(hsc__grow(&j->lengths, &j->lengths_capacity, j->n_seqs + 1, sizeof *j->lengths, err));
    memcpy(j->ids + j->n_tokens, ids, n * sizeof *ids);
    j->n_tokens += n;
    j->lengths[j->n_seqs++] = (int)n;
    return HSC_OK;
}

static hsc_status add_text(job *j, const hsc_tokenizer *tokenizer, const char *text, size_t n, hsc_encoding *encoding,
                           hsc_error *err)
{
    unsigned flags = hsc__encode_flags(j->v->no_special, j->v->parse_special);
    HSC_TRY(hsc_encode(tokenizer, text, n, flags, encoding, err));
    HSC_FAIL_IF(encoding->n == 0, HSC_EINVAL, "the text is empty: it gives no token");
    return add_sequence(j, encoding->ids, encoding->n, err);
}

static hsc_status add_lines(job *j, const hsc_tokenizer *tokenizer, hsc_encoding *encoding, hsc_error *err)
{
    hsc__lines lines = {0};
    hsc_status status = hsc__lines_open(&lines, j->v->file, err);
    while (status == HSC_OK && hsc__lines_next(&lines))
        status = hsc__lines_did(&lines, add_text(j, tokenizer, lines.text, lines.n, encoding, err), err);
    if (status == HSC_OK && !lines.number) status = hsc__fail(err, HSC_EINVAL, 0, "%s: holds no text", j->v->file);
    hsc__lines_close(&lines);
    return status;
}

static hsc_status read_input(job *j, hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc_encoding encoding = {0};
    if (j->v->ids.ids) return add_sequence(j, j->v->ids.ids, j->v->ids.n, err);
    HSC_TRY(hsc__cli_tokenizer(&j->opened, &tokenizer, err));
    hsc_status status = j->v->file ? add_lines(j, tokenizer, &encoding, err)
                                   : add_text(j, tokenizer, j->v->text, strlen(j->v->text), &encoding, err);
    hsc_encoding_free(&encoding);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- pass ---- */

static hsc_status find_target(job *j, size_t seq, const hsc_token *source, hsc_error *err)
{
    hsc__tokens target = {0};
    hsc_status status =
        hsc__target_find(&j->opened, &j->v->target, &j->v->pass, j->v->threads, source, j->lengths[seq], &target, err);
    size_t n = target.encoding.n;
    if (status == HSC_OK && n > INT32_MAX - j->n_target_tokens)
        status = hsc__fail(err, HSC_EINVAL, 0, "more than %d tokens in one run", INT32_MAX);
    if (status == HSC_OK)
        status = hsc__grow(&j->targets, &j->targets_capacity, j->n_target_tokens + n, sizeof *j->targets, err);
    if (status == HSC_OK) {
        memcpy(j->targets + j->n_target_tokens, target.encoding.ids, n * sizeof *j->targets);
        j->n_target_tokens += n;
        j->target_lengths[seq] = (int)n;
    }
    hsc__tokens_free(&target);
    return status;
}

static hsc_status find_targets(job *j, hsc_error *err)
{
    size_t first = 0;
    HSC_TRY(hsc__target_allowed(&j->opened, &j->v->target, err));
    if (!hsc_model_encoder(j->opened.model)) return HSC_OK;
    HSC_FAIL_IF((j->v->target.text || j->v->target.ids.ids) && j->n_seqs > 1, HSC_EINVAL,
                "one target for %zu texts: without --target each gets what the model writes", j->n_seqs);
    j->target_lengths = hsc__calloc(j->n_seqs, sizeof *j->target_lengths);
    if (!j->target_lengths) return hsc__fail_memory(err, j->n_seqs * sizeof *j->target_lengths, "the targets");
    for (size_t i = 0; i < j->n_seqs; i++) {
        HSC_TRY(find_target(j, i, j->ids + first, err));
        first += (size_t)j->lengths[i];
    }
    return HSC_OK;
}

static hsc_status record_site(job *j, hsc_site site, hsc_error *err)
{
    int n_layers = hsc_model_site_layers(j->opened.model, site);
    HSC_FAIL_IF(!hsc_model_has_site(j->opened.model, site), HSC_EINVAL, "--sites: %s (%s) has no site '%s'",
                j->opened.name, j->opened.config->arch, hsc_site_name(site));
    for (int layer = 0; layer < n_layers; layer++) {
        if (hsc_site_per_layer(site) && !hsc__layers_have(&j->v->layers, layer)) continue;
        hsc_record record = {.site = site, .layer = layer, .head = -1, .query = -1};
        HSC_TRY(hsc_session_record(j->session, &record, err));
    }
    return HSC_OK;
}

/* Weights of one layer's maps of a site: [n_heads][n_query][n_key] of every sequence; 0 for a site that is no map. */
static double map_weights(const job *j, hsc_site site)
{
    const char *name = hsc_site_name(site);
    double n = 0;
    if (!hsc_site_is_map(site)) return 0;
    bool of_source = hsc_site_is_of_source(site), crosses = strncmp(name, "cross_", 6) == 0;
    for (size_t i = 0; i < j->n_seqs; i++) {
        int source = j->lengths[i], own = j->target_lengths ? j->target_lengths[i] : source;
        n += (double)(of_source ? source : own) * (of_source || crosses ? source : own);
    }
    return n * j->opened.config->n_heads;
}

static hsc_status check_room(const job *j, hsc_error *err)
{
    double n = 0, room = hsc__cli_room();
    for (int site = 0; site < HSC_N_SITES; site++) {
        int n_layers = j->wanted[site] ? hsc_model_site_layers(j->opened.model, (hsc_site)site) : 0;
        for (int layer = 0; layer < n_layers; layer++) {
            if (hsc__layers_have(&j->v->layers, layer)) n += map_weights(j, (hsc_site)site);
        }
    }
    HSC_FAIL_IF(n * (double)sizeof(float) > room, HSC_ENOMEM,
                "the maps of attention take %.1f GiB, more than this machine has to spare (%.1f GiB); --layers chooses "
                "fewer, --stats sums them up",
                n * (double)sizeof(float) / (1 << 30), room / (1 << 30));
    return HSC_OK;
}

/* A session collects one layer or all; with several of them the others are not saved. */
static hsc_status collect_stats(job *j, hsc_error *err)
{
    const hsc__layers *layers = &j->v->layers;
    bool one = layers->n == 1 && layers->range[0].first == layers->range[0].last;
    hsc_stats_options o = {.layer = one ? layers->range[0].first : -1, .top_k = j->v->top_k};
    return hsc_session_collect(j->session, &o, err);
}

static int longest_of(const int *lengths, size_t n)
{
    int longest = 0;
    for (size_t i = 0; i < n; i++) longest = lengths[i] > longest ? lengths[i] : longest;
    return longest;
}

/* An encoder-decoder's source first; the sites that are its own are recorded there. */
static hsc_status forward(job *j, hsc_error *err)
{
    bool reads_source = hsc_model_encoder(j->opened.model) != NULL;
    hsc_batch batch = {.ids = j->ids,
                       .n_tokens = (int)j->n_tokens,
                       .seq_lengths = j->lengths,
                       .n_seqs = (int)j->n_seqs,
                       .segments = j->v->segments.ids,
                       .logits = j->wanted[HSC_LOGITS] ? HSC_LOGITS_ALL : HSC_LOGITS_NONE};
    if (!reads_source) return hsc_forward(j->session, &batch, err);
    HSC_FAIL_IF(batch.segments, HSC_EINVAL, "--segments: %s has none", j->opened.name);
    HSC_TRY(hsc_session_read_source(j->session, &batch, err));
    batch.ids = j->targets;
    batch.n_tokens = (int)j->n_target_tokens;
    batch.seq_lengths = j->target_lengths;
    return hsc_forward(j->session, &batch, err);
}

static hsc_status pass(job *j, hsc_error *err)
{
    bool reads_source = hsc_model_encoder(j->opened.model) != NULL;
    int longest = longest_of(j->lengths, j->n_seqs), n_ctx = j->opened.config->n_ctx;
    HSC_FAIL_IF(!reads_source && longest > n_ctx, HSC_EINVAL,
                "the longest text has %d tokens, %s sees at most %d (its context)", longest, j->opened.name, n_ctx);
    hsc_session_options session = hsc__pass_session(&j->v->pass, j->v->threads,
                                                    reads_source ? longest_of(j->target_lengths, j->n_seqs) : longest);
    if (reads_source) session.max_source = longest;
    session.max_seqs = (int)j->n_seqs;
    HSC_TRY(hsc_session_new(&j->session, j->opened.model, &session, err));
    for (int site = 0; site < HSC_N_SITES; site++) {
        if (j->wanted[site]) HSC_TRY(record_site(j, (hsc_site)site, err));
    }
    if (j->v->stats) HSC_TRY(collect_stats(j, err));
    hsc__progress progress = {0};
    HSC_TRY(hsc__progress_watch(&progress, j->session, reads_source ? j->n_target_tokens : j->n_tokens, err));
    hsc_status status = forward(j, err);
    hsc_session_observe_clear(j->session); /* the progress lies on this function's stack */
    hsc__cli_progress_end();
    return status;
}

/* ----------------------------------------------------------------------------------------------------- output ---- */

/* "pattern.4.seq2"; layer -1: no layer. */
static hsc_status add_array(job *j, const hsc_named_array *array, const char *name, int layer, size_t seq,
                            hsc_error *err)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%s", name);
    if (layer >= 0) n += snprintf(text + n, sizeof text - (size_t)n, ".%d", layer);
    if (j->n_seqs > 1) n += snprintf(text + n, sizeof text - (size_t)n, ".seq%zu", seq);
    HSC_TRY(hsc__grow(&j->arrays, &j->arrays_capacity, j->n_arrays + 1, sizeof *j->arrays, err));
    hsc_named_array *added = &j->arrays[j->n_arrays];
    *added = *array;
    added->name = hsc__arena_strndup(&j->names, text, (size_t)n);
    if (!added->name) return hsc__fail_memory(err, (size_t)n + 1, "names of arrays");
    j->n_arrays++;
    return HSC_OK;
}

static hsc_status add_site(job *j, hsc_site site, size_t seq, hsc_error *err)
{
    bool per_layer = hsc_site_per_layer(site);
    int n_layers = hsc_model_site_layers(j->opened.model, site);
    for (int layer = 0; layer < n_layers; layer++) {
        if (per_layer && !hsc__layers_have(&j->v->layers, layer)) continue;
        hsc_view view;
        HSC_TRY(hsc_session_activation(j->session, site, layer, (int)seq, &view, err));
        hsc_named_array array = {.dtype = HSC_F32, .n_dims = view.n_dims, .data = view.data};
        memcpy(array.shape, view.shape, sizeof array.shape);
        HSC_TRY(add_array(j, &array, hsc_site_name(site), per_layer ? layer : -1, seq, err));
    }
    return HSC_OK;
}

/* The statistics of one layer; beside the weights of the heaviest keys stand their positions, in the same shape. */
static hsc_status add_stats(job *j, int layer, size_t seq, hsc_error *err)
{
    for (int stat = 0; stat < HSC_N_STATS; stat++) {
        hsc_view view;
        char name[32];
        HSC_TRY(hsc_session_stat(j->session, (hsc_stat)stat, layer, (int)seq, &view, err));
        hsc_named_array array = {.dtype = HSC_F32, .n_dims = view.n_dims, .data = view.data};
        memcpy(array.shape, view.shape, sizeof array.shape);
        snprintf(name, sizeof name, "stats.%s", hsc_stat_name((hsc_stat)stat));
        HSC_TRY(add_array(j, &array, name, layer, seq, err));
        if (stat != HSC_STAT_TOPK) continue;
        const int32_t *keys;
        HSC_TRY(hsc_session_topk_keys(j->session, layer, (int)seq, &keys, err));
        array.dtype = HSC_I32;
        array.data = keys;
        HSC_TRY(add_array(j, &array, "stats.topk_key", layer, seq, err));
    }
    return HSC_OK;
}

static hsc_status gather(job *j, hsc_error *err)
{
    size_t first = 0, first_target = 0;
    for (size_t seq = 0; seq < j->n_seqs; seq++) {
        hsc_named_array ids = {.dtype = HSC_I32, .n_dims = 1, .shape = {j->lengths[seq]}, .data = j->ids + first};
        HSC_TRY(add_array(j, &ids, j->targets ? "source_ids" : "ids", -1, seq, err));
        if (j->targets) {
            ids.shape[0] = j->target_lengths[seq];
            ids.data = j->targets + first_target;
            HSC_TRY(add_array(j, &ids, "ids", -1, seq, err));
            first_target += (size_t)j->target_lengths[seq];
        }
        for (int site = 0; site < HSC_N_SITES; site++) {
            if (j->wanted[site]) HSC_TRY(add_site(j, (hsc_site)site, seq, err));
        }
        for (int layer = 0; j->v->stats && layer < j->opened.config->n_layers; layer++) {
            if (hsc__layers_have(&j->v->layers, layer)) HSC_TRY(add_stats(j, layer, seq, err));
        }
        first += (size_t)j->lengths[seq];
    }
    return HSC_OK;
}

static int print_json(const job *j)
{
    json_t *arrays = json_array();
    for (size_t i = 0; i < j->n_arrays; i++) {
        const hsc_named_array *a = &j->arrays[i];
        json_array_append_new(arrays, json_pack("{s:s,s:s,s:o}", "name", a->name, "dtype", hsc_dtype_name(a->dtype),
                                                "shape", hsc__json_shape(a->shape, a->n_dims)));
    }
    json_t *output = hsc__json_set_text(json_object(), j->v->output, strlen(j->v->output));
    json_t *root = json_pack("{s:o}", "model", hsc__json_model(&j->opened));
    hsc__json_set_pass(root, &j->v->pass, j->opened.model);
    json_object_set(root, "output", json_object_get(output, "text"));
    json_object_set_new(root, "n_tokens", hsc__json_ids(j->lengths, j->n_seqs));
    json_object_set_new(root, "arrays", arrays);
    json_decref(output);
    return hsc__json_print(root);
}

static int print_text(const job *j)
{
    hsc__string out = {0};
    hsc__text_label(&out, j->v->output, strlen(j->v->output));
    hsc__string_printf(&out, ": %zu array%s of %zu text%s, %zu token%s (", j->n_arrays, HSC__PLURAL(j->n_arrays),
                       j->n_seqs, HSC__PLURAL(j->n_seqs), j->n_tokens, HSC__PLURAL(j->n_tokens));
    hsc__pass_describe(&out, &j->v->pass, j->opened.model);
    hsc__string_text(&out, ")\n");
    for (size_t i = 0; i < j->n_arrays; i++) {
        const hsc_named_array *a = &j->arrays[i];
        hsc__string_printf(&out, "  %-20s  %s ", a->name, hsc_dtype_name(a->dtype));
        for (int d = 0; d < a->n_dims; d++) hsc__string_printf(&out, "[%lld]", (long long)a->shape[d]);
        hsc__string_text(&out, "\n");
    }
    return hsc__cli_show(&out);
}

static hsc_status run(job *j, hsc_error *err)
{
    const hsc_config *encoder = hsc_model_encoder(j->opened.model);
    int n_layers = j->opened.config->n_layers;
    if (encoder && encoder->n_layers > n_layers) n_layers = encoder->n_layers;
    HSC_TRY(hsc__layers_check(&j->v->layers, n_layers, err));
    HSC_TRY(read_input(j, err));
    HSC_TRY(find_targets(j, err));
    HSC_TRY(check_room(j, err));
    HSC_TRY(pass(j, err));
    HSC_TRY(gather(j, err));
    hsc__cli_hold_interrupt(true);
    hsc_status status = hsc_write_arrays(j->v->output, j->arrays, j->n_arrays, err);
    hsc__cli_hold_interrupt(false);
    return status;
}

static void free_job(job *j)
{
    hsc_session_free(j->session);
    hsc__cli_close(&j->opened);
    hsc__free(j->ids);
    hsc__free(j->lengths);
    hsc__free(j->targets);
    hsc__free(j->target_lengths);
    hsc__free(j->arrays);
    hsc__arena_free(&j->names);
}

int hsc__cli_run(int argc, char **argv)
{
    values v = {0};
    job j = {.v = &v};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON && v.sites && strcmp(v.sites, "help") == 0) result = print_sites();
    if (result == HSC__CLI_GO_ON) result = check(&j);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, v.pass.dtype, true, &j.opened);
    if (result == HSC__CLI_GO_ON) {
        if (run(&j, &err) != HSC_OK) result = hsc__cli_fail(&err);
        else result = v.json ? print_json(&j) : print_text(&j);
    }
    free_job(&j);
    hsc__free(v.ids.ids);
    hsc__free(v.segments.ids);
    hsc__free(v.target.ids.ids);
    return result;
}
