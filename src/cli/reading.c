/* One text as a command reads it, and small pieces of its answer. */
#include "cli/reading.h"

#include "cli/look.h"

#include <string.h>

int hsc__reading_check_output(const hsc__command *command, const hsc__reading_options *o)
{
    if (o->json && o->csv) return hsc__cli_misuse(command, "--json and --csv: one of the two");
    return hsc__check_plot(command, o->plot);
}

int hsc__reading_check(const hsc__command *command, const hsc__reading_options *o, const hsc__args *args)
{
    if (hsc__target_check(command, &o->target) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (args->n + (o->ids.ids != NULL) != 1) return hsc__cli_misuse(command, "give one of TEXT and --ids");
    if (o->token && o->pos >= 0) return hsc__cli_misuse(command, "--token and --pos: one of the two");
    return hsc__reading_check_output(command, o);
}

static hsc_status find_position(hsc__reading *r, hsc_error *err)
{
    const hsc__reading_options *o = r->options;
    r->pos = o->pos >= 0 ? o->pos : r->n_tokens - 1;
    HSC_FAIL_IF(r->pos >= r->n_tokens, HSC_EINVAL, "--pos %d: the text has %d token%s, counted from 0", r->pos,
                r->n_tokens, HSC__PLURAL(r->n_tokens));
    if (!o->token) return HSC_OK;
    hsc_status status = hsc__look_find(&r->tokens, o->token, "--token", "--pos", &r->pos, err);
    r->not_found = status == HSC_ENOTFOUND;
    return status;
}

/* What was given, as tokens. */
static hsc_status read_given(const hsc__reading *r, const char *text, hsc__tokens *out, hsc_error *err)
{
    const hsc__reading_options *o = r->options;
    const hsc_tokenizer *tokenizer = NULL;
    if (o->ids.ids) return hsc__tokens_from_ids(out, hsc_model_tokenizer(r->opened.model, NULL), &o->ids, err);
    HSC_TRY(hsc__cli_tokenizer(&r->opened, &tokenizer, err));
    return hsc__tokens_encode(out, tokenizer, text, strlen(text), hsc__encode_flags(o->no_special, o->parse_special),
                              err);
}

static hsc_status read_source(hsc__reading *r, const char *text, hsc_error *err)
{
    const hsc__reading_options *o = r->options;
    hsc__pass_options pass = {.compute = o->compute};
    HSC_TRY(read_given(r, text, &r->source, err));
    HSC_FAIL_IF(r->source.encoding.n == 0, HSC_EINVAL, "the text has no tokens");
    HSC_TRY(hsc__source_fits(&r->opened, r->source.encoding.n, err));
    return hsc__target_find(&r->opened, &o->target, &pass, o->threads, r->source.encoding.ids,
                            (int)r->source.encoding.n, &r->tokens, err);
}

hsc_status hsc__reading_text(hsc__reading *r, const char *text, hsc_error *err)
{
    HSC_TRY(hsc__target_allowed(&r->opened, &r->options->target, err));
    if (hsc_model_encoder(r->opened.model)) HSC_TRY(read_source(r, text, err));
    else HSC_TRY(read_given(r, text, &r->tokens, err));
    r->n_tokens = (int)r->tokens.encoding.n;
    HSC_FAIL_IF(r->n_tokens < 1, HSC_EINVAL, "the text has no tokens");
    HSC_FAIL_IF(r->n_tokens > r->opened.config->n_ctx, HSC_EINVAL, "the text has %d token%s, the context of %s %d",
                r->n_tokens, HSC__PLURAL(r->n_tokens), r->opened.name, r->opened.config->n_ctx);
    return find_position(r, err);
}

void hsc__reading_free(hsc__reading *r)
{
    hsc__tokens_free(&r->source);
    hsc__tokens_free(&r->tokens);
    hsc__cli_close(&r->opened);
    hsc__free(r->options->ids.ids);
    hsc__free(r->options->target.ids.ids);
}

static int print(const hsc__reading_steps *steps, const hsc__reading_options *o, const void *job)
{
    hsc__string out = {0};
    hsc_error err = {0};
    hsc_status status = o->plot ? steps->map(job, o->plot, NULL, &err) : HSC_OK;
    if (status != HSC_OK) return hsc__cli_fail(&err);
    if (o->json) return hsc__json_print(steps->json(job));
    if (o->csv) {
        steps->csv(job, &out);
        return hsc__answer(HSC_OK, &out, &err);
    }
    status = steps->text(job, &out, &err);
    return hsc__answer_text(status, &out, &err);
}

int hsc__reading_main(const hsc__reading_steps *steps, int argc, char **argv, void *values, hsc__reading *r, void *job)
{
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(steps->command, argc, argv, values, &args);
    if (result == HSC__CLI_GO_ON) result = steps->check(job, &args);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(steps->command, r->options->model, 0, true, &r->opened);
    if (result != HSC__CLI_GO_ON) return result;
    if (steps->run(job, args.n ? args.list[0] : NULL, &err) == HSC_OK) return print(steps, r->options, job);
    result = hsc__cli_fail(&err);
    if (r->not_found) hsc__look_list_tokens(&r->tokens);
    return result;
}

void hsc__add_head_name(hsc__string *out, int layer, int head)
{
    hsc__string_printf(out, "layer %d, head %d (L%dH%d)", layer + 1, head, layer, head);
}

void hsc__add_word(hsc__string *out, const hsc__opened *opened, hsc_token id)
{
    const hsc_tokenizer *tokenizer = hsc_model_target_tokenizer(opened->model, NULL);
    size_t n = 0;
    const char *bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &n) : NULL;
    if (bytes) hsc__text_repr(out, bytes, n);
    else hsc__string_printf(out, "#%d", (int)id);
}

void hsc__csv_word(hsc__string *out, const hsc__opened *opened, hsc_token id)
{
    const hsc_tokenizer *tokenizer = hsc_model_target_tokenizer(opened->model, NULL);
    size_t n = 0;
    const char *bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &n) : NULL;
    hsc__string_printf(out, ",%d,", (int)id);
    if (bytes) hsc__csv_field(out, bytes, n);
}

void hsc__csv_token(hsc__string *out, const hsc__reading *r, int pos)
{
    hsc__string_printf(out, ",%d,", pos);
    hsc__csv_field(out, r->tokens.texts[pos].bytes, r->tokens.texts[pos].n);
}

json_t *hsc__json_word(const hsc__opened *opened, hsc_token id)
{
    const hsc_tokenizer *tokenizer = hsc_model_target_tokenizer(opened->model, NULL);
    size_t n = 0;
    const char *bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &n) : NULL;
    json_t *object = json_pack("{s:i}", "id", (int)id);
    return bytes ? hsc__json_set_text(object, bytes, n) : object;
}

int hsc__answer(hsc_status status, hsc__string *out, const hsc_error *err)
{
    if (status == HSC_OK) return hsc__cli_write_string(out);
    hsc__string_free(out);
    return hsc__cli_fail(err);
}

int hsc__answer_text(hsc_status status, hsc__string *out, const hsc_error *err)
{
    if (status == HSC_OK) return hsc__cli_show(out);
    hsc__string_free(out);
    return hsc__cli_fail(err);
}

int hsc__answer_json(hsc_status status, json_t *root, const hsc_error *err)
{
    if (status == HSC_OK) return hsc__json_print(root);
    json_decref(root);
    return hsc__cli_fail(err);
}
