/* Chat templates: what the language means, what is refused, and every failed allocation. The whole of it is held
 * against the real Jinja in tests/peers/test_chat.py. */
#include "failing_alloc.h"
#include "headscope/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const hsc_message messages[] = {{"user", " Hi "}, {"assistant", "Ho"}, {"user", "Ha"}};

/* Renders into out; the message of a failure otherwise. */
static hsc_status render(const char *text, char *out, size_t capacity)
{
    hsc_chat_template *t = NULL;
    hsc_error err = {0};
    hsc_status status = hsc_chat_template_new(&t, text, strlen(text), "<s>", NULL, &err);
    if (status == HSC_OK) {
        int64_t n = hsc_chat_render(t, messages, 3, 1, out, capacity - 1, &err);
        if (n < 0) status = (hsc_status)n;
        else out[n] = '\0';
    }
    if (status != HSC_OK) snprintf(out, capacity, "%s", err.message);
    hsc_chat_template_free(t);
    return status;
}

static void test_language(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
        {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
        {"{% for m in messages %}{{ m.role[0] }}{{ m['content'] | trim }}{{ ',' if not loop.last }}{% endfor %}",
         "uHi,aHo,uHa"},
        {"{{ bos_token }}{{ eos_token }}|{{ eos_token is defined }}", "<s>|False"},
        {"{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "3"},
        {"{% for m in messages[::-1] %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
         "Ha"},
        {"{% macro f(x, y='z') %}<{{ x }}{{ y }}>{% endmacro %}{{ f(1) }}{{ f(1, y=2) }}", "<1z><12>"},
        {"{{ 'a</t>b'.split('</t>')[-1] }}{{ add_generation_prompt }}{{ tools is none }}", "bTrueTrue"},
        {"{{ '\u3000\u00a0a\u2028'.strip() }}|{{ '\u00e9'.strip('\u00e8') }}|{{ 'a\u3000b c'.split() | length }}",
         "a|\u00e9|3"},
        {"a\r\n{% if true %}\r\nb\r{% endif %}\r\nc\r\n", "a\nb\nc"},
        {"{{ {'a': [1]} == {'a': [1]} }}{{ {'a': 1} == {'b': 1} }}{{ namespace() == namespace() }}", "TrueFalseFalse"},
        {"{{ \"it's\" | title }}{{ \"it's\".title() }}{{ ['a\\'b\"'] }}{{ 'a\b' | tojson }}",
         "It'sIt'S['a\\'b\"']\"a\\b\""},
        {"{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}", "111243"},
        {"{{ '' | default('d', boolean=true) }}{{ 'xa' | trim(chars='x') }}", "da"},
        {"{{ 7 // 2 }}{{ -7 % 3 }}{{ 1 + 2 * 3 }}{{ 'a' ~ 1 }}", "327a1"}};
    char got[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(render(cases[i].text, got, sizeof got), HSC_OK);
        assert_string_equal(got, cases[i].want);
    }
}

/* A value that is put into a list over and over. */
#define NEST(times, into)                                                                                              \
    "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(" times ") %}{% set ns.a = " into " %}{% endfor %}"

static void test_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        hsc_status status;
        const char *says;
    } cases[] = {{"{{ raise_exception('no system') }}", HSC_EINVAL, "refused: no system"},
                 {"a\n{{ x | frobnicate }}", HSC_EUNSUPPORTED, "line 2: unknown filter 'frobnicate'"},
                 {"{% include 'a' %}", HSC_EUNSUPPORTED, "unknown statement 'include'"},
                 {"{% if true %}", HSC_EFORMAT, "no end"},
                 {"{{ 'a' + 1 }}", HSC_EFORMAT, "cannot be added"},
                 {"{{ {} | tojson(indent=2) }}", HSC_EUNSUPPORTED, "an argument named 'indent'"},
                 {"{{ {} | tojson(2) }}", HSC_EUNSUPPORTED, "unknown filter 'tojson'"},
                 {"{{ messages | join(', ', attribute='role') }}", HSC_EUNSUPPORTED, "an argument named 'attribute'"},
                 {"{{ 'a,b'.split(sep=',') }}", HSC_EUNSUPPORTED, "an argument named 'sep'"},
                 {"{{ '\u00e9' | upper }}", HSC_EUNSUPPORTED, "beyond ASCII"},
                 {"{{ 3 > 2 == true }}", HSC_EUNSUPPORTED, "a chain of comparisons"},
                 {"{{ 'abc'.startswith(('a', 'b')) }}", HSC_EUNSUPPORTED, "unknown method 'startswith'"},
                 {"{{ 'abc'.split('') }}", HSC_EFORMAT, "split at nothing"},
                 {"{% for i in [1] %}{% macro f() %}{{ i }}{% endmacro %}{% endfor %}", HSC_EUNSUPPORTED,
                  "a macro inside a loop"},
                 {"{{ missing.x }}", HSC_EFORMAT, "undefined"},
                 {"{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}",
                  HSC_EUNSUPPORTED, "does not come to an end"},
                 {"{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}", HSC_EUNSUPPORTED,
                  "does not come to an end"},
                 {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", HSC_EUNSUPPORTED, "does not come to an end"},
                 {"{% set ns = namespace() %}{% set ns.me = ns %}\n{{ ns }}", HSC_EUNSUPPORTED,
                  "line 2: a value does not come to an end"},
                 {NEST("9999", "[ns.a]") "{{ ns.a | tojson }}", HSC_EUNSUPPORTED, "a value does not come to an end"},
                 {NEST("99", "[ns.a, ns.a]") "{{ 'x' ~ ns.a }}", HSC_EUNSUPPORTED, "a value does not come to an end"},
                 {NEST("99", "[ns.a, ns.a]") "{{ ns.a | join }}", HSC_EUNSUPPORTED, "a value does not come to an end"}};
    char got[1024], deep[2000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(render(cases[i].text, got, sizeof got), cases[i].status);
        assert_non_null(strstr(got, cases[i].says));
    }
    memset(deep, '(', sizeof deep);
    memcpy(deep, "{{ ", 3);
    deep[sizeof deep - 1] = '\0';
    assert_int_equal(render(deep, got, sizeof got), HSC_EUNSUPPORTED);
    for (size_t i = 0; i + 4 < sizeof deep; i += 4) memcpy(deep + i, i ? "not " : " {{ ", 4);
    assert_int_equal(render(deep, got, sizeof got), HSC_EUNSUPPORTED);
    /* Two values that hold themselves twice, a hundred levels down, are not compared to the end of time. */
    static const char equal[] = NEST("99", "[ns.a, ns.a]") "{% for i in range(99) %}{% set ns.b = [ns.b, ns.b] %}"
                                                           "{% endfor %}{{ ns.a == ns.b }}";
    assert_int_equal(render(equal, got, sizeof got), HSC_OK);
    assert_string_equal(got, "False");
}

/* A text that is doubled so many times, as ns.s. */
#define DOUBLE(times)                                                                                                  \
    "{% set ns = namespace(s='x') %}{% for i in range(" times ") %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"

/* What a few lines blow up ends before the memory does. */
static void test_too_large(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *says;
    } cases[] = {{DOUBLE("18") "{{ ns.s[:1200] | join(ns.s) }}", "a text of more than 268435456 bytes"},
                 {DOUBLE("15") "{{ ns.s.replace('xx', ns.s) }}", "a text of more than 268435456 bytes"},
                 {DOUBLE("23") "{{ ns.s | list }}", "a list of 8388608 elements, 4194304 are the most"},
                 {DOUBLE("23") "{{ ns.s.split('x') | length }}", "a list of 8388609 elements"}};
    char got[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(render(cases[i].text, got, sizeof got), HSC_EUNSUPPORTED);
        assert_non_null(strstr(got, cases[i].says));
    }
}

/* A part that nearly stands at millions of places is looked for in one go: place by place would take minutes. */
static void test_repeated_text(void **unused)
{
    (void)unused;
    static const char text[] =
        DOUBLE("22") "{% set part = ns.s ~ 'y' %}{% set ns.s = ns.s ~ ns.s %}"
                     "{{ part in ns.s }},{{ ns.s.split(part) | length }},{{ ns.s.replace(part, '') | length }};"
                     "{% set ns.s = ns.s ~ 'y' %}"
                     "{{ part in ns.s }},{{ ns.s.split(part) | length }},{{ ns.s.replace(part, '') | length }}";
    char got[512];
    assert_int_equal(render(text, got, sizeof got), HSC_OK);
    assert_string_equal(got, "False,1,8388608;True,2,4194304");
}

/* Each string takes room for itself alone, and a message shows nothing from behind the template's end. */
static void test_long_and_cut(void **unused)
{
    (void)unused;
    static const char one[] = "{{ '' }}";
    static char text[16000 * (sizeof one - 1) + 1];
    char got[512];
    for (size_t i = 0; i + 1 < sizeof text; i += sizeof one - 1) memcpy(text + i, one, sizeof one);
    assert_int_equal(render(text, got, sizeof got), HSC_OK);
    assert_string_equal(got, "");
    assert_int_equal(render("a\r{{ 1.5", got, sizeof got), HSC_EUNSUPPORTED);
    assert_non_null(strstr(got, "a number that is not a small whole one: '1.5'"));
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    static const char text[] = "{% macro f(x) %}{{ x | upper }}{% endmacro %}{% set ns = namespace(a=[1, 2] + [3]) %}"
                               "{% for m in messages if m.role != 'x' %}{{ f(m.content.strip()) ~ ns.a }}{% endfor %}";
    failing_alloc a;
    hsc_status status = HSC_ENOMEM;
    char got[512];
    long n = 0;
    while (status != HSC_OK) {
        failing_alloc_install(&a, ++n);
        status = render(text, got, sizeof got);
        failing_alloc_remove();
        assert_int_equal(a.held, 0);
        if (status != HSC_OK) assert_int_equal(status, HSC_ENOMEM);
        assert_true(n < 1000);
    }
    assert_string_equal(got, "HI[1, 2, 3]HO[1, 2, 3]HA[1, 2, 3]");
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_language),     cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_too_large),    cmocka_unit_test(test_repeated_text),
                                       cmocka_unit_test(test_long_and_cut), cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
