/* Rotary frequencies against values computed by the definition in double (cases B21, B22), and what is refused. */
#include "model/rope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static hsc__arena arena;
static hsc_config config;
static hsc__rope rope;
static hsc_error error;

/* Reads the settings of one config.json into `rope`. */
static hsc_status read(const char *text, int d_head, int n_ctx)
{
    json_t *json;
    const hsc__rope_defaults defaults = {.theta = 10000};
    assert_int_equal(hsc__json_parse(&json, text, strlen(text), "config.json", NULL), HSC_OK);
    hsc__source src = {.path = "model", .config = json, .config_path = "config.json", .arena = &arena, .prefix = ""};
    config = (hsc_config){.d_head = d_head, .n_ctx = n_ctx};
    error = (hsc_error){0};
    hsc_status status = hsc__rope_from_config(&src, &config, &defaults, &rope, &error);
    json_decref(json);
    return status;
}

static void assert_near(int i, double want)
{
    if (fabs(rope.inv_freq[i] - want) > 4e-7 * want) fail_msg("pair %d: %.9g, not %.9g", i, rope.inv_freq[i], want);
}

static int tear_down(void **state)
{
    (void)state;
    hsc__arena_free(&arena);
    return 0;
}

static void plain(void **state)
{
    (void)state;
    assert_int_equal(read("{\"rope_theta\": 10000.0}", 8, 64), HSC_OK);
    for (int i = 0; i < 4; i++) assert_near(i, pow(10000, -i / 4.0));
    assert_int_equal(rope.half, 4);
    assert_false(rope.scaled);
    assert_true(rope.scale == 1);
}

static void llama3(void **state)
{
    (void)state;
    const double small[] = {1, 0.013042256, 0.00125, 0.000125};
    static const char *const names[] = {"type", "rope_type"};
    for (int n = 0; n < 2; n++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"rope_scaling\": {\"%s\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
                 "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}}",
                 names[n]);
        assert_int_equal(read(text, 8, 512), HSC_OK);
        for (int i = 0; i < 4; i++) assert_near(i, small[i]);
        assert_true(rope.scaled);
    }
    assert_int_equal(read("{\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000.0, \"factor\": "
                          "32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                          "\"original_max_position_embeddings\": 8192}}",
                          64, 131072),
                     HSC_OK);
    const double llama32[] = {3.21144599e-3, 1.29054793e-3, 4.29556797e-4, 9.70828780e-5, 1.94616382e-5};
    for (int i = 0; i < 5; i++) assert_near(14 + i, llama32[i]);
}

static void linear_and_dynamic(void **state)
{
    (void)state;
    assert_int_equal(read("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}", 8, 64), HSC_OK);
    for (int i = 0; i < 4; i++) assert_near(i, pow(10000, -i / 4.0) / 4);
    assert_int_equal(read("{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}}", 8, 64), HSC_OK);
    for (int i = 0; i < 4; i++) assert_near(i, pow(10000, -i / 4.0));
}

/* Long sequences have other factors: the context ends where they would begin. */
static void longrope(void **state)
{
    (void)state;
    assert_int_equal(read("{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2, 4, 5], "
                          "\"long_factor\": [9, 9, 9, 9], \"original_max_position_embeddings\": 32}}",
                          8, 128),
                     HSC_OK);
    const double divisors[] = {1, 2, 4, 5};
    for (int i = 0; i < 4; i++) assert_near(i, pow(10000, -i / 4.0) / divisors[i]);
    assert_int_equal(config.n_ctx, 32);
    assert_true(fabs((double)rope.scale - sqrt(1 + log(4) / log(32))) < 1e-7);
}

/* The original length may stand beside the object, and then goes before what the object says; values of transformers'
 * LlamaRotaryEmbedding. */
static void original_length(void **state)
{
    (void)state;
    static const struct {
        const char *outside, *kind;
        double want[2];
    } cases[] = {
        {"", "\"yarn\"", {1, 0.19764235615730286}},
        {"\"original_max_position_embeddings\": null, ", "\"yarn\"", {1, 0.19764235615730286}},
        {"\"original_max_position_embeddings\": 16, ", "\"yarn\"", {1, 0.07905694097280502}},
        {"", "\"llama3\"", {1, 0.1273239552974701}},
        {"\"original_max_position_embeddings\": 16, ", "\"llama3\"", {0.6366197466850281, 0.07905694097280502}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[320];
        snprintf(text, sizeof text,
                 "{%s\"rope_scaling\": {\"rope_type\": %s, \"factor\": 4.0, \"low_freq_factor\": 1.0, "
                 "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}}",
                 cases[i].outside, cases[i].kind);
        assert_int_equal(read(text, 16, 64), HSC_OK);
        for (int k = 0; k < 2; k++) assert_near(k, cases[i].want[k]);
    }
}

static void refused(const char *text, hsc_status status, const char *words)
{
    assert_int_equal(read(text, 8, 64), status);
    if (!strstr(error.message, words)) fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

static void refusals(void **state)
{
    (void)state;
    refused("{\"rope_scaling\": {\"rope_type\": \"foo\"}}", HSC_EUNSUPPORTED, "\"foo\"");
    refused("{\"rope_scaling\": {\"rope_type\": \"linear\"}}", HSC_EFORMAT, "rope_scaling.factor");
    refused("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}}", HSC_EFORMAT, "low_freq_factor");
    refused("{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0}}", HSC_EFORMAT, "above 0");
    refused("{\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2]}}", HSC_EFORMAT, "4 numbers");
    refused("{\"rope_scaling\": [1]}", HSC_EFORMAT, "not an object");
    refused("{\"rope_parameters\": {\"full_attention\": {}}}", HSC_EUNSUPPORTED, "full_attention");
    refused("{\"rope_theta\": -1}", HSC_EFORMAT, "rope_theta");
    refused("{\"partial_rotary_factor\": 0.5}", HSC_EUNSUPPORTED, "partial_rotary_factor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(plain, tear_down),
        cmocka_unit_test_teardown(llama3, tear_down),
        cmocka_unit_test_teardown(linear_and_dynamic, tear_down),
        cmocka_unit_test_teardown(longrope, tear_down),
        cmocka_unit_test_teardown(original_length, tear_down),
        cmocka_unit_test_teardown(refusals, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
