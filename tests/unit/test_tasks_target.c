/* How the texts of a BART begin, by what its files say and leave unsaid. The answers are transformers' (5.24):
 * GenerationConfig.from_model_config, and bos_token_id where decoder_start_token_id is None. */
#include "headscope/tasks.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void add(tiny_model *m, const char *at, const char *part, int rows, int columns)
{
    char name[128];
    snprintf(name, sizeof name, "model.%s.%s.weight", at, part);
    tiny_add(m, name, rows, columns, 0.3f, columns ? 0 : 1);
    snprintf(name, sizeof name, "model.%s.%s.bias", at, part);
    if (strcmp(part, "embed_positions") != 0) tiny_add(m, name, rows, 0, 0.1f, 0);
}

static void add_attention(tiny_model *m, const char *at, const char *name)
{
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
    char part[64];
    for (int i = 0; i < 4; i++) {
        snprintf(part, sizeof part, "%s.%s", name, parts[i]);
        add(m, at, part, 8, 8);
    }
    snprintf(part, sizeof part, "%s_layer_norm", name);
    add(m, at, part, 8, 0);
}

static void add_side(tiny_model *m, const char *side)
{
    char at[32];
    snprintf(at, sizeof at, "%s.layers.0", side);
    add(m, side, "embed_positions", 18, 8);
    add(m, side, "layernorm_embedding", 8, 0);
    add_attention(m, at, "self_attn");
    if (side[0] == 'd') add_attention(m, at, "encoder_attn");
    add(m, at, "fc1", 12, 8);
    add(m, at, "fc2", 8, 12);
    add(m, at, "final_layer_norm", 8, 0);
}

/* Writes both files (NULL: no such file) beside the weights; the token that begins a text. */
static int start_of(const tiny_model *m, const char *more, const char *generation)
{
    char path[128];
    hsc_model *model;
    hsc_target target;
    hsc_error err = {0};
    const char *names[] = {"config.json", "generation_config.json"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", m->dir, names[i]);
        if (i && !generation) continue;
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        if (i) fputs(generation, f);
        else
            fprintf(
                f,
                "{\"model_type\":\"bart\",\"vocab_size\":23,\"d_model\":8,\"encoder_layers\":1,\"decoder_layers\":1,"
                "\"encoder_attention_heads\":2,\"decoder_attention_heads\":2,\"encoder_ffn_dim\":12,"
                "\"decoder_ffn_dim\":12,\"max_position_embeddings\":16%s}",
                more);
        fclose(f);
    }
    if (hsc_model_open(&model, m->dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    if (hsc_model_target(model, &target, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc_model_close(model);
    if (generation) unlink(path);
    return target.n_start == 1 ? target.start[0] : -1;
}

static void test_start(void **state)
{
    (void)state;
    tiny_model m = {.state = 3};
    tiny_config(&m, "");
    tiny_add(&m, "model.shared.weight", 23, 8, 1, 0);
    add_side(&m, "encoder");
    add_side(&m, "decoder");
    tiny_save(&m);
    assert_int_equal(start_of(&m, "", NULL), 2);
    assert_int_equal(start_of(&m, ",\"bos_token_id\":0", NULL), 2);
    assert_int_equal(start_of(&m, ",\"bos_token_id\":0,\"decoder_start_token_id\":5", NULL), 5);
    assert_int_equal(start_of(&m, ",\"bos_token_id\":0,\"decoder_start_token_id\":null", NULL), 0);
    assert_int_equal(start_of(&m, "", "{\"bos_token_id\":3}"), 3);
    assert_int_equal(start_of(&m, "", "{\"bos_token_id\":3,\"decoder_start_token_id\":4}"), 4);
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
