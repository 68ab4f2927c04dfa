/* llama2.c's checkpoints: the tensors of a small one by their places, and everything that is not one. */
#include "formats/llama2c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* d_model 4, d_mlp 6, 2 layers, 2 heads, 1 kv head, 3 tokens, 5 positions: floats of the file by the format's list. */
enum {
    EMBED = 3 * 4,
    NORMS = 2 * 4,
    Q = 2 * 16,
    KV = 2 * 8,
    MLP = 2 * 24,
    ANGLES = 2 * 5,
    SHARED = EMBED + NORMS + Q + 2 * KV + Q + NORMS + 3 * MLP + 4 + ANGLES,
    OWN = SHARED + EMBED,
};

typedef struct {
    int32_t header[7];
    float values[OWN];
} file;

static file make(int vocabulary)
{
    file f = {.header = {4, 6, 2, 2, 1, vocabulary, 5}};
    for (int i = 0; i < OWN; i++) f.values[i] = (float)i;
    return f;
}

static size_t bytes(int n_floats)
{
    return 28 + 4 * (size_t)n_floats;
}

/* The first value of a tensor tells where it lies. */
static void assert_at(const hsc__tensors *set, const char *name, int64_t rows, int64_t columns, int first)
{
    const hsc__tensor *t = hsc__tensors_find(set, name);
    float value;
    if (!t) fail_msg("there is no %s", name);
    memcpy(&value, t->data, sizeof value);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->n_dims, columns ? 2 : 1);
    if (columns) assert_int_equal(t->shape[1], columns);
    assert_int_equal((int)value, first);
}

static void every_tensor_has_its_place(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        file f = make(own ? -3 : 3);
        hsc__tensors *set;
        hsc__llama2c h;
        assert_int_equal(hsc__llama2c_parse(&set, &f, bytes(own ? OWN : SHARED), "file", &h, NULL), HSC_OK);
        assert_int_equal(h.d_vocab, 3);
        assert_int_equal(h.shared, !own);
        assert_at(set, "token_embd.weight", 3, 4, 0);
        assert_at(set, "blk.1.attn_norm.weight", 4, 0, EMBED + 4);
        assert_at(set, "blk.0.attn_q.weight", 4, 4, EMBED + NORMS);
        assert_at(set, "blk.1.attn_k.weight", 2, 4, EMBED + NORMS + Q + 8);
        assert_at(set, "blk.0.attn_v.weight", 2, 4, EMBED + NORMS + Q + KV);
        assert_at(set, "blk.0.attn_output.weight", 4, 4, EMBED + NORMS + Q + 2 * KV);
        int ffn = EMBED + 2 * NORMS + 2 * Q + 2 * KV;
        assert_at(set, "blk.0.ffn_norm.weight", 4, 0, ffn - NORMS);
        assert_at(set, "blk.1.ffn_gate.weight", 6, 4, ffn + 24);
        assert_at(set, "blk.0.ffn_down.weight", 4, 6, ffn + MLP);
        assert_at(set, "blk.0.ffn_up.weight", 6, 4, ffn + 2 * MLP);
        assert_at(set, "output_norm.weight", 4, 0, ffn + 3 * MLP);
        if (own) assert_at(set, "output.weight", 3, 4, SHARED);
        else assert_null(hsc__tensors_find(set, "output.weight"));
        hsc__tensors_close(set);
    }
}

static void refused(const file *f, size_t n)
{
    hsc__tensors *set;
    hsc__llama2c h;
    hsc_error err = {0};
    assert_int_equal(hsc__llama2c_parse(&set, f, n, "file", &h, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "file: is no llama2.c checkpoint"));
    assert_null(set);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    file f = make(3);
    refused(&f, bytes(SHARED) - 1);
    refused(&f, bytes(SHARED) + 1);
    refused(&f, bytes(OWN));
    refused(&f, 27);
    refused(&f, 0);
    for (int i = 0; i < 7; i++) {
        static const int32_t wrong[] = {0, INT32_MIN, INT32_MAX, -1};
        for (int k = 0; k < 4; k++) {
            f = make(3);
            f.header[i] = wrong[k];
            refused(&f, bytes(SHARED));
        }
    }
    f = make(3);
    f.header[3] = 4; /* heads of one value have no pairs */
    refused(&f, bytes(SHARED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_has_its_place),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
