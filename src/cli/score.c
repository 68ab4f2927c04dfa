/*
 * headscope score: log-probability and perplexity of a text, token by token if asked; and with --choices a benchmark of
 * questions with several answers, each answer scored by its likelihood.
 */
#include "cli/score.h"

#include <math.h>
#include <string.h>

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__score_options, model),
    HSC__OPTION_HEADING("What to score, one of TEXT and"),
    {"file", 'f', HSC__OPT_TEXT, "FILE", offsetof(hsc__score_options, file), 0, 0,
     "A text from a file; as from standard input, one line end at its end is not part of it."},
    {"ids", 0, HSC__OPT_IDS, "IDS", offsetof(hsc__score_options, ids), 0, 0,
     "Token ids such as 1,2,3; the model needs no tokenizer."},
    {"choices", 'c', HSC__OPT_TEXT, "FILE", offsetof(hsc__score_options, choices), 0, 0,
     "A benchmark, a JSON object a line: {\"prompt\": \"...\", \"choices\": [\"...\", ...], \"answer\": 0}. The "
     "choices "
     "follow the prompt as they are, so they begin with a blank where one is due; answer counts from 0 or is the text "
     "of a choice, and may be absent."},
    {"pairs", 0, HSC__OPT_TEXT, "FILE", offsetof(hsc__score_options, pairs), 0, 0,
     "Sentence pairs as scan and ablate read them: how often the model's answer is the right one."},
    {"target", 0, HSC__OPT_TEXT, "TEXT", offsetof(hsc__score_options, target.text), 0, 0,
     "Of an encoder-decoder (T5, BART, Marian): what is scored, about the text that it reads."},
    {"target-ids", 0, HSC__OPT_IDS, "IDS", offsetof(hsc__score_options, target.ids), 0, 0,
     "The same as ids, exactly these: the token that begins a target is the first of them."},
    HSC__OPTION_HEADING("How"),
    {"by", 0, HSC__OPT_CHOICE, "continuation|text", offsetof(hsc__score_options, by), 0, 0,
     "With --pairs: each candidate follows the text up to the query (default), or stands in the query's place and the "
     "whole text is scored."},
    {"limit", 0, HSC__OPT_INT, "N", offsetof(hsc__score_options, limit), 1, INT32_MAX,
     "With --pairs: the first N lines. Default: all."},
    {"seed", 0, HSC__OPT_INT, "N", offsetof(hsc__score_options, seed), 0, INT32_MAX,
     "Of the intervals of --pairs. Default: 0."},
    {"max-length", 0, HSC__OPT_INT, "N", offsetof(hsc__score_options, window), 2, INT32_MAX,
     "Tokens that one pass sees. Default: the model's context."},
    {"stride", 0, HSC__OPT_INT, "N", offsetof(hsc__score_options, stride), 1, INT32_MAX,
     "Tokens from one pass to the next: each token is scored once, with at least max-length - stride before it. "
     "Smaller "
     "is truer and slower. Default: half of max-length."},
    {"tokens", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__score_options, tokens), 0, 0,
     "A line a token: position, text, log-probability and probability."},
    HSC__OPTION_NO_SPECIAL(hsc__score_options, no_special),
    HSC__OPTION_PARSE_SPECIAL(hsc__score_options, parse_special),
    HSC__OPTION_JSON(hsc__score_options, json),
    {"csv", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__score_options, csv), 0, 0,
     "Print CSV with a line of names, then a line a token; with --choices a line a choice, with --pairs a line a "
     "text."},
    HSC__OPTION_HEADING("The passes"),
    HSC__OPTIONS_PASS(hsc__score_options, pass),
    HSC__OPTION_THREADS(hsc__score_options, threads),
};

const hsc__command hsc__score_command = {
    .name = "score",
    .usage = "-m MODEL TEXT [options]\n-m MODEL -              (standard input)\n-m MODEL --choices FILE.jsonl\n-m "
             "MODEL --pairs FILE [--by text]",
    .about =
        "How likely a text is: the log-probability of each token given those before it, in nats (natural logarithm), "
        "their sum, and the perplexity exp(-mean). The first token of all has nothing before it and is not counted.\n"
        "With --choices: which continuation of each prompt is likeliest, and how often that is the answer; by the sum "
        "of its log-probabilities, and by that sum for each byte and for each token of the choice.\n"
        "With --pairs: of two candidates, which one does the model take, in both wordings? A head of a model that "
        "guesses "
        "has no job, so ask this first.\n"
        "An encoder-decoder (T5, BART, Marian) is asked how likely --target is about the text: every token behind the "
        "one that begins a target counts, the token that ends it too. With --choices it reads the prompt and each "
        "choice is a target, without its end.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope score -m gpt2 \"The animal didn't cross the street\" --tokens\n"
                "    which words surprise the model\n"
                "headscope score -m gpt2 --file chapter.txt --stride 512\n"
                "    perplexity of a long text\n"
                "headscope score -m gpt2 --choices questions.jsonl --json\n"
                "    accuracy, and every choice's score\n"
                "headscope score -m gpt2 --pairs data/pairs/names.txt\n"
                "    does it know who comes next?\n"
                "headscope score -m t5-small \"translate English to German: Good day\" --target \"Guten Tag\"\n"
                "    how likely the translation is",
    .max_args = 1,
    .encoder_decoders = true,
};

/* What the arguments alone can show. */
static int check(const hsc__score_options *o, int n_texts)
{
    const hsc__command *command = &hsc__score_command;
    int n_inputs = n_texts + (o->file != NULL) + (o->ids.ids != NULL) + (o->choices != NULL) + (o->pairs != NULL);
    if (n_inputs == 0)
        return hsc__cli_misuse(command,
                               "no text: give TEXT, - for standard input, --file, --ids, --choices or --pairs");
    if (n_inputs > 1) return hsc__cli_misuse(command, "more than one of TEXT, --file, --ids, --choices and --pairs");
    if (o->json && o->csv) return hsc__cli_misuse(command, "--json and --csv: one of the two");
    if (o->csv && o->tokens) return hsc__cli_misuse(command, "--csv has a line a token: leave --tokens out");
    if ((o->by || o->limit || o->seed) && !o->pairs)
        return hsc__cli_misuse(command, "--by, --limit and --seed go with --pairs");
    bool target = o->target.text || o->target.ids.ids;
    if (o->choices && target) return hsc__cli_misuse(command, "--choices are targets: not with --target");
    if (o->pairs && (target || o->window || o->stride || o->tokens))
        return hsc__cli_misuse(command, "--pairs: not with --target, --max-length, --stride or --tokens");
    if (target && (o->window || o->stride))
        return hsc__cli_misuse(command, "a target is read whole: not with --max-length or --stride");
    if (hsc__target_check(command, &o->target) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (o->choices && (o->window || o->stride || o->tokens))
        return hsc__cli_misuse(command, "--choices reads each text whole: not with --max-length, --stride or --tokens");
    if (o->window && o->stride >= o->window)
        return hsc__cli_misuse(command, "--stride %d: it must be below --max-length %d", o->stride, o->window);
    return hsc__pass_check(command, &o->pass);
}

/* -------------------------------------------------------------------------------------------------------- text ---- */

typedef struct sums {
    double log_prob; /* of all tokens but the first */
    size_t n, n_bytes;
} sums;

/* Of a target the bytes are those of the text that was given; ids have none. */
static sums add_up(const hsc__score *j, const hsc__tokens *tokens, const double *log_probs)
{
    sums s = {0};
    for (size_t i = 1; i < tokens->encoding.n; i++) {
        const hsc_span *span = &tokens->encoding.spans[i];
        s.log_prob += log_probs[i];
        s.n_bytes += span->end - span->start;
        s.n++;
    }
    if (j->reads_source && j->o->target.text) s.n_bytes = strlen(j->o->target.text);
    return s;
}

static double mean(const sums *s)
{
    return s->n ? s->log_prob / (double)s->n : 0;
}

static int print_json(const hsc__score *j, const hsc__tokens *tokens, const double *log_probs)
{
    json_t *root = json_object(), *list = json_array();
    sums s = add_up(j, tokens, log_probs);
    for (size_t i = 0; i < tokens->encoding.n; i++) {
        json_t *token = hsc__json_token(tokens, (int)i);
        json_object_set_new(token, "id", json_integer(tokens->encoding.ids[i]));
        json_object_set_new(token, "log_prob", i ? hsc__json_number(log_probs[i]) : json_null());
        json_array_append_new(list, token);
    }
    json_object_set_new(root, "model", hsc__json_model(&j->opened));
    hsc__json_set_pass(root, &j->o->pass, j->opened.model);
    if (j->reads_source)
        json_object_set_new(root, "source", json_pack("{s:o}", "tokens", hsc__json_tokens(&j->source)));
    json_object_set_new(root, "n_scored", json_integer((json_int_t)s.n));
    json_object_set_new(root, "log_prob", hsc__json_number(s.log_prob));
    json_object_set_new(root, "perplexity", hsc__json_number(exp(-mean(&s))));
    if (s.n_bytes)
        json_object_set_new(root, "bits_per_byte", hsc__json_number(-s.log_prob / log(2) / (double)s.n_bytes));
    json_object_set_new(root, "tokens", list);
    return hsc__json_print(root);
}

static int print_csv(const hsc__score *j, const hsc__tokens *tokens, const double *log_probs)
{
    (void)j;
    hsc__string out = {0};
    hsc__string_text(&out, "position,id,token,log_prob\n");
    for (size_t i = 0; i < tokens->encoding.n; i++) {
        hsc__string_printf(&out, "%zu,%d,", i, (int)tokens->encoding.ids[i]);
        hsc__csv_field(&out, tokens->texts[i].bytes, tokens->texts[i].n);
        hsc__csv_number(&out, i ? log_probs[i] : NAN);
        hsc__string_text(&out, "\n");
    }
    return hsc__cli_write_string(&out);
}

static int print_text(const hsc__score *j, const hsc__tokens *tokens, const double *log_probs)
{
    hsc__string out = {0};
    sums s = add_up(j, tokens, log_probs);
    static const hsc__column columns[] = {{.head = "pos", .right = true},
                                          {.head = "token", .max_cells = 40, .least_cells = 12},
                                          {.head = "log p", .right = true},
                                          {.head = "p", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (size_t i = 0; j->o->tokens && i < tokens->encoding.n; i++) {
        hsc__string_printf(&table.cells, "%zu\t", i);
        hsc__text_repr(&table.cells, tokens->texts[i].bytes, tokens->texts[i].n);
        if (i) hsc__string_printf(&table.cells, "\t%.4f\t%.3g\t", log_probs[i], exp(log_probs[i]));
        else hsc__string_text(&table.cells, "\t-\t-\t");
    }
    if (j->o->tokens) hsc__cli_table(&out, &table);
    if (j->o->tokens) hsc__string_text(&out, "\n");
    hsc__string_printf(&out, "tokens scored    %zu\nlog-probability  %.4f nats\na token          %.4f nats\n", s.n,
                       s.log_prob, mean(&s));
    hsc__string_printf(&out, "perplexity       %.4f\n", exp(-mean(&s)));
    if (s.n_bytes) hsc__string_printf(&out, "a byte           %.4f bits\n", -s.log_prob / log(2) / (double)s.n_bytes);
    return hsc__cli_show(&out);
}

static int tell(void *user, int n_scored, int n)
{
    (void)user;
    if (n_scored < n) hsc__cli_progress("scoring: %d of %d tokens", n_scored, n);
    return 0;
}

/* What was given, as tokens. */
static hsc_status read_given(hsc__score *j, const char *argument, hsc__tokens *tokens, hsc_error *err)
{
    const hsc__score_options *o = j->o;
    const hsc_tokenizer *tokenizer;
    hsc__string text = {0};
    if (o->ids.ids) return hsc__tokens_from_ids(tokens, hsc_model_tokenizer(j->opened.model, NULL), &o->ids, err);
    HSC_TRY(hsc__cli_tokenizer(&j->opened, &tokenizer, err));
    hsc_status status = hsc__cli_read_text(argument, o->file, &text, err);
    if (status == HSC_OK)
        status = hsc__tokens_encode(tokens, tokenizer, text.data ? text.data : "", text.n,
                                    hsc__encode_flags(o->no_special, o->parse_special), err);
    hsc__string_free(&text);
    return status;
}

/* An encoder-decoder's text is the source; what is scored is the target. */
static hsc_status read_tokens(hsc__score *j, const char *argument, hsc__tokens *tokens, hsc_error *err)
{
    const hsc__score_options *o = j->o;
    HSC_TRY(hsc__target_allowed(&j->opened, &o->target, err));
    if (!j->reads_source) return read_given(j, argument, tokens, err);
    HSC_FAIL_IF(!o->target.text && !o->target.ids.ids, HSC_EINVAL,
                "%s is an encoder-decoder: --target is what is scored about the text", j->opened.name);
    HSC_TRY(read_given(j, argument, &j->source, err));
    HSC_FAIL_IF(j->source.encoding.n == 0, HSC_EINVAL, "the text is empty and %s adds no token of its own",
                j->opened.name);
    hsc__target_options target = o->target;
    target.with_end = true;
    return hsc__target_find(&j->opened, &target, &o->pass, o->threads, j->source.encoding.ids,
                            (int)j->source.encoding.n, tokens, err);
}

static hsc_status score_text(hsc__score *j, const hsc__tokens *tokens, double **log_probs, hsc_error *err)
{
    const hsc__score_options *o = j->o;
    size_t n = tokens->encoding.n;
    int n_ctx = j->opened.config->n_ctx, window = o->window ? o->window : n_ctx;
    HSC_FAIL_IF(n == 0, HSC_EINVAL, "the text is empty: there is nothing to score");
    HSC_FAIL_IF(n > INT32_MAX, HSC_EINVAL, "the text has %zu tokens, too many", n);
    HSC_FAIL_IF(window > n_ctx, HSC_EINVAL, "--max-length %d: %s sees at most %d (its context)", window, j->opened.name,
                n_ctx);
    HSC_FAIL_IF(o->stride >= window, HSC_EINVAL, "--stride %d: it must be below the %d tokens that a pass sees",
                o->stride, window);
    if (n <= (size_t)window) window = n < 2 ? 2 : (int)n; /* one pass, and a session of no more than it needs */
    hsc_session_options session = hsc__pass_session(&o->pass, o->threads, window);
    hsc_batch source = {.ids = j->source.encoding.ids, .n_tokens = (int)j->source.encoding.n};
    if (j->reads_source) session.max_source = source.n_tokens;
    HSC_TRY(hsc_session_new(&j->session, j->opened.model, &session, err));
    if (j->reads_source) HSC_TRY(hsc_session_read_source(j->session, &source, err));
    *log_probs = hsc__calloc(n, sizeof **log_probs);
    if (!*log_probs) return hsc__fail_memory(err, n * sizeof **log_probs, "the scores");
    hsc_score_options how = {.window = window, .stride = o->stride < window ? o->stride : 0, .tell = tell};
    return hsc_score(j->session, tokens->encoding.ids, (int)n, &how, *log_probs, err);
}

static int run_text(hsc__score *j, const char *argument)
{
    hsc__tokens tokens = {0};
    hsc_error err = {0};
    double *log_probs = NULL;
    hsc_status status = read_tokens(j, argument, &tokens, &err);
    if (status == HSC_OK) status = score_text(j, &tokens, &log_probs, &err);
    hsc__cli_progress_end();
    int result = status != HSC_OK ? hsc__cli_fail(&err)
                 : j->o->json     ? print_json(j, &tokens, log_probs)
                 : j->o->csv      ? print_csv(j, &tokens, log_probs)
                                  : print_text(j, &tokens, log_probs);
    hsc__free(log_probs);
    hsc__tokens_free(&tokens);
    return result;
}

int hsc__cli_score(int argc, char **argv)
{
    hsc__score_options o = {0};
    hsc__score j = {.o = &o};
    hsc__args args;
    int result = hsc__cli_parse(&hsc__score_command, argc, argv, &o, &args);
    if (result == HSC__CLI_GO_ON) result = check(&o, args.n);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&hsc__score_command, o.model, o.pass.dtype, true, &j.opened);
    j.reads_source = result == HSC__CLI_GO_ON && hsc_model_encoder(j.opened.model);
    if (result == HSC__CLI_GO_ON)
        result = o.pairs     ? hsc__score_pairs(&j)
                 : o.choices ? hsc__score_choices(&j)
                             : run_text(&j, args.n ? args.list[0] : NULL);
    hsc_session_free(j.session);
    hsc__cli_close(&j.opened);
    hsc__tokens_free(&j.source);
    hsc__free(o.ids.ids);
    hsc__free(o.target.ids.ids);
    return result;
}
