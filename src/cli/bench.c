/*
 * headscope bench: how many tokens a second a model takes in (pp) and gives out (tg), at a depth of cache, while
 * nothing, statistics or every pattern is kept; or how fast its tokenizer is. Token ids are random but always the same,
 * so no text is tokenised. Only the passes are timed: opening, filling the cache to the depth and one warm-up are not.
 */
#include "cli/shared.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { DEFAULT_PROMPT = 512, DEFAULT_GENERATE = 128, DEFAULT_REPEATS = 5, WARMUP_TOKENS = 16, NAME_CELLS = 36 };

typedef enum { CAPTURE_NONE, CAPTURE_STATS, CAPTURE_PATTERNS, N_CAPTURES } capture;
static const char *const capture_names[N_CAPTURES] = {"none", "stats", "patterns"};
static const char *const logits_names[] = {"last", "all", "none"}; /* by hsc_logits_rows */

typedef struct values {
    const char *model, *prompts, *generate, *depths, *threads, *captures, *tokenize;
    int repeats, logits, compute, dtype;
    bool no_warmup, json;
} values;

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    HSC__OPTION_HEADING("Tests; each takes a comma list"),
    {"prompt", 'p', HSC__OPT_TEXT, "N", offsetof(values, prompts), 0, 0,
     "Tokens that go through in one pass: ppN. 0: no such test. Default: 512."},
    {"generate", 'n', HSC__OPT_TEXT, "N", offsetof(values, generate), 0, 0,
     "Tokens that are chosen greedily, one a pass: tgN. 0: no such test. Default: 128."},
    {"depth", 'd', HSC__OPT_TEXT, "N", offsetof(values, depths), 0, 0,
     "Tokens that the cache holds before. Default: 0."},
    {"threads", 't', HSC__OPT_TEXT, "N", offsetof(values, threads), 0, 0, "Threads. Default: what the system allows."},
    {"capture", 'c', HSC__OPT_TEXT, "WHAT", offsetof(values, captures), 0, 0,
     "What is kept of attention in every layer: none, stats (all statistics) or patterns (every weight). Default: "
     "none."},
    HSC__OPTION_HEADING("How"),
    {"repeat", 'r', HSC__OPT_INT, "N", offsetof(values, repeats), 1, 10000,
     "Repetitions of each test; the median, the least and the most are shown. Default: 5."},
    {"logits", 0, HSC__OPT_CHOICE, "last|all|none", offsetof(values, logits), 0, 0,
     "Which tokens of a prompt go through the output matrix. Default: last."},
    HSC__OPTION_COMPUTE(values, compute),
    HSC__OPTION_DTYPE(values, dtype),
    {"no-warmup", 0, HSC__OPT_FLAG, NULL, offsetof(values, no_warmup), 0, 0,
     "Time the first pass too, which finds cold caches and untouched memory."},
    {"tokenize", 0, HSC__OPT_TEXT, "FILE", offsetof(values, tokenize), 0, 0,
     "Instead of the model time its tokenizer: the whole file in one piece, on one thread."},
    {"json", 0, HSC__OPT_FLAG, NULL, offsetof(values, json), 0, 0, "Print JSON: an array with an object a test."},
};

static const hsc__command command = {
    .name = "bench",
    .usage = "-m MODEL [-p N] [-n N] [-d N] [-t N] [-r N] [--capture WHAT]\n-m MODEL --tokenize FILE",
    .about = "Measures how many tokens a second go through a model, with and without a view of its attention. The ids "
             "are random but always the same; opening the model, filling the cache and one warm-up are not timed. "
             "Peak memory is that of the process during the test, weights in use included.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope bench -m gpt2\n"
                "    pp512 and tg128\n"
                "headscope bench -m gpt2 -p 64,256,1024 -n 0 --capture none,stats,patterns\n"
                "    what looking costs\n"
                "headscope bench -m SmolLM2-135M-Instruct.Q4_1.gguf -d 0,2048 --json\n"
                "    with an empty cache and with 2,048 tokens in it",
};

typedef struct test {
    bool generates;
    int n_tokens, depth, threads;
    capture capture;
} test;

typedef struct outcome {
    double median, min, max; /* tokens or megabytes a second */
    double peak_mb;
    int threads;
    hsc_compute compute;
} outcome;

typedef struct job {
    const values *v;
    hsc__ids prompts, generate, depths, threads;
    bool captures[N_CAPTURES];
    hsc__opened opened;
    const char *dtype; /* of most weights */
    hsc_token *ids;    /* as many as the longest test takes */
    double *rates;     /* [repeats] */
    int name_cells;
    json_t *results;
} job;

/* -------------------------------------------------------------------------------------------------- measuring ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Lets the peak begin anew where the system can (Linux); elsewhere it stays that of the whole process. */
static void reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

/* The most memory that was resident since reset_peak, in megabytes. */
static double peak_mb(void)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmHWM:", 6) == 0) kib = (double)strtol(line + 6, NULL, 10);
    }
    if (file) fclose(file);
    if (kib > 0) return kib * 1024 * 1e-6;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
    return (double)usage.ru_maxrss * 1e-6;
#else
    return (double)usage.ru_maxrss * 1024 * 1e-6;
#endif
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the rates. */
static void summarise(double *rates, int n, outcome *out)
{
    qsort(rates, (size_t)n, sizeof *rates, compare);
    out->median = n % 2 ? rates[n / 2] : (rates[n / 2 - 1] + rates[n / 2]) / 2;
    out->min = rates[0];
    out->max = rates[n - 1];
    out->peak_mb = peak_mb();
}

static hsc_status watch(hsc_session *session, capture what, hsc_error *err)
{
    if (what == CAPTURE_STATS) return hsc_session_collect(session, &(hsc_stats_options){.layer = -1}, err);
    if (what == CAPTURE_NONE) return HSC_OK;
    return hsc_session_record(session, &(hsc_record){.site = HSC_PATTERN, .layer = -1, .head = -1, .query = -1}, err);
}

static hsc_status pass(hsc_session *session, const hsc_token *ids, int n, hsc_logits_rows logits, hsc_error *err)
{
    return hsc_forward(session, &(hsc_batch){.ids = ids, .n_tokens = n, .logits = logits}, err);
}

/* The token of the largest logit, the lowest of equal ones. A logit that is not a number has no largest. */
static hsc_status likeliest(const hsc_view *logits, hsc_token *out, hsc_error *err)
{
    int64_t best = 0;
    for (int64_t i = 0; i < logits->shape[1]; i++) {
        HSC_FAIL_IF(isnan(logits->data[i]), HSC_EFORMAT,
                    "the model's logits are not numbers: that of token %lld is NaN", (long long)i);
        if (logits->data[i] > logits->data[best]) best = i;
    }
    *out = (hsc_token)best;
    return HSC_OK;
}

static hsc_status generate(hsc_session *session, hsc_token id, int n, hsc_error *err)
{
    for (int i = 0; i < n; i++) {
        hsc_view logits;
        HSC_TRY(pass(session, &id, 1, HSC_LOGITS_LAST, err));
        HSC_TRY(hsc_session_logits(session, &logits, err));
        HSC_TRY(likeliest(&logits, &id, err));
    }
    return HSC_OK;
}

/* One timed run of n tokens after the first `depth`. */
static hsc_status run_once(const job *j, const test *t, hsc_session *session, int n, double *rate, hsc_error *err)
{
    const hsc_token *ids = j->ids + t->depth;
    if (t->depth) HSC_TRY(hsc_session_truncate(session, 0, t->depth, err));
    else hsc_session_reset(session);
    double start = seconds();
    if (t->generates) HSC_TRY(generate(session, ids[0], n, err));
    else HSC_TRY(pass(session, ids, n, (hsc_logits_rows)j->v->logits, err));
    *rate = n / (seconds() - start);
    return HSC_OK;
}

static hsc_status repeat(const job *j, const test *t, hsc_session *session, hsc_error *err)
{
    double unused;
    int few = t->generates && t->n_tokens > WARMUP_TOKENS ? WARMUP_TOKENS : t->n_tokens;
    hsc__cli_progress("%s%d", t->generates ? "tg" : "pp", t->n_tokens);
    if (t->depth) HSC_TRY(pass(session, j->ids, t->depth, HSC_LOGITS_NONE, err));
    HSC_TRY(watch(session, t->capture, err));
    if (!j->v->no_warmup) HSC_TRY(run_once(j, t, session, few, &unused, err));
    for (int i = 0; i < j->v->repeats; i++) {
        hsc__cli_progress("%s%d: %d of %d", t->generates ? "tg" : "pp", t->n_tokens, i + 1, j->v->repeats);
        HSC_TRY(run_once(j, t, session, t->n_tokens, &j->rates[i], err));
    }
    return HSC_OK;
}

static hsc_status measure(const job *j, const test *t, outcome *out, hsc_error *err)
{
    hsc_session *session;
    hsc_session_options o = {
        .n_threads = t->threads, .max_tokens = t->depth + t->n_tokens, .compute = (hsc_compute)j->v->compute};
    reset_peak();
    HSC_TRY(hsc_session_new(&session, j->opened.model, &o, err));
    out->threads = hsc_session_n_threads(session);
    out->compute = hsc_session_compute(session);
    hsc_status status = repeat(j, t, session, err);
    if (status == HSC_OK) summarise(j->rates, j->v->repeats, out);
    hsc_session_free(session);
    hsc__cli_progress_end();
    return status;
}

/* ---------------------------------------------------------------------------------------------------- printing ---- */

static void add_rate(hsc__string *out, double rate)
{
    hsc__string_printf(out, rate < 100 ? "%.2f" : "%.1f", rate);
}

static void add_rates(hsc__string *out, const outcome *o)
{
    add_rate(out, o->median);
    hsc__string_text(out, " (");
    add_rate(out, o->min);
    hsc__string_text(out, "..");
    add_rate(out, o->max);
    hsc__string_text(out, ")");
}

static void add_name(hsc__string *out, const job *j)
{
    hsc__string label = {0};
    int cells = 0;
    hsc__text_label(&label, j->opened.name, strlen(j->opened.name));
    if (label.failed) out->failed = true;
    else hsc__text_cut(out, label.data, label.n, NAME_CELLS);
    if (!label.failed && hsc__text_fit(label.data, label.n, NAME_CELLS, &cells) < label.n) cells = NAME_CELLS;
    hsc__string_printf(out, "%*s", j->name_cells > cells ? j->name_cells - cells : 0, "");
    hsc__string_free(&label);
}

static int print_head(job *j)
{
    hsc__string out = {0};
    add_name(&out, j);
    j->name_cells = out.failed ? 0 : hsc__text_cells(out.data, out.n);
    if (j->name_cells < (int)strlen("model")) j->name_cells = (int)strlen("model");
    hsc__string_free(&out);
    printf("%-*s  %-5s  %-7s  %-14s  %7s  %-8s  %8s  %s\n", j->name_cells, "model", "dtype", "compute", "test",
           "threads", "capture", "peak MB", "tok/s (least..most)");
    if (j->v->logits != HSC_LOGITS_LAST && !j->v->json)
        hsc__cli_note("a prompt's logits: %s", logits_names[j->v->logits]);
    return HSC__EXIT_OK;
}

static int print_row(const job *j, const test *t, const outcome *o)
{
    hsc__string out = {0};
    char name[64];
    int n = snprintf(name, sizeof name, "%s%d", t->generates ? "tg" : "pp", t->n_tokens);
    if (t->depth) snprintf(name + n, sizeof name - (size_t)n, "@d%d", t->depth);
    add_name(&out, j);
    hsc__string_printf(&out, "  %-5s  %-7s  %-14s  %7d  %-8s  %8.1f  ", j->dtype, hsc_compute_name(o->compute), name,
                       o->threads, capture_names[t->capture], o->peak_mb);
    add_rates(&out, o);
    hsc__string_text(&out, "\n");
    int result = hsc__cli_write_string(&out);
    fflush(stdout); /* the next row may take minutes */
    return result;
}

static json_t *name_json(const job *j)
{
    json_t *model = hsc__json_model(&j->opened), *name = json_incref(json_object_get(model, "name"));
    json_decref(model);
    return name;
}

static json_t *rates_json(const outcome *o)
{
    return json_pack("{s:f,s:f,s:f}", "median", o->median, "min", o->min, "max", o->max);
}

static int keep_row(const job *j, const test *t, const outcome *o)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", t->generates ? "tg" : "pp", t->n_tokens);
    json_t *row =
        json_pack("{s:o,s:s,s:s,s:s,s:i,s:i,s:s,s:o,s:f}", "model", name_json(j), "dtype", j->dtype, "compute",
                  hsc_compute_name(o->compute), "test", name, "depth", t->depth, "threads", o->threads, "capture",
                  capture_names[t->capture], "tok_per_s", rates_json(o), "peak_rss_mb", o->peak_mb);
    if (!t->generates && j->v->logits != HSC_LOGITS_LAST)
        json_object_set_new(row, "logits", json_string(logits_names[j->v->logits]));
    return json_array_append_new(j->results, row) == 0 ? HSC__EXIT_OK : hsc__cli_no_memory();
}

/* --------------------------------------------------------------------------------------------------- the tests ---- */

static int run_test(job *j, const test *t)
{
    outcome o = {0};
    hsc_error err = {0};
    if (t->n_tokens == 0) return HSC__EXIT_OK;
    if (measure(j, t, &o, &err) != HSC_OK) return hsc__cli_fail(&err);
    return j->v->json ? keep_row(j, t, &o) : print_row(j, t, &o);
}

/* The tests of one thread count, capture and depth: prompts, then generation. */
static int run_lists(job *j, test *t)
{
    for (int kind = 0; kind < 2; kind++) {
        const hsc__ids *list = kind ? &j->generate : &j->prompts;
        t->generates = kind == 1;
        for (size_t i = 0; i < list->n; i++) {
            t->n_tokens = list->ids[i];
            int result = run_test(j, t);
            if (result != HSC__EXIT_OK) return result;
        }
    }
    return HSC__EXIT_OK;
}

static int run_tests(job *j)
{
    int result = HSC__EXIT_OK;
    for (size_t i = 0; i < j->threads.n; i++) {
        for (int what = 0; what < N_CAPTURES; what++) {
            for (size_t d = 0; d < j->depths.n && j->captures[what] && result == HSC__EXIT_OK; d++) {
                test t = {.threads = j->threads.ids[i], .depth = j->depths.ids[d], .capture = (capture)what};
                result = run_lists(j, &t);
            }
        }
    }
    return result;
}

static int largest(const hsc__ids *list)
{
    int most = 0;
    for (size_t i = 0; i < list->n; i++) most = list->ids[i] > most ? list->ids[i] : most;
    return most;
}

/* Every length is known before anything runs. */
static int check_lengths(const job *j)
{
    const hsc_config *c = j->opened.config;
    int depth = largest(&j->depths), prompt = largest(&j->prompts), made = largest(&j->generate);
    int64_t most = (int64_t)depth + (prompt > made ? prompt : made);
    if (most > c->n_ctx) {
        hsc__cli_error("the longest test needs %lld tokens, the context of %s is %d", (long long)most, j->opened.name,
                       c->n_ctx);
        hsc__cli_hint("-p, -n and -d set the lengths");
        return HSC__EXIT_FAILED;
    }
    if (c->causal || (depth == 0 && made == 0)) return HSC__CLI_GO_ON;
    hsc__cli_error("%s sees both ways: it cannot generate or go on at a depth", j->opened.name);
    hsc__cli_hint("-n 0 leaves generation out");
    return HSC__EXIT_FAILED;
}

/* Random ids, the same in every run (a 64-bit xorshift). */
static void fill_ids(hsc_token *ids, int64_t n, int d_vocab)
{
    uint64_t state = 0x9E3779B97F4A7C15U;
    for (int64_t i = 0; i < n; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ids[i] = (hsc_token)((state >> 32) % (uint64_t)d_vocab);
    }
}

/* The type that most parameters have. */
static const char *main_type(const hsc_model *model)
{
    double counts[HSC_N_DTYPES] = {0}, most = 0;
    const char *name = "none";
    for (size_t i = 0; i < hsc_model_n_tensors(model); i++) {
        hsc_tensor_info t;
        double n = 1;
        if (hsc_model_tensor(model, i, &t) != HSC_OK) continue;
        for (int d = 0; d < t.n_dims; d++) n *= (double)t.shape[d];
        counts[t.dtype] += n;
        if (counts[t.dtype] <= most) continue;
        most = counts[t.dtype];
        name = t.dtype_name;
    }
    return name;
}

static int bench_model(job *j)
{
    int result = hsc__cli_open(&command, j->v->model, j->v->dtype, !j->v->json, &j->opened);
    if (result != HSC__CLI_GO_ON) return result;
    result = check_lengths(j);
    if (result != HSC__CLI_GO_ON) return result;
    int prompt = largest(&j->prompts), made = largest(&j->generate);
    int64_t n = (int64_t)largest(&j->depths) + (prompt > made ? prompt : made);
    j->ids = hsc__calloc((size_t)n, sizeof *j->ids);
    if (!j->ids) return hsc__cli_no_memory();
    fill_ids(j->ids, n, j->opened.config->d_vocab);
    static const char *const dtypes[] = {NULL, "F32", "F16", "BF16", "Q8_0"}; /* by the words of --dtype */
    j->dtype = j->v->dtype ? dtypes[j->v->dtype] : main_type(j->opened.model);
    if (!j->v->json) print_head(j);
    return run_tests(j);
}

/* --------------------------------------------------------------------------------------------------- tokenizer ---- */

static hsc_status time_encoding(const job *j, const hsc_tokenizer *tokenizer, const hsc__string *text, size_t *n_tokens,
                                hsc_error *err)
{
    hsc_encoding encoding = {0};
    hsc_status status = HSC_OK;
    for (int i = j->v->no_warmup ? 0 : -1; i < j->v->repeats && status == HSC_OK; i++) {
        double start = seconds();
        status = hsc_encode(tokenizer, text->data, text->n, HSC_ENCODE_DEFAULT, &encoding, err);
        if (i >= 0) j->rates[i] = (double)text->n * 1e-6 / (seconds() - start);
    }
    *n_tokens = encoding.n;
    hsc_encoding_free(&encoding);
    return status;
}

static int print_tokenizer(const job *j, const char *path, size_t n_bytes, size_t n_tokens, const outcome *o)
{
    hsc__string out = {0};
    if (j->v->json) {
        hsc__string name = {0};
        hsc__text_decode(&name, path, strlen(path));
        json_t *row = json_pack("{s:s#,s:s,s:I,s:I,s:o,s:f}", "model", name.failed ? "" : name.data, (int)name.n,
                                "test", "tokenize", "n_bytes", (json_int_t)n_bytes, "n_tokens", (json_int_t)n_tokens,
                                "mb_per_s", rates_json(o), "peak_rss_mb", o->peak_mb);
        hsc__string_free(&name);
        return json_array_append_new(j->results, row) == 0 ? HSC__EXIT_OK : hsc__cli_no_memory();
    }
    hsc__text_label(&out, path, strlen(path));
    hsc__string_printf(&out, ": %zu bytes, %zu tokens: ", n_bytes, n_tokens);
    add_rates(&out, o);
    hsc__string_printf(&out, " MB/s, peak %.1f MB\n", o->peak_mb);
    return hsc__cli_write_string(&out);
}

static int bench_tokenizer(job *j)
{
    hsc_error err = {0};
    hsc__string text = {0};
    char *path = NULL;
    hsc_tokenizer *tokenizer = NULL;
    outcome o = {0};
    size_t n_tokens = 0;
    int result = hsc__cli_model_path(&command, j->v->model, &path);
    if (result == HSC__CLI_GO_ON) {
        reset_peak();
        hsc_status status = hsc__cli_read(j->v->tokenize, &text, &err);
        if (status == HSC_OK) status = hsc_tokenizer_open(&tokenizer, path, &err);
        if (status == HSC_OK) status = time_encoding(j, tokenizer, &text, &n_tokens, &err);
        if (status == HSC_OK) summarise(j->rates, j->v->repeats, &o);
        result = status == HSC_OK ? print_tokenizer(j, path, text.n, n_tokens, &o) : hsc__cli_fail(&err);
    }
    hsc_tokenizer_free(tokenizer);
    hsc__string_free(&text);
    hsc__free(path);
    return result;
}

/* --------------------------------------------------------------------------------------------------- arguments ---- */

/* Numbers of a comma list, or the default when the option was not given. */
static int read_list(const char *name, const char *text, const char *fallback, int low, int high, hsc__ids *out)
{
    bool good = hsc__ids_parse(text ? text : fallback, out);
    for (size_t i = 0; good && i < out->n; i++) good = out->ids[i] >= low && out->ids[i] <= high;
    if (good) return HSC__CLI_GO_ON;
    return hsc__cli_misuse(&command, "--%s wants whole numbers from %d to %d such as 64,512, not '%s'", name, low, high,
                           text ? text : fallback);
}

static int read_captures(const char *text, bool *wanted)
{
    const char *rest = text ? text : capture_names[CAPTURE_NONE];
    for (;;) {
        size_t n = strcspn(rest, ",");
        int what = 0;
        while (what < N_CAPTURES && (strlen(capture_names[what]) != n || strncmp(rest, capture_names[what], n) != 0))
            what++;
        if (what == N_CAPTURES)
            return hsc__cli_misuse(&command, "--capture wants none, stats, patterns or a comma list of these, not '%s'",
                                   text);
        wanted[what] = true;
        if (rest[n] == '\0') return HSC__CLI_GO_ON;
        rest += n + 1;
    }
}

static int read_lists(job *j)
{
    const values *v = j->v;
    enum { MOST = 1 << 24 };
    char prompt[16], made[16];
    snprintf(prompt, sizeof prompt, "%d", DEFAULT_PROMPT);
    snprintf(made, sizeof made, "%d", DEFAULT_GENERATE);
    int result = read_list("prompt", v->prompts, prompt, 0, MOST, &j->prompts);
    if (result == HSC__CLI_GO_ON) result = read_list("generate", v->generate, made, 0, MOST, &j->generate);
    if (result == HSC__CLI_GO_ON) result = read_list("depth", v->depths, "0", 0, MOST, &j->depths);
    if (result == HSC__CLI_GO_ON) result = read_list("threads", v->threads, "0", v->threads ? 1 : 0, 1024, &j->threads);
    if (result == HSC__CLI_GO_ON) result = read_captures(v->captures, j->captures);
    if (result == HSC__CLI_GO_ON && largest(&j->prompts) == 0 && largest(&j->generate) == 0)
        result = hsc__cli_misuse(&command, "no test is left: -p and -n are both 0");
    if (result == HSC__CLI_GO_ON && v->tokenize &&
        (v->prompts || v->generate || v->depths || v->threads || v->captures))
        result = hsc__cli_misuse(&command, "--tokenize times the tokenizer alone: no -p, -n, -d, -t or --capture");
    return result;
}

static int bench(job *j)
{
    int result = read_lists(j);
    if (result != HSC__CLI_GO_ON) return result;
    j->rates = hsc__calloc((size_t)j->v->repeats, sizeof *j->rates);
    j->results = json_array();
    if (!j->rates || !j->results) return hsc__cli_no_memory();
    result = j->v->tokenize ? bench_tokenizer(j) : bench_model(j);
    if (result == HSC__EXIT_OK && j->v->json) result = hsc__json_print(json_incref(j->results));
    return result;
}

int hsc__cli_bench(int argc, char **argv)
{
    values v = {.repeats = DEFAULT_REPEATS};
    job j = {.v = &v};
    hsc__args args;
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = bench(&j);
    hsc__cli_close(&j.opened);
    hsc__free(j.prompts.ids);
    hsc__free(j.generate.ids);
    hsc__free(j.depths.ids);
    hsc__free(j.threads.ids);
    hsc__free(j.ids);
    hsc__free(j.rates);
    json_decref(j.results);
    return result;
}
