/* Targets of encoder-decoders: given ones are put behind the token that begins a text, the others are written. */
#include "cli/target.h"

#include <string.h>

int hsc__target_check(const hsc__command *command, const hsc__target_options *o)
{
    if (o->text && o->ids.ids) return hsc__cli_misuse(command, "--target and --target-ids: one of the two");
    return HSC__CLI_GO_ON;
}

hsc_status hsc__target_allowed(const hsc__opened *opened, const hsc__target_options *o, hsc_error *err)
{
    HSC_FAIL_IF((o->text || o->ids.ids) && !hsc_model_encoder(opened->model), HSC_EINVAL,
                "--target is what a decoder reads beside a source; %s (%s) has one stack of blocks", opened->name,
                opened->config->arch);
    return HSC_OK;
}

hsc_status hsc__source_fits(const hsc__opened *opened, size_t n_source, hsc_error *err)
{
    const hsc_config *encoder = hsc_model_encoder(opened->model);
    HSC_FAIL_IF(n_source > (size_t)encoder->n_ctx, HSC_EINVAL,
                "the source has %zu token%s, the encoder of %s sees at most %d (its context)", n_source,
                HSC__PLURAL(n_source), opened->name, encoder->n_ctx);
    return HSC_OK;
}

hsc_status hsc__target_fits(const hsc__opened *opened, size_t n_target, hsc_error *err)
{
    HSC_FAIL_IF(n_target > (size_t)opened->config->n_ctx, HSC_EINVAL,
                "the target has %zu token%s, %s sees at most %d (its context)", n_target, HSC__PLURAL(n_target),
                opened->name, opened->config->n_ctx);
    return HSC_OK;
}

static hsc_status end_tokens(const hsc__opened *opened, hsc_token ends[HSC__TARGET_MAX_ENDS], int *n, hsc_error *err)
{
    *n = hsc_model_end_tokens(opened->model, ends, HSC__TARGET_MAX_ENDS, err);
    if (*n < 0) return (hsc_status)*n;
    if (*n > HSC__TARGET_MAX_ENDS) *n = HSC__TARGET_MAX_ENDS;
    return HSC_OK;
}

static bool among(hsc_token id, const hsc_token *list, int n)
{
    while (n > 0 && list[n - 1] != id) n--;
    return n > 0;
}

/* The ids of start and text in one list; free list->ids. */
static hsc_status join(const hsc_token *start, size_t n_start, const hsc_token *text, size_t n_text, hsc__ids *list,
                       hsc_error *err)
{
    list->n = n_start + n_text;
    list->ids = hsc__malloc((list->n + 1) * sizeof *list->ids);
    if (!list->ids) return hsc__fail_memory(err, list->n * sizeof *list->ids, "the target");
    memcpy(list->ids, start, n_start * sizeof *start);
    if (n_text) memcpy(list->ids + n_start, text, n_text * sizeof *text);
    return HSC_OK;
}

/* A model is taught with the target one place to the right: the token that ends it is written and never read. */
hsc_status hsc__target_encode(const hsc__opened *opened, const char *text, size_t n_bytes, bool with_end,
                              hsc__ids *list, int *first, hsc_error *err)
{
    const hsc_tokenizer *tokenizer;
    hsc_token ends[HSC__TARGET_MAX_ENDS];
    hsc_encoding encoding = {0};
    hsc_target how;
    int n_ends;
    HSC_TRY(hsc_model_target(opened->model, &how, err));
    HSC_TRY(end_tokens(opened, ends, &n_ends, err));
    HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err)); /* says how to do without one */
    tokenizer = hsc_model_target_tokenizer(opened->model, err);
    if (!tokenizer) return HSC_ENOTFOUND;
    hsc_status status = hsc_encode(tokenizer, text, n_bytes, HSC_ENCODE_ADD_SPECIAL, &encoding, err);
    size_t n = encoding.n, before = 0;
    if (!with_end && n && among(encoding.ids[n - 1], ends, n_ends)) n--;
    while (before < n && encoding.texts[before] < 0) before++;
    if (first) *first = 1 + (int)before;
    if (status == HSC_OK) status = join(how.start, 1, encoding.ids, n, list, err);
    hsc_encoding_free(&encoding);
    return status;
}

static hsc_status run_generator(hsc_session *session, const hsc_target *how, const hsc_generate_options *o,
                                hsc__ids *list, hsc_error *err)
{
    hsc_generator *g;
    HSC_TRY(hsc_generator_new(&g, session, how->start, how->n_start, o, err));
    hsc_status status = HSC_OK;
    while (status == HSC_OK && hsc_generator_running(g)) status = hsc_generator_next(g, err);
    const hsc_sample *s = hsc_generator_sample(g, 0);
    int n = s->n - (s->finish == HSC_FINISH_END);
    if (status == HSC_OK) status = join(how->start, (size_t)how->n_start, s->ids, (size_t)n, list, err);
    hsc_generator_free(g);
    return status;
}

static hsc_status write_greedily(const hsc__opened *opened, const hsc__pass_options *pass, int n_threads,
                                 const hsc_token *source, int n_source, const hsc_target *how, hsc__ids *list,
                                 hsc_error *err)
{
    hsc_token ends[HSC__TARGET_MAX_ENDS];
    hsc_session *session;
    int n_ends, n_ctx = opened->config->n_ctx, most = n_ctx < HSC__TARGET_MAX_TOKENS ? n_ctx : HSC__TARGET_MAX_TOKENS;
    hsc_session_options o = hsc__pass_session(pass, n_threads, most);
    hsc_batch batch = {.ids = source, .n_tokens = n_source};
    o.max_source = n_source;
    HSC_TRY(end_tokens(opened, ends, &n_ends, err));
    HSC_TRY(hsc_session_new(&session, opened->model, &o, err));
    hsc_generate_options how_written = {
        .end_tokens = ends,
        .n_end_tokens = n_ends,
        .barred = how->barred,
        .n_barred = how->n_barred,
        .sampling = {.repetition = how->repetition},
        .max_tokens = n_ctx > how->n_start ? n_ctx - how->n_start : 1, /* what is written is read, all of it */
        .min_tokens = how->min_tokens - (how->n_start - 1) > 0 ? how->min_tokens - (how->n_start - 1) : 0,
        .no_repeat = how->no_repeat};
    hsc_status status = hsc_session_read_source(session, &batch, err);
    if (status == HSC_OK) status = run_generator(session, how, &how_written, list, err);
    hsc_session_free(session);
    return status;
}

hsc_status hsc__target_find(const hsc__opened *opened, const hsc__target_options *o, const hsc__pass_options *pass,
                            int n_threads, const hsc_token *source, int n_source, hsc__tokens *out, hsc_error *err)
{
    hsc__ids list = {0};
    hsc_target how;
    hsc_status status = HSC_OK;
    HSC_TRY(hsc__source_fits(opened, (size_t)n_source, err));
    if (o->ids.ids) {
        list = o->ids;
    } else {
        HSC_TRY(hsc_model_target(opened->model, &how, err));
        if (o->text) status = hsc__target_encode(opened, o->text, strlen(o->text), o->with_end, &list, NULL, err);
        else status = write_greedily(opened, pass, n_threads, source, n_source, &how, &list, err);
    }
    if (status == HSC_OK)
        status = hsc__tokens_from_ids(out, hsc_model_target_tokenizer(opened->model, NULL), &list, err);
    if (!o->ids.ids) hsc__free(list.ids);
    return status == HSC_OK ? hsc__target_fits(opened, out->encoding.n, err) : status;
}
