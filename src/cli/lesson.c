/* headscope lesson: runs the programs of examples/lesson, each of which is also a program of its own, and draws what
 * they show. */
#include "cli/shared.h"

#include "examples/lesson/lesson.h"

#include <stdlib.h>
#include <string.h>

typedef struct values {
    const char *model, *plot;
    bool all;
} values;

static const hsc__option options[] = {
    {"all", 'a', HSC__OPT_FLAG, NULL, offsetof(values, all), 0, 0, "Run all of them in order."},
    {"plot", 'o', HSC__OPT_TEXT, "FILE", offsetof(values, plot), 0, 0,
     "Draw what the lesson shows; the ending chooses .png, .svg or .pdf."},
    {"model", 'm', HSC__OPT_TEXT, "MODEL", offsetof(values, model), 0, 0,
     "Lessons 8 and 16 ask this model too: a folder, a .gguf file, or a name in the Hub cache. Default: "
     "HEADSCOPE_MODEL "
     "of the environment; without one they use models of their own."},
};

static const hsc__command command = {
    .name = "lesson",
    .usage = "                  (list them)\nN [-m MODEL] [--plot FILE]\n--all [-m MODEL]",
    .about =
        "Builds a transformer piece by piece: small programs, each with what it shows, the formulas and the proofs "
        "in its source, examples/lesson/NN_name.c. Their random numbers are PyTorch's, so the figures are those "
        "of the same lines in PyTorch. docs/lesson.md walks through them.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope lesson 3\n"
                "    self-attention of five tokens\n"
                "headscope lesson 9 --plot cost.png\n"
                "    what attention costs, measured here\n"
                "headscope lesson 16 -m gpt2\n"
                "    an exercise, with a real model",
    .max_args = 1,
};

typedef struct lesson {
    const char *name; /* first, for hsc__cli_nearest */
    const char *about;
    lesson_kind kind;
    int (*run)(int argc, char **argv);
} lesson;

static const lesson lessons[] = {
#define LESSON_ROW(number, file, kind, about) {file, about, kind, lesson_##number},
    LESSON_LIST(LESSON_ROW)
#undef LESSON_ROW
};
enum { N_LESSONS = sizeof lessons / sizeof lessons[0] };

/* ----------------------------------------------------------------------------------------------------- drawing ---- */

static int finish(const char *path, hsc_status status, const hsc_error *err)
{
    hsc__cli_hold_interrupt(false);
    if (status != HSC_OK) return hsc__cli_fail(err);
    hsc__cli_note("wrote %s", path);
    return HSC__EXIT_OK;
}

static int draw_curves(void *user, const char *title, const lesson_panel *panels, int n_panels)
{
    const char *path = user;
    hsc_error err = {0};
    hsc__curve curves[HSC__MAX_PANELS][LESSON_MAX_CURVES];
    hsc__panel drawn[HSC__MAX_PANELS];
    if (n_panels > HSC__MAX_PANELS) n_panels = HSC__MAX_PANELS;
    for (int p = 0; p < n_panels; p++) {
        const lesson_panel *panel = &panels[p];
        size_t n = 0;
        for (; n < LESSON_MAX_CURVES && panel->curves[n].n; n++) {
            const lesson_curve *c = &panel->curves[n];
            curves[p][n] = (hsc__curve){c->name, (size_t)c->n, c->x, c->y, c->plain};
        }
        drawn[p] = (hsc__panel){panel->title, panel->x_title, panel->y_title, panel->log_x, panel->log_y, curves[p], n};
    }
    hsc__cli_hold_interrupt(true);
    return finish(path, hsc__plot_lines(path, title, drawn, (size_t)n_panels, &err), &err);
}

static int draw_pattern(void *user, const char *title, const float *weights, int n, const char *const *labels,
                        bool causal)
{
    const char *path = user;
    hsc_error err = {0};
    hsc__heatmap map = {.title = title, .n_rows = n, .n_cols = n, .values = weights, .causal = causal};
    hsc__label *texts = labels ? hsc__calloc((size_t)n, sizeof *texts) : NULL;
    for (int i = 0; i < n && texts; i++) texts[i] = (hsc__label){labels[i], strlen(labels[i])};
    if (texts) {
        map.row_labels = map.col_labels = texts;
        map.n_row_labels = map.n_col_labels = (size_t)n;
    }
    hsc__cli_hold_interrupt(true);
    int result = finish(path, hsc__plot_heatmap(path, &map, &err), &err);
    hsc__free(texts);
    return result;
}

/* ----------------------------------------------------------------------------------------------------- running ---- */

/* By number or name; NULL after a message. */
static const lesson *find(const char *word)
{
    char *end;
    long number = strtol(word, &end, 10);
    for (int i = 0; i < N_LESSONS; i++) {
        if (strcmp(word, lessons[i].name) == 0 || (*word && !*end && number == i + 1)) return &lessons[i];
    }
    const char *nearest = hsc__cli_nearest(word, lessons, sizeof lessons[0], N_LESSONS);
    if (nearest) hsc__cli_misuse(&command, "no lesson '%s'; did you mean %s?", word, nearest);
    else hsc__cli_misuse(&command, "no lesson '%s': they are numbered 1 to %d", word, N_LESSONS);
    return NULL;
}

static int list(void)
{
    hsc__string out = {0};
    for (int i = 0; i < N_LESSONS; i++)
        hsc__string_printf(&out, "%2d  %-15s %s\n", i + 1, lessons[i].name, lessons[i].about);
    hsc__string_text(&out, "\n'headscope lesson N' runs one, 'headscope lesson --all' all of them.\n");
    return hsc__cli_show(&out);
}

static int run(const lesson *l, char *model)
{
    char *argv[] = {(char *)l->name, model, NULL};
    return l->run(model ? 2 : 1, argv);
}

static int run_all(char *model)
{
    int result = HSC__EXIT_OK;
    for (int i = 0; i < N_LESSONS && result == HSC__EXIT_OK; i++) {
        printf("%s%d. %s\n\n", i ? "\n" : "", i + 1, lessons[i].about);
        result = run(&lessons[i], model);
    }
    return result;
}

static int run_drawn(const lesson *l, char *model, const char *path)
{
    lesson_painter painter = {draw_curves, draw_pattern, (char *)path};
    if (path) lesson_set_painter(&painter);
    int result = run(l, model);
    lesson_set_painter(NULL);
    return result;
}

/* " 2 3 5", whatever the table says. */
static const char *those_that_draw(void)
{
    static char list[128];
    for (size_t i = 0, at = 0; i < N_LESSONS && at < sizeof list; i++)
        if (lessons[i].kind == LESSON_DRAWS) at += (size_t)snprintf(list + at, sizeof list - at, " %zu", i + 1);
    return list;
}

/* Whether the options suit the lesson (NULL: all of them). HSC__CLI_GO_ON, or the exit status after a message. */
static int check(const lesson *l, const values *v)
{
    if (v->plot && !l) return hsc__cli_misuse(&command, "--plot draws one lesson: give its number");
    if (v->plot && l->kind != LESSON_DRAWS)
        return hsc__cli_misuse(&command, "lesson %d, %s, has nothing to draw; these have:%s", (int)(l - lessons) + 1,
                               l->name, those_that_draw());
    if (hsc__check_plot(&command, v->plot) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (v->model && l && l->kind != LESSON_ASKS)
        return hsc__cli_misuse(&command, "lesson %d, %s, asks no model", (int)(l - lessons) + 1, l->name);
    return HSC__CLI_GO_ON;
}

/* The path of the model, when one is named at all and the lesson (NULL: all of them) asks it. */
static int find_model(const lesson *l, const values *v, char **path)
{
    const char *named = getenv("HEADSCOPE_MODEL");
    *path = NULL;
    if (l && l->kind != LESSON_ASKS) return HSC__CLI_GO_ON;
    if (!v->model && !(named && *named)) return HSC__CLI_GO_ON;
    return hsc__cli_model_path(&command, v->model, path);
}

int hsc__cli_lesson(int argc, char **argv)
{
    values v = {0};
    hsc__args args;
    char *model;
    lesson_memory_watch(); /* before the library's first allocation, as it asks */
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result != HSC__CLI_GO_ON) return result;
    if (v.all && args.n) return hsc__cli_misuse(&command, "'%s' and --all", args.list[0]);
    const lesson *l = args.n ? find(args.list[0]) : NULL;
    if (args.n && !l) return HSC__EXIT_USAGE;
    result = check(l, &v);
    if (result != HSC__CLI_GO_ON) return result;
    if (!v.all && !l) return list();
    result = find_model(l, &v, &model);
    if (result == HSC__CLI_GO_ON) result = v.all ? run_all(model) : run_drawn(l, model, v.plot);
    hsc__free(model);
    return result;
}
