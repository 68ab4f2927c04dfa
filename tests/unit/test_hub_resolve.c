/* What -m NAME means: paths, names in the cache, revisions, old names, GGUF snapshots, and what is said when nothing is
 * found. */
#include "test_hub_support.h"

#include "base/alloc.h"
#include "hub/hub.h"

#define HUB ".cache/huggingface/hub/"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define OTHER "89abcdef0123456789abcdef0123456789abcdef"

/* The name resolves to <scratch>/wanted. */
static void expect(const char *name, const char *wanted)
{
    char *path = NULL;
    hsc_error err = {0};
    if (hsc__hub_resolve(name, &path, &err) != HSC_OK) fail_msg("%s: %s", name, err.message);
    assert_string_equal(path, scratch_path(wanted));
    hsc__free(path);
}

static void refuse(const char *name, hsc_status code, const char *says)
{
    char *path = (char *)"untouched";
    hsc_error err = {0};
    assert_int_equal(hsc__hub_resolve(name, &path, &err), code);
    assert_null(path);
    assert_int_equal(err.code, code);
    if (!strstr(err.message, says)) fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

static void fill_cache(void)
{
    clear_environment();
    put_file(HUB "models--org--tiny/refs/main", COMMIT "\n");
    put_file(HUB "models--org--tiny/refs/refs/pr/3", OTHER);
    put_file(HUB "models--org--tiny/snapshots/" COMMIT "/config.json", "{}");
    put_file(HUB "models--org--tiny/snapshots/" COMMIT "/model.safetensors", "");
    put_file(HUB "models--org--tiny/snapshots/" COMMIT "/extra.gguf", "");
    put_file(HUB "models--org--tiny/snapshots/" OTHER "/config.json", "{}");
}

static void paths(void **state)
{
    char *path = NULL, here[1024];
    (void)state;
    fill_cache();
    put_file("model.gguf", "");
    expect(scratch_path("model.gguf"), "model.gguf");
    expect(scratch_path(""), "");
    refuse("./absent", HSC_ENOTFOUND, "./absent: no such file or folder");
    refuse("/absent/org/tiny", HSC_ENOTFOUND, "no such file or folder");
    refuse("absent.gguf", HSC_ENOTFOUND, "absent.gguf: no such file or folder");
    refuse("", HSC_ENOTFOUND, "no such file or folder");
    refuse("what is this", HSC_ENOTFOUND, "not a repository's name");
    /* A path that exists wins over a name in the cache. */
    assert_non_null(getcwd(here, sizeof here));
    put_file("org/tiny/x", "");
    assert_int_equal(chdir(scratch_dir), 0);
    assert_int_equal(hsc__hub_resolve("org/tiny", &path, NULL), HSC_OK);
    assert_string_equal(path, "org/tiny");
    hsc__free(path);
    assert_int_equal(chdir(here), 0);
}

static void cached_names(void **state)
{
    (void)state;
    fill_cache();
    expect("org/tiny", HUB "models--org--tiny/snapshots/" COMMIT);
    expect("org/tiny@main", HUB "models--org--tiny/snapshots/" COMMIT);
    expect("org/tiny@refs/pr/3", HUB "models--org--tiny/snapshots/" OTHER);
    expect("org/tiny@" OTHER, HUB "models--org--tiny/snapshots/" OTHER);
    refuse("org/tiny@v9", HSC_ENOTFOUND, "`headscope pull org/tiny@v9`");
    refuse("org/absent", HSC_ENOTFOUND, "`headscope pull org/absent`");
    refuse("org/absent", HSC_ENOTFOUND, scratch_path(".cache/huggingface/hub"));
    refuse("org/tiny@"
           "1111111111111111111111111111111111111111",
           HSC_ENOTFOUND, "headscope pull");
    put_file(HUB "models--org--bad/refs/main", "../../../../etc");
    refuse("org/bad", HSC_EFORMAT, "does not hold a commit");
}

static void old_names(void **state)
{
    (void)state;
    fill_cache();
    refuse("gpt2", HSC_ENOTFOUND, "openai-community/gpt2");
    put_file(HUB "models--openai-community--gpt2/refs/main", COMMIT);
    put_file(HUB "models--openai-community--gpt2/snapshots/" COMMIT "/config.json", "{}");
    expect("gpt2", HUB "models--openai-community--gpt2/snapshots/" COMMIT);
    put_file(HUB "models--gpt2/refs/main", OTHER);
    put_file(HUB "models--gpt2/snapshots/" OTHER "/config.json", "{}");
    expect("gpt2", HUB "models--gpt2/snapshots/" OTHER);
    expect("openai-community/gpt2", HUB "models--openai-community--gpt2/snapshots/" COMMIT);
    put_file(HUB "models--distilgpt2/refs/main", COMMIT);
    put_file(HUB "models--distilgpt2/snapshots/" COMMIT "/config.json", "{}");
    expect("distilbert/distilgpt2", HUB "models--distilgpt2/snapshots/" COMMIT);
}

static void gguf_snapshots(void **state)
{
    (void)state;
    fill_cache();
    put_file(HUB "models--org--q/refs/main", COMMIT);
    put_file(HUB "models--org--q/snapshots/" COMMIT "/README.md", "");
    expect("org/q", HUB "models--org--q/snapshots/" COMMIT);
    put_file(HUB "models--org--q/snapshots/" COMMIT "/sub/q4.gguf", "");
    put_file(HUB "models--org--q/snapshots/" COMMIT "/config.json", "{}");
    expect("org/q", HUB "models--org--q/snapshots/" COMMIT "/sub/q4.gguf");
    put_file(HUB "models--org--q/snapshots/" COMMIT "/q8.gguf", "");
    refuse("org/q", HSC_EINVAL, "2 GGUF files");
}

static hsc_status resolve_once(void *unused)
{
    char *path = NULL;
    (void)unused;
    hsc_status status = hsc__hub_resolve("org/g", &path, NULL);
    hsc__free(path);
    return status;
}

static void out_of_memory(void **state)
{
    failing_alloc alloc;
    (void)state;
    fill_cache();
    put_file(HUB "models--org--g/refs/main", COMMIT);
    put_file(HUB "models--org--g/snapshots/" COMMIT "/sub/q4.gguf", "");
    failing_alloc_install(&alloc, 0);
    failing_alloc_each(&alloc, resolve_once, NULL);
    failing_alloc_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),          cmocka_unit_test(cached_names),  cmocka_unit_test(old_names),
        cmocka_unit_test(gguf_snapshots), cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
