/*
 * headscope scan: a search over many sentence pairs for the head that follows the answer. This file reads the arguments
 * and runs: the pairs, the confirming and the control file, the choice on one part and the judgement on another.
 */
#include "cli/scan.h"
#include "cli/team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const hsc__option options[] = {
    HSC__OPTION_MODEL(hsc__scan_options, model),
    HSC__OPTION_HEADING("What is read"),
    {"query", 0, HSC__OPT_TEXT, "pronoun|swap|last|TEXT", offsetof(hsc__scan_options, query), 0, 0,
     "Whose attention is read: the file's query, the pronoun or [q:..] (default); the last token of the swapped word; "
     "the last token that is not punctuation; or a word that stands in every sentence."},
    {"keys", 0, HSC__OPT_CHOICE, "sum|mean|last", offsetof(hsc__scan_options, keys), 0, 0,
     "What a candidate of several tokens weighs."},
    {"bos", 0, HSC__OPT_TEXT, "TOKEN|own", offsetof(hsc__scan_options, bos), 0, 0,
     "Begin each sentence with this token, \"<|endoftext|>\", or with the model's own BOS (own), where the tokenizer "
     "does "
     "not."},
    {"cluster", 0, HSC__OPT_TEXT, "FIELD", offsetof(hsc__scan_options, cluster), 0, 0,
     "Pairs that share this field of the JSONL count as one. Default: the template in winogender and ioi, else each "
     "pair by itself."},
    HSC__OPTION_HEADING("Choosing and judging"),
    {"by", 0, HSC__OPT_CHOICE, "shift|t|accuracy", offsetof(hsc__scan_options, by), 0, 0,
     "By what heads are ranked and chosen; shift and t by their size."},
    {"holdout", 0, HSC__OPT_TEXT, "SHARE", offsetof(hsc__scan_options, holdout), 0, 0,
     "Hold back this share of the clusters, 0.5: heads are chosen on the rest and judged on it."},
    {"cross", 0, HSC__OPT_INT, "N", offsetof(hsc__scan_options, cross), 1, 1000000,
     "Split N times: how often each head is chosen, and the median of its held-out shifts."},
    {"confirm", 0, HSC__OPT_TEXT, "FILE", offsetof(hsc__scan_options, confirm), 0, 0,
     "Choose on all of PAIRS and judge on the pairs of another file."},
    {"choose", 0, HSC__OPT_INT, "K", offsetof(hsc__scan_options, choose), 1, 100000,
     "How many heads are chosen (default 1)."},
    {"control", 0, HSC__OPT_TEXT, "FILE", offsetof(hsc__scan_options, control), 0, 0,
     "Pairs with the same words but not the relation, in the same order: their shift is taken away."},
    {"null", 0, HSC__OPT_TEXT, "R|weights", offsetof(hsc__scan_options, null), 0, 0,
     "Search R times with the wordings of each cluster exchanged at random: where does the best head lie? Or search "
     "once "
     "where the weights of the model stand in a random order: what do heads do that have learnt nothing?"},
    {"fdr", 0, HSC__OPT_CHOICE, "bh|by", offsetof(hsc__scan_options, fdr), 0, 0,
     "How q is adjusted: Benjamini and Hochberg, or Benjamini and Yekutieli."},
    {"seed", 0, HSC__OPT_INT, "N", offsetof(hsc__scan_options, seed), 0, INT32_MAX,
     "Of splits, intervals and sampled signs. Default 0."},
    HSC__OPTION_HEADING("What is shown and kept"),
    {"top", 'k', HSC__OPT_INT, "K", offsetof(hsc__scan_options, top), 1, 100000, "Rows of the table. Default 10."},
    {"head", 0, HSC__OPT_HEAD, "HEAD", offsetof(hsc__scan_options, head), 0, 0,
     "List the sentences where this head, L3H1, is wrong."},
    {"plot", 0, HSC__OPT_TEXT, "FILE", offsetof(hsc__scan_options, plot), 0, 0,
     "Write the map of layers and heads, .png, .svg or .pdf."},
    {"db", 0, HSC__OPT_TEXT, "FILE", offsetof(hsc__scan_options, db), 0, 0,
     "Keep everything in this SQLite database. A run that was stopped goes on there where it stopped."},
    HSC__OPTION_JSON(hsc__scan_options, json),
    {"csv", 0, HSC__OPT_FLAG, NULL, offsetof(hsc__scan_options, csv), 0, 0,
     "Print CSV, a line a head, with a line of names."},
    HSC__OPTION_HEADING("The pass"),
    HSC__OPTIONS_PASS(hsc__scan_options, pass),
    HSC__OPTION_THREADS(hsc__scan_options, threads),
};

static const hsc__command command = {
    .name = "scan",
    .usage = "-m MODEL PAIRS [options]",
    .about =
        "Which head follows the answer? Runs pairs of sentences that differ in a word and by it in the answer, and "
        "tests for every head whether the weight of the query moves with it: shift = (a1 - b1) - (a2 - b2), a and b "
        "being the weights on the two candidates, in the wording whose answer is a and in the one whose answer is b.\n"
        "PAIRS is JSONL (text, pronoun_span, cands, answer, twin) or marked text, a pair a line: The [a:animal] didn't "
        "cross the [b:street] because [q:it] was too {tired|wide}. With the first word of { } the answer is a.\n"
        "A search over all heads finds something in noise too. Judge by p_fwer, and by what the head does on pairs "
        "that did not choose it (--holdout, --cross, --confirm), beside a control (--control). docs/scan.md says "
        "more.\n"
        "Of an encoder-decoder (T5, BART, Marian) the encoder reads the sentences, and its heads are searched.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope scan -m MiniLM data/pairs/pronoun.txt --holdout 0.5\n"
                "headscope scan -m SmolLM2.gguf data/pairs/names.txt \\\n"
                "    --control data/pairs/names.control.txt --cross 100\n"
                "headscope scan -m SmolLM2.gguf pairs.txt --db scan.sqlite --plot heads.png",
    .min_args = 1,
    .max_args = 1,
    .missing = "the file of sentence pairs is missing",
    .encoder_decoders = true,
    .of_encoder = true,
};

/* ------------------------------------------------------------------------------------------------------ arguments ----
 */

static int check(hsc__scan *scan)
{
    const hsc__scan_options *o = scan->options;
    if (o->json && o->csv) return hsc__cli_misuse(&command, "--json and --csv: one of the two");
    if (o->holdout && hsc__share_check(&command, o->holdout, &scan->held_share) != HSC__CLI_GO_ON)
        return HSC__EXIT_USAGE;
    if (o->holdout && o->confirm)
        return hsc__cli_misuse(&command, "--holdout and --confirm both say where chosen heads are judged");
    if (o->head.given && (o->json || o->csv))
        return hsc__cli_misuse(&command, "--head lists sentences for reading: not with --json or --csv");
    if (hsc__check_plot(&command, o->plot) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (o->null && strcmp(o->null, "weights") != 0) {
        char *end;
        long n = strtol(o->null, &end, 10);
        if (*end || end == o->null || n < 1 || n > 1000000)
            return hsc__cli_misuse(&command, "--null %s: 'weights' or a number from 1 to 1000000 is wanted", o->null);
        scan->n_null = (int)n;
    }
    if (o->query && !*o->query) return hsc__cli_misuse(&command, "--query is empty");
    if (o->db && !*o->db) return hsc__cli_misuse(&command, "--db is empty: nothing would be kept");
    return hsc__pass_check(&command, &o->pass);
}

static void name_query(hsc__scan *scan)
{
    const char *q = scan->options->query;
    scan->query_name = q ? q : "pronoun";
    if (!q || strcmp(q, "pronoun") == 0) scan->query = HSC_QUERY_FILE;
    else if (strcmp(q, "swap") == 0) scan->query = HSC_QUERY_SWAP;
    else if (strcmp(q, "last") == 0) scan->query = HSC_QUERY_LAST;
    else scan->query = HSC_QUERY_TEXT;
}

/* ---------------------------------------------------------------------------------------------------------- files ----
 */

static hsc_status read_file(const hsc__scan *scan, hsc__scan_file *file, hsc_error *err)
{
    hsc__input input;
    HSC_TRY(hsc__team_can_read(file->path, err));
    HSC_TRY(hsc__input_open(&input, file->path, err));
    hsc_reader reader = {hsc__input_read, &input};
    hsc_status status = hsc_pairs_read(&file->pairs, file->path, &reader, scan->options->cluster, err);
    hsc__input_close(&input);
    return status;
}

static hsc_scan_options run_options(const hsc__scan *scan, hsc__counting *counting)
{
    const hsc__scan_options *o = scan->options;
    return (hsc_scan_options){.query = scan->query,
                              .query_text = o->query,
                              .keys = (hsc_scan_keys)o->keys,
                              .with_bos = o->bos != NULL,
                              .bos = scan->bos,
                              .session = hsc__pass_session(&o->pass, o->threads, 0),
                              .tell = hsc__team_speaks() ? hsc__counting_tell : NULL,
                              .user = counting,
                              .team = hsc__team()};
}

static hsc_status run_file(const hsc__scan *scan, hsc__scan_file *file, const hsc_scan_store *store, hsc_error *err)
{
    hsc__counting counting = {.path = file->path, .thing = "pair", .unit = "sentences", .per_thing = 2};
    hsc_scan_options run = run_options(scan, &counting);
    run.store = store;
    hsc__counting_start(&counting);
    hsc_status status = hsc_scan_run(&file->scan, scan->opened.model, file->pairs, &run, err);
    hsc__cli_progress_end();
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s", file->path);
}

/* --db keeps the main file's scan. */
static hsc_status run_main(hsc__scan *scan, hsc__scan_db **db, hsc_error *err)
{
    if (!scan->options->db || !hsc__team_speaks()) return run_file(scan, &scan->main, NULL, err);
    HSC_TRY(hsc__scan_db_open(db, scan, scan->main.path, err));
    hsc_scan_store store = hsc__scan_db_store(*db);
    hsc__cli_goes_on(true);
    hsc_status status = run_file(scan, &scan->main, &store, err);
    hsc__cli_goes_on(false);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- figures ----
 */

static double score(const hsc__scan *scan, int head)
{
    return hsc__scan_score(scan, &scan->heads[head]);
}

static void rank(hsc__scan *scan)
{
    for (int i = 0; i < scan->n_heads; i++) {
        int at = i;
        for (; at > 0 && score(scan, scan->order[at - 1]) < score(scan, i); at--) scan->order[at] = scan->order[at - 1];
        scan->order[at] = i;
    }
}

static hsc_status allocate(hsc__scan *scan, hsc_error *err)
{
    size_t n = (size_t)scan->n_heads;
    scan->n_held = scan->options->choose ? scan->options->choose : 1;
    scan->heads = hsc__calloc(n, sizeof *scan->heads);
    scan->order = hsc__calloc(n, sizeof *scan->order);
    scan->held = hsc__calloc((size_t)scan->n_held, sizeof *scan->held);
    scan->cross = hsc__calloc(n, sizeof *scan->cross);
    scan->cross_median = hsc__calloc(n, sizeof *scan->cross_median);
    scan->difference = hsc__calloc(n, sizeof *scan->difference);
    if (scan->heads && scan->order && scan->held && scan->cross && scan->cross_median && scan->difference)
        return HSC_OK;
    return hsc__fail_memory(err, n * sizeof *scan->heads, "the figures");
}

static hsc_status judge(hsc__scan *scan, hsc_error *err)
{
    const hsc__scan_options *o = scan->options;
    hsc_scan_choice choice = {.by = (hsc_scan_by)o->by,
                              .n_chosen = scan->n_held,
                              .held_out = scan->held_share,
                              .statistics = {.seed = (uint64_t)o->seed, .n_threads = o->threads}};
    if (o->fdr) choice.statistics.fdr = HSC_ADJUST_BY;
    HSC_TRY(hsc_scan_figures(scan->main.scan, &choice.statistics, scan->heads, err));
    rank(scan);
    if (o->holdout) HSC_TRY(hsc_scan_hold_out(scan->main.scan, &choice, scan->held, err));
    else if (o->confirm) HSC_TRY(hsc_scan_confirm(scan->main.scan, scan->confirm.scan, &choice, scan->held, err));
    else scan->n_held = 0;
    if (o->cross) HSC_TRY(hsc_scan_cross(scan->main.scan, &choice, o->cross, scan->cross, scan->cross_median, err));
    if (o->control)
        HSC_TRY(hsc_scan_control(scan->main.scan, scan->control.scan, &choice.statistics, scan->difference,
                                 &scan->control_pairs, &scan->control_clusters, err));
    if (scan->n_null) HSC_TRY(hsc_scan_exchange(scan->main.scan, &choice, scan->n_null, &scan->null, err));
    return HSC_OK;
}

int hsc__scan_tests(const hsc__scan *scan)
{
    int n = 0;
    for (int i = 0; i < scan->n_heads; i++) n += !isnan(scan->heads[i].p);
    return n;
}

const hsc_held_out *hsc__scan_held(const hsc__scan *scan, int head)
{
    for (int i = 0; i < scan->n_held; i++) {
        const hsc_held_out *h = &scan->held[i];
        if (h->layer * scan->counts.n_heads + h->head == head) return h;
    }
    return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- the run
 * ---- */

static hsc_status run(hsc__scan *scan, hsc__scan_db **db, hsc_error *err)
{
    const hsc__scan_options *o = scan->options;
    const hsc_config *config = hsc__cli_reader(&scan->opened);
    if (o->head.given)
        HSC_TRY(
            hsc__place_check("--head", "head", o->head.layer, o->head.head, config->n_layers, config->n_heads, err));
    if (o->bos) HSC_TRY(hsc__cli_find_bos(&scan->opened, o->bos, &scan->bos, err));
    HSC_TRY(run_main(scan, db, err));
    if (o->confirm) HSC_TRY(run_file(scan, &scan->confirm, NULL, err));
    if (o->control) HSC_TRY(run_file(scan, &scan->control, NULL, err));
    scan->counts = hsc_scan_count(scan->main.scan);
    scan->n_heads = scan->counts.n_layers * scan->counts.n_heads;
    HSC_TRY(allocate(scan, err));
    if (hsc__team_speaks()) HSC_TRY(judge(scan, err));
    if (o->null && !scan->n_null) {
        hsc__counting counting = {.path = "shuffled weights", .thing = "pair", .unit = "sentences", .per_thing = 2};
        hsc_scan_options run = run_options(scan, &counting);
        hsc__counting_start(&counting);
        HSC_TRY(hsc__scan_shuffled(scan, &run, err));
    }
    return *db ? hsc__scan_db_finish(*db, scan, err) : HSC_OK;
}

static int show(const hsc__scan *scan)
{
    const hsc__scan_options *o = scan->options;
    hsc__string out = {0};
    hsc_error err = {0};
    if (!hsc__team_speaks()) return HSC__EXIT_OK;
    if (o->plot && hsc__scan_plot(scan, &err) != HSC_OK) return hsc__cli_fail(&err);
    if (o->json) return hsc__json_print(hsc__scan_json(scan));
    if (o->csv) {
        hsc__scan_csv(scan, &out);
        return hsc__cli_write_string(&out);
    }
    hsc__scan_text(scan, &out);
    hsc_status status = hsc__scan_map(scan, &out, &err);
    if (status == HSC_OK && o->head.given) status = hsc__scan_failures(scan, &out, &err);
    if (status != HSC_OK) {
        hsc__string_free(&out);
        return hsc__cli_fail(&err);
    }
    return hsc__cli_show(&out);
}

static void close_file(hsc__scan_file *file)
{
    hsc_scan_free(file->scan);
    hsc_pairs_free(file->pairs);
}

static int finish(hsc__scan *scan, hsc__scan_db *db, int status)
{
    hsc__scan_db_close(db);
    close_file(&scan->main);
    close_file(&scan->confirm);
    close_file(&scan->control);
    hsc__free(scan->heads);
    hsc__free(scan->order);
    hsc__free(scan->held);
    hsc__free(scan->cross);
    hsc__free(scan->cross_median);
    hsc__free(scan->difference);
    hsc__free(scan->weights);
    hsc__cli_close(&scan->opened);
    return status;
}

/* Files first: what is wrong in them is told before a model is opened. */
static hsc_status read_files(hsc__scan *scan, hsc_error *err)
{
    HSC_TRY(read_file(scan, &scan->main, err));
    if (scan->options->confirm) HSC_TRY(read_file(scan, &scan->confirm, err));
    return scan->options->control ? read_file(scan, &scan->control, err) : HSC_OK;
}

int hsc__cli_scan(int argc, char **argv)
{
    hsc__scan_options values = {0};
    hsc__args args;
    hsc_error err = {0};
    hsc__scan scan = {.options = &values};
    hsc__scan_db *db = NULL;
    int status = hsc__cli_parse(&command, argc, argv, &values, &args);
    if (status != HSC__CLI_GO_ON) return status;
    status = check(&scan);
    if (status != HSC__CLI_GO_ON) return status;
    name_query(&scan);
    scan.main.path = args.list[0];
    scan.confirm.path = values.confirm;
    scan.control.path = values.control;
    if (read_files(&scan, &err) != HSC_OK) return finish(&scan, db, hsc__cli_fail(&err));
    status = hsc__cli_open(&command, values.model, values.pass.dtype, hsc__team_speaks(), &scan.opened);
    if (status != HSC__CLI_GO_ON) return finish(&scan, db, status);
    if (run(&scan, &db, &err) != HSC_OK) return finish(&scan, db, hsc__cli_fail(&err));
    return finish(&scan, db, show(&scan));
}
