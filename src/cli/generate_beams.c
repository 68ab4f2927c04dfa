/* generate --beams: the search, its progress, and its texts. */
#include "cli/generate.h"

#include <string.h>

static int tell(void *user, int n_steps)
{
    const hsc__generate *g = user;
    hsc__cli_progress("searching: %d of %d tokens", n_steps, g->o->max_tokens ? g->o->max_tokens : n_steps);
    return hsc__cli_interrupted();
}

/* The text of ids without special tokens, unless they are to be shown, and without the end. */
static void beam_text(const hsc__generate *g, const hsc_beam *beam, hsc__string *out)
{
    const hsc_tokenizer *tokenizer = hsc_model_target_tokenizer(g->opened.model, NULL);
    hsc_stream stream = {0};
    size_t bound = tokenizer ? hsc_stream_bound(tokenizer) : 0;
    char *room = hsc__malloc(bound + 8);
    int n = beam->finish == HSC_FINISH_END ? beam->n - 1 : beam->n;
    if (!room) out->failed = true;
    for (int i = -1; room && i < n; i++) {
        hsc_token id = i < 0 ? g->prompt.encoding.ids[g->n_prompt - 1] : beam->ids[i];
        if (!tokenizer) {
            if (i >= 0) hsc__string_printf(out, "%s%d", i ? " " : "", (int)id);
            continue;
        }
        if (hsc_token_is_special(tokenizer, id) && (i < 0 || !g->o->show_special)) continue;
        int64_t length = hsc_stream_next(tokenizer, &stream, id, room, bound);
        if (i >= 0 && length > 0) hsc__string_add(out, room, (size_t)length);
    }
    if (room) {
        int64_t length = hsc_stream_end(&stream, room, 8);
        if (length > 0) hsc__string_add(out, room, (size_t)length);
    }
    hsc__free(room);
}

static int show(const hsc__generate *g, const hsc_beam *beams, int n)
{
    json_t *root = g->o->json ? hsc__json_generate(g) : NULL, *samples = g->o->json ? json_array() : NULL;
    bool failed = false;
    for (int i = 0; i < n && !failed; i++) {
        hsc__string text = {0};
        beam_text(g, &beams[i], &text);
        failed = text.failed;
        const char *bytes = text.data ? text.data : "";
        double log_prob = (double)beams[i].score;
        if (samples) {
            json_t *sample = hsc__json_sample(bytes, text.n, beams[i].ids, beams[i].n, beams[i].finish, log_prob);
            json_object_del(sample, "log_prob");
            json_object_set_new(sample, "score", hsc__json_number(log_prob));
            json_array_append_new(samples, sample);
        } else {
            if (g->o->n_samples > 1)
                printf("%s--- beam %d (score %.4f): %d token%s, %s\n", i ? "\n" : "", i, log_prob, beams[i].n,
                       HSC__PLURAL(beams[i].n), hsc_finish_name(beams[i].finish));
            hsc__generate_echo(g);
            hsc__cli_write(bytes, text.n);
            hsc__cli_write("\n", 1);
        }
        hsc__string_free(&text);
    }
    if (failed) {
        json_decref(root);
        json_decref(samples);
        return hsc__cli_no_memory();
    }
    if (!root) return HSC__EXIT_OK;
    json_object_set_new(root, "beams", json_integer(g->o->n_beams));
    json_object_set_new(root, "samples", samples);
    return hsc__json_print(root);
}

int hsc__generate_beams(hsc__generate *g)
{
    const hsc__generate_options *o = g->o;
    hsc_beam beams[HSC__GENERATE_MAX_BEAMS] = {0};
    hsc_error err = {0};
    int n = 0, result;
    hsc_beam_options how = {.sampling = hsc__cli_sampling(&o->sampling, 0),
                            .n_beams = o->n_beams,
                            .max_tokens = o->max_tokens,
                            .length_penalty = (float)o->length_penalty,
                            .stop = g->stop,
                            .min_tokens = o->min_tokens,
                            .no_repeat = o->no_repeat,
                            .renormalise = g->renormalise,
                            .end_tokens = g->ends,
                            .n_end_tokens = g->n_ends,
                            .tell = tell,
                            .user = g,
                            .barred = g->target.barred,
                            .n_barred = g->target.n_barred,
                            .last = g->reads_source && g->target.last >= 0 ? &g->target.last : NULL,
                            .n_written = g->n_forced};
    hsc__cli_hold_interrupt(true);
    hsc_status status = hsc_beam_search(g->session, g->prompt.encoding.ids, g->n_prompt, &how, beams, &n, &err);
    bool interrupted = hsc__cli_interrupted();
    hsc__cli_progress_end();
    result = status == HSC_OK ? show(g, beams, n < o->n_samples ? n : o->n_samples) : hsc__cli_fail(&err);
    hsc_beams_free(beams, n);
    fflush(stdout);
    hsc__cli_forget_interrupt();
    hsc__cli_hold_interrupt(false);
    return interrupted && result == HSC__EXIT_OK ? HSC__EXIT_INTERRUPTED : result;
}
