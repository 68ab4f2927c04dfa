/* The option parser. One table a subcommand drives parsing, the checks of values, the help and the suggestions; nothing
 * here knows a subcommand. Every fault it finds is in the arguments alone and ends with status 2. */
#include "cli/cli.h"

#include "base/alloc.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_WIDTH = 80, HELP_INDENT = 24 };

/* ------------------------------------------------------------------------------------------------ suggestions ---- */

enum { MAX_WORD = 40 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits between two words: a letter more, less, other, or two swapped (Damerau's restricted distance). */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    size_t d[MAX_WORD + 1][MAX_WORD + 1];
    if (n > MAX_WORD || m > MAX_WORD) return SIZE_MAX;
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = smaller(smaller(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = smaller(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

const char *hsc__cli_nearest(const char *word, const void *names, size_t stride, size_t n)
{
    const char *nearest = NULL;
    size_t length = strlen(word), best = length / 3 + 1;
    if (length == 0) return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *name;
        memcpy(&name, (const char *)names + i * stride, sizeof name);
        bool begun = length >= 2 && strncmp(word, name, length) == 0;
        size_t edits = begun ? 0 : distance(word, name);
        if (edits >= best + (nearest == NULL)) continue; /* the first of equals */
        best = edits;
        nearest = name;
    }
    return nearest && best <= length / 3 + 1 ? nearest : NULL;
}

/* ----------------------------------------------------------------------------------------------------- values ---- */

/* Reads decimal digits; *end is what follows. False when there are none or the number is above INT_MAX. */
static bool read_number(const char *text, int *out, const char **end)
{
    if (*text < '0' || *text > '9') return false;
    char *after;
    errno = 0;
    long value = strtol(text, &after, 10);
    if (errno || value > INT_MAX) return false;
    *out = (int)value;
    *end = after;
    return true;
}

/* "L4" from 0, a bare number from 1. */
static bool read_layer(const char *text, int *out, const char **end)
{
    bool named = *text == 'L' || *text == 'l';
    if (!read_number(text + named, out, end)) return false;
    if (!named) (*out)--;
    return *out >= 0;
}

bool hsc__layers_parse(const char *text, hsc__layers *out)
{
    *out = (hsc__layers){0};
    for (;;) {
        int first, last;
        if (out->n == HSC__MAX_RANGES || !read_layer(text, &first, &text)) return false;
        last = first;
        if (*text == '-' && !read_layer(text + 1, &last, &text)) return false;
        if (last < first) return false;
        out->range[out->n].first = first;
        out->range[out->n++].last = last;
        if (*text == '\0') return true;
        if (*text++ != ',') return false;
    }
}

bool hsc__layers_have(const hsc__layers *layers, int layer)
{
    for (int i = 0; i < layers->n; i++) {
        if (layer >= layers->range[i].first && layer <= layers->range[i].last) return true;
    }
    return layers->n == 0;
}

hsc_status hsc__layers_check(const hsc__layers *layers, int n_layers, hsc_error *err)
{
    for (int i = 0; i < layers->n; i++) {
        int last = layers->range[i].last;
        HSC_FAIL_IF(last >= n_layers, HSC_EINVAL,
                    "there is no layer %lld (L%d): the model has %d layers, 1 to %d or L0 to L%d", last + 1LL, last,
                    n_layers, n_layers, n_layers - 1);
    }
    return HSC_OK;
}

hsc_status hsc__place_check(const char *option, const char *what, int layer, int index, int n_layers, int n,
                            hsc_error *err)
{
    char letter = what[0] == 'h' ? 'H' : 'N', layers[48] = "layer L0", all[64];
    if (layer < n_layers && index < n) return HSC_OK;
    if (n_layers > 1) snprintf(layers, sizeof layers, "layers L0 to L%d", n_layers - 1);
    if (n > 1) snprintf(all, sizeof all, "%ss %c0 to %c%d", what, letter, letter, n - 1);
    else snprintf(all, sizeof all, "%s %c0", what, letter);
    return hsc__fail(err, HSC_EINVAL, 0, "%s%sthere is no %s L%d%c%d: the model has %s with %s", option ? option : "",
                     option ? ": " : "", what, layer, letter, index, layers, all);
}

/* "L4H3", the letter between the numbers one of `letters`; *end is what follows. */
static bool read_place(const char *text, const char *letters, int *layer, int *index, const char **end)
{
    if ((*text != 'L' && *text != 'l') || !read_number(text + 1, layer, &text)) return false;
    if (!*text || !strchr(letters, *text) || !read_number(text + 1, index, &text)) return false;
    *end = text;
    return true;
}

bool hsc__head_parse(const char *text, hsc__head *out)
{
    out->given = read_place(text, "Hh", &out->layer, &out->head, &text);
    return out->given && *text == '\0';
}

static bool read_places(const char *text, const char *letters, hsc__heads *out)
{
    out->n = 0;
    for (;; text++) {
        if (out->n == HSC__MAX_HEADS) return false;
        if (!read_place(text, letters, &out->list[out->n].layer, &out->list[out->n].head, &text)) return false;
        out->n++;
        if (*text == '\0') return true;
        if (*text != ',') return false;
    }
}

bool hsc__heads_parse(const char *text, hsc__heads *out)
{
    return read_places(text, "Hh", out);
}

/* One option's value on its way into the struct. */
typedef struct target {
    const hsc__command *command;
    const hsc__option *option;
    const char *value;
    void *field;
} target;

static int set_int(const target *t)
{
    const hsc__option *o = t->option;
    const char *end;
    int value;
    if (!read_number(t->value, &value, &end) || *end || value < o->low || value > o->high)
        return hsc__cli_misuse(t->command, "--%s wants a whole number from %d to %d, not '%s'", o->name, o->low,
                               o->high, t->value);
    *(int *)t->field = value;
    return HSC__CLI_GO_ON;
}

/* Commas or blanks between the numbers, so that a printed list can be pasted. */
bool hsc__ids_parse(const char *text, hsc__ids *out)
{
    static const char blanks[] = " \t\n[]";
    size_t capacity = 0;
    *out = (hsc__ids){0};
    for (;;) {
        int id;
        text += strspn(text, blanks);
        if (!read_number(text, &id, &text)) return false;
        if (hsc__grow(&out->ids, &capacity, out->n + 1, sizeof *out->ids, NULL) != HSC_OK) return false;
        out->ids[out->n++] = id;
        text += strspn(text, blanks);
        if (*text == '\0') return true;
        if (*text == ',') text++;
    }
}

static int set_ids(const target *t)
{
    hsc__ids *ids = t->field;
    hsc__free(ids->ids);
    if (hsc__ids_parse(t->value, ids)) return HSC__CLI_GO_ON;
    return hsc__cli_misuse(t->command, "--%s wants token ids such as 1,2,3, not '%s'", t->option->name, t->value);
}

static int set_layers(const target *t)
{
    if (hsc__layers_parse(t->value, t->field)) return HSC__CLI_GO_ON;
    return hsc__cli_misuse(t->command, "--%s wants 5 (counted from 1), L4 (from 0), L0-L11 or a comma list, not '%s'",
                           t->option->name, t->value);
}

static int set_head(const target *t)
{
    if (hsc__head_parse(t->value, t->field)) return HSC__CLI_GO_ON;
    int head;
    const char *end = t->value;
    if (read_number(t->value, &head, &end) && !*end)
        return hsc__cli_misuse(
            t->command,
            "--%s wants a name such as L4H3 (layer and head from 0), not '%s': head %d of layer 14 is "
            "L13H%d",
            t->option->name, t->value, head, head);
    return hsc__cli_misuse(t->command, "--%s wants a name such as L4H3 (layer and head from 0), not '%s'",
                           t->option->name, t->value);
}

static int set_heads(const target *t)
{
    if (hsc__heads_parse(t->value, t->field)) return HSC__CLI_GO_ON;
    return hsc__cli_misuse(t->command,
                           "--%s wants names such as L13H8,L4H3 (layer and head from 0; at most %d), not '%s'",
                           t->option->name, (int)HSC__MAX_HEADS, t->value);
}

static int set_neurons(const target *t)
{
    if (read_places(t->value, "NnHh", t->field)) return HSC__CLI_GO_ON;
    return hsc__cli_misuse(t->command,
                           "--%s wants names such as L3N1500,L4N7 (layer and neuron from 0; at most %d), not '%s'",
                           t->option->name, (int)HSC__MAX_HEADS, t->value);
}

static int set_texts(const target *t)
{
    hsc__texts *texts = t->field;
    if (texts->n == HSC__MAX_TEXTS)
        return hsc__cli_misuse(t->command, "--%s may be given %d times", t->option->name, (int)HSC__MAX_TEXTS);
    if (!*t->value) return hsc__cli_misuse(t->command, "--%s wants a text that is not empty", t->option->name);
    texts->list[texts->n++] = t->value;
    return HSC__CLI_GO_ON;
}

static int set_real(const target *t)
{
    const hsc__option *o = t->option;
    double value;
    if (!hsc__parse_double(t->value, &value) || !(value >= o->low && value <= o->high))
        return hsc__cli_misuse(t->command, "--%s wants a number from %d to %d, not '%s'", o->name, o->low, o->high,
                               t->value);
    *(double *)t->field = value;
    return HSC__CLI_GO_ON;
}

static int set_choice(const target *t)
{
    const char *word = t->option->value;
    for (int index = 0;; index++) {
        size_t n = strcspn(word, "|");
        if (strlen(t->value) == n && strncmp(word, t->value, n) == 0) {
            *(int *)t->field = index;
            return HSC__CLI_GO_ON;
        }
        if (word[n] == '\0') break;
        word += n + 1;
    }
    return hsc__cli_misuse(t->command, "--%s wants one of %s, not '%s'", t->option->name, t->option->value, t->value);
}

static int set_value(const target *t)
{
    switch (t->option->kind) {
    case HSC__OPT_FLAG: *(bool *)t->field = true; return HSC__CLI_GO_ON;
    case HSC__OPT_TEXT: *(const char **)t->field = t->value; return HSC__CLI_GO_ON;
    case HSC__OPT_TEXTS: return set_texts(t);
    case HSC__OPT_INT: return set_int(t);
    case HSC__OPT_REAL: return set_real(t);
    case HSC__OPT_IDS: return set_ids(t);
    case HSC__OPT_LAYERS: return set_layers(t);
    case HSC__OPT_HEAD: return set_head(t);
    case HSC__OPT_HEADS: return set_heads(t);
    case HSC__OPT_NEURONS: return set_neurons(t);
    case HSC__OPT_CHOICE: return set_choice(t);
    case HSC__OPT_HEADING: break;
    }
    return HSC__CLI_GO_ON;
}

/* ------------------------------------------------------------------------------------------------------- help ---- */

/* Prints a text whose first line begins at the cell `indent`, where the cursor is, and whose others are led there; a
 * '\n' begins a paragraph. */
static void wrap(const char *text, int indent)
{
    int width = hsc__cli_width() < HELP_WIDTH ? hsc__cli_width() : HELP_WIDTH;
    hsc__string folded = {0};
    for (const char *end; *text; text = end + (*end == '\n')) {
        end = text + strcspn(text, "\n");
        hsc__text_fold(&folded, text, (size_t)(end - text), width - indent, 0);
        if (*end) hsc__string_text(&folded, "\n\n");
    }
    for (const char *line = folded.failed ? NULL : folded.data; line && *line;) {
        size_t n = strcspn(line, "\n");
        printf("%*s%.*s\n", n && line != folded.data ? indent : 0, "", (int)n, line);
        line += n + (line[n] == '\n');
    }
    hsc__string_free(&folded);
}

static void print_option(const hsc__option *o)
{
    if (o->kind == HSC__OPT_HEADING) {
        printf("\n%s:\n", o->name);
        return;
    }
    int n = printf(o->letter ? "  -%c, " : "      ", o->letter);
    n += printf("--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    if (n + 2 > HELP_INDENT) {
        putchar('\n');
        n = 0;
    }
    printf("%*s", HELP_INDENT - n, "");
    wrap(o->help, HELP_INDENT);
}

static void print_lines(const char *text, const char *first, const char *rest)
{
    for (const char *prefix = first; *text; prefix = rest) {
        size_t n = strcspn(text, "\n");
        if (n) printf("%s%.*s\n", prefix, (int)n, text);
        else putchar('\n');
        text += n + (text[n] == '\n');
    }
}

static int print_help(const hsc__command *command)
{
    char first[64], rest[64];
    snprintf(first, sizeof first, "Usage: headscope %s ", command->name);
    snprintf(rest, sizeof rest, "       headscope %s ", command->name);
    print_lines(command->usage, first, rest);
    putchar('\n');
    wrap(command->about, 0);
    if (command->options[0].kind != HSC__OPT_HEADING) printf("\nOptions:\n");
    for (size_t i = 0; i < command->n_options; i++) print_option(&command->options[i]);
    print_option(&(hsc__option){"help", 'h', HSC__OPT_FLAG, NULL, 0, 0, 0, "Print this."});
    if (command->examples) {
        printf("\nExamples:\n");
        print_lines(command->examples, "  ", "  ");
    }
    return HSC__EXIT_OK;
}

/* ---------------------------------------------------------------------------------------------------- parsing ---- */

typedef struct parser {
    const hsc__command *command;
    void *values;
    char **argv;
    int argc, at; /* at: the argument under way */
    hsc__args *args;
} parser;

static const hsc__option *find_long(const hsc__command *command, const char *name, size_t n)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const hsc__option *o = &command->options[i];
        if (o->kind != HSC__OPT_HEADING && strncmp(o->name, name, n) == 0 && o->name[n] == '\0') return o;
    }
    return NULL;
}

static const hsc__option *find_letter(const hsc__command *command, char letter)
{
    for (size_t i = 0; i < command->n_options; i++) {
        if (command->options[i].letter == letter) return &command->options[i];
    }
    return NULL;
}

/* Stores the value: what stood after '=' or the letter, else the next argument. */
static int take(parser *p, const hsc__option *o, const char *attached)
{
    const char *value = attached;
    if (o->kind != HSC__OPT_FLAG && !value) {
        if (p->at + 1 >= p->argc)
            return hsc__cli_misuse(p->command, "--%s wants a value: --%s %s", o->name, o->name, o->value);
        value = p->argv[++p->at];
    }
    return set_value(&(target){p->command, o, value, (char *)p->values + o->offset});
}

static int unknown_option(const parser *p, const char *name, size_t n)
{
    char word[MAX_WORD + 1];
    snprintf(word, sizeof word, "%.*s", (int)smaller(n, MAX_WORD), name);
    const char *nearest = hsc__cli_nearest(word, p->command->options, sizeof(hsc__option), p->command->n_options);
    if (nearest && find_long(p->command, nearest, strlen(nearest)))
        return hsc__cli_misuse(p->command, "unknown option --%s; did you mean --%s?", word, nearest);
    return hsc__cli_misuse(p->command, "unknown option --%s", word);
}

static int parse_long(parser *p)
{
    const char *name = p->argv[p->at] + 2;
    size_t n = strcspn(name, "=");
    const char *attached = name[n] == '=' ? name + n + 1 : NULL;
    if (strcmp(name, "help") == 0) return print_help(p->command);
    const hsc__option *o = find_long(p->command, name, n);
    if (!o) return unknown_option(p, name, n);
    if (o->kind == HSC__OPT_FLAG && attached) return hsc__cli_misuse(p->command, "--%s takes no value", o->name);
    return take(p, o, attached);
}

/* "-m MODEL", "-mMODEL"; flags may be joined, "-ab". */
static int parse_letters(parser *p)
{
    for (const char *c = p->argv[p->at] + 1; *c; c++) {
        if (*c == 'h') return print_help(p->command);
        const hsc__option *o = find_letter(p->command, *c);
        if (!o && *c == 'm')
            return hsc__cli_misuse(p->command, "unknown option -m; it is headscope %s %.*s", p->command->name,
                                   (int)strcspn(p->command->usage, "\n"), p->command->usage);
        if (!o)
            return hsc__cli_misuse(p->command, "unknown option %s; a text that begins with '-' goes after --",
                                   p->argv[p->at]);
        bool flag = o->kind == HSC__OPT_FLAG;
        int status = take(p, o, !flag && c[1] ? c + 1 : NULL);
        if (status != HSC__CLI_GO_ON || !flag) return status;
    }
    return HSC__CLI_GO_ON;
}

static int check_args(const hsc__command *command, const hsc__args *args)
{
    if (args->n < command->min_args) return hsc__cli_misuse(command, "%s", command->missing);
    if (args->n <= command->max_args) return HSC__CLI_GO_ON;
    const char *extra = args->list[command->max_args];
    if (command->max_args == 0)
        return hsc__cli_misuse(command, "'%s' is not an option, and no other argument is expected", extra);
    return hsc__cli_misuse(command, "one argument too many: '%s' (a text with blanks wants quotes)", extra);
}

int hsc__cli_parse(const hsc__command *command, int argc, char **argv, void *values, hsc__args *args)
{
    parser p = {command, values, argv, argc, 1, args};
    bool ended = false;
    *args = (hsc__args){argv + 1, 0};
    for (; p.at < argc; p.at++) {
        const char *word = argv[p.at];
        int status = HSC__CLI_GO_ON;
        if (ended || word[0] != '-' || word[1] == '\0') args->list[args->n++] = argv[p.at];
        else if (strcmp(word, "--") == 0) ended = true;
        else status = word[1] == '-' ? parse_long(&p) : parse_letters(&p);
        if (status != HSC__CLI_GO_ON) return status;
    }
    return check_args(command, args);
}
