/* Names of repositories, revisions and files, and what the environment says about places. */
#include "test_hub_support.h"

#include "base/alloc.h"
#include "hub/name.h"
#include "hub/places.h"

static void repository_names(void **state)
{
    static const char *const good[] = {"gpt2", "org/name", "Foo-BAR_foo.bar123", "a/b", "123", "o_/n_"};
    static const char *const bad[] = {"",     "/",        "a/",  "/a",   "a/b/c", "a--b",  "a..b",
                                      ".a",   "a.",       "-a",  "a-/b", "a b",   "a.git", "o/n.git",
                                      "a\\b", "\xc3\xa9", "a\n", "../a", "a/.."};
    hsc__hub_name name;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(hsc__hub_name_parse(&name, good[i], NULL, NULL), HSC_OK);
        assert_string_equal(name.repo, good[i]);
        assert_string_equal(name.revision, "main");
        assert_false(name.has_revision);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hsc__hub_name_parse(&name, bad[i], NULL, NULL), HSC_EINVAL);
    char part[98], both[200];
    memset(part, 'x', sizeof part);
    part[96] = '\0';
    snprintf(both, sizeof both, "%s/%s", part, part);
    assert_int_equal(hsc__hub_name_parse(&name, both, NULL, NULL), HSC_OK);
    part[96] = 'x';
    part[97] = '\0';
    assert_int_equal(hsc__hub_name_parse(&name, part, NULL, NULL), HSC_EINVAL);
    char longest[1000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(hsc__hub_name_parse(&name, longest, NULL, NULL), HSC_EINVAL);
    assert_int_equal(hsc__hub_name_parse(&name, "a", longest, NULL), HSC_EINVAL);
}

static void revisions(void **state)
{
    static const char *const good[] = {"main", "v1.0", "refs/pr/3", "0123456", "a-b_c", "feature/x"};
    static const char *const bad[] = {"", "..", "../x", "a/../b", "/x", "x/", "a..b", "a b", "a\\b", "a:b", "x\ny"};
    hsc__hub_name name;
    hsc_error err;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(hsc__hub_name_parse(&name, "o/n", good[i], NULL), HSC_OK);
        assert_string_equal(name.revision, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hsc__hub_name_parse(&name, "o/n", bad[i], NULL), HSC_EINVAL);
    assert_int_equal(hsc__hub_name_parse(&name, "o/n@v2", NULL, NULL), HSC_OK);
    assert_string_equal(name.repo, "o/n");
    assert_string_equal(name.revision, "v2");
    assert_true(name.has_revision);
    assert_int_equal(hsc__hub_name_parse(&name, "o/n@v2", "v2", NULL), HSC_OK);
    assert_int_equal(hsc__hub_name_parse(&name, "o/n@v2", "v3", &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "v2"));
    assert_non_null(strstr(err.message, "v3"));
    assert_int_equal(hsc__hub_name_parse(&name, "o/n@", NULL, NULL), HSC_EINVAL);
}

static void file_names(void **state)
{
    static const char *const good[] = {"a",    "config.json", "sub/dir/x.gguf", ".gitattributes",
                                       "a..b", "...",         "\xc3\xa9 x"};
    static const char *const bad[] = {"",         "/a",        "a/",   "a//b",  "..",          ".",    "../a",
                                      "a/..",     "a/../b",    "./a",  "a/./b", "a\\b",        "a\nb", "\x7f",
                                      "a\x1b[2J", "a\xc2\x9b", "\xff", "a\xc3", "\xed\xa0\x80"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(hsc__hub_file_name_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(hsc__hub_file_name_ok(bad[i]));
    char part[258];
    memset(part, 'x', sizeof part);
    part[255] = '\0';
    assert_true(hsc__hub_file_name_ok(part));
    part[255] = 'x';
    part[256] = '\0';
    assert_false(hsc__hub_file_name_ok(part));
    assert_true(hsc__hub_is_hex(some_commit, 40));
    assert_false(hsc__hub_is_hex(some_commit, 39));
    assert_false(hsc__hub_is_hex(some_commit, 41));
    assert_false(hsc__hub_is_hex("ABCD", 4));
    assert_true(hsc__hub_is_hex("", 0));
}

static void old_names(void **state)
{
    (void)state;
    assert_string_equal(hsc__hub_new_name("gpt2"), "openai-community/gpt2");
    assert_string_equal(hsc__hub_old_name("openai-community/gpt2"), "gpt2");
    assert_null(hsc__hub_new_name("openai-community/gpt2"));
    assert_null(hsc__hub_old_name("gpt2"));
}

static void expect_cache(const char *wanted)
{
    char *cache = NULL, path[1024];
    assert_int_equal(hsc__hub_cache_dir(&cache, NULL), HSC_OK);
    snprintf(path, sizeof path, "%s%s%s", wanted[0] == '/' ? "" : scratch_dir, wanted[0] == '/' ? "" : "/", wanted);
    assert_string_equal(cache, path);
    hsc__free(cache);
}

/* In the order of precedence from the last to the first. */
static void cache_folder(void **state)
{
    (void)state;
    clear_environment();
    expect_cache(".cache/huggingface/hub");
    setenv("XDG_CACHE_HOME", "/xdg/", 1);
    expect_cache("/xdg/huggingface/hub");
    setenv("HF_HOME", "~/hf", 1);
    expect_cache("hf/hub");
    setenv("HF_HOME", "", 1);
    expect_cache("/xdg/huggingface/hub");
    setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
    expect_cache("/old");
    setenv("HF_HUB_CACHE", "$HOME/x${HF_HOME}y/$NOT_SET_z/${HOME", 1);
    expect_cache("xy/$NOT_SET_z/${HOME");
    setenv("HF_HUB_CACHE", "~other/$", 1);
    char *cache = NULL;
    assert_int_equal(hsc__hub_cache_dir(&cache, NULL), HSC_OK);
    assert_string_equal(cache, "~other/$");
    hsc__free(cache);
}

static void endpoint_and_token(void **state)
{
    hsc__hub_places places;
    hsc_error err;
    (void)state;
    clear_environment();
    assert_int_equal(hsc__hub_places_read(&places, NULL), HSC_OK);
    assert_string_equal(places.endpoint, "https://huggingface.co");
    assert_null(places.token);
    assert_false(places.offline);
    hsc__hub_places_free(&places);

    put_file(".cache/huggingface/token", "\n hf_file\r\n");
    setenv("HF_ENDPOINT", "HTTP://example.test//", 1);
    assert_int_equal(hsc__hub_places_read(&places, NULL), HSC_OK);
    assert_string_equal(places.endpoint, "HTTP://example.test");
    assert_string_equal(places.token, "hf_file");
    hsc__hub_places_free(&places);

    setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
    assert_int_equal(hsc__hub_places_read(&places, NULL), HSC_OK);
    assert_null(places.token);
    hsc__hub_places_free(&places);

    setenv("HF_TOKEN", "hf_variable", 1);
    assert_int_equal(hsc__hub_places_read(&places, NULL), HSC_OK);
    assert_string_equal(places.token, "hf_variable");
    hsc__hub_places_free(&places);

    setenv("HF_TOKEN", "hf_x\r\nHost: evil", 1);
    assert_int_equal(hsc__hub_places_read(&places, &err), HSC_EINVAL);
    assert_null(strstr(err.message, "evil")); /* no part of a token is ever shown */
    setenv("HF_TOKEN", "hf_variable", 1);
    static const char *const bad[] = {"http://[::1", "http://host:99999", "http://user:secret@host:x/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("HF_ENDPOINT", bad[i], 1);
        assert_int_equal(hsc__hub_places_read(&places, &err), HSC_EINVAL);
        assert_non_null(strstr(err.message, "HF_ENDPOINT"));
        assert_null(strstr(err.message, "secret"));
    }
    setenv("HF_ENDPOINT", "http://user:secret@host:8/hub/", 1);
    assert_int_equal(hsc__hub_places_read(&places, &err), HSC_OK);
    assert_string_equal(places.endpoint, "http://user:secret@host:8/hub");
    assert_string_equal(places.endpoint_shown, "http://host:8/hub");
    hsc__hub_places_free(&places);
    setenv("HF_ENDPOINT", "file:///etc", 1);
    assert_int_equal(hsc__hub_places_read(&places, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "HF_ENDPOINT"));
}

static void offline(void **state)
{
    static const char *const yes[] = {"1", "true", "YES", "On"}, *const no[] = {"0", "false", "", "2"};
    hsc__hub_places places;
    (void)state;
    clear_environment();
    for (int i = 0; i < 4; i++) {
        setenv("HF_HUB_OFFLINE", yes[i], 1);
        assert_int_equal(hsc__hub_places_read(&places, NULL), HSC_OK);
        assert_true(places.offline);
        hsc__hub_places_free(&places);
        setenv("HF_HUB_OFFLINE", no[i], 1);
        assert_int_equal(hsc__hub_places_read(&places, NULL), HSC_OK);
        assert_false(places.offline);
        hsc__hub_places_free(&places);
    }
    unsetenv("HF_HUB_OFFLINE");
    setenv("TRANSFORMERS_OFFLINE", "1", 1);
    assert_int_equal(hsc__hub_places_read(&places, NULL), HSC_OK);
    assert_true(places.offline);
    hsc__hub_places_free(&places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repository_names), cmocka_unit_test(revisions),    cmocka_unit_test(file_names),
        cmocka_unit_test(old_names),        cmocka_unit_test(cache_folder), cmocka_unit_test(endpoint_and_token),
        cmocka_unit_test(offline),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
