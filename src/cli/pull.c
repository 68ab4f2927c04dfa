/*
 * headscope pull: fetches a model into the Hub's cache. The path of the snapshot goes to standard output; progress to
 * standard error, a line that is rewritten on a terminal and one line a file elsewhere. Ctrl-C stops between two
 * blocks, so what has come stays and the next pull goes on from it.
 */
#include "cli/cli.h"

#include "base/alloc.h"
#include "hub/hub.h"

#include <string.h>
#include <time.h>

typedef struct values {
    const char *revision;
    hsc__texts files;
    bool quiet;
} values;

static const hsc__option options[] = {
    {"revision", 0, HSC__OPT_TEXT, "REV", offsetof(values, revision), 0, 0,
     "A branch, tag or commit; the same as NAME@REV. Default: main."},
    {"file", 0, HSC__OPT_TEXTS, "FILE", offsetof(values, files), 0, 0,
     "Fetch this file of the repository and no others, for instance one of several .gguf files. May be repeated."},
    {"quiet", 'q', HSC__OPT_FLAG, NULL, offsetof(values, quiet), 0, 0, "No progress, only errors and the path."},
};

static const hsc__command command = {
    .name = "pull",
    .usage = "NAME[@REV] [options]",
    .about = "Fetches configuration, tokenizer and weights (safetensors, or the one GGUF file) of a Hugging Face "
             "repository into the cache that Hugging Face's own tools share, checks every file's checksum, and prints "
             "the folder. A pull that was stopped goes on where it was. Afterwards -m NAME finds the model.\n"
             "Environment: HF_HOME or HF_HUB_CACHE (where the cache is), HF_ENDPOINT (another server), HF_TOKEN or "
             "the token file in HF_HOME (gated and private repositories), HF_HUB_OFFLINE (never use the network), "
             "https_proxy.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope pull gpt2\n"
                "headscope pull HuggingFaceTB/SmolLM2-135M-Instruct\n"
                "headscope pull ORG/NAME --revision v1.0\n"
                "headscope pull ORG/NAME-GGUF --file model-Q8_0.gguf",
    .min_args = 1,
    .max_args = 1,
    .missing = "the name of the repository to fetch is missing, for instance gpt2",
};

/* What the progress line is made from. */
typedef struct meter {
    bool quiet, terminal;
    const char *waiting_for; /* a file whose wait has been told */
    double last_time;        /* seconds; when the line was drawn last */
    uint64_t last_done;
    double rate; /* bytes a second, smoothed; 0: not known yet */
} meter;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void format_size(char out[32], double n_bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    size_t unit = 0;
    if (n_bytes < 1000) {
        snprintf(out, 32, "%.0f B", n_bytes);
        return;
    }
    for (n_bytes /= 1000; n_bytes >= 999.95 && unit < 3; n_bytes /= 1000) unit++;
    snprintf(out, 32, "%.1f %s", n_bytes, units[unit]);
}

/* "0:25" or "2:03:04"; empty when the rate is not known. */
static void format_left(char out[48], const meter *m, const hsc__pull_event *event)
{
    out[0] = '\0';
    if (m->rate <= 0 || event->total < event->done) return;
    double seconds = (double)(event->total - event->done) / m->rate;
    if (seconds > 99 * 3600.0) return;
    int left = (int)seconds;
    if (left >= 3600) snprintf(out, 48, ", %d:%02d:%02d left", left / 3600, left / 60 % 60, left % 60);
    else snprintf(out, 48, ", %d:%02d left", left / 60, left % 60);
}

static void measure(meter *m, const hsc__pull_event *event, double time)
{
    double passed = time - m->last_time;
    if (event->what == HSC__PULL_BYTES && event->done >= m->last_done) {
        /* The newest reading weighs by its share of three seconds. */
        double weight = passed < 3 ? passed / 3 : 1, newest = (double)(event->done - m->last_done) / passed;
        m->rate = m->rate > 0 ? m->rate + weight * (newest - m->rate) : newest;
    }
    m->last_time = time;
    m->last_done = event->done;
}

/* Ten times a second: "3/6 model.safetensors [###.......] 164.4 MB of 548.1 MB, 12.3 MB/s, 0:31 left". */
static void draw(meter *m, const hsc__pull_event *event)
{
    enum { CELLS = 10 };
    char line[256], done[32], total[32], rate[32], left[48], bar[CELLS + 1];
    double time = now(), share = event->total ? (double)event->done / (double)event->total : 0;
    if (!event->file || time - m->last_time < 0.1) return;
    measure(m, event, time);
    for (int i = 0; i < CELLS; i++) bar[i] = i < (int)(share * CELLS) ? '#' : '.';
    bar[CELLS] = '\0';
    format_size(done, (double)event->done);
    format_size(total, (double)event->total);
    format_size(rate, m->rate);
    format_left(left, m, event);
    int n_name = (int)hsc__utf8_prefix(event->file, strnlen(event->file, 24));
    int n = snprintf(line, sizeof line, "%d/%d %.*s ", event->index, event->n_files, n_name, event->file);
    size_t room = sizeof line - (size_t)n;
    if (event->what == HSC__PULL_CHECK) snprintf(line + n, room, "[%s] checking", bar);
    else if (event->total) snprintf(line + n, room, "[%s] %s of %s, %s/s%s", bar, done, total, rate, left);
    else snprintf(line + n, room, "%s, %s/s", done, rate);
    hsc__cli_progress("%s", line);
}

static void say_file(const hsc__pull_event *event, const char *remark)
{
    char size[32];
    format_size(size, (double)event->done);
    hsc__cli_progress_end();
    fprintf(stderr, "%d/%d %s  %s%s\n", event->index, event->n_files, event->file, size, remark);
}

static int on_event(void *user, const hsc__pull_event *event)
{
    meter *m = user;
    if (m->quiet) return hsc__cli_interrupted();
    switch (event->what) {
    case HSC__PULL_FILE:
        m->last_time = now();
        m->last_done = event->done;
        m->rate = 0;
        break;
    case HSC__PULL_BYTES:
    case HSC__PULL_CHECK:
        if (m->terminal) draw(m, event);
        break;
    case HSC__PULL_DONE: say_file(event, ""); break;
    case HSC__PULL_CACHED: say_file(event, ", was here"); break;
    case HSC__PULL_RETRY: hsc__cli_note("%s; trying again", event->note); break;
    case HSC__PULL_WAITING:
        if (m->waiting_for != event->file) hsc__cli_note("%s: another process fetches it; waiting", event->file);
        m->waiting_for = event->file;
        break;
    }
    return hsc__cli_interrupted();
}

static int pull(const char *name, const hsc__pull_options *wanted)
{
    hsc_error err = {0};
    char *path = NULL;
    if (hsc__hub_check(name, wanted, &err) != HSC_OK) return hsc__cli_misuse(&command, "%s", err.message);
    hsc__cli_hold_interrupt(true);
    hsc_status status = hsc__hub_pull(name, wanted, &path, &err);
    if (status != HSC_OK) {
        hsc__cli_forget_interrupt(); /* where it stopped is told */
        int exit_status = hsc__cli_fail(&err);
        return status == HSC_ECANCELED ? HSC__EXIT_INTERRUPTED : exit_status;
    }
    hsc__cli_progress_end();
    printf("%s\n", path);
    hsc__free(path);
    return HSC__EXIT_OK;
}

int hsc__cli_pull(int argc, char **argv)
{
    values v = {0};
    hsc__args args;
    int status = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (status != HSC__CLI_GO_ON) return status;
    meter m = {.quiet = v.quiet, .terminal = hsc__cli_terminal(stderr)};
    hsc__pull_options wanted = {
        .revision = v.revision, .files = v.files.list, .n_files = (size_t)v.files.n, .progress = on_event, .user = &m};
    return pull(args.list[0], &wanted);
}
