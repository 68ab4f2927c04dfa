/* Printing as numpy and PyTorch print, small sums, a clock, a counting allocator, and the way to whoever draws. */
#include "lesson.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int lesson_fail(const hsc_error *err)
{
    fflush(stdout);
    fprintf(stderr, "headscope: %s\n", err->message[0] ? err->message : hsc_status_text(err->code));
    return 1;
}

const char *lesson_truth(bool truth)
{
    return truth ? "True" : "False";
}

/* ---------------------------------------------------------------------------------------------------- printing ---- */

/* x rounded to so many decimals, with as few of them as name this float: "0.1", "0.". Returns the characters up to and
 * with the point. */
static int write_float(char *out, size_t capacity, float x, int decimals)
{
    float power = powf(10, (float)decimals), rounded = rintf(x * power) / power;
    for (int digits = 0; digits <= decimals; digits++) {
        snprintf(out, capacity, digits ? "%.*f" : "%.*f.", digits, (double)rounded);
        if (strtof(out, NULL) == rounded) break;
    }
    return (int)(strchr(out, '.') - out) + 1;
}

/* numpy gives all numbers of an array the same places before and after the point, in blanks. */
static void print_row(const float *x, int n, int decimals, int before, int after)
{
    char text[64];
    printf("[");
    for (int i = 0; i < n; i++) {
        int point = write_float(text, sizeof text, x[i], decimals);
        printf("%s%*s%s%*s", i ? " " : "", before - point, "", text, after - ((int)strlen(text) - point), "");
    }
    printf("]");
}

void lesson_print_array(const float *x, int rows, int columns, int decimals)
{
    int before = 0, after = 0, n_rows = rows ? rows : 1;
    char text[64];
    for (int i = 0; i < n_rows * columns; i++) {
        int point = write_float(text, sizeof text, x[i], decimals), rest = (int)strlen(text) - point;
        if (point > before) before = point;
        if (rest > after) after = rest;
    }
    if (rows) printf("[");
    for (int r = 0; r < n_rows; r++) {
        if (r) printf("\n ");
        print_row(x + (size_t)r * (size_t)columns, columns, decimals, before, after);
    }
    if (rows) printf("]");
}

void lesson_print_tensor(const float *x, int n)
{
    int width = 0;
    for (int i = 0; i < n; i++) {
        int length = snprintf(NULL, 0, "%.4f", (double)x[i]);
        if (length > width) width = length;
    }
    printf("tensor([");
    for (int i = 0; i < n; i++) printf("%s%*.4f", i ? ", " : "", width, (double)x[i]);
    printf("])");
}

/* ----------------------------------------------------------------------------------------------------- numbers ---- */

float lesson_furthest(const float *a, const float *b, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

bool lesson_close(const float *a, const float *b, size_t n, double bar)
{
    return lesson_furthest(a, b, n) <= bar;
}

double lesson_mean(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    return sum / (double)n;
}

double lesson_std(const float *x, size_t n)
{
    double mean = lesson_mean(x, n), squares = 0;
    for (size_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return sqrt(squares / (double)(n - 1));
}

double lesson_exponent(const double *x, const double *y, int n)
{
    double mean_x = 0, mean_y = 0, products = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        mean_x += log(x[i]) / n;
        mean_y += log(y[i]) / n;
    }
    for (int i = 0; i < n; i++) {
        products += (log(x[i]) - mean_x) * (log(y[i]) - mean_y);
        squares += (log(x[i]) - mean_x) * (log(x[i]) - mean_x);
    }
    return products / squares;
}

double lesson_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---------------------------------------------------------------------------------------------- counted memory ---- */

/* Each block remembers its size in front of it. */
typedef union block_head {
    size_t n_bytes;
    max_align_t align;
} block_head;

static atomic_size_t in_use, peak;
static size_t base;

static void count(size_t more, size_t less)
{
    size_t now = atomic_fetch_add(&in_use, more - less) + more - less, most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {
    }
}

static void *counted_realloc(void *user, void *ptr, size_t n_bytes)
{
    (void)user;
    block_head *old = ptr ? (block_head *)ptr - 1 : NULL;
    size_t before = old ? old->n_bytes : 0;
    block_head *grown = n_bytes > SIZE_MAX - sizeof *grown ? NULL : realloc(old, n_bytes + sizeof *grown);
    if (!grown) return NULL;
    grown->n_bytes = n_bytes;
    count(n_bytes, before);
    return grown + 1;
}

static void *counted_alloc(void *user, size_t n_bytes)
{
    return counted_realloc(user, NULL, n_bytes);
}

static void counted_free(void *user, void *ptr)
{
    (void)user;
    if (!ptr) return;
    block_head *block = (block_head *)ptr - 1;
    count(0, block->n_bytes);
    free(block);
}

void lesson_memory_watch(void)
{
    static bool watching;
    if (watching) return;
    watching = true;
    hsc_set_allocator(&(hsc_allocator){counted_alloc, counted_realloc, counted_free, NULL});
}

void lesson_memory_reset(void)
{
    base = atomic_load(&in_use);
    atomic_store(&peak, base);
}

double lesson_memory_peak(void)
{
    return (double)(atomic_load(&peak) - base);
}

/* ----------------------------------------------------------------------------------------------------- a model ---- */

hsc_status lesson_open(lesson_model *m, const char *path, hsc_error *err)
{
    *m = (lesson_model){0};
    hsc_status status = hsc_model_open(&m->model, path, NULL, err);
    if (status == HSC_OK) {
        m->tokenizer = hsc_model_tokenizer(m->model, err);
        status = m->tokenizer ? hsc_session_new(&m->session, m->model, NULL, err) : err->code;
    }
    if (status != HSC_OK) lesson_close_model(m);
    return status;
}

void lesson_close_model(lesson_model *m)
{
    hsc_session_free(m->session);
    hsc_model_close(m->model);
    *m = (lesson_model){0};
}

hsc_status lesson_encode(const lesson_model *m, const char *text, hsc_encoding *out, hsc_error *err)
{
    return hsc_encode(m->tokenizer, text, strlen(text), HSC_ENCODE_ADD_SPECIAL, out, err);
}

static hsc_status run_and_copy(lesson_model *m, lesson_patterns *out, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(m->model);
    size_t layer_size = (size_t)c->n_heads * (size_t)out->n * (size_t)out->n;
    hsc_batch batch = {.ids = out->tokens.ids, .n_tokens = out->n};
    hsc_status status = hsc_forward(m->session, &batch, err);
    for (int l = 0; l < c->n_layers && status == HSC_OK; l++) {
        hsc_view view;
        status = hsc_session_activation(m->session, HSC_PATTERN, l, 0, &view, err);
        if (status == HSC_OK) memcpy(out->weights + (size_t)l * layer_size, view.data, layer_size * sizeof *view.data);
    }
    return status;
}

hsc_status lesson_look(lesson_model *m, const char *text, lesson_patterns *out, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(m->model);
    hsc_record record = {.site = HSC_PATTERN, .layer = -1, .head = -1, .query = -1};
    *out = (lesson_patterns){.text = text};
    hsc_session_reset(m->session);
    hsc_session_record_clear(m->session);
    hsc_status status = lesson_encode(m, text, &out->tokens, err);
    if (status == HSC_OK) status = hsc_session_record(m->session, &record, err);
    out->n = (int)out->tokens.n;
    out->heads_a_layer = c->n_heads;
    out->n_heads = c->n_layers * c->n_heads;
    size_t n = out->tokens.n;
    out->weights = malloc(((size_t)out->n_heads * n * n + 1) * sizeof *out->weights);
    if (!out->weights) err->code = status = HSC_ENOMEM;
    return status == HSC_OK ? run_and_copy(m, out, err) : status;
}

void lesson_patterns_free(lesson_patterns *patterns)
{
    hsc_encoding_free(&patterns->tokens);
    free(patterns->weights);
    *patterns = (lesson_patterns){0};
}

const float *lesson_row(const lesson_patterns *patterns, int head, int query)
{
    size_t n = (size_t)patterns->n;
    return patterns->weights + ((size_t)head * n + (size_t)query) * n;
}

const char *lesson_head(const lesson_patterns *patterns, int head)
{
    static char name[64];
    int layer = head / patterns->heads_a_layer, h = head % patterns->heads_a_layer;
    snprintf(name, sizeof name, "layer %2d, head %2d (L%dH%d)", layer + 1, h, layer, h);
    return name;
}

int lesson_find(const lesson_patterns *patterns, const char *word)
{
    size_t n = strlen(word);
    for (int i = 0; i < patterns->n; i++) {
        hsc_span span = patterns->tokens.spans[i];
        if (span.start < span.end && patterns->text[span.start] == ' ') span.start++;
        if (span.end - span.start == n && memcmp(patterns->text + span.start, word, n) == 0) return i;
    }
    return -1;
}

const char *lesson_word(const lesson_model *m, hsc_token id)
{
    static char words[4][64];
    static unsigned next;
    char *word = words[next++ % 4];
    size_t n = 0;
    const char *bytes = hsc_token_bytes(m->tokenizer, id, &n);
    snprintf(word, sizeof words[0], "'%.*s'", (int)n, bytes ? bytes : "");
    return word;
}

/* ---------------------------------------------------------------------------------------------------- pictures ---- */

static const lesson_painter *the_painter;

void lesson_set_painter(const lesson_painter *painter)
{
    the_painter = painter;
}

int lesson_show_curves(const char *title, const lesson_panel *panels, int n_panels)
{
    return the_painter ? the_painter->curves(the_painter->user, title, panels, n_panels) : 0;
}

int lesson_show_pattern(const char *title, const float *weights, int n, const char *const *labels, bool causal)
{
    return the_painter ? the_painter->pattern(the_painter->user, title, weights, n, labels, causal) : 0;
}
