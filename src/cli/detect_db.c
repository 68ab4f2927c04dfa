/* headscope detect --db: scores, intervals and examples in SQLite. The same model, text and options again replace what
 * stands there. Until all is read, what was found of each window is kept, so that a run that was stopped goes on; that
 * goes when the scores come. docs/detectors.md documents the tables. */
#include "cli/db.h"
#include "cli/detect.h"

#include <stdlib.h>
#include <string.h>

struct hsc__detect_db {
    hsc__db sql;
    hsc__string key, pass;
    char *corpus; /* its whole path; realpath's */
    bool open;    /* a transaction is open */
    sqlite3_stmt *find, *add;
};

/* ------------------------------------------------------------------------------------------------------ windows ----
 */

static void describe(hsc__detect_db *d, const hsc__detect *detect)
{
    const hsc__detect_options *o = detect->options;
    hsc__pass_describe(&d->pass, &o->pass, detect->opened.model);
    hsc__string_printf(&d->pass, ", kernels %s", hsc_isa());
    hsc__string_printf(&d->key, "headscope %s|%016llx|%s|%d|%d|%d|%d|%s|%s", hsc_version(),
                       (unsigned long long)hsc__db_model_key(&detect->opened), d->corpus ? d->corpus : "", o->windows,
                       o->sequences, o->length, o->seed, o->bos ? o->bos : "", d->pass.data ? d->pass.data : "");
}

static hsc_status open_all(hsc__detect_db *d, const hsc__detect *detect, hsc_error *err)
{
    describe(d, detect);
    if (d->pass.failed || d->key.failed) return hsc__fail_memory(err, 256, "the run's key");
    HSC_TRY(hsc__db_open(&d->sql, detect->options->db, err));
    HSC_TRY(hsc__db_prepare(&d->sql, &d->find,
                            "SELECT record FROM windows WHERE key = ? AND source = ? AND number = ? AND digest = ?",
                            err));
    return hsc__db_prepare(&d->sql, &d->add, "INSERT OR REPLACE INTO windows VALUES (?, ?, ?, ?, ?)", err);
}

hsc_status hsc__detect_db_open(hsc__detect_db **out, const hsc__detect *detect, hsc_error *err)
{
    hsc__detect_db *d = hsc__calloc(1, sizeof *d);
    const char *path = detect->corpus->path;
    *out = NULL;
    if (!d) return hsc__fail_memory(err, sizeof *d, "a database");
    if (path && strcmp(path, "-") != 0) d->corpus = realpath(path, NULL);
    if (path && !d->corpus) d->corpus = strdup(path);
    hsc_status status = open_all(d, detect, err);
    if (status == HSC_OK) *out = d;
    else hsc__detect_db_close(d);
    return status;
}

void hsc__detect_db_close(hsc__detect_db *d)
{
    if (!d) return;
    sqlite3_finalize(d->find);
    sqlite3_finalize(d->add);
    hsc__db_close(&d->sql);
    hsc__string_free(&d->key);
    hsc__string_free(&d->pass);
    free(d->corpus);
    hsc__free(d);
}

static void bind_window(const hsc__detect_db *d, sqlite3_stmt *to, int is_random, int index, uint64_t digest)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)digest);
    hsc__db_bind_text(to, 1, d->key.data);
    hsc__db_bind_text(to, 2, is_random ? "random" : "text");
    sqlite3_bind_int(to, 3, index);
    hsc__db_bind_text(to, 4, text);
}

static int load(void *user, int is_random, int index, uint64_t digest, void *record, size_t n_bytes)
{
    hsc__detect_db *d = user;
    bind_window(d, d->find, is_random, index, digest);
    bool found = sqlite3_step(d->find) == SQLITE_ROW && (size_t)sqlite3_column_bytes(d->find, 0) == n_bytes;
    if (found) memcpy(record, sqlite3_column_blob(d->find, 0), n_bytes);
    sqlite3_reset(d->find);
    return found;
}

static hsc_status save_window(void *user, int is_random, int index, uint64_t digest, const void *record, size_t n_bytes,
                              hsc_error *err)
{
    hsc__detect_db *d = user;
    if (!d->open) HSC_TRY(hsc__db_execute(&d->sql, "BEGIN IMMEDIATE", err));
    d->open = true;
    bind_window(d, d->add, is_random, index, digest);
    sqlite3_bind_blob64(d->add, 5, record, n_bytes, SQLITE_TRANSIENT);
    return hsc__db_step(&d->sql, d->add, err);
}

static hsc_status flush(void *user, hsc_error *err)
{
    hsc__detect_db *d = user;
    if (!d->open) return HSC_OK;
    d->open = false;
    return hsc__db_execute(&d->sql, "COMMIT", err);
}

hsc_detect_store hsc__detect_db_store(hsc__detect_db *db)
{
    return (hsc_detect_store){.load = load, .save = save_window, .flush = flush, .user = db};
}

/* ------------------------------------------------------------------------------------------------------- scores ----
 */

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

static hsc_status forget_windows(const hsc__detect_db *d, hsc_error *err)
{
    sqlite3_stmt *drop;
    HSC_TRY(hsc__db_prepare(&d->sql, &drop, "DELETE FROM windows WHERE key = ?", err));
    hsc__db_bind_text(drop, 1, d->key.data);
    hsc_status status = hsc__db_step(&d->sql, drop, err);
    sqlite3_finalize(drop);
    return status;
}

/* One transaction: all or nothing. */
hsc_status hsc__detect_db_finish(hsc__detect_db *d, const hsc__detect *detect, hsc_error *err)
{
    sqlite3_int64 id = 0;
    HSC_TRY(hsc__db_execute(&d->sql, "BEGIN IMMEDIATE", err));
    hsc_status status = add_detection(&d->sql, detect, d->corpus, d->key.data, d->pass.data, &id, err);
    if (status == HSC_OK) status = add_scores(&d->sql, detect, id, err);
    if (status == HSC_OK) status = forget_windows(d, err);
    if (status == HSC_OK) status = hsc__db_execute(&d->sql, "COMMIT", err);
    if (status != HSC_OK) sqlite3_exec(d->sql.db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
