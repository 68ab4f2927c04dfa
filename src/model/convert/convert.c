/* Conversion from the outside: what is read, what is written, what is refused at once, and the bill. */
#include "model/convert/convert.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { CONFIG_LIMIT = 16 << 20 };

void hsc__convert_note(const hsc__convert *c, const char *format, ...)
{
    char text[512];
    if (!c->options->tell) return;
    va_list args;
    va_start(args, format);
    hsc__format(text, sizeof text, format, args);
    va_end(args);
    c->options->tell(c->options->user, &(hsc_convert_event){.note = text});
}

hsc_status hsc__convert_progress(const hsc__convert *c, const char *tensor, hsc_error *err)
{
    hsc_convert_event event = {.tensor = tensor, .done = c->done, .total = c->total};
    bool stop = c->options->tell && c->options->tell(c->options->user, &event) != 0;
    HSC_FAIL_IF(stop, HSC_ECANCELED, "%s: the conversion was stopped", c->out);
    return HSC_OK;
}

const char *hsc__convert_text(hsc__convert *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = hsc__format(text, sizeof text, format, args);
    va_end(args);
    return n < 0 ? NULL : hsc__arena_strndup(&c->arena, text, strlen(text));
}

static hsc_status check_options(const hsc__convert *c, hsc_error *err)
{
    const hsc_convert_options *o = c->options;
    struct stat info;
    HSC_FAIL_IF(o->n_threads < 0, HSC_EINVAL, "n_threads is %d, it must not be negative", o->n_threads);
    HSC_FAIL_IF(hsc__ends_with(c->out, ".safetensors"), HSC_EINVAL,
                "%s: the output is a folder (with config.json and model.safetensors) or a file that ends in .gguf",
                c->out);
    HSC_FAIL_IF(o->recast && ((unsigned)o->dtype >= HSC_N_DTYPES || !hsc__kernels_can_write(o->dtype)), HSC_EINVAL,
                "type %s cannot be written", hsc_dtype_name(o->dtype));
    bool plain = o->dtype == HSC_F32 || o->dtype == HSC_F16 || o->dtype == HSC_BF16;
    HSC_FAIL_IF(o->recast && !plain && !c->to_gguf, HSC_EINVAL,
                "%s: a folder holds F32, F16 or BF16; %s wants a file that ends in .gguf", c->out,
                hsc_dtype_name(o->dtype));
    if (lstat(c->out, &info) != 0) return HSC_OK;
    HSC_FAIL_IF(S_ISDIR(info.st_mode) == c->to_gguf, HSC_EINVAL, "%s: exists and is %s", c->out,
                c->to_gguf ? "a folder" : "no folder");
    HSC_FAIL_IF(!o->overwrite, HSC_EINVAL, "%s: exists already", c->out);
    return HSC_OK;
}

/* From GGUF to GGUF no model is needed: any architecture goes through. */
static hsc_status open_input(hsc__convert *c, hsc_error *err)
{
    if (c->to_gguf && hsc__gguf_is(c->in)) {
        HSC_TRY(hsc__gguf_open(&c->gguf, c->in, err));
        c->tensors = hsc__gguf_tensors(c->gguf);
        return HSC_OK;
    }
    HSC_TRY(hsc_model_open(&c->model, c->in, NULL, err));
    c->gguf = c->model->gguf;
    c->tensors = c->model->tensors;
    if (c->gguf) return HSC_OK;
    char *path = hsc__path_join(c->in, "config.json");
    if (!path) return hsc__fail_memory(err, strlen(c->in), "a path");
    hsc_status status = hsc__json_load(&c->config, path, CONFIG_LIMIT, err);
    hsc__free(path);
    return status;
}

static hsc_status convert(hsc__convert *c, hsc_error *err)
{
    HSC_TRY(check_options(c, err));
    HSC_TRY(open_input(c, err));
    HSC_TRY(hsc__convert_plan(c, err));
    HSC_TRY(c->to_gguf ? hsc__convert_to_gguf(c, err) : hsc__convert_to_folder(c, err));
    for (int i = 0; i < HSC_N_DTYPES; i++) {
        hsc_convert_sum *s = &c->report->types[i];
        s->rms = s->size > 0 ? sqrt(s->error / s->size) : 0;
    }
    return HSC_OK;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

hsc_status hsc_convert(const char *in, const char *out, const hsc_convert_options *options, hsc_convert_report *report,
                       hsc_error *err)
{
    static const hsc_convert_options defaults;
    hsc_convert_report unwanted;
    hsc__convert c = {.in = in, .out = out, .options = options ? options : &defaults};
    double begin = now();
    hsc__error_clear(err);
    HSC_FAIL_IF(!in || !out || !*out, HSC_EINVAL, "input and output must be named");
    c.report = report ? report : &unwanted;
    *c.report = (hsc_convert_report){0};
    c.to_gguf = hsc__ends_with(out, ".gguf");
    hsc_status status = convert(&c, err);
    c.report->seconds = now() - begin;
    if (c.model) hsc_model_close(c.model);
    else hsc__gguf_close(c.gguf);
    json_decref(c.config);
    hsc__free(c.items);
    hsc__arena_free(&c.arena);
    return status;
}
