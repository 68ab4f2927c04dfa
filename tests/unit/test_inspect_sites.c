/* hsc_site_row is what a pass records of every site: in both stacks of an encoder-decoder, and where an output matrix
 * reads fewer numbers than a layer writes. The kinds of sites are what their shapes say. */
#include "headscope/analysis.h"
#include "headscope/intervene.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), HSC_OK)

typedef struct {
    const char *name;
    int rows, columns;
} tensor;

static void make(tiny_model *m, const char *config, const tensor *tensors, size_t n)
{
    *m = (tiny_model){.state = 5};
    tiny_config(m, config);
    for (size_t i = 0; i < n; i++)
        tiny_add(m, tensors[i].name, tensors[i].rows, tensors[i].columns, 0.3f, tensors[i].columns ? 0 : 1);
    tiny_save(m);
}

/* Heads of 8 in streams of 10: nothing is as wide as something else. */
#define ATTENTION(at)                                                                                                  \
    {at ".q.weight", 16, 10}, {at ".k.weight", 16, 10}, {at ".v.weight", 16, 10},                                      \
    {                                                                                                                  \
        at ".o.weight", 10, 16                                                                                         \
    }
#define FEED_FORWARD(at)                                                                                               \
    {at ".wi.weight", 48, 10},                                                                                         \
    {                                                                                                                  \
        at ".wo.weight", 10, 48                                                                                        \
    }
static const tensor t5[] = {
    {"shared.weight", 23, 10},
    ATTENTION("encoder.block.0.layer.0.SelfAttention"),
    {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 8, 2},
    {"encoder.block.0.layer.0.layer_norm.weight", 10, 0},
    FEED_FORWARD("encoder.block.0.layer.1.DenseReluDense"),
    {"encoder.block.0.layer.1.layer_norm.weight", 10, 0},
    {"encoder.final_layer_norm.weight", 10, 0},
    ATTENTION("decoder.block.0.layer.0.SelfAttention"),
    {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 8, 2},
    {"decoder.block.0.layer.0.layer_norm.weight", 10, 0},
    ATTENTION("decoder.block.0.layer.1.EncDecAttention"),
    {"decoder.block.0.layer.1.layer_norm.weight", 10, 0},
    FEED_FORWARD("decoder.block.0.layer.2.DenseReluDense"),
    {"decoder.block.0.layer.2.layer_norm.weight", 10, 0},
    {"decoder.final_layer_norm.weight", 10, 0},
};

#define LINEAR(at, out, in)                                                                                            \
    {at ".weight", out, in},                                                                                           \
    {                                                                                                                  \
        at ".bias", out, 0                                                                                             \
    }
#define OPT_CONFIG                                                                                                     \
    "{\"model_type\":\"opt\",\"vocab_size\":23,\"hidden_size\":16,\"word_embed_proj_dim\":6,\"ffn_dim\":48,"           \
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"max_position_embeddings\":32}"
static const tensor opt[] = {
    {"model.decoder.embed_tokens.weight", 23, 6},
    {"model.decoder.project_in.weight", 16, 6},
    {"model.decoder.project_out.weight", 6, 16},
    {"model.decoder.embed_positions.weight", 34, 16},
    LINEAR("model.decoder.layers.0.self_attn.q_proj", 16, 16),
    LINEAR("model.decoder.layers.0.self_attn.k_proj", 16, 16),
    LINEAR("model.decoder.layers.0.self_attn.v_proj", 16, 16),
    LINEAR("model.decoder.layers.0.self_attn.out_proj", 16, 16),
    LINEAR("model.decoder.layers.0.self_attn_layer_norm", 16, 0),
    LINEAR("model.decoder.layers.0.fc1", 48, 16),
    LINEAR("model.decoder.layers.0.fc2", 16, 48),
    LINEAR("model.decoder.layers.0.final_layer_norm", 16, 0),
    LINEAR("model.decoder.final_layer_norm", 16, 0),
};

/* Compares every site of the model in m, and takes m away. */
static void compare(tiny_model *m, bool reads_source)
{
    const hsc_token ids[] = {3, 1, 4, 1, 5};
    hsc_batch batch = {.ids = ids, .n_tokens = 5, .logits = HSC_LOGITS_ALL};
    hsc_model *model;
    hsc_session *s;
    hsc_view view;
    hsc_error err = {0};
    OK(hsc_model_open(&model, m->dir, NULL, &err));
    OK(hsc_session_new(&s, model, &(hsc_session_options){.max_tokens = 8, .max_source = reads_source ? 8 : 0}, &err));
    for (int i = 0; i < HSC_N_SITES; i++)
        if (hsc_model_has_site(model, (hsc_site)i))
            OK(hsc_session_record(s, &(hsc_record){(hsc_site)i, -1, -1, -1}, &err));
    if (reads_source) OK(hsc_session_read_source(s, &batch, &err));
    OK(hsc_forward(s, &batch, &err));
    for (int i = 0; i < HSC_N_SITES; i++) {
        const char *name = hsc_site_name((hsc_site)i);
        int64_t row = 0;
        if (hsc_model_has_site(model, (hsc_site)i) && !strstr(name, "pattern") && !strstr(name, "scores")) {
            OK(hsc_session_activation(s, (hsc_site)i, 0, 0, &view, &err));
            row = 1;
            for (int k = 1; k < view.n_dims; k++) row *= view.shape[k];
        }
        if (hsc_site_row(model, (hsc_site)i) != row) fail_msg("%s: %d", name, hsc_site_row(model, (hsc_site)i));
    }
    assert_int_equal(hsc_site_row(model, HSC_N_SITES), 0);
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(m);
}

static void test_two_stacks(void **state)
{
    (void)state;
    tiny_model m;
    make(&m,
         "{\"model_type\":\"t5\",\"vocab_size\":23,\"d_model\":10,\"d_kv\":8,\"d_ff\":48,\"num_layers\":1,"
         "\"num_heads\":2,\"relative_attention_num_buckets\":8,\"relative_attention_max_distance\":6}",
         t5, sizeof t5 / sizeof *t5);
    compare(&m, true);
}

static void test_narrow_head(void **state)
{
    (void)state;
    tiny_model m;
    make(&m, OPT_CONFIG, opt, sizeof opt / sizeof *opt);
    compare(&m, false);
}

/* What is said of a site by its kind is what its shape says. */
static void test_kinds(void **state)
{
    (void)state;
    for (int i = 0; i < HSC_N_SITES; i++) {
        hsc_site site = (hsc_site)i;
        const char *shape = hsc_site_shape(site);
        hsc_heads heads = strstr(shape, "n_kv_heads") ? HSC_KV_HEADS
                          : strstr(shape, "n_heads")  ? HSC_QUERY_HEADS
                                                      : HSC_NO_HEADS;
        bool map = strncmp(shape, "[n_heads]", 9) == 0, of_source = strncmp(shape, "[n_source]", 10) == 0;
        if (map) of_source = strncmp(shape + 9, "[n_source]", 10) == 0;
        if (hsc_site_heads(site) != heads || !hsc_site_is_map(site) != !map ||
            !hsc_site_is_of_source(site) != !of_source)
            fail_msg("%s: %s", hsc_site_name(site), shape);
    }
    assert_int_equal(hsc_site_heads(HSC_N_SITES), HSC_NO_HEADS);
}

static hsc_status one_text(void *user, int64_t index, hsc_corpus_text *out, int *is_end, hsc_error *err)
{
    (void)err;
    *is_end = index > 0;
    out->ids = user;
    out->n_tokens = 5;
    return HSC_OK;
}

/* An export of the narrow site is what a pass records. */
static void test_export(void **state)
{
    (void)state;
    tiny_model m;
    hsc_model *model;
    hsc_session *s;
    hsc_view view;
    hsc_error err = {0};
    hsc_token ids[] = {3, 1, 4, 1, 5};
    float rows[5 * 6];
    char path[128];
    make(&m, OPT_CONFIG, opt, sizeof opt / sizeof *opt);
    OK(hsc_model_open(&model, m.dir, NULL, &err));
    snprintf(path, sizeof path, "%s/rows.npy", m.dir);
    OK(hsc_export(model, path, &(hsc_export_options){.site = HSC_LN_HEAD, .next = one_text, .user = ids}, NULL, &err));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, -(long)sizeof rows, SEEK_END), 0);
    assert_int_equal(fread(rows, 1, sizeof rows, f), sizeof rows);
    fclose(f);
    unlink(path);
    OK(hsc_session_new(&s, model, NULL, &err));
    OK(hsc_session_record(s, &(hsc_record){HSC_LN_HEAD, -1, -1, -1}, &err));
    OK(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 5, .logits = HSC_LOGITS_ALL}, &err));
    OK(hsc_session_activation(s, HSC_LN_HEAD, 0, 0, &view, &err));
    assert_memory_equal(rows, view.data, sizeof rows);
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_stacks),
        cmocka_unit_test(test_narrow_head),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_export),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
