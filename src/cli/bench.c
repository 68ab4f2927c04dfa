/*
 * headscope bench: how many tokens a second a model takes in (pp) and gives out (tg), at a depth of cache, while
 * nothing, statistics or every pattern is kept; or how fast its tokenizer is. Token ids are random but always the same,
 * so no text is tokenised. Only the passes are timed: opening, filling the cache to the depth and one warm-up are not.
 * Each test has a session of its own, and the weights mapped anew, so that its peak of memory is its own too.
 */
#include "cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_REPEATS = 5, WARMUP_TOKENS = 16, TEST_CELLS = 64, MOST_TOKENS = 1 << 24 };
static const char default_prompt[] = "512", default_generate[] = "128";

typedef enum { CAPTURE_NONE, CAPTURE_STATS, CAPTURE_PATTERNS, N_CAPTURES } capture;
static const char *const capture_names[N_CAPTURES] = {"none", "stats", "patterns"};
static const char *const logits_names[] = {"last", "all", "none"}; /* by hsc_logits_rows */

typedef struct values {
    const char *model, *tokenize;
    hsc__texts prompts, generate, both, depths, threads, captures;
    int repeats, logits, compute, dtype;
    bool no_warmup, json;
} values;

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    HSC__OPTION_HEADING("Tests; a list is 64,512 or a range: 1-4, 0-2048+512, 128-4096*2; several add up"),
    {"prompt", 'p', HSC__OPT_TEXTS, "N", offsetof(values, prompts), 0, 0,
     "Tokens that go through in one pass: ppN. 0: no such test. Default: 512."},
    {"generate", 'n', HSC__OPT_TEXTS, "N", offsetof(values, generate), 0, 0,
     "Tokens that are chosen greedily, one a pass: tgN. 0: no such test. Default: 128."},
    {"pg", 0, HSC__OPT_TEXTS, "N,N", offsetof(values, both), 0, 0,
     "One more test: so many tokens go in, then so many are chosen: ppN+tgN. Also -pg. Default: none."},
    {"depth", 'd', HSC__OPT_TEXTS, "N", offsetof(values, depths), 0, 0,
     "Tokens that the cache holds before. Default: 0."},
    {"threads", 't', HSC__OPT_TEXTS, "N", offsetof(values, threads), 0, 0, "Threads. Default: what the system allows."},
    {"capture", 'c', HSC__OPT_TEXTS, "WHAT", offsetof(values, captures), 0, 0,
     "What is looked at in every layer: none, stats (all statistics of every row, summed up as they come) or patterns "
     "(every weight, kept). Default: none."},
    HSC__OPTION_HEADING("How"),
    {"repeat", 'r', HSC__OPT_INT, "N", offsetof(values, repeats), 1, 10000,
     "Repetitions of each test; the median, the least and the most are shown. Default: 5."},
    {"logits", 0, HSC__OPT_CHOICE, "last|all|none", offsetof(values, logits), 0, 0,
     "Which tokens of a prompt go through the output matrix. Default: last."},
    {"compute", 0, HSC__OPT_CHOICE, "f32|bf16|q8|auto", offsetof(values, compute), 0, 0,
     "Arithmetic of the products with weights: auto (default) is the fastest for this file, f32 is exact. Each result "
     "names its kind."},
    HSC__OPTION_DTYPE(values, dtype),
    {"no-warmup", 0, HSC__OPT_FLAG, NULL, offsetof(values, no_warmup), 0, 0,
     "Time the first pass too, which finds cold caches and untouched memory."},
    {"tokenize", 0, HSC__OPT_TEXT, "FILE", offsetof(values, tokenize), 0, 0,
     "Instead of the model time its tokenizer: the whole file in one piece, on one thread."},
    {"json", 0, HSC__OPT_FLAG, NULL, offsetof(values, json), 0, 0, "Print JSON: an array with an object a test."},
};

static const hsc__command command = {
    .name = "bench",
    .usage = "-m MODEL [-p N] [-n N] [-pg N,N] [-d N] [-r N] [options]\n-m MODEL --tokenize FILE",
    .about = "Measures how many tokens a second go through a model, with and without a view of its attention. The ids "
             "are random but always the same; opening the model, filling the cache and one warm-up are not timed. "
             "Peak memory is that of the process during the test, weights in use included.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope bench -m gpt2\n"
                "    pp512 and tg128\n"
                "headscope bench -m gpt2 -p 64-1024*2 -n 0 --capture none,stats,patterns\n"
                "    what looking costs\n"
                "headscope bench -m SmolLM2-135M-Instruct.Q4_1.gguf -d 0,2048 --json\n"
                "    with an empty cache and with 2,048 tokens in it",
};

/* n_prompt tokens go in, then n_made are chosen; one of them may be 0. */
typedef struct test {
    int n_prompt, n_made, depth, threads;
    capture capture;
    char name[TEST_CELLS]; /* "pp512", "tg128", "pp512+tg128" */
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
    hsc__ids both; /* pairs */
    bool captures[N_CAPTURES];
    hsc__opened opened;
    const char *dtype;   /* of most weights */
    hsc_token *ids;      /* as many as the longest test takes */
    double *rates;       /* [repeats] */
    int n_rows, n_tests; /* that were printed, and run */
    json_t *results;
} job;

/* -------------------------------------------------------------------------------------------------- measuring ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
    out->peak_mb = hsc__bench_peak_mb();
}

/* A reader of statistics as look --stats is one: it takes sums over the rows of each head and keeps nothing else. */
static int sum_rows(void *user, const hsc_stats_rows *rows)
{
    double *sums = user;
    for (int i = 0; i < HSC_N_STATS; i++) {
        const hsc_view *v = &rows->stat[i];
        int64_t n = v->data ? v->shape[0] * v->shape[1] * (v->n_dims == 3 ? v->shape[2] : 1) : 0;
        for (int64_t k = 0; k < n; k++) sums[i] += (double)v->data[k];
    }
    return 0;
}

static hsc_status watch(hsc_session *session, capture what, double sums[HSC_N_STATS], hsc_error *err)
{
    hsc_stats_options stats = {.layer = -1, .on_rows = sum_rows, .user = sums};
    if (what == CAPTURE_STATS) return hsc_session_collect(session, &stats, err);
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
        if (logits->data[i] <= logits->data[best]) continue;
        HSC_FAIL_IF(isnan(logits->data[i]), HSC_EFORMAT,
                    "the model's logits are not numbers: that of token %lld is NaN", (long long)i);
        best = i;
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

/* One timed run after the first `depth` tokens, of which at most `most` are chosen. */
static hsc_status run_once(const job *j, const test *t, hsc_session *session, int most, double *rate, hsc_error *err)
{
    const hsc_token *ids = j->ids + t->depth;
    int made = t->n_made < most ? t->n_made : most;
    if (t->depth) HSC_TRY(hsc_session_truncate(session, 0, t->depth, err));
    else hsc_session_reset(session);
    double start = seconds();
    if (t->n_prompt) HSC_TRY(pass(session, ids, t->n_prompt, (hsc_logits_rows)j->v->logits, err));
    if (made) HSC_TRY(generate(session, ids[t->n_prompt], made, err));
    *rate = (t->n_prompt + made) / (seconds() - start);
    return HSC_OK;
}

static hsc_status repeat(const job *j, const test *t, hsc_session *session, hsc_error *err)
{
    double unused, sums[HSC_N_STATS] = {0};
    hsc__cli_progress("%s", t->name);
    if (t->depth) HSC_TRY(pass(session, j->ids, t->depth, HSC_LOGITS_NONE, err));
    HSC_TRY(watch(session, t->capture, sums, err));
    if (!j->v->no_warmup) HSC_TRY(run_once(j, t, session, WARMUP_TOKENS, &unused, err));
    for (int i = 0; i < j->v->repeats; i++) {
        hsc__cli_progress("%s: %d of %d", t->name, i + 1, j->v->repeats);
        HSC_TRY(run_once(j, t, session, t->n_made, &j->rates[i], err));
    }
    return HSC_OK;
}

static hsc_status measure(const job *j, const test *t, outcome *out, hsc_error *err)
{
    hsc_session *session;
    hsc_session_options o = {.n_threads = t->threads,
                             .max_tokens = t->depth + t->n_prompt + t->n_made,
                             .compute = (hsc_compute)j->v->compute};
    hsc__bench_reset_peak();
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
    hsc__string_printf(out, rate < 100 ? "%.2f" : rate < 10000 ? "%.1f" : "%.0f", rate);
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

/* The columns of a row and their heads in a terminal that is wide enough; in others a row is a sentence. */
#define ROW "%-13s  %-7s  %*s  %-8s  %*s  "
enum { THREADS_CELLS = 7, PEAK_CELLS = 7, ROW_CELLS = 78 };

/* What is said once comes with the first row, so that nothing precedes the message of a test that fails. */
static void add_head(const job *j, hsc__string *out)
{
    hsc__text_label(out, j->opened.name, strlen(j->opened.name));
    hsc__string_printf(out, ", weights %s\n", j->dtype);
    if (hsc__cli_width() < ROW_CELLS) return;
    hsc__string_printf(out, ROW "tok/s (least..most)\n", "test", "compute", THREADS_CELLS, "threads", "capture",
                       PEAK_CELLS, "peak MB");
}

static int print_row(job *j, const test *t, const outcome *o)
{
    hsc__string out = {0};
    char name[2 * TEST_CELLS], threads[16], peak[32];
    int n = snprintf(name, sizeof name, "%s", t->name);
    if (t->depth) snprintf(name + n, sizeof name - (size_t)n, "@d%d", t->depth);
    snprintf(threads, sizeof threads, "%d", o->threads);
    snprintf(peak, sizeof peak, "%.1f", o->peak_mb);
    if (!j->n_rows++) add_head(j, &out);
    if (j->n_rows == 1 && j->v->logits != HSC_LOGITS_LAST)
        hsc__cli_note("a prompt's logits: %s", logits_names[j->v->logits]);
    if (hsc__cli_width() >= ROW_CELLS) {
        hsc__string_printf(&out, ROW, name, hsc_compute_name(o->compute), THREADS_CELLS, threads,
                           capture_names[t->capture], PEAK_CELLS, peak);
        add_rates(&out, o);
    } else {
        hsc__string_printf(&out, "%s: ", name);
        add_rates(&out, o);
        hsc__string_printf(&out, " tok/s; %s, %s thread%s, capture %s, peak %s MB", hsc_compute_name(o->compute),
                           threads, HSC__PLURAL(o->threads), capture_names[t->capture], peak);
    }
    hsc__string_text(&out, "\n");
    int result = hsc__cli_show(&out);
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
    json_t *row =
        json_pack("{s:o,s:s,s:s,s:s,s:i,s:i,s:s,s:o,s:f}", "model", name_json(j), "dtype", j->dtype, "compute",
                  hsc_compute_name(o->compute), "test", t->name, "depth", t->depth, "threads", o->threads, "capture",
                  capture_names[t->capture], "tok_per_s", rates_json(o), "peak_rss_mb", o->peak_mb);
    if (t->n_prompt && j->v->logits != HSC_LOGITS_LAST)
        json_object_set_new(row, "logits", json_string(logits_names[j->v->logits]));
    return json_array_append_new(j->results, row) == 0 ? HSC__EXIT_OK : hsc__cli_no_memory();
}

/* --------------------------------------------------------------------------------------------------- the tests ---- */

/* What a test before touched of the weights is no longer mapped. */
static int reopen(job *j)
{
    if (j->n_tests++ == 0) return HSC__CLI_GO_ON;
    hsc__cli_close(&j->opened);
    j->opened = (hsc__opened){0};
    return hsc__cli_open(&command, j->v->model, j->v->dtype, false, &j->opened);
}

static int run_test(job *j, test *t)
{
    outcome o = {0};
    hsc_error err = {0};
    if (t->n_prompt + t->n_made == 0) return HSC__EXIT_OK;
    int result = reopen(j), n = 0;
    if (result != HSC__CLI_GO_ON) return result;
    if (t->n_prompt) n = snprintf(t->name, sizeof t->name, "pp%d%s", t->n_prompt, t->n_made ? "+" : "");
    if (t->n_made) snprintf(t->name + n, sizeof t->name - (size_t)n, "tg%d", t->n_made);
    if (measure(j, t, &o, &err) != HSC_OK) return hsc__cli_fail(&err);
    return j->v->json ? keep_row(j, t, &o) : print_row(j, t, &o);
}

/* The tests of one thread count, capture and depth: prompts, then generation, then both. */
static int run_lists(job *j, test *t)
{
    int result = HSC__EXIT_OK;
    for (size_t i = 0; i < j->prompts.n && result == HSC__EXIT_OK; i++) {
        t->n_prompt = j->prompts.ids[i];
        t->n_made = 0;
        result = run_test(j, t);
    }
    for (size_t i = 0; i < j->generate.n && result == HSC__EXIT_OK; i++) {
        t->n_prompt = 0;
        t->n_made = j->generate.ids[i];
        result = run_test(j, t);
    }
    for (size_t i = 0; i < j->both.n && result == HSC__EXIT_OK; i += 2) {
        t->n_prompt = j->both.ids[i];
        t->n_made = j->both.ids[i + 1];
        result = run_test(j, t);
    }
    return result;
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

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int largest(const hsc__ids *list)
{
    int most = 0;
    for (size_t i = 0; i < list->n; i++) most = larger(most, list->ids[i]);
    return most;
}

/* Tokens of the longest test, depth included; each number is at most MOST_TOKENS. */
static int longest(const job *j)
{
    int most = larger(largest(&j->prompts), largest(&j->generate));
    for (size_t i = 0; i < j->both.n; i += 2) most = larger(most, j->both.ids[i] + j->both.ids[i + 1]);
    return largest(&j->depths) + most;
}

/* Every length is known before anything runs. */
static int check_lengths(const job *j)
{
    const hsc_config *c = j->opened.config;
    int depth = largest(&j->depths), made = larger(largest(&j->generate), (int)j->both.n), most = longest(j);
    if (most > c->n_ctx) {
        hsc__cli_error("the longest test needs %d tokens, the context of %s is %d", most, j->opened.name, c->n_ctx);
        hsc__cli_hint("-p, -n and -d set the lengths");
        return HSC__EXIT_FAILED;
    }
    if (c->causal || (depth == 0 && made == 0)) return HSC__CLI_GO_ON;
    hsc__cli_error("%s sees both ways: it cannot generate or go on at a depth", j->opened.name);
    hsc__cli_hint("-n 0 leaves generation out");
    return HSC__EXIT_FAILED;
}

/* Random ids, the same in every run (a 64-bit xorshift). */
static void fill_ids(hsc_token *ids, int n, int d_vocab)
{
    uint64_t state = 0x9E3779B97F4A7C15U;
    for (int i = 0; i < n; i++) {
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
    int n = longest(j);
    j->ids = hsc__calloc((size_t)n, sizeof *j->ids);
    if (!j->ids) return hsc__cli_no_memory();
    fill_ids(j->ids, n, j->opened.config->d_vocab);
    static const char *const dtypes[] = {NULL, "F32", "F16", "BF16", "Q8_0"}; /* by the words of --dtype */
    j->dtype = j->v->dtype ? dtypes[j->v->dtype] : main_type(j->opened.model);
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
    hsc__string_printf(&out, ": %zu byte%s, %zu token%s: ", n_bytes, HSC__PLURAL(n_bytes), n_tokens,
                       HSC__PLURAL(n_tokens));
    add_rates(&out, o);
    hsc__string_printf(&out, " MB/s, peak %.1f MB\n", o->peak_mb);
    return hsc__cli_show(&out);
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
        hsc__bench_reset_peak();
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

/* Numbers of every list that was given, or the default. */
static int read_lists_of(const char *name, const hsc__texts *texts, const char *fallback, int low, int high,
                         hsc__ids *out)
{
    for (int i = 0; i < texts->n; i++) {
        if (hsc__bench_list(texts->list[i], low, high, out)) continue;
        return hsc__cli_misuse(&command,
                               "--%s wants at most %d whole numbers from %d to %d, as 64,512 or 128-4096*2, not '%s'",
                               name, HSC__BENCH_MOST_TESTS, low, high, texts->list[i]);
    }
    if (texts->n || hsc__bench_list(fallback, 0, high, out)) return HSC__CLI_GO_ON;
    return hsc__cli_no_memory();
}

static int read_pairs(const hsc__texts *texts, hsc__ids *out)
{
    for (int i = 0; i < texts->n; i++) {
        if (hsc__bench_pair(texts->list[i], 1, MOST_TOKENS, out)) continue;
        return hsc__cli_misuse(&command, "--pg wants two whole numbers from 1 to %d such as 512,128, not '%s'",
                               MOST_TOKENS, texts->list[i]);
    }
    return HSC__CLI_GO_ON;
}

static int read_captures(const char *text, bool *wanted)
{
    for (const char *rest = text;;) {
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
    int result = read_lists_of("prompt", &v->prompts, default_prompt, 0, MOST_TOKENS, &j->prompts);
    if (result == HSC__CLI_GO_ON)
        result = read_lists_of("generate", &v->generate, default_generate, 0, MOST_TOKENS, &j->generate);
    if (result == HSC__CLI_GO_ON) result = read_pairs(&v->both, &j->both);
    if (result == HSC__CLI_GO_ON) result = read_lists_of("depth", &v->depths, "0", 0, MOST_TOKENS, &j->depths);
    if (result == HSC__CLI_GO_ON) result = read_lists_of("threads", &v->threads, "0", 1, 1024, &j->threads);
    j->captures[CAPTURE_NONE] = v->captures.n == 0;
    for (int i = 0; i < v->captures.n && result == HSC__CLI_GO_ON; i++)
        result = read_captures(v->captures.list[i], j->captures);
    if (result == HSC__CLI_GO_ON && largest(&j->prompts) == 0 && largest(&j->generate) == 0 && !j->both.n)
        result = hsc__cli_misuse(&command, "no test is left: -p and -n are both 0");
    if (result == HSC__CLI_GO_ON && v->tokenize &&
        (v->prompts.n || v->generate.n || v->both.n || v->depths.n || v->threads.n || v->captures.n))
        result = hsc__cli_misuse(&command, "--tokenize times the tokenizer alone: no -p, -n, -pg, -d, -t or --capture");
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
    static char pg[] = "--pg"; /* llama-bench's spelling, one letter more than an option of one letter has */
    values v = {.repeats = DEFAULT_REPEATS, .compute = HSC_COMPUTE_AUTO};
    job j = {.v = &v};
    hsc__args args;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-pg") == 0) argv[i] = pg;
    }
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = bench(&j);
    hsc__cli_close(&j.opened);
    hsc__free(j.prompts.ids);
    hsc__free(j.generate.ids);
    hsc__free(j.both.ids);
    hsc__free(j.depths.ids);
    hsc__free(j.threads.ids);
    hsc__free(j.ids);
    hsc__free(j.rates);
    json_decref(j.results);
    return result;
}
