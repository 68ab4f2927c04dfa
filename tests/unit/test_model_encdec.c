/* Encoder-decoders: a row is the same bits for any threads, batch, chunk and cut of the cache; a fork reads its
 * parent's source; biases by distance, and what cross-attention sees; what a pass without a source, a missing tensor
 * and a wrong shape are told as. */
#include "tiny_t5.h"

/* Logits of every row of the second of two texts, or of that text alone, fed `step` tokens at a time. */
static void run(const hsc_model *model, const hsc_session_options *options, bool alone, int step, float *logits)
{
    hsc_error err = {0};
    hsc_session *s;
    hsc_view view;
    const int sources[2] = {N_SOURCE, N_SOURCE};
    int n_seqs = alone ? 1 : 2, skip = alone ? 1 : 0;
    OK(hsc_session_new(&s, model, options, &err));
    hsc_batch read = {
        .ids = source + skip * N_SOURCE, .n_tokens = n_seqs * N_SOURCE, .seq_lengths = sources, .n_seqs = n_seqs};
    OK(hsc_session_read_source(s, &read, &err));
    for (int from = 0; from < N_TARGET; from += step) {
        int n = from + step < N_TARGET ? step : N_TARGET - from, lengths[2] = {n, n};
        hsc_token ids[2 * N_TARGET];
        for (int i = skip; i < 2; i++)
            memcpy(ids + (i - skip) * n, target + i * N_TARGET + from, (size_t)n * sizeof *ids);
        hsc_batch batch = {
            .ids = ids, .n_tokens = n_seqs * n, .seq_lengths = lengths, .n_seqs = n_seqs, .logits = HSC_LOGITS_ALL};
        OK(hsc_forward(s, &batch, &err));
        OK(hsc_session_logits(s, &view, &err));
        memcpy(logits + from * VOCABULARY, view.data + (alone ? 0 : n) * VOCABULARY,
               (size_t)(n * VOCABULARY) * sizeof *logits);
    }
    hsc_session_free(s);
}

static void test_same_bits(void **state)
{
    (void)state;
    tiny_model m;
    hsc_model *model;
    float want[N_TARGET * VOCABULARY], got[N_TARGET * VOCABULARY];
    const struct {
        int threads, chunk, step;
        bool alone;
    } ways[] = {{2, 0, N_TARGET, false}, {1, 3, N_TARGET, false}, {3, 0, 2, false}, {1, 0, 1, true}, {2, 1, 3, true}};
    model = open_t5(&m);
    run(model, &(hsc_session_options){.n_threads = 1, .max_tokens = 64, .max_seqs = 2, .max_source = 64}, false,
        N_TARGET, want);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        hsc_session_options o = {
            .n_threads = ways[i].threads, .max_tokens = 64, .max_seqs = 2, .chunk = ways[i].chunk, .max_source = 64};
        run(model, &o, ways[i].alone, ways[i].step, got);
        assert_memory_equal(want, got, sizeof want);
    }
    hsc_model_close(model);
    tiny_remove(&m);
}

/* Watching changes nothing, cross-attention sums to 1 over the source, and a fork reads what its parent reads. */
static void test_sites_and_forks(void **state)
{
    (void)state;
    tiny_model m;
    hsc_model *model;
    hsc_session *s;
    hsc_view view;
    hsc_error err = {0};
    model = open_t5(&m);
    OK(hsc_session_new(&s, model, &(hsc_session_options){.max_tokens = 64, .max_seqs = 3, .max_source = 64}, &err));
    for (int site = 0; site < HSC_N_SITES; site++)
        if (hsc_model_has_site(model, (hsc_site)site))
            OK(hsc_session_record(s, &(hsc_record){(hsc_site)site, -1, -1, -1}, &err));
    hsc_batch batch = {.ids = source, .n_tokens = N_SOURCE};
    OK(hsc_session_read_source(s, &batch, &err));
    assert_int_equal(hsc_session_source_length(s, 0), N_SOURCE);
    assert_int_equal(hsc_session_source_length(s, 1), 0);
    batch = (hsc_batch){.ids = target, .n_tokens = N_TARGET, .logits = HSC_LOGITS_ALL};
    OK(hsc_forward(s, &batch, &err));
    OK(hsc_session_activation(s, HSC_CROSS_PATTERN, 1, 0, &view, &err));
    assert_true(view.shape[0] == HEADS && view.shape[1] == N_TARGET && view.shape[2] == N_SOURCE);
    for (int64_t r = 0; r < HEADS * N_TARGET; r++) {
        float sum = 0;
        for (int k = 0; k < N_SOURCE; k++) sum += view.data[r * N_SOURCE + k];
        assert_float_equal(sum, 1, 1e-5);
    }
    OK(hsc_session_activation(s, HSC_CROSS_K, 1, 0, &view, &err));
    assert_true(view.shape[0] == N_SOURCE && view.shape[1] == HEADS && view.shape[2] == 8);
    OK(hsc_session_activation(s, HSC_ENC_PATTERN, 0, 0, &view, &err));
    assert_true(view.shape[1] == N_SOURCE && view.shape[2] == N_SOURCE);
    OK(hsc_session_fork(s, 0, 1, N_TARGET, &err));
    assert_int_equal(hsc_session_source_length(s, 1), N_SOURCE);
    const int one[2] = {1, 1};
    const hsc_token next[2] = {5, 5};
    batch = (hsc_batch){.ids = next, .n_tokens = 2, .seq_lengths = one, .n_seqs = 2};
    OK(hsc_forward(s, &batch, &err));
    OK(hsc_session_logits(s, &view, &err));
    assert_memory_equal(view.data, view.data + VOCABULARY, VOCABULARY * sizeof(float));
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(&m);
}

static const float *table_of(const tiny_model *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->arrays[i].name, name) == 0) return m->arrays[i].data;
    fail_msg("%s is not there", name);
    return NULL;
}

/* What stands in the scores besides q k: the entry of the table for the bucket of each distance. */
static void check_bias(const hsc_session *s, hsc_site scores, hsc_site queries, hsc_site keys, const float *table,
                       const int *earlier, const int *later, int n)
{
    hsc_error err = {0};
    hsc_view view, q, k;
    OK(hsc_session_activation(s, scores, 1, 0, &view, &err));
    OK(hsc_session_activation(s, queries, 1, 0, &q, &err));
    OK(hsc_session_activation(s, keys, 1, 0, &k, &err));
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < (later ? n : i + 1); j++) {
                int bucket = j > i ? later[j - i] : earlier[i - j];
                double want = (double)table[bucket * HEADS + h];
                for (int c = 0; c < 8; c++)
                    want += (double)q.data[i * D + h * 8 + c] * (double)k.data[j * D + h * 8 + c];
                assert_float_equal(view.data[(h * n + i) * n + j], want, 1e-4);
            }
}

/* Buckets by the paper's rule, worked out by hand. The encoder's 8 are 4 for each direction, of which 2 are exact and
 * the others share the distances up to 6 by their logarithm: 2 log(d / 2) / log(3) more. The decoder's are 8 for
 * earlier keys, 4 of them exact. */
static void test_position_bias(void **state)
{
    (void)state;
    static const int earlier[N_SOURCE] = {0, 1, 2, 2, 3, 3, 3, 3, 3}, later[N_SOURCE] = {0, 5, 6, 6, 7, 7, 7, 7, 7};
    static const int before[N_TARGET] = {0, 1, 2, 3, 4, 6, 7};
    static const hsc_site sites[] = {HSC_ENC_ATTN_SCORES, HSC_ENC_Q, HSC_ENC_K, HSC_ATTN_SCORES, HSC_Q, HSC_K,
                                     HSC_CROSS_PATTERN};
    tiny_model m;
    hsc_model *model;
    hsc_session *s;
    hsc_view view;
    hsc_error err = {0};
    model = open_t5(&m);
    OK(hsc_session_new(&s, model, NULL, &err));
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
        OK(hsc_session_record(s, &(hsc_record){sites[i], 1, -1, -1}, &err));
    OK(hsc_session_read_source(s, &(hsc_batch){.ids = source, .n_tokens = N_SOURCE}, &err));
    OK(hsc_forward(s, &(hsc_batch){.ids = target, .n_tokens = N_TARGET}, &err));
    check_bias(s, HSC_ENC_ATTN_SCORES, HSC_ENC_Q, HSC_ENC_K,
               table_of(&m, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"), earlier, later,
               N_SOURCE);
    check_bias(s, HSC_ATTN_SCORES, HSC_Q, HSC_K,
               table_of(&m, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"), before, NULL,
               N_TARGET);
    OK(hsc_session_activation(s, HSC_CROSS_PATTERN, 1, 0, &view, &err));
    for (int i = 0; i < HEADS * N_TARGET; i++) { /* every token of the source is seen */
        double sum = 0;
        for (int j = 0; j < N_SOURCE; j++) {
            assert_true(view.data[i * N_SOURCE + j] > 0);
            sum += (double)view.data[i * N_SOURCE + j];
        }
        assert_float_equal(sum, 1, 1e-5);
    }
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(&m);
}

static void test_refusals(void **state)
{
    (void)state;
    tiny_model m;
    hsc_model *model;
    hsc_session *s;
    hsc_error err = {0};
    model = open_t5(&m);
    OK(hsc_session_new(&s, model, &(hsc_session_options){.max_tokens = 8, .max_source = 4}, &err));
    hsc_batch batch = {.ids = target, .n_tokens = 2};
    assert_int_equal(hsc_forward(s, &batch, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "hsc_session_read_source"));
    batch = (hsc_batch){.ids = source, .n_tokens = 5};
    assert_int_equal(hsc_session_read_source(s, &batch, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "the source: sequence 0 would have 5 tokens"));
    assert_int_equal(hsc_session_save(s, 0, "x.safetensors", &err), HSC_EUNSUPPORTED);
    hsc_session_free(s);
    assert_int_equal(hsc_session_new(&s, model, &(hsc_session_options){.max_source = 8193}, &err), HSC_EINVAL);
    hsc_model_close(model);
    m.arrays[1].shape[0]--; /* q of the encoder's first block */
    tiny_save(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "encoder.block.0.layer.0.SelfAttention.q.weight has shape [15, 16]"));
    m.arrays[1].shape[0]++;
    tiny_drop(&m); /* the last is the decoder's table of biases */
    tiny_save(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_EFORMAT);
    assert_non_null(
        strstr(err.message, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight is missing"));
    tiny_remove(&m);
}

/* A few bytes of configuration do not ask for gigabytes of biases. */
static void test_distance(void **state)
{
    (void)state;
    tiny_model m = {0};
    hsc_model *model;
    hsc_error err = {0};
    tiny_config(&m, "{\"model_type\":\"t5\",\"vocab_size\":23,\"d_model\":16,\"d_kv\":8,\"d_ff\":48,\"num_layers\":2,"
                    "\"num_heads\":2,\"relative_attention_max_distance\":20000}");
    tiny_add(&m, "shared.weight", VOCABULARY, D, 1, 0);
    tiny_save(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_EFORMAT);
    if (!strstr(err.message, "relative_attention_max_distance")) fail_msg("%s", err.message);
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_sites_and_forks), cmocka_unit_test(test_position_bias),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
