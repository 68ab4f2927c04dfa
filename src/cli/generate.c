/*
 * headscope generate: writes on from a prompt. One sample streams as it is written; several are printed when each has
 * ended; beams at the end. --watch shows after each token where chosen heads looked when they wrote it.
 */
#include "cli/generate.h"

#include <string.h>
#include <time.h>

enum { UNSET = -1000 }; /* of an option that was not given */

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__generate_options, model),
    HSC__OPTION_HEADING("How the next token is chosen"),
    {"temperature", 'T', HSC__OPT_REAL, "T", offsetof(hsc__generate_options, sampling.temperature), 0, 100,
     "Divide the logits by T and draw; 0 takes the likeliest token. Default: 0, or 1 when a filter is given."},
    HSC__OPTIONS_SAMPLING(hsc__generate_options, sampling),
    HSC__OPTION_HEADING("How much, and when it ends"),
    {"max-tokens", 'n', HSC__OPT_INT, "N", offsetof(hsc__generate_options, max_tokens), 0, INT32_MAX,
     "Write at most N tokens; 0: until the model ends the text or the context is full. Default: what the files of an "
     "encoder-decoder say, else 128."},
    {"min-tokens", 0, HSC__OPT_INT, "N", offsetof(hsc__generate_options, min_tokens), 0, INT32_MAX,
     "Let the text not end before N tokens."},
    {"no-repeat", 0, HSC__OPT_INT, "N", offsetof(hsc__generate_options, no_repeat), 0, INT32_MAX,
     "Never write N tokens in a row that stand in the text already; 0: no such rule."},
    {"stop", 0, HSC__OPT_TEXTS, "TEXT", offsetof(hsc__generate_options, stops), 0, 0,
     "End before this text; may be given several times. Not with --beams."},
    {"ignore-end", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__generate_options, ignore_end), 0, 0,
     "Write on past the tokens with which the model ends a text."},
    {"slide", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__generate_options, slide), 0, 0,
     "When the context is full, go on with the first token and the newest half of the text, read anew."},
    {"samples", 's', HSC__OPT_INT, "N", offsetof(hsc__generate_options, n_samples), 1, 256,
     "N texts from one prompt; sample i (from 0) is what --seed SEED+i writes alone. With --beams: the N best."},
    {"beams", 'b', HSC__OPT_INT, "N", offsetof(hsc__generate_options, n_beams), 1, 64,
     "Beam search: follow the N likeliest texts instead of one. 1: no search."},
    {"length-penalty", 0, HSC__OPT_REAL, "X", offsetof(hsc__generate_options, length_penalty), -10, 10,
     "With --beams: a text's score is its log-probability divided by length to the power X. Default: 1."},
    {"early-stop", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__generate_options, early_stop), 0, 0,
     "With --beams: end when as many texts as beams have ended."},
    {"plain", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__generate_options, plain), 0, 0,
     "Take none of the rules that the files of an encoder-decoder have: greedy unless options say otherwise."},
    HSC__OPTION_HEADING("Where heads look as it writes"),
    {"watch", 'w', HSC__OPT_HEADS, "HEADS", offsetof(hsc__generate_options, watch), 0, 0,
     "L13H8, or a comma list: after each token, the tokens that these heads looked at when it was written. Arithmetic "
     "is then f32 unless --compute says otherwise."},
    {"top", 0, HSC__OPT_INT, "K", offsetof(hsc__generate_options, top), 1, HSC__GENERATE_MAX_TOP,
     "With --watch: the K heaviest. Default: 3."},
    {"include-first", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__generate_options, include_first), 0, 0,
     "With --watch: let the first token be among them. It draws weight that means nothing (a sink)."},
    HSC__OPTION_HEADING("Input and output"),
    {"file", 'f', HSC__OPT_TEXT, "FILE", offsetof(hsc__generate_options, file), 0, 0,
     "Read the prompt from a file; as from standard input, one line end at its end is not part of it."},
    {"ids", 0, HSC__OPT_IDS, "IDS", offsetof(hsc__generate_options, ids), 0, 0,
     "Token ids such as 1,2,3 instead of a text."},
    HSC__OPTION_NO_SPECIAL(hsc__generate_options, no_special),
    HSC__OPTION_PARSE_SPECIAL(hsc__generate_options, parse_special),
    {"show-special", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__generate_options, show_special), 0, 0,
     "Spell out special tokens that the model writes; they are left out otherwise."},
    {"echo", 'e', HSC__OPT_FLAG, NULL, offsetof(hsc__generate_options, echo), 0, 0,
     "Print the prompt before the text."},
    HSC__OPTION_JSON(hsc__generate_options, json),
    HSC__OPTION_HEADING("The passes"),
    HSC__OPTIONS_PASS_AUTO(hsc__generate_options, pass),
    HSC__OPTION_THREADS(hsc__generate_options, threads),
};

static const hsc__command command = {
    .name = "generate",
    .usage = "-m MODEL PROMPT [options]\n-m MODEL -              (standard input)",
    .about =
        "Writes on from a prompt, token by token, and prints the text as it comes. The likeliest token is taken each "
        "time unless a temperature or a filter asks for draws. The steps run in this order: repetition, presence and "
        "frequency, then temperature, top-k, top-p, min-p, typical; each sees what the one before left.\n"
        "An encoder-decoder (T5, BART, Marian) reads the text and writes another, such as its translation; --watch "
        "then shows where in the text that it read the heads of cross-attention look. What its generation_config.json "
        "(or config.json) says holds where no option says otherwise, as in transformers: num_beams, length_penalty, "
        "early_stopping, min_length, max_length, no_repeat_ngram_size, repetition_penalty, bad_words_ids and the "
        "tokens "
        "that it forces. A field that is not followed is told; --watch, --stop, --slide, draws and more samples than "
        "beams leave its beams out.\n"
        "It ends where the model ends the text, at a stop text, after --max-tokens, or when the context is full, which "
        "is told. Ctrl-C ends it with what was written.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope generate -m gpt2 \"The animal didn't cross the street because\"\n"
                "    the likeliest text\n"
                "headscope generate -m gpt2 \"Once upon a time\" -T 0.8 --top-p 0.95 --samples 3\n"
                "    three drawn ones, the same every time; --seed 3 gives three others\n"
                "headscope generate -m gpt2 \"The animal is tired. The animal\" -n 8 --watch L5H1,L5H5\n"
                "    what two heads look at while it writes\n"
                "headscope generate -m gpt2 \"Q: 2+2? A:\" --beams 4 --json\n"
                "    the best of four beams, as data",
    .max_args = 1,
    .encoder_decoders = true,
};

/* --------------------------------------------------------------------------------------------------- arguments ---- */

hsc_sampling hsc__cli_sampling(const hsc__sampling_options *o, double temperature)
{
    bool filters = o->top_k || o->top_p >= 0 || o->min_p >= 0 || o->typical >= 0;
    double least = 1e-30; /* a share of 0 keeps the likeliest token; to the library 0 means no filter */
    double t = o->temperature >= 0 ? o->temperature : temperature > 0 || !filters ? temperature : 1;
    hsc_sampling s = {.repetition = o->repetition > 0 ? (float)o->repetition : 0,
                      .presence = (float)o->presence,
                      .frequency = (float)o->frequency,
                      .temperature = (float)t,
                      .top_k = o->top_k};
    if (o->top_p >= 0) s.top_p = (float)(o->top_p > least ? o->top_p : least);
    if (o->min_p >= 0) s.min_p = (float)o->min_p;
    if (o->typical >= 0) s.typical_p = (float)(o->typical > least ? o->typical : least);
    return s;
}

/* 0.95 and not 0.949999988, which is the float nearest to it. */
static json_t *as_typed(float value)
{
    char text[32];
    double shown = (double)value;
    hsc__format_double(text, sizeof text, 6, shown);
    return hsc__json_number(hsc__parse_double(text, &shown) ? shown : (double)value);
}

json_t *hsc__json_sampling(const hsc_sampling *s, int seed)
{
    json_t *object = json_object();
    const struct {
        const char *name;
        float value, off;
    } steps[] = {{"repetition", s->repetition, 0},    {"presence", s->presence, 0}, {"frequency", s->frequency, 0},
                 {"temperature", s->temperature, -1}, {"top_p", s->top_p, 0},       {"min_p", s->min_p, 0},
                 {"typical", s->typical_p, 0}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].value != steps[i].off) json_object_set_new(object, steps[i].name, as_typed(steps[i].value));
    if (s->top_k) json_object_set_new(object, "top_k", json_integer(s->top_k));
    if (s->temperature > 0) json_object_set_new(object, "seed", json_integer(seed));
    return object;
}

static int check_beams(const hsc__generate_options *o)
{
    hsc_sampling s = hsc__cli_sampling(&o->sampling, 0);
    if (o->n_beams == 1 && (o->length_penalty != UNSET || o->early_stop))
        return hsc__cli_misuse(&command, "--length-penalty and --early-stop are about --beams N");
    if (o->n_beams < 2) return HSC__CLI_GO_ON;
    if (s.temperature > 0 || s.top_p > 0 || s.min_p > 0 || s.typical_p > 0 || s.top_k)
        return hsc__cli_misuse(&command, "--beams does not draw: not with a temperature or a filter");
    if (o->slide || o->stops.n || o->watch.n)
        return hsc__cli_misuse(&command, "--beams: not with --slide, --stop or --watch");
    if (o->n_samples > o->n_beams)
        return hsc__cli_misuse(&command, "--samples %d of %d beams: at most as many as beams", o->n_samples,
                               o->n_beams);
    return HSC__CLI_GO_ON;
}

/* What the arguments alone can show. */
static int check(const hsc__generate_options *o, int n_texts)
{
    int n_inputs = n_texts + (o->file != NULL) + (o->ids.ids != NULL);
    if (n_inputs == 0)
        return hsc__cli_misuse(&command, "no prompt: give PROMPT, - for standard input, --file or --ids");
    if (n_inputs > 1) return hsc__cli_misuse(&command, "more than one of PROMPT, --file and --ids");
    if (o->sampling.repetition == 0) return hsc__cli_misuse(&command, "--repetition divides: it must be above 0");
    if (!o->watch.n && (o->top != 3 || o->include_first))
        return hsc__cli_misuse(&command, "--top and --include-first are about --watch");
    if (o->watch.n && o->n_samples > 1)
        return hsc__cli_misuse(&command, "--watch follows one text: not with --samples");
    int result = check_beams(o);
    return result == HSC__CLI_GO_ON ? hsc__pass_check(&command, &o->pass) : result;
}

/* ------------------------------------------------------------------------------------------------------- input ---- */

/* What was given, as tokens. */
static hsc_status read_given(hsc__generate *g, const char *argument, hsc__tokens *out, hsc_error *err)
{
    const hsc__generate_options *o = g->o;
    const hsc_tokenizer *tokenizer = NULL;
    if (o->ids.ids) return hsc__tokens_from_ids(out, hsc_model_tokenizer(g->opened.model, NULL), &o->ids, err);
    HSC_TRY(hsc__cli_tokenizer(&g->opened, &tokenizer, err));
    HSC_TRY(hsc__cli_read_text(argument, o->file, &g->text, err));
    return hsc__tokens_encode(out, tokenizer, g->text.data ? g->text.data : "", g->text.n,
                              hsc__encode_flags(o->no_special, o->parse_special), err);
}

/* The file's beams do not go with these; beams that were asked for were checked before. */
static bool may_search(const hsc__generate *g)
{
    const hsc__generate_options *o = g->o;
    bool draws = hsc__cli_sampling(&o->sampling, 0).temperature > 0;
    return !draws && !o->slide && !o->stops.n && !o->watch.n && o->n_samples <= g->target.n_beams;
}

/* What the files say where no option does. */
static void take_rules(hsc__generate *g)
{
    const hsc_target *t = &g->target;
    hsc__generate_options *o = &g->own;
    if (o->plain) return;
    if (t->left_out) hsc__cli_note("%s: its %s is not followed", g->opened.name, t->left_out);
    bool searches = o->n_beams < 0 && t->n_beams > 1 && may_search(g);
    if (o->n_beams < 0 && t->n_beams > 1 && !searches)
        hsc__cli_note("%s: its num_beams (%d) is left out: the options ask for what beams cannot do", g->opened.name,
                      t->n_beams);
    if (searches) o->n_beams = t->n_beams;
    if (o->max_tokens < 0 && t->max_tokens) o->max_tokens = t->max_tokens;
    if (o->min_tokens < 0) o->min_tokens = t->min_tokens;
    if (o->no_repeat < 0) o->no_repeat = t->no_repeat;
    if (o->sampling.repetition < 0 && t->repetition > 0) o->sampling.repetition = (double)t->repetition;
    if (o->length_penalty == UNSET) o->length_penalty = (double)t->length_penalty;
    g->stop = t->stop;
    g->renormalise = t->renormalise;
}

/* What was asked for, what the files say, and what holds where neither says anything. */
static hsc_status settle(hsc__generate *g, hsc_error *err)
{
    hsc__generate_options *o = &g->own;
    bool searches = o->length_penalty != UNSET || o->early_stop;
    if (g->reads_source) take_rules(g);
    if (o->early_stop) g->stop = HSC_STOP_ENOUGH;
    HSC_FAIL_IF(searches && o->n_beams < 2, HSC_EINVAL, "--length-penalty and --early-stop are about --beams N");
    if (o->n_beams < 2) o->n_beams = 0;
    if (o->max_tokens < 0) o->max_tokens = 128;
    if (o->min_tokens < 0) o->min_tokens = 0;
    if (o->no_repeat < 0) o->no_repeat = 0;
    if (o->length_penalty == UNSET) o->length_penalty = 1;
    HSC_FAIL_IF(o->n_beams > HSC__GENERATE_MAX_BEAMS, HSC_EUNSUPPORTED, "%s: its num_beams is %d, at most %d are run",
                g->opened.name, o->n_beams, (int)HSC__GENERATE_MAX_BEAMS);
    return HSC_OK;
}

/* An encoder-decoder reads what was given and writes a text that begins as its files say. */
static hsc_status read_source(hsc__generate *g, const char *argument, hsc_error *err)
{
    const hsc__generate_options *o = g->o;
    HSC_FAIL_IF(o->echo, HSC_EINVAL, "--echo: %s writes a text of its own and not on from a prompt", g->opened.name);
    HSC_TRY(read_given(g, argument, &g->source, err));
    HSC_FAIL_IF(g->source.encoding.n == 0, HSC_EINVAL, "the text is empty and %s adds no token of its own",
                g->opened.name);
    HSC_TRY(hsc__source_fits(&g->opened, g->source.encoding.n, err));
    HSC_TRY(hsc_model_target(g->opened.model, &g->target, err));
    g->n_forced = g->target.n_start - 1;
    HSC_TRY(settle(g, err));
    HSC_FAIL_IF(o->max_tokens && o->max_tokens <= g->n_forced, HSC_EINVAL,
                "--max-tokens %d: %s begins with %d of its own", o->max_tokens, g->opened.name, g->n_forced);
    hsc__ids start = {g->target.start, (size_t)g->target.n_start};
    return hsc__tokens_from_ids(&g->prompt, hsc_model_target_tokenizer(g->opened.model, NULL), &start, err);
}

hsc_status hsc__note_unfollowed(const hsc__opened *opened, hsc_error *err)
{
    const char *rule;
    HSC_TRY(hsc_model_unfollowed(opened->model, &rule, err));
    if (rule) hsc__cli_note("%s: its %s is not followed: options alone decide", opened->name, rule);
    return HSC_OK;
}

static hsc_status read_prompt(hsc__generate *g, const char *argument, hsc_error *err)
{
    g->reads_source = hsc_model_encoder(g->opened.model) != NULL;
    HSC_TRY(g->reads_source ? read_source(g, argument, err) : read_given(g, argument, &g->prompt, err));
    if (!g->reads_source) {
        HSC_TRY(settle(g, err));
        HSC_TRY(hsc__note_unfollowed(&g->opened, err));
    }
    size_t n = g->prompt.encoding.n;
    int n_ctx = g->opened.config->n_ctx;
    HSC_FAIL_IF(n == 0, HSC_EINVAL,
                "the prompt is empty and %s adds no token of its own: there is nothing to go on from", g->opened.name);
    HSC_FAIL_IF(n > (size_t)n_ctx, HSC_EINVAL, "the prompt has %zu tokens, %s sees at most %d (its context)", n,
                g->opened.name, n_ctx);
    g->n_prompt = (int)n;
    return HSC_OK;
}

static hsc_status find_ends(hsc__generate *g, hsc_error *err)
{
    if (g->o->ignore_end) return HSC_OK;
    int n = hsc_model_end_tokens(g->opened.model, g->ends, HSC__GENERATE_MAX_ENDS, err);
    HSC_FAIL_IF(n > HSC__GENERATE_MAX_ENDS, HSC_EUNSUPPORTED, "%s: %d tokens end a text, at most %d are followed",
                g->opened.path, n, (int)HSC__GENERATE_MAX_ENDS);
    if (n < 0) return (hsc_status)n;
    g->n_ends = n;
    return HSC_OK;
}

static hsc_status check_heads(const hsc__generate *g, hsc_error *err)
{
    const hsc_config *c = g->opened.config;
    for (int i = 0; i < g->o->watch.n; i++) {
        HSC_TRY(hsc__place_check("--watch", "head", g->o->watch.list[i].layer, g->o->watch.list[i].head, c->n_layers,
                                 c->n_heads, err));
    }
    return HSC_OK;
}

static hsc_status make_session(hsc__generate *g, hsc_error *err)
{
    const hsc__generate_options *o = g->o;
    int64_t n_ctx = g->opened.config->n_ctx, most = (int64_t)g->n_prompt + o->max_tokens;
    hsc_session_options s =
        hsc__pass_session(&o->pass, o->threads, o->max_tokens && most < n_ctx ? (int)most : (int)n_ctx);
    s.max_seqs = o->n_beams ? 2 * o->n_beams : o->n_samples;
    if (!g->reads_source) return hsc_session_new(&g->session, g->opened.model, &s, err);
    s.max_source = (int)g->source.encoding.n;
    HSC_TRY(hsc_session_new(&g->session, g->opened.model, &s, err));
    hsc_batch source = {.ids = g->source.encoding.ids, .n_tokens = s.max_source};
    return hsc_session_read_source(g->session, &source, err);
}

static hsc_status prepare(hsc__generate *g, const char *argument, hsc_error *err)
{
    const hsc__generate_options *o = g->o;
    HSC_TRY(read_prompt(g, argument, err));
    HSC_TRY(find_ends(g, err));
    HSC_TRY(check_heads(g, err));
    HSC_TRY(make_session(g, err));
    if (o->n_beams) return HSC_OK;
    hsc_record records[HSC__MAX_HEADS];
    hsc_generate_options how = {.sampling = hsc__cli_sampling(&o->sampling, 0),
                                .seed = (uint64_t)o->sampling.seed,
                                .max_tokens = o->max_tokens ? o->max_tokens - g->n_forced : 0,
                                .min_tokens = o->min_tokens > g->n_forced ? o->min_tokens - g->n_forced : 0,
                                .no_repeat = o->no_repeat,
                                .n_samples = o->n_samples,
                                .end_tokens = g->ends,
                                .n_end_tokens = g->n_ends,
                                .stops = o->stops.list,
                                .n_stops = o->stops.n,
                                .show_special = o->show_special,
                                .slide = o->slide,
                                .keep = 1,
                                .records = records,
                                .n_records = hsc__watch_records(g, records),
                                .barred = g->target.barred,
                                .n_barred = g->target.n_barred,
                                .last = g->reads_source && g->target.last >= 0 ? &g->target.last : NULL};
    return hsc_generator_new(&g->generator, g->session, g->prompt.encoding.ids, g->n_prompt, &how, err);
}

/* ------------------------------------------------------------------------------------------------------ output ---- */

json_t *hsc__json_generate(const hsc__generate *g)
{
    json_t *root = json_object(), *prompt = json_object();
    hsc_sampling s = hsc__cli_sampling(&g->o->sampling, 0);
    json_object_set_new(root, "model", hsc__json_model(&g->opened));
    hsc__json_set_pass(root, &g->o->pass, g->opened.model);
    json_object_set_new(prompt, "tokens", hsc__json_tokens(&g->prompt));
    if (g->reads_source)
        json_object_set_new(root, "source", json_pack("{s:o}", "tokens", hsc__json_tokens(&g->source)));
    json_object_set_new(root, "prompt", prompt);
    json_object_set_new(root, "sampling", hsc__json_sampling(&s, g->o->sampling.seed));
    if (g->o->min_tokens) json_object_set_new(root, "min_tokens", json_integer(g->o->min_tokens));
    if (g->o->no_repeat) json_object_set_new(root, "no_repeat", json_integer(g->o->no_repeat));
    return root;
}

json_t *hsc__json_sample(const char *text, size_t n_text, const hsc_token *ids, int n_ids, hsc_finish finish,
                         double log_prob)
{
    json_t *object = hsc__json_set_text(json_object(), text, n_text);
    json_object_set_new(object, "ids", hsc__json_ids(ids, (size_t)n_ids));
    json_object_set_new(object, "finish", json_string(hsc_finish_name(finish)));
    json_object_set_new(object, "log_prob", hsc__json_number(log_prob));
    return object;
}

static int print_json(const hsc__generate *g)
{
    json_t *root = hsc__json_generate(g), *samples = json_array();
    int n = 0;
    for (int i = 0; i < g->o->n_samples; i++) {
        const hsc_sample *s = hsc_generator_sample(g->generator, i);
        n += s->n;
        json_array_append_new(samples, hsc__json_sample(s->text, s->n_text, s->ids, s->n, s->finish, s->log_prob));
    }
    json_object_set_new(root, "samples", samples);
    if (g->watched) json_object_set(root, "watch", g->watched);
    json_object_set_new(root, "seconds", hsc__json_number(g->seconds));
    json_object_set_new(root, "tokens_per_second", hsc__json_number(g->seconds > 0 ? n / g->seconds : 0));
    return hsc__json_print(root);
}

void hsc__generate_echo(const hsc__generate *g)
{
    if (!g->o->echo) return;
    hsc__cli_write(g->text.data, g->text.n);
    for (int i = 0; g->o->ids.ids && i < g->n_prompt; i++)
        hsc__cli_write(g->prompt.texts[i].bytes, g->prompt.texts[i].n);
}

/* Without a tokenizer a token is shown as its id. */
static void write_fresh(const hsc__generate *g, const hsc_sample *s)
{
    if (hsc_model_target_tokenizer(g->opened.model, NULL)) hsc__cli_write(s->fresh, s->n_fresh);
    else if (s->n_new) printf("%s%d", s->n > 1 ? " " : "", (int)s->ids[s->n - 1]);
    fflush(stdout);
}

static void write_whole(const hsc__generate *g, const hsc_sample *s)
{
    hsc__generate_echo(g);
    if (hsc_model_target_tokenizer(g->opened.model, NULL)) hsc__cli_write(s->text, s->n_text);
    else
        for (int i = 0; i < s->n; i++) printf("%s%d", i ? " " : "", (int)s->ids[i]);
    hsc__cli_write("\n", 1);
}

static void write_several(const hsc__generate *g)
{
    bool draws = hsc__cli_sampling(&g->o->sampling, 0).temperature > 0;
    for (int i = 0; i < g->o->n_samples; i++) {
        const hsc_sample *s = hsc_generator_sample(g->generator, i);
        printf("%s--- sample %d", i ? "\n" : "", i);
        if (draws) printf(" (seed %lld)", (long long)g->o->sampling.seed + i);
        printf(": %d token%s, %s\n", s->n, HSC__PLURAL(s->n), hsc_finish_name(s->finish));
        write_whole(g, s);
    }
}

static void say_end(const hsc__generate *g)
{
    for (int i = 0; i < g->o->n_samples; i++) {
        if (hsc_generator_sample(g->generator, i)->finish != HSC_FINISH_CONTEXT) continue;
        hsc__cli_note("the context of %d token%s is full; --slide writes on without the oldest half",
                      g->opened.config->n_ctx, HSC__PLURAL(g->opened.config->n_ctx));
        return;
    }
}

/* ---------------------------------------------------------------------------------------------------------- run ----
 */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static hsc_status step(hsc__generate *g, hsc_error *err)
{
    bool streams = g->o->n_samples == 1 && !g->o->json && !g->late;
    HSC_TRY(hsc_generator_next(g->generator, err));
    if (hsc__cli_interrupted()) hsc_generator_stop(g->generator);
    if (g->o->watch.n) HSC_TRY(hsc__watch_show(g, err));
    if (streams) write_fresh(g, hsc_generator_sample(g->generator, 0));
    if (g->o->n_samples > 1)
        hsc__cli_progress("writing: %d of %d texts run", hsc_generator_running(g->generator), g->o->n_samples);
    return HSC_OK;
}

/* Once the prompt is read, Ctrl-C ends the writing and not the program. */
static int run_samples(hsc__generate *g)
{
    hsc_error err = {0};
    hsc_status status = HSC_OK;
    double began = now();
    bool one = g->o->n_samples == 1 && !g->o->json;
    g->late = g->o->watch.n && hsc__cli_terminal(stderr) && hsc__cli_terminal(stdout);
    if (g->o->watch.n) hsc__watch_begin(g);
    if (one && !g->late) hsc__generate_echo(g);
    for (bool first = true; status == HSC_OK && hsc_generator_running(g->generator) && !ferror(stdout); first = false) {
        if (!first) hsc__cli_hold_interrupt(true);
        status = step(g, &err);
    }
    g->seconds = now() - began;
    bool interrupted = hsc__cli_interrupted();
    hsc__cli_progress_end();
    if (one && g->late) write_whole(g, hsc_generator_sample(g->generator, 0));
    else if (one && hsc_generator_sample(g->generator, 0)->n) hsc__cli_write("\n", 1);
    int result = status == HSC_OK ? HSC__EXIT_OK : hsc__cli_fail(&err);
    if (status == HSC_OK && g->o->json) result = print_json(g);
    else if (status == HSC_OK && !one) write_several(g);
    if (status == HSC_OK && !g->o->json) say_end(g);
    fflush(stdout);
    hsc__cli_forget_interrupt();
    hsc__cli_hold_interrupt(false);
    return interrupted && result == HSC__EXIT_OK ? HSC__EXIT_INTERRUPTED : result;
}

static int run(hsc__generate *g, const char *argument)
{
    hsc_error err = {0};
    if (prepare(g, argument, &err) != HSC_OK) return hsc__cli_fail(&err);
    if (hsc__pass_special(&g->o->pass, g->opened.model) && !g->o->json && hsc__cli_terminal(stderr)) {
        hsc__string how = {0};
        hsc__pass_describe(&how, &g->o->pass, g->opened.model);
        if (!how.failed) hsc__cli_note("%s", how.data);
        hsc__string_free(&how);
    }
    return g->o->n_beams ? hsc__generate_beams(g) : run_samples(g);
}

int hsc__cli_generate(int argc, char **argv)
{
    hsc__generate g = {.own = {.sampling = HSC__SAMPLING_UNSET,
                               .pass = {.compute = HSC__COMPUTE_UNSET},
                               .length_penalty = UNSET,
                               .max_tokens = UNSET,
                               .min_tokens = UNSET,
                               .no_repeat = UNSET,
                               .n_beams = UNSET,
                               .n_samples = 1,
                               .top = 3}};
    hsc__generate_options *o = &g.own;
    hsc__args args;
    g.o = o;
    int result = hsc__cli_parse(&command, argc, argv, o, &args);
    if (o->pass.compute == HSC__COMPUTE_UNSET) o->pass.compute = o->watch.n ? HSC_COMPUTE_F32 : HSC_COMPUTE_AUTO;
    if (result == HSC__CLI_GO_ON) result = check(o, args.n);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, o->model, o->pass.dtype, true, &g.opened);
    if (result == HSC__CLI_GO_ON) result = run(&g, args.n ? args.list[0] : NULL);
    json_decref(g.watched);
    hsc_generator_free(g.generator);
    hsc_session_free(g.session);
    hsc__tokens_free(&g.prompt);
    hsc__tokens_free(&g.source);
    hsc__string_free(&g.text);
    hsc__cli_close(&g.opened);
    hsc__free(o->ids.ids);
    return result;
}
