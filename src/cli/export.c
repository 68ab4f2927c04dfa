/*
 * headscope export: a site's rows over a corpus, for probes, with an index of texts and positions. Of an
 * encoder-decoder a line is a source, a tab and a target; a site of the source wants the source alone.
 */
#include "base/text.h"
#include "cli/heads.h"
#include "cli/target.h"
#include "headscope/analysis.h"

#include <errno.h>
#include <string.h>

typedef struct values {
    const char *model, *site, *out;
    hsc__layers layers;
    hsc__target_options target;
    int rows, threads, compute;
    bool no_special, parse_special, json;
} values;

#define OPTION(...) HSC__OPTION(values, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    OPTION("site", 0, HSC__OPT_TEXT, "SITE", site, 0, 0,
           "What is saved: resid_post (default), z, mlp_post, pattern, ...; `run --sites help` lists them."),
    OPTION("layer", 'l', HSC__OPT_LAYERS, "LAYER", layers, 0, 0, "One layer. Default: every layer, an array each."),
    OPTION("rows", 0, HSC__OPT_CHOICE, "all|last|mean", rows, 0, 0,
           "Of each text every token (default), the last one, or the mean over all but the first."),
    OPTION("output", 'o', HSC__OPT_TEXT, "FILE", out, 0, 0,
           ".npz: the arrays and the index; .npy: one layer's rows alone."),
    OPTION("target", 0, HSC__OPT_TEXT, "TEXT", target.text, 0, 0,
           "Of an encoder-decoder (T5, BART, Marian): the target of lines that bring none behind a tab."),
    OPTION("target-ids", 0, HSC__OPT_IDS, "IDS", target.ids, 0, 0,
           "The same as ids, exactly these: the token that begins a text is the first of them."),
    HSC__OPTION_COMPUTE(values, compute),
    HSC__OPTION_NO_SPECIAL(values, no_special),
    HSC__OPTION_PARSE_SPECIAL(values, parse_special),
    HSC__OPTION_THREADS(values, threads),
    HSC__OPTION_JSON(values, json),
};

static const hsc__command command = {
    .name = "export",
    .usage = "-m MODEL CORPUS -o FILE [--site SITE] [--layer LAYER]",
    .about =
        "Saves a site's activations over a corpus, a text a line, for a probe to be trained on. In an .npz stand "
        "resid_post.4 [rows][d_model] (layers from 0) and the index of the rows: text, the number of its line from 0, "
        "position and token.\n"
        "pattern and attn_scores are maps as large as the text. pattern.4 holds them end to end, and shape [texts][3] "
        "says what each is: heads, queries, keys. text has the lines' numbers, token all texts' ids end to end.\n"
        "The file is written as the texts go by: memory does not grow with the corpus. A text longer than the context "
        "is cut there, and a note says how many were.\n"
        "Of an encoder-decoder a line is a source, a tab and a target, which its decoder reads behind the token that "
        "begins a text: position 0. Sites of the source (enc_, cross_k, cross_v) have a row for each of the source's "
        "tokens, and position and token are the source's; they want no target. The others have a row for each of the "
        "target's. cross_pattern and cross_attn_scores are maps of target by source: token has the ids of the rows, "
        "source_token those of the columns.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope export -m gpt2 texts.txt --layer L6 --rows last -o last.npz\n"
                "    a row a line: numpy.load(\"last.npz\")[\"resid_post.6\"]\n"
                "headscope export -m gpt2 texts.txt --site mlp_post --layer L0 -o neurons.npz\n"
                "    every token's neurons\n"
                "headscope export -m opus-mt-en-de sources.txt --site enc_resid_post -o encoder.npz\n"
                "    what the encoder makes of every token of every line\n"
                "headscope export -m gpt2 texts.txt --site pattern --layer L5 -o maps.npz\n"
                "    z = numpy.load(\"maps.npz\"); ends = z[\"shape\"].prod(1, dtype=int).cumsum()\n"
                "    maps = [m.reshape(s) for m, s in zip(numpy.split(z[\"pattern.5\"], ends), z[\"shape\"])]",
    .min_args = 1,
    .max_args = 1,
    .missing = "the corpus is missing: a file with a text a line",
    .encoder_decoders = true,
};

/* The lines of a file, one at a time. */
typedef struct corpus {
    const char *path;
    FILE *file;
    const hsc__opened *opened;
    const hsc_tokenizer *tokenizer;
    unsigned flags;
    bool sources_only;   /* of an encoder-decoder: the site wants no target */
    hsc__ids all_target; /* the target of lines without one; ids NULL: there is none */
    hsc__string line;
    int32_t number; /* of the next line */
    hsc_encoding encoding;
    hsc__ids target; /* of the line in hand */
    hsc__counting counting;
} corpus;

static hsc_status reading_failed(const corpus *c, hsc_error *err)
{
    return hsc__fail(err, HSC_EIO, 0, "%s: cannot read: %s", c->path, strerror(errno));
}

/* The next line without its end; *is_end when there is none. A device may never end a line. */
static hsc_status read_line(corpus *c, int *is_end, hsc_error *err)
{
    int byte = 0;
    c->line.n = 0;
    errno = 0;
    while (!c->line.failed && c->line.n <= HSC__READ_LIMIT && (byte = getc_unlocked(c->file)) != EOF && byte != '\n')
        hsc__string_add(&c->line, &(char){(char)byte}, 1);
    if (ferror(c->file)) return reading_failed(c, err);
    HSC_FAIL_IF(c->line.failed, HSC_ENOMEM, "%s: out of memory", c->path);
    HSC_FAIL_IF(c->line.n > HSC__READ_LIMIT, HSC_EINVAL,
                "%s: has a line of more than %d bytes, the most that is read as one text", c->path,
                (int)HSC__READ_LIMIT);
    *is_end = byte == EOF && c->line.n == 0;
    size_t mark = c->number == 0 ? hsc__text_mark(c->line.data, c->line.n) : 0;
    if (mark) memmove(c->line.data, c->line.data + mark, c->line.n - mark);
    c->line.n -= mark;
    while (c->line.n && c->line.data[c->line.n - 1] == '\r') c->line.n--;
    return HSC_OK;
}

/* The target of a line of an encoder-decoder, from behind its tab where it has one. */
static hsc_status find_target(corpus *c, const char *tab, hsc_corpus_text *out, hsc_error *err)
{
    hsc__free(c->target.ids);
    c->target = (hsc__ids){0};
    HSC_FAIL_IF(!tab && !c->all_target.ids, HSC_EINVAL,
                "%s is an encoder-decoder: a source, a tab and a target are wanted, or --target for every line",
                c->opened->name);
    if (tab) {
        size_t n = c->line.n - (size_t)(tab + 1 - c->line.data);
        HSC_TRY(hsc__target_encode(c->opened, tab + 1, n, false, &c->target, NULL, err));
    }
    const hsc__ids *target = tab ? &c->target : &c->all_target;
    out->ids = target->ids;
    out->n_tokens = (int)target->n;
    return HSC_OK;
}

static hsc_status encode_line(corpus *c, hsc_corpus_text *out, hsc_error *err)
{
    bool reads_source = hsc_model_encoder(c->opened->model) != NULL;
    const char *tab = reads_source ? memchr(c->line.data, '\t', c->line.n) : NULL;
    size_t n = tab ? (size_t)(tab - c->line.data) : c->line.n;
    HSC_TRY(hsc_encode(c->tokenizer, c->line.data, n, c->flags, &c->encoding, err));
    if (!reads_source) {
        out->ids = c->encoding.ids;
        out->n_tokens = (int)c->encoding.n;
        return HSC_OK;
    }
    out->source = c->encoding.ids;
    out->n_source = (int)c->encoding.n;
    return c->sources_only ? HSC_OK : find_target(c, tab, out, err);
}

static hsc_status next_line(void *user, int64_t index, hsc_corpus_text *out, int *is_end, hsc_error *err)
{
    corpus *c = user;
    if (index == 0) {
        if (fseeko(c->file, 0, SEEK_SET) != 0) return reading_failed(c, err);
        c->number = 0;
    }
    HSC_FAIL_IF(hsc__cli_interrupted(), HSC_ECANCELED, "stopped at text %lld", (long long)index);
    for (;;) {
        HSC_TRY(read_line(c, is_end, err));
        if (*is_end) return HSC_OK;
        *out = (hsc_corpus_text){.label = c->number++};
        if (!c->line.n) continue;
        hsc_status status = encode_line(c, out, err);
        return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s: line %d", c->path, c->number);
    }
}

static int tell(void *user, int64_t n_done, int64_t n_all)
{
    corpus *c = user;
    return hsc__counting_tell(&c->counting, (int)n_done, (int)n_all);
}

static hsc_status open_corpus(const values *v, const hsc__opened *opened, corpus *c, hsc_error *err)
{
    const hsc__target_options *target = &v->target;
    HSC_TRY(hsc__target_allowed(opened, target, err));
    HSC_TRY(hsc__cli_tokenizer(opened, &c->tokenizer, err));
    c->opened = opened;
    c->flags = hsc__encode_flags(v->no_special, v->parse_special);
    c->sources_only = hsc_site_is_of_source(hsc_site_find(v->site)) != 0;
    if (target->text)
        HSC_TRY(hsc__target_encode(opened, target->text, strlen(target->text), false, &c->all_target, NULL, err));
    else c->all_target = target->ids;
    c->file = fopen(c->path, "rb");
    HSC_FAIL_IF(!c->file, errno == ENOENT ? HSC_ENOTFOUND : HSC_EIO, "%s: cannot open: %s", c->path, strerror(errno));
    c->counting = (hsc__counting){.path = c->path, .thing = "text", .unit = "texts", .per_thing = 1};
    hsc__counting_start(&c->counting);
    return HSC_OK;
}

static hsc_status run(const values *v, const hsc__opened *opened, corpus *c, hsc_export_counts *counts, hsc_error *err)
{
    hsc_site site = hsc_site_find(v->site);
    hsc_export_options o = {.n_threads = v->threads,
                            .compute = (hsc_compute)v->compute,
                            .site = site,
                            .layer = v->layers.n ? v->layers.range[0].first : -1,
                            .rows = (hsc_export_rows)v->rows,
                            .room = hsc__cli_room(),
                            .next = next_line,
                            .user = c,
                            .tell = tell};
    HSC_FAIL_IF(!hsc_model_has_site(opened->model, site), HSC_EINVAL, "--site: %s (%s) has no site '%s'", opened->name,
                opened->config->arch, v->site);
    HSC_TRY(hsc__layers_check(&v->layers, hsc_model_site_layers(opened->model, site), err));
    HSC_TRY(open_corpus(v, opened, c, err));
    hsc__cli_hold_interrupt(true);
    hsc_status status = hsc_export(opened->model, v->out, &o, counts, err);
    hsc__cli_progress_end();
    hsc__cli_hold_interrupt(false);
    return status;
}

static int check(const values *v)
{
    if (!v->out) return hsc__cli_misuse(&command, "-o FILE says where to");
    if (!hsc__ends_with(v->out, ".npz") && !hsc__ends_with(v->out, ".npy"))
        return hsc__cli_misuse(&command, "-o %s: the name must end in .npz or .npy", v->out);
    hsc_site site = hsc_site_find(v->site);
    if (site == HSC_N_SITES) return hsc__cli_misuse(&command, "--site: unknown site '%s'", v->site);
    if (v->layers.n > 1 || (v->layers.n && v->layers.range[0].first != v->layers.range[0].last))
        return hsc__cli_misuse(&command, "--layer takes one layer; without it every layer is saved");
    if (v->layers.n && !hsc_site_per_layer(site))
        return hsc__cli_misuse(&command, "--layer: %s exists once in a model", v->site);
    if (hsc_site_is_of_source(site) && (v->target.text || v->target.ids.ids))
        return hsc__cli_misuse(&command, "--target: %s is what is made of the source, before a target is read",
                               v->site);
    return hsc__target_check(&command, &v->target);
}

static void note_cuts(const values *v, const hsc__opened *opened, const hsc_export_counts *counts)
{
    const hsc_config *encoder = hsc_model_encoder(opened->model);
    char contexts[64];
    if (!counts->n_cut) return;
    if (!encoder) snprintf(contexts, sizeof contexts, "%d tokens", opened->config->n_ctx);
    else if (hsc_site_is_of_source(hsc_site_find(v->site)))
        snprintf(contexts, sizeof contexts, "the encoder, %d tokens", encoder->n_ctx);
    else
        snprintf(contexts, sizeof contexts, "the encoder or the decoder, %d and %d tokens", encoder->n_ctx,
                 opened->config->n_ctx);
    hsc__cli_note("%lld of %lld text%s %s cut at the context of %s", (long long)counts->n_cut,
                  (long long)counts->n_texts, HSC__PLURAL(counts->n_texts), counts->n_cut == 1 ? "was" : "were",
                  contexts);
}

static int print(const values *v, const hsc__opened *opened, const hsc_export_counts *counts)
{
    note_cuts(v, opened, counts);
    if (v->json)
        return hsc__json_print(json_pack("{s:o,s:s,s:s,s:s,s:I,s:I,s:I}", "model", hsc__json_model(opened), "compute",
                                         hsc_compute_name((hsc_compute)v->compute), "site", v->site, "file", v->out,
                                         "n_texts", (json_int_t)counts->n_texts, "n_rows", (json_int_t)counts->n_rows,
                                         "n_cut", (json_int_t)counts->n_cut));
    hsc__string out = {0};
    hsc__string_printf(&out, "%s: %lld row%s of %s over %lld text%s of %s, compute %s\n", v->out,
                       (long long)counts->n_rows, HSC__PLURAL(counts->n_rows), v->site, (long long)counts->n_texts,
                       HSC__PLURAL(counts->n_texts), opened->name, hsc_compute_name((hsc_compute)v->compute));
    return hsc__cli_show(&out);
}

int hsc__cli_export(int argc, char **argv)
{
    values v = {.site = "resid_post"};
    hsc__opened opened = {0};
    hsc__args args;
    hsc_error err = {0};
    corpus c = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&v);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, 0, true, &opened);
    if (result == HSC__CLI_GO_ON) {
        hsc_export_counts counts;
        c.path = args.list[0];
        hsc_status status = run(&v, &opened, &c, &counts, &err);
        result = status == HSC_OK ? print(&v, &opened, &counts) : hsc__cli_fail(&err);
    }
    if (c.file) fclose(c.file);
    hsc__string_free(&c.line);
    hsc_encoding_free(&c.encoding);
    hsc__free(c.target.ids);
    if (v.target.text) hsc__free(c.all_target.ids);
    hsc__free(v.target.ids.ids);
    hsc__cli_close(&opened);
    return result;
}
