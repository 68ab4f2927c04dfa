/*
 * headscope detect: what does every head mostly do? Detectors need no sentence pairs: random tokens twice for
 * induction, and any text for the rest. This file reads the arguments and runs; detect_report.c shows.
 */
#include "cli/detect.h"
#include "cli/team.h"

#include <math.h>
#include <string.h>

/* The names of all detectors, each after a blank. */
#define NAME(id, name, meaning) " " name
#define NAMES HSC_DETECTOR_LIST(NAME)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__detect_options, model),
    HSC__OPTION_HEADING("Where it looks"),
    HSC__DETECT_OPTIONS_WHERE,
    HSC__OPTION_HEADING("What is shown"),
    {"by", 0, HSC__OPT_TEXT, "DETECTOR", offsetof(hsc__detect_options, by), 0, 0,
     "Rank heads by this detector alone, and draw its map (otherwise induction's). One of" NAMES "."},
    {"top", 'k', HSC__OPT_INT, "K", offsetof(hsc__detect_options, top), 1, 100000,
     "Heads of each detector (default 3, and 10 with --by)."},
    {"tl", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__detect_options, tl), 0, 0,
     "Show beside it what TransformerLens's detect_head gives: all rows, special tokens too."},
    {"db", 0, HSC__OPT_TEXT, "FILE", offsetof(hsc__detect_options, db), 0, 0,
     "Keep scores, intervals and examples in this SQLite database; scan's may be the same. A run that was stopped goes "
     "on there where it stopped."},
    HSC__DETECT_OPTIONS_SHOWN,
    HSC__OPTION_HEADING("The pass"),
    HSC__OPTIONS_PASS(hsc__detect_options, pass),
    HSC__OPTION_THREADS(hsc__detect_options, threads),
};

static const hsc__command command = {
    .name = "detect",
    .usage = "-m MODEL [CORPUS] [options]",
    .about =
        "What does each head mostly do? Mean weights on the token before, on the token itself, on the first one, on "
        "earlier copies of the token, on a word's first piece, on punctuation; entropy and distances. CORPUS is any "
        "text, \"-\" standard input, and is cut into windows of 256 tokens. Induction is measured on random tokens "
        "that "
        "come twice; without CORPUS everything is.\n"
        "A score says where a head looks, not what it is for: docs/detectors.md defines each one. Intervals are over "
        "windows, or over sequences for induction.\n"
        "Of an encoder-decoder (T5, BART, Marian) the encoder reads the windows, and its heads are described.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope detect -m SmolLM2.gguf\n"
                "headscope detect -m SmolLM2.gguf book.txt --by previous --tl\n"
                "headscope detect -m gpt2 book.txt --bos \"<|endoftext|>\" --csv",
    .max_args = 1,
    .encoder_decoders = true,
    .of_encoder = true,
};

static int no_detector(const hsc__command *of, const char *by)
{
    const char *names[HSC_N_DETECTORS];
    for (int d = 0; d < HSC_N_DETECTORS; d++) names[d] = hsc_detector_name((hsc_detector)d);
    const char *nearest = hsc__cli_nearest(by, names, sizeof *names, HSC_N_DETECTORS);
    if (strcmp(by, "distance") == 0)
        return hsc__cli_misuse(of, "--by distance: distances rank no heads; they stand below those of any --by");
    if (nearest) return hsc__cli_misuse(of, "--by %s: did you mean %s?", by, nearest);
    return hsc__cli_misuse(of, "--by %s: there is no such detector; there are" NAMES, by);
}

int hsc__detect_check(const hsc__command *of, const hsc__detect_options *o)
{
    if (o->json && o->csv) return hsc__cli_misuse(of, "--json and --csv: one of the two");
    if (hsc__check_plot(of, o->plot) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (o->db && !*o->db) return hsc__cli_misuse(of, "--db is empty: nothing would be kept");
    for (int d = 0; o->by; d++) {
        if (d == HSC_N_DETECTORS) return no_detector(of, o->by);
        if (strcmp(o->by, hsc_detector_name((hsc_detector)d)) == 0) break;
    }
    return hsc__pass_check(of, &o->pass);
}

hsc_status hsc__corpus_read(hsc__corpus *corpus, const char *path, hsc_error *err)
{
    corpus->path = path;
    if (!path) return HSC_OK;
    HSC_TRY(hsc__team_can_read(path, err));
    if (hsc__is_file(path)) {
        HSC_TRY(hsc__map_open(&corpus->map, path, err));
        corpus->text = (const char *)corpus->map.data;
        corpus->n = (size_t)corpus->map.size;
    } else {
        HSC_TRY(hsc__cli_read(path, &corpus->read, err));
        corpus->text = corpus->read.data;
        corpus->n = corpus->read.n;
    }
    size_t mark = hsc__text_mark(corpus->text, corpus->n);
    corpus->text += mark;
    corpus->n -= mark;
    return HSC_OK;
}

void hsc__corpus_close(hsc__corpus *corpus)
{
    hsc__map_close(&corpus->map);
    hsc__string_free(&corpus->read);
}

hsc_status hsc__detect_run_options(const hsc__detect *detect, hsc__counting *counting, hsc_detect_options *out,
                                   hsc_error *err)
{
    const hsc__detect_options *o = detect->options;
    *counting = (hsc__counting){.path = detect->opened.name, .thing = "window", .unit = "windows", .per_thing = 1};
    *out = (hsc_detect_options){.with_bos = o->bos != NULL,
                                .n_sequences = o->sequences,
                                .length = o->length,
                                .seed = (uint64_t)o->seed,
                                .max_windows = o->windows,
                                .session = hsc__pass_session(&o->pass, o->threads, 0),
                                .tell = hsc__team_speaks() ? hsc__counting_tell : NULL,
                                .user = counting,
                                .team = hsc__team()};
    hsc__counting_start(counting);
    return o->bos ? hsc__cli_find_bos(&detect->opened, o->bos, &out->bos, err) : HSC_OK;
}

static hsc_status score(hsc__detect *detect, const hsc_detect *result, hsc_error *err)
{
    detect->counts = hsc_detect_count(result);
    detect->n_heads = detect->counts.n_layers * detect->counts.n_heads;
    size_t n = (size_t)detect->n_heads;
    detect->scores = hsc__calloc(HSC_N_DETECTORS * n, sizeof *detect->scores);
    detect->profile = hsc__calloc(HSC_DETECT_BINS * n, sizeof *detect->profile);
    if (!detect->scores || !detect->profile)
        return hsc__fail_memory(err, HSC_N_DETECTORS * n * sizeof *detect->scores, "the scores");
    for (int d = 0; d < HSC_N_DETECTORS; d++)
        HSC_TRY(hsc_detect_scores(result, (hsc_detector)d, detect->scores + (size_t)d * n, err));
    hsc_detect_profile(result, detect->profile);
    return HSC_OK;
}

static hsc_status run_heads(hsc__detect *detect, const hsc_detect_store *store, hsc_error *err)
{
    hsc__counting counting;
    hsc_detect_options run;
    hsc_detect *result = NULL;
    const hsc__corpus *corpus = detect->corpus;
    HSC_TRY(hsc__detect_run_options(detect, &counting, &run, err));
    run.store = store;
    hsc_status status = hsc_detect_run(&result, detect->opened.model, corpus->text, corpus->n, &run, err);
    hsc__cli_progress_end();
    if (status == HSC_OK) status = score(detect, result, err);
    hsc_detect_free(result);
    return status;
}

hsc_status hsc__detect_heads(hsc__detect *detect, hsc_error *err)
{
    hsc__detect_db *db = NULL;
    if (!detect->options->db || !hsc__team_speaks()) return run_heads(detect, NULL, err);
    HSC_TRY(hsc__detect_db_open(&db, detect, err));
    hsc_detect_store store = hsc__detect_db_store(db);
    hsc__cli_goes_on(true);
    hsc_status status = run_heads(detect, &store, err);
    hsc__cli_goes_on(false);
    if (status == HSC_OK) status = hsc__detect_db_finish(db, detect, err);
    hsc__detect_db_close(db);
    return status;
}

void hsc__detect_close(hsc__detect *detect)
{
    hsc__free(detect->scores);
    hsc__free(detect->profile);
    hsc__cli_close(&detect->opened);
}

void hsc__rank_heads(const double *values, int n, bool rising, int *order)
{
    for (int i = 0; i < n; i++) {
        double key = isnan(values[i]) ? -INFINITY : rising ? -values[i] : values[i];
        int at = i;
        for (; at > 0; at--) {
            double other = values[order[at - 1]];
            other = isnan(other) ? -INFINITY : rising ? -other : other;
            if (other >= key) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

static int show(const hsc__detect *detect)
{
    hsc__string out = {0};
    hsc_error err = {0};
    if (!hsc__team_speaks()) return HSC__EXIT_OK;
    if (detect->options->plot && hsc__detect_map(detect, NULL, &err) != HSC_OK) return hsc__cli_fail(&err);
    if (detect->options->json) return hsc__json_print(hsc__detect_json(detect));
    if (detect->options->csv) {
        hsc__detect_csv(detect, &out);
        return hsc__cli_write_string(&out);
    }
    if (hsc__detect_text(detect, &out, &err) != HSC_OK) {
        hsc__string_free(&out);
        return hsc__cli_fail(&err);
    }
    return hsc__cli_show(&out);
}

int hsc__cli_detect(int argc, char **argv)
{
    hsc__detect_options values = {0};
    hsc__args args;
    hsc_error err = {0};
    hsc__corpus corpus = {0};
    hsc__detect detect = {.options = &values, .corpus = &corpus};
    int status = hsc__cli_parse(&command, argc, argv, &values, &args);
    if (status == HSC__CLI_GO_ON) status = hsc__detect_check(&command, &values);
    if (status != HSC__CLI_GO_ON) return status;
    if (hsc__corpus_read(&corpus, args.n ? args.list[0] : NULL, &err) != HSC_OK) status = hsc__cli_fail(&err);
    if (status == HSC__CLI_GO_ON)
        status = hsc__cli_open(&command, values.model, values.pass.dtype, hsc__team_speaks(), &detect.opened);
    if (status == HSC__CLI_GO_ON)
        status = hsc__detect_heads(&detect, &err) == HSC_OK ? show(&detect) : hsc__cli_fail(&err);
    hsc__detect_close(&detect);
    hsc__corpus_close(&corpus);
    return status;
}
