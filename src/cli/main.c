/* The program's door: a table of subcommands, and the help that is made from it. */
#include "cli/cli.h"
#include "cli/team.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *name; /* first, for hsc__cli_nearest */
    int (*run)(int argc, char **argv);
    const char *help;
    const char *group;
} entry;

static const entry commands[] = {
    {"look", hsc__cli_look, "what each attention head looks at", "See"},
    {"run", hsc__cli_run, "save patterns, residual streams and logits as tensors", "See"},
    {"export", hsc__cli_export, "a site over a corpus, for probes", "See"},
    {"scan", hsc__cli_scan, "which head follows the answer, over many sentence pairs", "See"},
    {"detect", hsc__cli_detect, "what each head mostly does: previous token, induction, first token", "See"},
    {"drift", hsc__cli_drift, "how far heads differ between two files of one model", "See"},
    {"lens", hsc__cli_lens, "what the residual stream would say after each layer", "Explain"},
    {"attribute", hsc__cli_attribute, "what a logit is made of: heads, MLPs, embedding, biases", "Explain"},
    {"circuit", hsc__cli_circuit, "what a head reads and writes of single words; which heads copy", "Explain"},
    {"compose", hsc__cli_compose, "how much of what one head writes a later head can read", "Explain"},
    {"rollout", hsc__cli_rollout, "what a token is made of after all layers: rollout and flow", "Explain"},
    {"values", hsc__cli_values, "attention by the size of what it moves", "Explain"},
    {"ablate", hsc__cli_ablate, "switch off heads, layers or neurons, and measure what it does", "Intervene"},
    {"patch", hsc__cli_patch, "put one run's activations into another, place by place", "Intervene"},
    {"steer", hsc__cli_steer, "the difference of two sets of texts added to the stream, in doses", "Intervene"},
    {"generate", hsc__cli_generate, "write on from a prompt, and see where heads look as it writes", "Do"},
    {"chat", hsc__cli_chat, "a conversation in the terminal, with the model's own template", "Do"},
    {"score", hsc__cli_score, "how likely a text is; which of several continuations is likeliest", "Do"},
    {"embed", hsc__cli_embed, "texts as vectors: JSON, CSV, .npy", "Do"},
    {"fill", hsc__cli_fill, "the likeliest words for a [MASK] in a text", "Do"},
    {"info", hsc__cli_info, "what is in a model: architecture, sizes, types, memory", "Models"},
    {"tokenize", hsc__cli_tokenize, "text to token ids and back", "Models"},
    {"convert", hsc__cli_convert, "a model in the other container or another type", "Models"},
    {"pull", hsc__cli_pull, "fetch a model of the Hugging Face Hub into its cache", "Models"},
    {"lesson", hsc__cli_lesson, "a transformer built piece by piece, with its exercises", "Learn"},
    {"bench", hsc__cli_bench, "tokens a second, with and without a view of attention", "Measure"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const entry *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    }
    return NULL;
}

static int unknown(const char *name)
{
    const char *nearest = hsc__cli_nearest(name, commands, sizeof commands[0], N_COMMANDS);
    if (nearest) hsc__cli_error("unknown command '%s'; did you mean %s?", name, nearest);
    else hsc__cli_error("unknown command '%s'", name);
    hsc__cli_hint("'headscope help' lists the commands");
    return HSC__EXIT_USAGE;
}

static int print_overview(void)
{
    enum { MOST_WIDTH = 80 };
    hsc__string out = {0};
    hsc__string_text(&out, "Usage: headscope COMMAND [options]\n\n"
                           "Runs a transformer and shows what every attention head looks at.\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (i == 0 || strcmp(commands[i].group, commands[i - 1].group) != 0)
            hsc__string_printf(&out, "\n%s:\n", commands[i].group);
        hsc__string_printf(&out, "  %-10s  %s\n", commands[i].name, commands[i].help);
    }
    hsc__string_text(
        &out,
        "\n'headscope COMMAND --help' shows a command's options with examples; 'headscope --version' shows the version "
        "and the instruction set in use. HEADSCOPE_MODEL names the model for commands without -m; HEADSCOPE_ISA forces "
        "an instruction set (ref, avx2, avx512, neon). COLUMNS sets how wide texts and tables are; a pipe or a file "
        "gets 80.\n\n"
        "A layer is counted from 1 and a head from 0, followed by the short name that counts both from 0: layer 5, "
        "head "
        "3 (L4H3). Positions count from 0.\n\n"
        "Exit status: 0 done; 1 a file or the model shows a fault; 2 the arguments do; 130 Ctrl-C.\n");
    hsc__string folded = {0};
    if (!out.failed)
        hsc__text_fold(&folded, out.data, out.n, hsc__cli_width() < MOST_WIDTH ? hsc__cli_width() : MOST_WIDTH, 0);
    hsc__string_free(&out);
    return hsc__cli_write_string(&folded);
}

static int print_help_of(const entry *command)
{
    char *argv[] = {(char *)command->name, (char *)"--help", NULL};
    return command->run(2, argv);
}

/* docs/cli.md is this output; a test compares them. */
static int print_markdown(void)
{
    printf("# The program\n\nThis page is the output of `headscope help --markdown`.\n\n```text\n");
    print_overview();
    for (size_t i = 0; i < N_COMMANDS; i++) {
        printf("```\n\n## headscope %s\n\n```text\n", commands[i].name);
        print_help_of(&commands[i]);
    }
    printf("```\n");
    return HSC__EXIT_OK;
}

static int print_version(void)
{
    printf("headscope %s\nkernels: %s\ncompute: f32, bf16, q8\n", hsc_version(), hsc_isa());
    return HSC__EXIT_OK;
}

static int help(int argc, char **argv)
{
    if (argc < 2) return print_overview();
    if (strcmp(argv[1], "--markdown") == 0) return print_markdown();
    const entry *command = find(argv[1]);
    return command ? print_help_of(command) : unknown(argv[1]);
}

/* A level that was asked for and is not there must not be taken for the one that runs. */
static bool has_wanted_isa(void)
{
    const char *wanted = getenv("HEADSCOPE_ISA");
    return !wanted || !*wanted || strcmp(wanted, hsc_isa()) == 0;
}

static int dispatch(int argc, char **argv)
{
    if (!has_wanted_isa()) {
        hsc__cli_error(
            "HEADSCOPE_ISA: '%s' is no instruction set of this machine; the levels are ref, avx2, avx512 and "
            "neon, and it has up to %s",
            getenv("HEADSCOPE_ISA"), hsc_isa());
        return HSC__EXIT_USAGE;
    }
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return print_overview();
    if (strcmp(argv[1], "--version") == 0) return print_version();
    if (strcmp(argv[1], "help") == 0) return help(argc - 1, argv + 1);
    const entry *command = find(argv[1]);
    if (!command) return unknown(argv[1]);
    int status = hsc__team_start(command->name);
    if (status == HSC__CLI_GO_ON) status = command->run(argc - 1, argv + 1);
    hsc__team_end(status);
    return status;
}

int main(int argc, char **argv)
{
    hsc__cli_start();
    return hsc__cli_finish(dispatch(argc, argv));
}
