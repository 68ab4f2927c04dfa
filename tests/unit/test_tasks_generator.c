/* The generator and the beam search on small random models: samples equal single runs, the cache is used rightly, the
 * window slides, and every failed allocation is survived. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "headscope/tasks.h"
#include "tasks/reply.h"
#include "tiny_model.h"

#include <sys/mman.h>

static const hsc_token prompt[5] = {1, 20, 3, 40, 5};

typedef struct written {
    hsc_token ids[200];
    int n;
    hsc_finish finish;
    double log_prob;
} written;

static tiny_model tiny;
static hsc_model *model;
static int n_known = TINY_VOCAB; /* tokens that may be written */

static int open_model(void **unused)
{
    (void)unused;
    tiny_gpt2(&tiny);
    return hsc_model_open(&model, tiny.dir, NULL, NULL);
}

/* The model has more rows than its tokenizer has tokens, as Pythia and T5 do. */
static int open_padded(void **unused)
{
    (void)unused;
    char path[128];
    tiny_gpt2(&tiny);
    snprintf(path, sizeof path, "%s/tokenizer.json", tiny.dir);
    FILE *f = fopen(path, "w");
    if (!f) return -1;
    fputs("{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{", f);
    for (n_known = 0; n_known < 60; n_known++) fprintf(f, "%s\"t%d\":%d", n_known ? "," : "", n_known, n_known);
    if (fputs("}}}", f) < 0 || fclose(f)) return -1;
    int status = hsc_model_open(&model, tiny.dir, NULL, NULL);
    if (status == HSC_OK && !hsc_model_tokenizer(model, NULL)) return -1;
    unlink(path);
    return status;
}

static int close_model(void **unused)
{
    (void)unused;
    hsc_model_close(model);
    tiny_remove(&tiny);
    return 0;
}

static hsc_session *session_of(int max_tokens, int max_seqs)
{
    hsc_session *s = NULL;
    hsc_session_options o = {.n_threads = 1, .max_tokens = max_tokens, .max_seqs = max_seqs};
    assert_int_equal(hsc_session_new(&s, model, &o, NULL), HSC_OK);
    return s;
}

/* Runs to the end; out[n_samples]. */
static void write_all(hsc_session *s, const hsc_generate_options *o, written *out)
{
    hsc_generator *g = NULL;
    hsc_error err = {0};
    assert_int_equal(hsc_generator_new(&g, s, prompt, 5, o, &err), HSC_OK);
    while (hsc_generator_running(g)) assert_int_equal(hsc_generator_next(g, &err), HSC_OK);
    for (int i = 0; i < (o->n_samples ? o->n_samples : 1); i++) {
        const hsc_sample *sample = hsc_generator_sample(g, i);
        memset(&out[i], 0, sizeof out[i]);
        out[i].n = sample->n;
        out[i].finish = sample->finish;
        out[i].log_prob = sample->log_prob;
        memcpy(out[i].ids, sample->ids, (size_t)sample->n * sizeof *sample->ids);
    }
    assert_null(hsc_generator_sample(g, o->n_samples ? o->n_samples : 1));
    hsc_generator_free(g);
}

/* Samples end at different lengths, so sequences move; each must still be what its seed writes alone. */
static void test_samples_are_single_runs(void **unused)
{
    (void)unused;
    enum { SAMPLES = 6 };
    hsc_session *many = session_of(0, SAMPLES), *one = session_of(0, 1);
    const hsc_token ends[] = {7, 30, 60, 90};
    written together[SAMPLES], alone;
    hsc_generate_options o = {.sampling = {.temperature = 1, .top_k = 30, .repetition = 1.1F},
                              .seed = 3,
                              .n_samples = SAMPLES,
                              .max_tokens = 40,
                              .end_tokens = ends,
                              .n_end_tokens = 4};
    write_all(many, &o, together);
    int shortest = 100, longest = 0;
    o.n_samples = 1;
    for (int i = 0; i < SAMPLES; i++) {
        o.seed = 3 + (uint64_t)i;
        hsc_session_reset(one);
        write_all(one, &o, &alone);
        assert_memory_equal(&together[i], &alone, sizeof alone);
        shortest = alone.n < shortest ? alone.n : shortest;
        longest = alone.n > longest ? alone.n : longest;
    }
    assert_true(shortest < longest);
    hsc_session_free(many);
    hsc_session_free(one);
}

/* Greedy by hand: the largest logit of a whole pass over all that was written. */
static void test_greedy_by_definition(void **unused)
{
    (void)unused;
    hsc_session *s = session_of(0, 1), *whole = session_of(0, 1);
    written got;
    hsc_token ids[64];
    double log_prob = 0;
    write_all(s, &(hsc_generate_options){.max_tokens = 12}, &got);
    assert_int_equal(got.n, 12);
    assert_int_equal(got.finish, HSC_FINISH_LENGTH);
    memcpy(ids, prompt, sizeof prompt);
    for (int i = 0; i < 12; i++) {
        hsc_view view;
        hsc_session_reset(whole);
        assert_int_equal(hsc_forward(whole, &(hsc_batch){.ids = ids, .n_tokens = 5 + i}, NULL), HSC_OK);
        assert_int_equal(hsc_session_logits(whole, &view, NULL), HSC_OK);
        int best = 0;
        for (int t = 1; t < n_known; t++) best = view.data[t] > view.data[best] ? t : best;
        assert_int_equal(got.ids[i], best);
        log_prob += hsc_log_prob(view.data, TINY_VOCAB, best);
        ids[5 + i] = best;
    }
    assert_true(got.log_prob == log_prob);
    hsc_session_free(s);
    hsc_session_free(whole);
}

/* The token that follows a full context is legal; a text that slides goes on as if the window were its beginning. */
static void test_context(void **unused)
{
    (void)unused;
    hsc_session *s = session_of(0, 1);
    written full, slid;
    write_all(s, &(hsc_generate_options){0}, &full);
    assert_int_equal(full.finish, HSC_FINISH_CONTEXT);
    assert_int_equal(full.n, TINY_CTX - 5 + 1);
    hsc_session_reset(s);
    write_all(s, &(hsc_generate_options){.slide = 1, .keep = 2, .max_tokens = 150}, &slid);
    assert_int_equal(slid.finish, HSC_FINISH_LENGTH);
    assert_memory_equal(slid.ids, full.ids, (size_t)full.n * sizeof *full.ids);
    hsc_token window[2 + 39] = {prompt[0], prompt[1]}; /* (80 - 2) / 2 newest */
    memcpy(window + 2, slid.ids + full.n - 39, 39 * sizeof *window);
    hsc_view view;
    hsc_session_reset(s);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = window, .n_tokens = 41}, NULL), HSC_OK);
    assert_int_equal(hsc_session_logits(s, &view, NULL), HSC_OK);
    hsc_token next;
    assert_int_equal(hsc_sample_token(view.data, TINY_VOCAB, NULL, &next, NULL), HSC_OK);
    assert_int_equal(slid.ids[full.n], next);
    hsc_session_free(s);
    s = session_of(12, 1);
    write_all(s, &(hsc_generate_options){0}, &full);
    assert_int_equal(full.n, 12 - 5 + 1);
    hsc_session_free(s);
}

/* A session that holds the prompt's beginning is gone on with, whatever else it holds behind it. */
static void test_cached(void **unused)
{
    (void)unused;
    hsc_session *s = session_of(0, 1);
    written fresh, cached;
    write_all(s, &(hsc_generate_options){.max_tokens = 20}, &fresh);
    for (int n = 0; n <= 5; n++) {
        write_all(s, &(hsc_generate_options){.max_tokens = 20, .n_cached = n}, &cached);
        assert_memory_equal(&cached, &fresh, sizeof fresh);
    }
    hsc_session_free(s);
}

/* The recorded row is that of the token before the one that was written. */
static void test_records(void **unused)
{
    (void)unused;
    hsc_session *s = session_of(0, 1), *whole = session_of(0, 1);
    hsc_record record = {.site = HSC_PATTERN, .layer = 1, .head = -1, .query = -1};
    hsc_generate_options o = {.max_tokens = 3, .records = &record, .n_records = 1};
    hsc_generator *g = NULL;
    hsc_view row, all;
    hsc_token ids[8];
    assert_int_equal(hsc_generator_new(&g, s, prompt, 5, &o, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(whole, &record, NULL), HSC_OK);
    memcpy(ids, prompt, sizeof prompt);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hsc_generator_next(g, NULL), HSC_OK);
        assert_int_equal(hsc_session_activation(s, HSC_PATTERN, 1, 0, &row, NULL), HSC_OK);
        hsc_session_reset(whole);
        assert_int_equal(hsc_forward(whole, &(hsc_batch){.ids = ids, .n_tokens = 5 + i}, NULL), HSC_OK);
        assert_int_equal(hsc_session_activation(whole, HSC_PATTERN, 1, 0, &all, NULL), HSC_OK);
        int n = 5 + i;
        assert_int_equal(row.shape[1], 1);
        assert_int_equal(row.shape[2], n);
        for (int h = 0; h < 3; h++)
            assert_memory_equal(row.data + h * n, all.data + (h * n + n - 1) * n, (size_t)n * sizeof(float));
        ids[n] = hsc_generator_sample(g, 0)->ids[i];
        assert_int_equal(hsc_generator_position(g, n - 1), n - 1);
    }
    hsc_generator_free(g);
    hsc_session_free(s);
    hsc_session_free(whole);
}

static void assert_refused(const hsc_generate_options *o, int n_prompt, const char *says)
{
    hsc_session *s = session_of(0, 2);
    hsc_generator *g = NULL;
    hsc_error err = {0};
    hsc_token many[TINY_CTX + 1] = {0};
    assert_int_equal(hsc_generator_new(&g, s, many, n_prompt, o, &err), HSC_EINVAL);
    assert_null(g);
    assert_non_null(strstr(err.message, says));
    hsc_session_free(s);
}

static void test_limits(void **unused)
{
    (void)unused;
    const char *const stops[] = {"a", ""};
    assert_refused(NULL, 0, "empty");
    assert_refused(NULL, TINY_CTX + 1, "81 tokens, the context has room for 80");
    assert_refused(&(hsc_generate_options){.n_samples = 3}, 1, "3 samples");
    assert_refused(&(hsc_generate_options){.max_tokens = -1}, 1, "max_tokens");
    assert_refused(&(hsc_generate_options){.keep = -1}, 1, "keep");
    assert_refused(&(hsc_generate_options){.n_cached = 1}, 2, "n_cached");
    assert_refused(&(hsc_generate_options){.stops = stops, .n_stops = 2}, 1, "stop string 1");
    assert_refused(&(hsc_generate_options){.sampling = {.top_p = 2}}, 1, "top_p");
}

/* Two beams of two tokens, against all continuations of the two best first tokens. */
static void test_beams_by_definition(void **unused)
{
    (void)unused;
    hsc_session *s = session_of(0, 4), *whole = session_of(0, 1);
    hsc_beam got[2] = {{0}};
    int n = 0;
    hsc_token ids[7];
    double best = -1e30, first[TINY_VOCAB];
    hsc_token want[2] = {0};
    hsc_view view;
    hsc_beam_options o = {.n_beams = 2, .max_tokens = 2, .length_penalty = 0};
    assert_int_equal(hsc_beam_search(s, prompt, 5, &o, got, &n, NULL), HSC_OK);
    assert_int_equal(n, 2);
    memcpy(ids, prompt, sizeof prompt);
    assert_int_equal(hsc_forward(whole, &(hsc_batch){.ids = ids, .n_tokens = 5}, NULL), HSC_OK);
    assert_int_equal(hsc_session_logits(whole, &view, NULL), HSC_OK);
    for (int i = 0; i < TINY_VOCAB; i++) first[i] = hsc_log_prob(view.data, TINY_VOCAB, i);
    for (int i = 0; i < n_known; i++) {
        int above = 0;
        for (int k = 0; k < n_known; k++) above += first[k] > first[i];
        if (above >= 2) continue;
        ids[5] = i;
        hsc_session_reset(whole);
        assert_int_equal(hsc_forward(whole, &(hsc_batch){.ids = ids, .n_tokens = 6}, NULL), HSC_OK);
        assert_int_equal(hsc_session_logits(whole, &view, NULL), HSC_OK);
        for (int k = 0; k < n_known; k++) {
            double score = first[i] + hsc_log_prob(view.data, TINY_VOCAB, k);
            if (score <= best) continue;
            best = score;
            want[0] = i;
            want[1] = k;
        }
    }
    assert_int_equal(got[0].n, 2);
    assert_memory_equal(got[0].ids, want, sizeof want);
    assert_true(fabs((double)got[0].score - best) < 1e-5);
    hsc_beams_free(got, n);
    hsc_session_free(s);
    hsc_session_free(whole);
}

/* ------------------------------------------------------------------------------------- beams, in plain words ---- */

enum { STEPS = 4, MOST_BEAMS = 3 };

typedef struct plain_text {
    hsc_token ids[5 + STEPS];
    int n;
    double score;
} plain_text;

static int by_score(const void *a, const void *b)
{
    const plain_text *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

/* Every continuation of every running text, best first. */
static int continue_all(hsc_session *s, const plain_text *running, int n_running, plain_text *all)
{
    int n = 0;
    hsc_view view;
    for (int b = 0; b < n_running; b++) {
        hsc_session_reset(s);
        assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = running[b].ids, .n_tokens = running[b].n}, NULL), HSC_OK);
        assert_int_equal(hsc_session_logits(s, &view, NULL), HSC_OK);
        for (int i = 0; i < n_known; i++) {
            all[n] = running[b];
            all[n].ids[all[n].n++] = i;
            all[n++].score += hsc_log_prob(view.data, TINY_VOCAB, i);
        }
    }
    qsort(all, (size_t)n, sizeof *all, by_score);
    return n;
}

static bool is_end(const hsc_beam_options *o, hsc_token id)
{
    for (int i = 0; i < o->n_end_tokens; i++)
        if (o->end_tokens[i] == id) return true;
    return false;
}

/* Whether no running text can come to stand among the finished ones. */
static bool is_over(const hsc_beam_options *o, const plain_text *running, const plain_text *done, int n_done, int step)
{
    int length = o->stop == HSC_STOP_NEVER && o->length_penalty > 0 ? o->max_tokens : step;
    if (n_done < o->n_beams) return false;
    if (o->stop == HSC_STOP_ENOUGH) return true;
    return running[0].score / pow(length, (double)o->length_penalty) <= done[n_done - 1].score;
}

/* The search as it is defined: in every step the texts that end count as finished when they are among the best n_beams
 * continuations, the best n_beams of the others run on, and of the finished the best n_beams stay. */
static int search_plainly(hsc_session *s, const hsc_beam_options *o, plain_text *done)
{
    static plain_text all[MOST_BEAMS * TINY_VOCAB];
    plain_text running[MOST_BEAMS] = {{.n = 5}};
    int n_running = 1, n_done = 0;
    memcpy(running[0].ids, prompt, sizeof prompt);
    for (int step = 1; step <= o->max_tokens; step++) {
        int n = continue_all(s, running, n_running, all);
        n_running = 0;
        for (int i = 0; i < n; i++) {
            bool ended = step == o->max_tokens || is_end(o, all[i].ids[all[i].n - 1]);
            if (!ended && n_running < o->n_beams) running[n_running++] = all[i];
            if (!ended || i >= o->n_beams) continue;
            done[n_done] = all[i];
            done[n_done++].score /= pow(step, (double)o->length_penalty);
        }
        qsort(done, (size_t)n_done, sizeof *done, by_score);
        n_done = n_done < o->n_beams ? n_done : o->n_beams;
        if (is_over(o, running, done, n_done, step)) break;
    }
    return n_done;
}

/* Ends of every kind, ways to stop, penalties and numbers of beams. */
static void test_search_by_definition(void **unused)
{
    (void)unused;
    hsc_session *s = session_of(0, 2 * MOST_BEAMS), *whole = session_of(0, 1);
    int n_early = 0;
    for (int i = 0; i < 2 * 3 * 3 * 12; i++) {
        const hsc_token ends[] = {i % 53, (i * 7 + 3) % 53, (i * 11 + 5) % 53, (i * 17 + 20) % 53, (i * 23 + 31) % 53};
        hsc_beam_options o = {.n_beams = 2 + i % 2,
                              .max_tokens = STEPS,
                              .length_penalty = (float)(i / 2 % 3 - 1),
                              .stop = (hsc_beam_stop)(i / 6 % 3),
                              .end_tokens = ends,
                              .n_end_tokens = 1 + i / 18 % 5};
        plain_text want[2 * MOST_BEAMS];
        hsc_beam got[MOST_BEAMS] = {{0}};
        int n = 0, n_want = search_plainly(whole, &o, want);
        assert_int_equal(hsc_beam_search(s, prompt, 5, &o, got, &n, NULL), HSC_OK);
        assert_int_equal(n, n_want);
        for (int b = 0; b < n; b++) {
            assert_int_equal(got[b].n, want[b].n - 5);
            assert_memory_equal(got[b].ids, want[b].ids + 5, (size_t)got[b].n * sizeof *got[b].ids);
            assert_true(fabs((double)got[b].score - want[b].score) < 1e-4);
            n_early += got[b].n < STEPS;
        }
        hsc_beams_free(got, n);
    }
    assert_true(n_early > 20);
    hsc_session_free(s);
    hsc_session_free(whole);
}

/* Adds the rows that went through the first block. */
static int count_rows(void *user, const hsc_block *block)
{
    *(int *)user += block->n_rows;
    return 0;
}

static hsc_session *counted_session(int max_seqs, int *n_rows)
{
    hsc_session *s = session_of(16, max_seqs); /* of one thread */
    hsc_observer rows = {.site = HSC_RESID_MID, .layer = 0, .fn = count_rows, .user = n_rows};
    *n_rows = 0;
    assert_int_equal(hsc_session_observe(s, &rows, NULL), HSC_OK);
    return s;
}

/* Several texts from one prompt cost what their batch does: the prompt is read once, then each step is one row a text.
 * The first token of all comes from the prompt's last row. */
static void test_work(void **unused)
{
    (void)unused;
    enum { PROMPT = 5, TOKENS = 6 };
    for (int n = 1; n <= 4; n++) {
        int n_rows;
        written out[4];
        hsc_session *s = counted_session(n, &n_rows);
        hsc_generate_options o = {.sampling = {.temperature = 1}, .seed = 3, .max_tokens = TOKENS, .n_samples = n};
        write_all(s, &o, out);
        assert_int_equal(n_rows, PROMPT + n * (TOKENS - 1));
        hsc_session_free(s);
    }
    for (int n = 2; n <= 4; n++) {
        hsc_beam beams[4];
        int n_rows, n_found = 0;
        hsc_session *s = counted_session(2 * n, &n_rows);
        hsc_beam_options o = {.n_beams = n, .max_tokens = TOKENS};
        assert_int_equal(hsc_beam_search(s, prompt, PROMPT, &o, beams, &n_found, NULL), HSC_OK);
        assert_int_equal(n_rows, PROMPT + n * (TOKENS - 1));
        hsc_beams_free(beams, n_found);
        hsc_session_free(s);
    }
}

static hsc_status whole_way(hsc_error *err)
{
    hsc_session *s = NULL;
    hsc_generator *g = NULL;
    hsc_beam beams[2] = {{0}};
    int n = 0;
    const char *const stops[] = {"x"};
    hsc_generate_options o = {.sampling = {.temperature = 1, .top_p = 0.9F, .repetition = 1.5F},
                              .n_samples = 2,
                              .max_tokens = 3,
                              .stops = stops,
                              .n_stops = 1};
    hsc_status status = hsc_session_new(&s, model, &(hsc_session_options){.n_threads = 1, .max_seqs = 4}, err);
    if (status == HSC_OK) status = hsc_generator_new(&g, s, prompt, 5, &o, err);
    while (status == HSC_OK && hsc_generator_running(g)) status = hsc_generator_next(g, err);
    hsc_generator_free(g);
    if (status == HSC_OK)
        status = hsc_beam_search(s, prompt, 5, &(hsc_beam_options){.n_beams = 2, .max_tokens = 3}, beams, &n, err);
    hsc_beams_free(beams, n);
    hsc_session_free(s);
    return status;
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    failing_alloc a;
    hsc_error err = {0};
    hsc_status status = HSC_ENOMEM;
    long n = 0;
    hsc_model_tokenizer(model, NULL); /* made once, kept by the model */
    while (status != HSC_OK) {
        failing_alloc_install(&a, ++n);
        status = whole_way(&err);
        failing_alloc_remove();
        assert_int_equal(a.held, 0);
        if (status != HSC_OK) assert_int_equal(status, HSC_ENOMEM);
        assert_true(n < 5000);
    }
    assert_true(n > 20);
}

/* A token longer than a stop string is not compared past the string's end, where no memory is. */
static void test_short_stop(void **unused)
{
    (void)unused;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    hsc__stop stop = {memcpy(pages + page - 2, "tz", 2), 2};
    hsc__reply reply = {.tokenizer = hsc_model_tokenizer(model, NULL), .stops = &stop, .n_stops = 1};
    bool stopped = true;
    assert_int_equal(hsc__reply_add(&reply, 12, &stopped, NULL), HSC_OK);
    assert_false(stopped);
    assert_int_equal(reply.n_shown, 3);
    assert_memory_equal(reply.text.data, "t12", 3);
    hsc__reply_free(&reply);
    munmap(pages, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples_are_single_runs),
                                       cmocka_unit_test(test_greedy_by_definition),
                                       cmocka_unit_test(test_context),
                                       cmocka_unit_test(test_cached),
                                       cmocka_unit_test(test_records),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_beams_by_definition),
                                       cmocka_unit_test(test_search_by_definition),
                                       cmocka_unit_test(test_work),
                                       cmocka_unit_test(test_out_of_memory)};
    const struct CMUnitTest padded[] = {cmocka_unit_test(test_greedy_by_definition),
                                        cmocka_unit_test(test_beams_by_definition),
                                        cmocka_unit_test(test_search_by_definition), cmocka_unit_test(test_short_stop)};
    int n_failed = cmocka_run_group_tests(tests, open_model, close_model);
    return n_failed + cmocka_run_group_tests(padded, open_padded, close_model);
}
