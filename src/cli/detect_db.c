/* headscope detect --db: scores, intervals and examples in SQLite. The same model, text and options again replace what
 * stands there. docs/detectors.md documents the tables. */
#include "cli/db.h"
#include "cli/detect.h"

#include <stdlib.h>
#include <string.h>

static void describe(const hsc__detect *d, const char *corpus, hsc__string *pass, hsc__string *key)
{
    const hsc__detect_options *o = d->options;
    hsc__pass_describe(pass, &o->pass, d->opened.model);
    hsc__string_printf(pass, ", kernels %s", hsc_isa());
    hsc__string_printf(key, "headscope %s|%016llx|%s|%d|%d|%d|%d|%s|%s", hsc_version(),
                       (unsigned long long)hsc__db_model_key(&d->opened), corpus ? corpus : "", d->counts.n_windows,
                       d->counts.n_sequences, d->counts.length, o->seed, o->bos ? o->bos : "",
                       pass->data ? pass->data : "");
}

static hsc_status add_detection(const hsc__db *db, const hsc__detect *d, const char *corpus, const char *key,
                                const char *pass, sqlite3_int64 *id, hsc_error *err)
{
    const hsc_detect_counts *c = &d->counts;
    const int numbers[] = {c->n_layers,    c->n_heads, c->n_windows,    c->n_tokens,
                           c->n_sequences, c->length,  d->options->seed};
    char finished[32];
    sqlite3_stmt *add;
    hsc__db_now(finished, sizeof finished);
    HSC_TRY(hsc__db_prepare(db, &add,
                            "INSERT OR REPLACE INTO detections (key, model, corpus, pass, n_layers, n_heads,"
                            " n_windows, n_tokens, n_sequences, length, seed, finished)"
                            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                            err));
    const char *const texts[] = {key, d->opened.name, corpus, pass};
    for (int i = 0; i < 4; i++) hsc__db_bind_text(add, i + 1, texts[i]);
    for (int i = 0; i < 7; i++) sqlite3_bind_int(add, i + 5, numbers[i]);
    hsc__db_bind_text(add, 12, finished);
    hsc_status status = hsc__db_step(db, add, err);
    sqlite3_finalize(add);
    *id = sqlite3_last_insert_rowid(db->db);
    return status;
}

static hsc_status add_score(const hsc__db *db, const hsc__detect *d, sqlite3_stmt *add, int detector, int head,
                            hsc_error *err)
{
    const hsc_detect_score *s = hsc__detect_score(d, detector, head);
    const hsc_detect_example *e = &s->best;
    const double values[] = {s->score, s->ci.low, s->ci.high, s->tl};
    hsc__string text = {0};
    sqlite3_bind_int(add, 2, head / d->counts.n_heads);
    sqlite3_bind_int(add, 3, head % d->counts.n_heads);
    hsc__db_bind_text(add, 4, hsc_detector_name((hsc_detector)detector));
    for (int i = 0; i < 4; i++) hsc__db_bind_real(add, i + 5, values[i]);
    for (int i = 9; i <= 13; i++) sqlite3_bind_null(add, i);
    if (e->n_tokens) {
        hsc__detect_example_text(d, e, &text);
        sqlite3_bind_double(add, 9, (double)e->weight);
        sqlite3_bind_int(add, 10, e->window);
        sqlite3_bind_int(add, 11, e->query);
        sqlite3_bind_int(add, 12, e->key);
        sqlite3_bind_text(add, 13, text.data, (int)text.n, SQLITE_TRANSIENT);
    }
    hsc__string_free(&text);
    return hsc__db_step(db, add, err);
}

static hsc_status add_scores(const hsc__db *db, const hsc__detect *d, sqlite3_int64 id, hsc_error *err)
{
    sqlite3_stmt *add;
    HSC_TRY(hsc__db_prepare(db, &add, "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", err));
    sqlite3_bind_int64(add, 1, id);
    hsc_status status = HSC_OK;
    for (int head = 0; head < d->n_heads && status == HSC_OK; head++)
        for (int k = 0; k < HSC_N_DETECTORS && status == HSC_OK; k++) status = add_score(db, d, add, k, head, err);
    sqlite3_finalize(add);
    return status;
}

/* One transaction: all or nothing. */
static hsc_status keep(const hsc__db *db, const hsc__detect *d, const char *corpus, hsc_error *err)
{
    hsc__string pass = {0}, key = {0};
    sqlite3_int64 id = 0;
    describe(d, corpus, &pass, &key);
    hsc_status status = pass.failed || key.failed ? hsc__fail_memory(err, 256, "the run's key") : HSC_OK;
    if (status == HSC_OK) status = hsc__db_execute(db, "BEGIN IMMEDIATE", err);
    if (status == HSC_OK) {
        status = add_detection(db, d, corpus, key.data, pass.data, &id, err);
        if (status == HSC_OK) status = add_scores(db, d, id, err);
        if (status == HSC_OK) status = hsc__db_execute(db, "COMMIT", err);
        if (status != HSC_OK) sqlite3_exec(db->db, "ROLLBACK", NULL, NULL, NULL);
    }
    hsc__string_free(&pass);
    hsc__string_free(&key);
    return status;
}

hsc_status hsc__detect_keep(const hsc__detect *detect, hsc_error *err)
{
    hsc__db db = {0};
    char *absolute = detect->corpus->path ? realpath(detect->corpus->path, NULL) : NULL;
    hsc_status status = hsc__db_open(&db, detect->options->db, err);
    if (status == HSC_OK) status = keep(&db, detect, absolute ? absolute : detect->corpus->path, err);
    hsc__db_close(&db);
    free(absolute);
    return status;
}
