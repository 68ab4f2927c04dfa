/*
 * headscope convert: a model in the other container or in another type. What was written goes to standard output, notes
 * and progress to standard error. Ctrl-C stops between two blocks and leaves nothing behind.
 */
#include "cli/shared.h"

#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

/* In the order of the option's words. */
static const hsc_dtype dtypes[] = {HSC_F32, HSC_BF16, HSC_F16, HSC_Q8_0, HSC_Q4_0, HSC_Q4_1, HSC_Q4_K, HSC_Q6_K};
enum { NO_DTYPE = -1 };

typedef struct values {
    const char *model, *output;
    int dtype; /* index in dtypes */
    bool pure, force, verbose;
    int threads;
} values;

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    {"output", 'o', HSC__OPT_TEXT, "OUT", offsetof(values, output), 0, 0,
     "A file that ends in .gguf, or a folder to be made."},
    {"dtype", 0, HSC__OPT_CHOICE, "f32|bf16|f16|q8_0|q4_0|q4_1|q4_k|q6_k", offsetof(values, dtype), 0, 0,
     "The type of the matrices; the quantised ones are for .gguf. Default: as they are."},
    {"pure", 0, HSC__OPT_FLAG, NULL, offsetof(values, pure), 0, 0,
     "With a 4-bit type: the matrix that makes the logits gets it too, in place of q6_k."},
    {"force", 'f', HSC__OPT_FLAG, NULL, offsetof(values, force), 0, 0,
     "Replace an output that exists: a file, or a folder that holds a model's files and nothing else."},
    {"verbose", 'v', HSC__OPT_FLAG, NULL, offsetof(values, verbose), 0, 0,
     "Say for each type how many tensors got it and what rounding changed."},
    HSC__OPTION_THREADS(values, threads),
};

static const hsc__command command = {
    .name = "convert",
    .usage = "-m MODEL -o OUT [options]",
    .about = "Writes a model in the other container (a Hugging Face folder becomes a .gguf file that llama.cpp reads, "
             "a .gguf file becomes a folder that transformers reads, the tokenizer included), or in another type.\n"
             "Vectors stay in float32 in a .gguf file. A matrix whose rows are no whole blocks of the type gets one "
             "that fits: q5_0 for q4_k, q8_0 for q6_k, else f16; a note says so. Memory does not grow with the model.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope convert -m gpt2 -o gpt2-q4_k.gguf --dtype q4_k -v\n"
                "headscope convert -m SmolLM2.gguf -o SmolLM2/ --dtype bf16\n"
                "headscope convert -m big.gguf -o small.gguf --dtype q8_0",
    .max_args = 0,
};

static int on_event(void *user, const hsc_convert_event *event)
{
    (void)user;
    if (event->note) {
        hsc__cli_progress_end();
        hsc__cli_note("%s", event->note);
    } else if (event->total) {
        hsc__cli_progress("%3.0f%%  %s", 100 * (double)event->done / (double)event->total, event->tensor);
    }
    return hsc__cli_interrupted();
}

static void add_size(hsc__string *out, uint64_t n_bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double value = (double)n_bytes / 1000;
    size_t unit = 0;
    for (; value >= 999.95 && unit < 3; value /= 1000) unit++;
    hsc__string_double(out, value < 99.995 ? 3 : 4, value);
    hsc__string_printf(out, " %s", units[unit]);
}

static void add_types(hsc__string *out, const hsc_convert_report *report)
{
    for (int i = 0; i < HSC_N_DTYPES; i++) {
        const hsc_convert_sum *s = &report->types[i];
        if (!s->n_tensors) continue;
        hsc__string_printf(out, "  %-6s  %5zu tensor%s  ", hsc_dtype_name((hsc_dtype)i), s->n_tensors,
                           s->n_tensors == 1 ? " " : "s");
        add_size(out, s->n_bytes);
        if (s->size > 0) {
            hsc__string_text(out, "; rounding changed ");
            hsc__string_double(out, 3, 100 * s->rms);
            hsc__string_text(out, "% (root mean square)");
        } else {
            hsc__string_text(out, "; no value changed");
        }
        hsc__string_text(out, "\n");
    }
}

static int print_report(const values *v, const hsc_convert_report *report)
{
    hsc__string out = {0};
    size_t n_tensors = 0;
    for (int i = 0; i < HSC_N_DTYPES; i++) n_tensors += report->types[i].n_tensors;
    hsc__text_label(&out, v->output, strlen(v->output));
    hsc__string_printf(&out, ": %zu tensor%s, ", n_tensors, HSC__PLURAL(n_tensors));
    add_size(&out, report->bytes_in);
    hsc__string_text(&out, " became ");
    add_size(&out, report->bytes_out);
    hsc__string_text(&out, " in ");
    hsc__string_double(&out, 2, report->seconds);
    hsc__string_text(&out, " s\n");
    if (v->verbose) add_types(&out, report);
    return hsc__cli_show(&out);
}

static int convert(const values *v, const char *path)
{
    hsc_error err = {0};
    hsc_convert_report report;
    hsc_convert_options wanted = {.pure = v->pure, .overwrite = v->force, .n_threads = v->threads, .tell = on_event};
    if (v->dtype != NO_DTYPE) {
        wanted.recast = 1;
        wanted.dtype = dtypes[v->dtype];
    }
    hsc__cli_hold_interrupt(true);
    hsc_status status = hsc_convert(path, v->output, &wanted, &report, &err);
    hsc__cli_progress_end();
    if (status == HSC_OK) return print_report(v, &report);
    hsc__cli_forget_interrupt(); /* where it stopped is told */
    int exit_status = hsc__cli_fail(&err);
    struct stat info;
    if (status == HSC_EINVAL && !v->force && stat(v->output, &info) == 0) hsc__cli_hint("--force replaces it");
    return status == HSC_ECANCELED ? HSC__EXIT_INTERRUPTED : exit_status;
}

int hsc__cli_convert(int argc, char **argv)
{
    values v = {.dtype = NO_DTYPE};
    hsc__args args;
    char *path;
    int status = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (status != HSC__CLI_GO_ON) return status;
    if (!v.output || !*v.output) return hsc__cli_misuse(&command, "no output: -o OUT.gguf or -o FOLDER");
    if (v.dtype > 2 && !hsc__ends_with(v.output, ".gguf"))
        return hsc__cli_misuse(&command, "a folder holds f32, bf16 or f16; a quantised type wants -o OUT.gguf");
    status = hsc__cli_model_path(&command, v.model, &path);
    if (status != HSC__CLI_GO_ON) return status;
    status = convert(&v, path);
    hsc__free(path);
    return status;
}
