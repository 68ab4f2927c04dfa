/*
 * headscope chat: a conversation. After each turn the whole of it is rendered with the model's own template; what the
 * cache already holds of it is not read again. On a terminal there are prompts; through a pipe a line is a turn and
 * only replies are written. Ctrl-C stops a reply; at the prompt it asks for a second one.
 */
#include "cli/generate.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

typedef struct values {
    const char *model, *system, *once;
    hsc__sampling_options sampling;
    hsc__pass_options pass;
    int max_tokens, threads;
    bool show_template, json;
} values;

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    HSC__OPTION_HEADING("The conversation"),
    {"system", 0, HSC__OPT_TEXT, "TEXT", offsetof(values, system), 0, 0,
     "What the model is told before the conversation. Default: what its template says on its own."},
    {"once", 0, HSC__OPT_TEXT, "TEXT", offsetof(values, once), 0, 0, "Ask this, print the reply, and end."},
    {"max-tokens", 'n', HSC__OPT_INT, "N", offsetof(values, max_tokens), 0, INT32_MAX,
     "At most N tokens a reply; 0: until the context is full. Default: 1024."},
    {"show-template", 0, HSC__OPT_FLAG, NULL, offsetof(values, show_template), 0, 0,
     "Print the model's template and end."},
    HSC__OPTION_JSON(values, json),
    HSC__OPTION_HEADING("How a reply is chosen"),
    {"temperature", 'T', HSC__OPT_REAL, "T", offsetof(values, sampling.temperature), 0, 100,
     "Divide the logits by T and draw; 0 takes the likeliest token. Default: 0.7, and --top-p 0.95."},
    HSC__OPTIONS_SAMPLING(values, sampling),
    HSC__OPTION_HEADING("The passes"),
    HSC__OPTIONS_PASS_AUTO(values, pass),
    HSC__OPTION_THREADS(values, threads),
};

static const hsc__command command = {
    .name = "chat",
    .usage = "-m MODEL [--system TEXT] [options]\n-m MODEL --once TEXT\n-m MODEL < turns.txt",
    .about =
        "A conversation with a model that was taught to converse. Its own chat template, a Jinja program in its files, "
        "is run as transformers runs it; a model without one, or with one that needs what is not here, is refused.\n"
        "A line is a turn. A line that ends in a backslash goes on in the next; a line of three quotes (\"\"\") begins "
        "and ends a turn of many lines. Through a pipe it works the same, and only replies are printed.\n"
        "/help shows what else can be typed: /reset, /system TEXT, /exit. Ctrl-C stops a reply, Ctrl-D ends.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope chat -m SmolLM2-135M-Instruct.gguf\n"
                "    talk to it\n"
                "headscope chat -m SmolLM2-135M-Instruct.gguf --once \"Why is the sky blue?\" -T 0\n"
                "    one answer, always the same\n"
                "headscope chat -m SmolLM2-135M-Instruct.gguf --show-template\n"
                "    what the model was taught with",
};

typedef struct chat {
    const values *v;
    hsc__opened opened;
    const hsc_tokenizer *tokenizer;
    hsc_chat_template *template;
    hsc_session *session;
    hsc_token ends[HSC__GENERATE_MAX_ENDS];
    int n_ends;
    hsc_message *messages; /* owned texts */
    size_t n_messages, capacity;
    hsc_token *cached; /* what the session's sequence holds */
    size_t n_cached, cached_capacity;
    bool terminal;
    int turn;
    char input[4096];
    size_t n_input, at_input;
    bool input_begun, input_ended;
} chat;

/* ---------------------------------------------------------------------------------------------------- messages ---- */

static hsc_status add_message(chat *c, const char *role, const char *content, size_t n, hsc_error *err)
{
    HSC_TRY(hsc__grow(&c->messages, &c->capacity, c->n_messages + 1, sizeof *c->messages, err));
    char *copy = hsc__strndup(content, n);
    if (!copy) return hsc__fail_memory(err, n, "a message");
    c->messages[c->n_messages++] = (hsc_message){role, copy};
    return HSC_OK;
}

static void drop_messages(chat *c, size_t kept)
{
    while (c->n_messages > kept) hsc__free((char *)(uintptr_t)c->messages[--c->n_messages].content);
}

/* The conversation begins anew, with the system's message when there is one. */
static hsc_status begin(chat *c, const char *system, hsc_error *err)
{
    drop_messages(c, 0);
    c->n_cached = 0;
    hsc_session_reset(c->session);
    return system ? add_message(c, "system", system, strlen(system), err) : HSC_OK;
}

/* The whole conversation as tokens, up to where the reply begins. */
static hsc_status encode(const chat *c, hsc_encoding *out, hsc_error *err)
{
    int64_t n = hsc_chat_render(c->template, c->messages, c->n_messages, 1, NULL, 0, err);
    if (n < 0) return (hsc_status)n;
    char *text = hsc__malloc((size_t)n + 1);
    if (!text) return hsc__fail_memory(err, (size_t)n, "the conversation");
    int64_t again = hsc_chat_render(c->template, c->messages, c->n_messages, 1, text, (size_t)n, err);
    hsc_status status =
        again < 0 ? (hsc_status)again
                  : hsc_encode(c->tokenizer, text, (size_t)(again < n ? again : n), HSC_ENCODE_PARSE_SPECIAL, out, err);
    hsc__free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- reply ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/* Prints what is new. Blanks at the start are a matter of the template, not of the reply. */
static void print_fresh(const chat *c, const hsc_sample *s, bool *begun)
{
    size_t skip = 0;
    while (!*begun && skip < s->n_fresh && is_blank(s->fresh[skip])) skip++;
    *begun = *begun || skip < s->n_fresh;
    if (!c->v->json) hsc__cli_write(s->fresh + skip, s->n_fresh - skip);
    fflush(stdout);
}

/* What the session holds afterwards: the prompt and all written tokens but the last, which was not read. */
static hsc_status note_cache(chat *c, const hsc_encoding *prompt, const hsc_sample *s, hsc_error *err)
{
    size_t held = (size_t)hsc_session_length(c->session, 0), n = prompt->n + (size_t)s->n;
    c->n_cached = 0;
    HSC_TRY(hsc__grow(&c->cached, &c->cached_capacity, n, sizeof *c->cached, err));
    memcpy(c->cached, prompt->ids, prompt->n * sizeof *prompt->ids);
    memcpy(c->cached + prompt->n, s->ids, (size_t)s->n * sizeof *s->ids);
    c->n_cached = held < n ? held : n;
    return HSC_OK;
}

static int print_json(const chat *c, const hsc_encoding *prompt, const hsc_sample *s)
{
    json_t *root = hsc__json_sample(s->text, s->n_text, s->ids, s->n, s->finish, s->log_prob);
    json_object_set_new(root, "n_prompt", json_integer((json_int_t)prompt->n));
    json_object_set_new(root, "n_cached", json_integer((json_int_t)c->n_cached));
    hsc__json_set_pass(root, &c->v->pass, c->opened.model);
    return hsc__json_print(root);
}

static hsc_status write_reply(chat *c, hsc_generator *g, hsc_error *err)
{
    bool begun = false;
    while (hsc_generator_running(g) && !ferror(stdout)) {
        HSC_TRY(hsc_generator_next(g, err));
        if (hsc__cli_interrupted()) hsc_generator_stop(g);
        print_fresh(c, hsc_generator_sample(g, 0), &begun);
    }
    return HSC_OK;
}

static size_t shared_with_cache(const chat *c, const hsc_encoding *prompt)
{
    size_t n = 0;
    while (n < c->n_cached && n < prompt->n && c->cached[n] == prompt->ids[n]) n++;
    return n;
}

static hsc_status generate(chat *c, const hsc_encoding *prompt, hsc_error *err)
{
    hsc_generator *g = NULL;
    hsc__sampling_options sampling = c->v->sampling;
    if (sampling.temperature < 0 && sampling.top_p < 0) sampling.top_p = 0.95;
    size_t shared = shared_with_cache(c, prompt);
    hsc_generate_options how = {.sampling = hsc__cli_sampling(&sampling, 0.7),
                                .seed = (uint64_t)(sampling.seed + c->turn++),
                                .max_tokens = c->v->max_tokens,
                                .end_tokens = c->ends,
                                .n_end_tokens = c->n_ends,
                                .n_cached = (int)shared};
    int n_ctx = c->opened.config->n_ctx;
    HSC_FAIL_IF(prompt->n > (size_t)n_ctx, HSC_EINVAL,
                "the conversation has %zu token%s, %s sees at most %d (its context): /reset begins anew", prompt->n,
                HSC__PLURAL(prompt->n), c->opened.name, n_ctx);
    HSC_TRY(hsc_generator_new(&g, c->session, prompt->ids, (int)prompt->n, &how, err));
    hsc_status status = write_reply(c, g, err);
    const hsc_sample *s = hsc_generator_sample(g, 0);
    size_t from = 0, to = s->n_text;
    while (from < to && is_blank(s->text[from])) from++;
    if (status == HSC_OK) status = add_message(c, "assistant", s->text + from, to - from, err);
    if (status == HSC_OK) status = note_cache(c, prompt, s, err);
    if (status != HSC_OK) c->n_cached = 0;
    if (status == HSC_OK && c->v->json) print_json(c, prompt, s);
    else if (!c->v->json && s->n) hsc__cli_write("\n", 1);
    if (status == HSC_OK && s->finish == HSC_FINISH_CONTEXT)
        hsc__cli_note("the context of %d token%s is full; /reset begins anew", n_ctx, HSC__PLURAL(n_ctx));
    hsc_generator_free(g);
    return status;
}

/* One turn of the user's, and the reply. A turn that fails is taken back. */
static hsc_status answer(chat *c, const char *text, size_t n, hsc_error *err)
{
    size_t before = c->n_messages;
    hsc_encoding prompt = {0};
    hsc_status status = add_message(c, "user", text, n, err);
    if (status == HSC_OK) status = encode(c, &prompt, err);
    hsc__cli_hold_interrupt(true);
    if (status == HSC_OK) status = generate(c, &prompt, err);
    fflush(stdout);
    hsc__cli_forget_interrupt();
    hsc_encoding_free(&prompt);
    if (status != HSC_OK) drop_messages(c, before);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- input ---- */

/* Waits for input; false when Ctrl-C came meanwhile. */
static bool wait_for_input(const chat *c)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    (void)c;
    for (;;) {
        if (hsc__cli_interrupted()) return false;
        if (poll(&in, 1, 250) > 0) return true; /* a signal between the check and the wait is seen a moment later */
    }
}

typedef enum { LINE_READ, LINE_END, LINE_INTERRUPTED } line_result;

/* Appends a line without its end. */
static line_result read_line(chat *c, hsc__string *line)
{
    size_t before = line->n;
    for (;;) {
        const char *from = c->input + c->at_input, *end = memchr(from, '\n', c->n_input - c->at_input);
        size_t n = end ? (size_t)(end - from) : c->n_input - c->at_input;
        hsc__string_add(line, from, n);
        c->at_input += n + (end != NULL);
        if (end) break;
        if (c->input_ended) return line->n > before ? LINE_READ : LINE_END;
        if (!wait_for_input(c)) return LINE_INTERRUPTED;
        ssize_t got = read(STDIN_FILENO, c->input, sizeof c->input);
        c->input_ended = got <= 0;
        c->n_input = got > 0 ? (size_t)got : 0;
        c->at_input = c->input_begun ? 0 : hsc__text_mark(c->input, c->n_input);
        c->input_begun = true;
    }
    if (line->n > before && line->data[line->n - 1] == '\r') line->n--;
    return LINE_READ;
}

static void show_prompt(const chat *c, const char *prompt)
{
    if (!c->terminal) return;
    fflush(stdout);
    fputs(prompt, stderr);
    fflush(stderr);
}

/* From here on `turn` is one line, several joined by backslashes, or what stands between two lines of quotes. */
static line_result read_turn(chat *c, hsc__string *turn)
{
    static const char quotes[] = "\"\"\"";
    turn->n = 0;
    show_prompt(c, "> ");
    line_result result = read_line(c, turn);
    if (result != LINE_READ) return result;
    if (turn->n == 3 && memcmp(turn->data, quotes, 3) == 0) {
        hsc__string line = {0};
        for (turn->n = 0; result == LINE_READ;) {
            line.n = 0;
            show_prompt(c, ". ");
            result = read_line(c, &line);
            if (result != LINE_READ || (line.n == 3 && memcmp(line.data, quotes, 3) == 0)) break;
            if (turn->n) hsc__string_text(turn, "\n");
            hsc__string_add(turn, line.data, line.n);
        }
        hsc__string_free(&line);
        return result == LINE_END && turn->n ? LINE_READ : result;
    }
    while (result == LINE_READ && turn->n && turn->data[turn->n - 1] == '\\') {
        turn->data[turn->n - 1] = '\n';
        show_prompt(c, ". ");
        result = read_line(c, turn);
    }
    return result == LINE_END ? LINE_READ : result;
}

static bool is_command(const hsc__string *turn, const char *name)
{
    size_t n = strlen(name);
    return turn->n >= n && memcmp(turn->data, name, n) == 0 && (turn->n == n || turn->data[n] == ' ');
}

/* "/reset" and its like. Sets *ended for /exit. */
static hsc_status run_command(chat *c, const hsc__string *turn, bool *ended, hsc_error *err)
{
    if (is_command(turn, "/exit") || is_command(turn, "/quit")) *ended = true;
    else if (is_command(turn, "/reset")) {
        hsc__cli_note("the conversation begins anew");
        return begin(c, c->v->system, err);
    } else if (is_command(turn, "/system")) {
        char *text = turn->n > 8 ? hsc__strndup(turn->data + 8, turn->n - 8) : NULL;
        hsc_status status = begin(c, text, err);
        hsc__free(text);
        hsc__cli_note("the conversation begins anew, %s",
                      turn->n > 8 ? "with this said first" : "with nothing said first");
        return status;
    } else {
        if (!is_command(turn, "/help"))
            hsc__cli_error("unknown command; a turn that begins with '/' wants a blank before it");
        hsc__cli_hint("/reset         forget the conversation");
        hsc__cli_hint("/system TEXT   begin anew, with TEXT told to the model first");
        hsc__cli_hint("/exit          end; so does Ctrl-D");
        hsc__cli_hint("a \\ at the end of a line goes on in the next; a line of \"\"\" begins and ends many lines");
        hsc__cli_hint("Ctrl-C stops a reply");
    }
    return HSC_OK;
}

/* Turn after turn. Through a pipe the first failure ends it. */
static int converse(chat *c)
{
    hsc__string turn = {0};
    hsc_error err = {0};
    bool ended = false, warned = false;
    int result = HSC__EXIT_OK;
    if (c->terminal) hsc__cli_note("%s; /help shows what can be typed, /exit or Ctrl-D ends", c->opened.name);
    while (!ended && !ferror(stdout)) {
        hsc__cli_hold_interrupt(true);
        line_result line = read_turn(c, &turn);
        if (line == LINE_INTERRUPTED) {
            hsc__cli_forget_interrupt();
            if (warned || !c->terminal) {
                result = HSC__EXIT_INTERRUPTED;
                break;
            }
            fputs("\n", stderr);
            hsc__cli_note("Ctrl-C once more, or /exit, ends");
            warned = true;
            continue;
        }
        warned = false;
        if (line == LINE_END) break;
        if (turn.failed) result = hsc__cli_no_memory();
        if (result != HSC__EXIT_OK) break;
        if (!turn.n) continue;
        bool command_typed = turn.data[0] == '/';
        hsc_status status = command_typed ? run_command(c, &turn, &ended, &err) : answer(c, turn.data, turn.n, &err);
        if (status == HSC_OK) continue;
        result = hsc__cli_fail(&err);
        if (!c->terminal) break;
        result = HSC__EXIT_OK;
    }
    if (c->terminal && !ended) fputs("\n", stderr);
    hsc__cli_forget_interrupt();
    hsc__cli_hold_interrupt(false);
    hsc__string_free(&turn);
    return result;
}

/* -------------------------------------------------------------------------------------------------------- main ---- */

/* GGUF files often name only the end of a document; a turn's end is then known by its usual spellings. */
static void add_usual_ends(chat *c)
{
    static const char *const usual[] = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>",
                                        "<|end|>",    "<|eom_id|>", "<|eot|>"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual && c->n_ends < HSC__GENERATE_MAX_ENDS; i++) {
        hsc_token id = hsc_token_find(c->tokenizer, usual[i], strlen(usual[i]));
        bool known = id < 0 || !hsc_token_is_special(c->tokenizer, id);
        for (int k = 0; k < c->n_ends; k++) known = known || c->ends[k] == id;
        if (!known && strstr(hsc_chat_template_text(c->template), usual[i])) c->ends[c->n_ends++] = id;
    }
}

static hsc_status prepare(chat *c, hsc_error *err)
{
    hsc_status status = hsc_chat_template_open(&c->template, c->opened.model, err);
    if (status == HSC_ENOTFOUND) return hsc__fail_prefix(err, status, "no conversation is possible");
    HSC_TRY(status);
    HSC_TRY(hsc__cli_tokenizer(&c->opened, &c->tokenizer, err));
    int n = hsc_model_end_tokens(c->opened.model, c->ends, HSC__GENERATE_MAX_ENDS, err);
    if (n < 0) return (hsc_status)n;
    c->n_ends = n < HSC__GENERATE_MAX_ENDS ? n : HSC__GENERATE_MAX_ENDS;
    add_usual_ends(c);
    hsc_session_options session = hsc__pass_session(&c->v->pass, c->v->threads, 0);
    HSC_TRY(hsc_session_new(&c->session, c->opened.model, &session, err));
    return begin(c, c->v->system, err);
}

static int run(chat *c)
{
    hsc_error err = {0};
    hsc_status status = prepare(c, &err);
    if (status != HSC_OK) {
        int result = hsc__cli_fail(&err);
        if (status == HSC_ENOTFOUND)
            hsc__cli_hint("it may never have been taught to converse; 'headscope generate' writes on from any text");
        return result;
    }
    if (c->v->show_template) {
        const char *text = hsc_chat_template_text(c->template);
        hsc__cli_write(text, strlen(text));
        return hsc__cli_write("\n", 1);
    }
    if (hsc__note_unfollowed(&c->opened, &err) != HSC_OK) return hsc__cli_fail(&err);
    c->terminal = hsc__cli_terminal(stdin) && hsc__cli_terminal(stderr);
    if (!c->v->once) return converse(c);
    status = answer(c, c->v->once, strlen(c->v->once), &err);
    hsc__cli_hold_interrupt(false);
    return status == HSC_OK ? HSC__EXIT_OK : hsc__cli_fail(&err);
}

int hsc__cli_chat(int argc, char **argv)
{
    values v = {.sampling = HSC__SAMPLING_UNSET, .pass = {.compute = HSC_COMPUTE_AUTO}, .max_tokens = 1024};
    chat c = {.v = &v};
    hsc__args args;
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON && v.sampling.repetition == 0)
        result = hsc__cli_misuse(&command, "--repetition divides: it must be above 0");
    if (result == HSC__CLI_GO_ON) result = hsc__pass_check(&command, &v.pass);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, v.pass.dtype, true, &c.opened);
    if (result == HSC__CLI_GO_ON) result = run(&c);
    drop_messages(&c, 0);
    hsc__free(c.messages);
    hsc__free(c.cached);
    hsc_chat_template_free(c.template);
    hsc_session_free(c.session);
    hsc__cli_close(&c.opened);
    return result;
}
