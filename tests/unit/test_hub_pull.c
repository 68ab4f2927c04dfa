/* The parts of a pull that need no server: checksums, the list of files and its choice, a connection that hangs. What a
 * server is needed for is in tests/cli/test_pull.py. */
#include "test_hub_support.h"

#include "base/alloc.h"
#include "hub/digest.h"
#include "hub/hub.h"
#include "hub/listing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* FIPS 180-2's own examples, and the sums that `git hash-object` gives. */
static void checksums(void **state)
{
    static const struct {
        const char *text, *sha256, *git;
    } known[] = {
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
         "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"},
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
    };
    hsc_error err;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        put_file("sum", known[i].text);
        assert_int_equal(hsc__digest_check(scratch_path("sum"), known[i].sha256, NULL, NULL, NULL), HSC_OK);
        assert_int_equal(hsc__digest_check(scratch_path("sum"), known[i].git, NULL, NULL, NULL), HSC_OK);
    }
    put_file("sum", "abd");
    assert_int_equal(hsc__digest_check(scratch_path("sum"), known[0].sha256, NULL, NULL, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, known[0].sha256));
    assert_int_equal(hsc__digest_check(scratch_path("sum"), known[0].git, NULL, NULL, NULL), HSC_EFORMAT);
    assert_int_equal(hsc__digest_check(scratch_path("absent"), known[0].git, NULL, NULL, NULL), HSC_EIO);
}

static int stop_at_once(void *user, uint64_t done)
{
    *(uint64_t *)user = done;
    return 1;
}

static void checksum_can_be_stopped(void **state)
{
    uint64_t done = 0;
    (void)state;
    put_file("sum", "abc");
    assert_int_equal(hsc__digest_check(scratch_path("sum"), some_commit, stop_at_once, &done, NULL), HSC_ECANCELED);
    assert_int_equal(done, 3);
}

static void list_of_files(void **state)
{
    static const char text[] =
        "{\"sha\":\"0123456789abcdef0123456789abcdef01234567\",\"siblings\":["
        "{\"rfilename\":\"config.json\",\"size\":3,\"blobId\":\"f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f\"},"
        "{\"rfilename\":\"model.safetensors\",\"size\":9,\"blobId\":\"f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f\","
        "\"lfs\":{\"size\":9,\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}},"
        "{\"rfilename\":\"merges.txt\"},{\"rfilename\":\"README.md\"}]}";
    hsc__listing listing;
    hsc__plan plan = {0};
    (void)state;
    assert_int_equal(hsc__listing_parse(&listing, text, strlen(text), "list", NULL), HSC_OK);
    assert_string_equal(listing.commit, some_commit);
    assert_int_equal(listing.n, 4);
    assert_int_equal(listing.files[0].size, 3);
    assert_string_equal(listing.files[0].oid, "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
    assert_string_equal(listing.files[1].oid, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(listing.files[2].size, -1);
    assert_string_equal(listing.files[2].oid, "");
    assert_int_equal(hsc__plan_default(&plan, &listing, "o/n", "http://x", NULL), HSC_OK);
    assert_int_equal(plan.n, 3);
    assert_string_equal(plan.files[0]->name, "config.json");
    assert_string_equal(plan.files[1]->name, "merges.txt");
    assert_string_equal(plan.files[2]->name, "model.safetensors");
    hsc__plan_free(&plan);
    hsc__listing_free(&listing);
}

/* A server that accepts and then says nothing. */
static int listen_silently(char endpoint[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    snprintf(endpoint, 64, "http://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

/* Notes the first retry and stops there. */
static int stop_at_retry(void *user, const hsc__pull_event *event)
{
    char *note = user;
    if (event->what != HSC__PULL_RETRY) return 0;
    snprintf(note, 256, "%s", event->note);
    return 1;
}

static void hanging_connection(void **state)
{
    char endpoint[64], note[256] = "", *path = NULL;
    (void)state;
    clear_environment();
    int fd = listen_silently(endpoint);
    setenv("HF_ENDPOINT", endpoint, 1);
    hsc__pull_options options = {.progress = stop_at_retry, .user = note, .stall_s = 1};
    time_t started = time(NULL);
    assert_int_equal(hsc__hub_pull("org/name", &options, &path, NULL), HSC_ECANCELED);
    assert_true(time(NULL) - started < 10);
    assert_null(path);
    assert_non_null(strstr(note, endpoint));
    close(fd);
}

static int count_retries(void *user, const hsc__pull_event *event)
{
    *(int *)user += event->what == HSC__PULL_RETRY;
    return 0;
}

/* A server that hangs up on everyone is tried five times and no more. */
static void connections_that_are_dropped(void **state)
{
    char endpoint[64], *path = NULL;
    int n_retries = 0;
    hsc_error err;
    (void)state;
    clear_environment();
    int fd = listen_silently(endpoint);
    pid_t child = fork();
    if (child == 0) {
        for (int client; (client = accept(fd, NULL, NULL)) >= 0;) close(client);
        _exit(0);
    }
    setenv("HF_ENDPOINT", endpoint, 1);
    hsc__pull_options options = {.progress = count_retries, .user = &n_retries, .backoff_ms = 1};
    assert_int_equal(hsc__hub_pull("org/name", &options, &path, &err), HSC_EIO);
    assert_int_equal(n_retries, 4);
    assert_non_null(strstr(err.message, "gave up after 5 tries"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(fd);
}

static int stop_now(void *user, const hsc__pull_event *event)
{
    (void)user, (void)event;
    return 1;
}

static void stopping_does_not_wait_for_the_server(void **state)
{
    char endpoint[64], *path = NULL;
    hsc_error err;
    (void)state;
    clear_environment();
    int fd = listen_silently(endpoint);
    setenv("HF_ENDPOINT", endpoint, 1);
    time_t started = time(NULL);
    assert_int_equal(hsc__hub_pull("org/name", &(hsc__pull_options){.progress = stop_now}, &path, &err), HSC_ECANCELED);
    assert_true(time(NULL) - started < 5);
    assert_non_null(strstr(err.message, "org/name: stopped"));
    close(fd);
}

static void arguments(void **state)
{
    const char *files[] = {"../x"};
    char *path = NULL;
    (void)state;
    clear_environment();
    assert_int_equal(hsc__hub_check("org/name", NULL, NULL), HSC_OK);
    assert_int_equal(hsc__hub_check("org//name", NULL, NULL), HSC_EINVAL);
    assert_int_equal(hsc__hub_check("a", &(hsc__pull_options){.files = files, .n_files = 1}, NULL), HSC_EINVAL);
    assert_int_equal(hsc__hub_pull("a", &(hsc__pull_options){.files = files, .n_files = 1}, &path, NULL), HSC_EINVAL);
    setenv("HF_HUB_OFFLINE", "1", 1);
    assert_int_equal(hsc__hub_pull("org/name", NULL, &path, NULL), HSC_ENOTFOUND);
    assert_null(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums),
        cmocka_unit_test(checksum_can_be_stopped),
        cmocka_unit_test(list_of_files),
        cmocka_unit_test(hanging_connection),
        cmocka_unit_test(connections_that_are_dropped),
        cmocka_unit_test(stopping_does_not_wait_for_the_server),
        cmocka_unit_test(arguments),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
