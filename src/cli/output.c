/* Messages, terminals, signals, and the check of standard output at the end. Results go to standard output; everything
 * here that speaks goes to standard error, one line at a time, free of control characters. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Ctrl-C may come to any thread, so sig_atomic_t is not enough. */
static atomic_bool progress_shown, interrupt_held, interrupted;

/* The line that Ctrl-C leaves behind. Two in turn, so that none is written while the handler reads it; NULL: none. */
static char last_words[2][512];
static const char *_Atomic last_word;
static bool goes_on;

/* Only what a signal's handler may do. */
static void end_interrupted(void)
{
    const char *line = last_word;
    ssize_t written = 0;
    if (line && progress_shown) written = write(STDERR_FILENO, "\r\033[K", 4);
    if (line && written >= 0) written = write(STDERR_FILENO, line, strlen(line));
    (void)written; /* there is nobody left to tell */
    _exit(HSC__EXIT_INTERRUPTED);
}

/* A held first Ctrl-C is remembered, every other one ends the program. */
static void on_interrupt(int signal_number)
{
    (void)signal_number;
    if (interrupt_held && !atomic_exchange(&interrupted, true)) return;
    end_interrupted();
}

void hsc__cli_hold_interrupt(bool held)
{
    interrupt_held = held;
    if (!held && interrupted) end_interrupted();
}

void hsc__cli_goes_on(bool does)
{
    goes_on = does;
}

static void HSC_PRINTF(1, 0) set_last_word(const char *format, va_list args)
{
    char doing[256];
    char *line = last_words[last_word == last_words[0]];
    if (vsnprintf(doing, sizeof doing, format, args) < 0) return;
    for (char *c = doing; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    snprintf(line, sizeof last_words[0], "headscope: stopped (%s)%s\n", doing,
             goes_on ? "; the same command goes on from there" : "");
    last_word = line;
}

void hsc__cli_at(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_last_word(format, args);
    va_end(args);
}

bool hsc__cli_interrupted(void)
{
    return interrupted;
}

void hsc__cli_forget_interrupt(void)
{
    interrupted = false;
}

/* A closed standard stream would let the next opened file take its number, and output would land in that file. The
 * stand-in is opened the wrong way round, so that using it is still an error. */
static void fill_closed_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) _exit(HSC__EXIT_FAILED);
    }
}

void hsc__cli_start(void)
{
    fill_closed_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe shows as a failed write and is judged in hsc__cli_finish */
    signal(SIGXFSZ, SIG_IGN); /* so does a file that has reached the limit of its size */
    struct sigaction previous;
    if (sigaction(SIGINT, NULL, &previous) == 0 && previous.sa_handler == SIG_IGN) return; /* nohup's wish */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

/* True when the reader of standard output has gone. */
static bool pipe_closed(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

int hsc__cli_finish(int status)
{
    hsc__cli_progress_end();
    errno = 0;
    bool failed = fflush(stdout) != 0;
    int reason = errno;
    failed = failed || ferror(stdout);
    if (!failed || pipe_closed()) return status;
    if (reason) hsc__cli_error("cannot write to standard output: %s", strerror(reason));
    else hsc__cli_error("cannot write to standard output");
    return status == HSC__EXIT_OK ? HSC__EXIT_FAILED : status;
}

int hsc__cli_width_of(FILE *stream)
{
    enum { DEFAULT_WIDTH = 80, MOST_WIDTH = 10000 };
    const char *columns = getenv("COLUMNS");
    char *end;
    long width = columns ? strtol(columns, &end, 10) : 0;
    struct winsize size;
    if (columns && *end) width = 0;
    if (width <= 0 && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width <= 0) width = DEFAULT_WIDTH;
    return (int)(width > MOST_WIDTH ? MOST_WIDTH : width);
}

static void HSC_PRINTF(2, 0) say(const char *prefix, const char *format, va_list args)
{
    char text[sizeof((hsc_error *)0)->message];
    hsc_error tidy = {0};
    hsc__cli_progress_end();
    if (vsnprintf(text, sizeof text, format, args) < 0) text[0] = '\0';
    hsc__fail(&tidy, HSC_OK, 0, "%s", text);
    fflush(stdout); /* both may be one terminal or file: keep the order */
    hsc__string line = {0}, folded = {0};
    hsc__string_printf(&line, "%s%s", prefix, tidy.message);
    if (!line.failed)
        hsc__text_fold(&folded, line.data, line.n, hsc__cli_terminal(stderr) ? hsc__cli_width_of(stderr) : 0, 2);
    fprintf(stderr, "%s\n", folded.failed || !folded.n ? tidy.message : folded.data);
    hsc__string_free(&line);
    hsc__string_free(&folded);
}

void hsc__cli_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("headscope: ", format, args);
    va_end(args);
}

void hsc__cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("headscope: note: ", format, args);
    va_end(args);
}

void hsc__cli_hint(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("  ", format, args);
    va_end(args);
}

int hsc__cli_fail(const hsc_error *err)
{
    if (err->code == HSC_ECANCELED && interrupted) return HSC__EXIT_INTERRUPTED;
    hsc__cli_error("%s", err->message[0] ? err->message : hsc_status_text(err->code));
    return HSC__EXIT_FAILED;
}

int hsc__cli_misuse(const hsc__command *command, const char *format, ...)
{
    char prefix[64];
    va_list args;
    snprintf(prefix, sizeof prefix, "headscope: %s: ", command->name);
    va_start(args, format);
    say(prefix, format, args);
    va_end(args);
    hsc__cli_hint("'headscope %s --help' shows the options", command->name);
    return HSC__EXIT_USAGE;
}

int hsc__cli_no_memory(void)
{
    hsc__cli_error("out of memory");
    return HSC__EXIT_FAILED;
}

bool hsc__cli_terminal(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && !(term && strcmp(term, "dumb") == 0);
}

bool hsc__cli_colours(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    return hsc__cli_terminal(stream) && !(no_color && *no_color);
}

int hsc__cli_width(void)
{
    return hsc__cli_width_of(stdout);
}

void hsc__cli_progress(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_last_word(format, args);
    va_end(args);
    if (!hsc__cli_terminal(stderr)) return;
    char text[512];
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) return;
    /* A line that wraps cannot be rewritten. */
    int width = hsc__cli_width_of(stderr), most = width > 1 ? width - 1 : 1;
    fprintf(stderr, "\r\033[K%.*s", (int)hsc__text_fit(text, strlen(text), most, NULL), text);
    fflush(stderr);
    progress_shown = true;
}

void hsc__cli_progress_end(void)
{
    if (!interrupted) last_word = NULL;
    if (!progress_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress_shown = false;
}

int hsc__cli_write(const char *bytes, size_t n)
{
    if (n) fwrite(bytes, 1, n, stdout);
    return HSC__EXIT_OK;
}

int hsc__cli_write_string(hsc__string *text)
{
    bool failed = text->failed;
    if (!failed) hsc__cli_write(text->data, text->n);
    hsc__string_free(text);
    return failed ? hsc__cli_no_memory() : HSC__EXIT_OK;
}

int hsc__cli_show(hsc__string *text)
{
    hsc__string folded = {0};
    if (!text->failed) hsc__text_fold(&folded, text->data, text->n, hsc__cli_width(), 2);
    if (text->failed) folded.failed = true;
    hsc__string_free(text);
    return hsc__cli_write_string(&folded);
}

void hsc__cli_table(hsc__string *out, hsc__table *table)
{
    if (hsc__table_write(out, table, hsc__cli_width(), NULL) != HSC_OK) out->failed = true;
}
