/*
 * Results in SQLite. A run is one model, one way to compute and read, and one file of pairs; its key stands for all of
 * them. Pairs are kept batch by batch, each batch in one transaction, so that a run that was killed goes on after its
 * last whole batch; a pair is found again by its id and by the digest of its tokens, so an edited line is run anew.
 * docs/scan.md documents the schema.
 */
#include "cli/db.h"
#include "cli/scan.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct hsc__scan_db {
    hsc__db sql;
    sqlite3_int64 run;
    int n_layers, n_heads;
    bool open; /* a transaction is open */
    sqlite3_stmt *find, *read, *drop, *add, *weigh, *keep;
};

/* ------------------------------------------------------------------------------------------------------- the run ----
 */

static const char *const keys_names[] = {"sum", "mean", "last"};

static void describe(const hsc__scan *scan, const char *pairs_path, hsc__string *pass, hsc__string *key)
{
    const hsc__scan_options *o = scan->options;
    hsc__pass_describe(pass, &o->pass, scan->opened.model);
    hsc__string_printf(pass, ", kernels %s", hsc_isa());
    hsc__string_printf(key, "headscope %s|%016llx|%s|%s|%s|%s|", hsc_version(),
                       (unsigned long long)hsc__db_model_key(&scan->opened), pairs_path, scan->query_name,
                       keys_names[o->keys], o->cluster ? o->cluster : "");
    hsc__string_printf(key, "%s|%s", o->bos ? o->bos : "", pass->data ? pass->data : "");
}

static hsc_status begin_run(hsc__scan_db *d, const hsc__scan *scan, const char *pairs_path, hsc_error *err)
{
    hsc__string pass = {0}, key = {0};
    char started[32];
    sqlite3_stmt *add = NULL, *find = NULL;
    describe(scan, pairs_path, &pass, &key);
    hsc__db_now(started, sizeof started);
    hsc_status status = pass.failed || key.failed ? hsc__fail_memory(err, 256, "the run's key") : HSC_OK;
    if (status == HSC_OK)
        status = hsc__db_prepare(
            &d->sql, &add,
            "INSERT OR IGNORE INTO runs (key, model, pairs, query, keys, pass, n_layers, n_heads, started)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            err);
    if (status == HSC_OK) status = hsc__db_prepare(&d->sql, &find, "SELECT id FROM runs WHERE key = ?", err);
    if (status == HSC_OK) {
        const char *const texts[] = {
            key.data, scan->opened.name, pairs_path, scan->query_name, keys_names[scan->options->keys], pass.data};
        for (int i = 0; i < 6; i++) hsc__db_bind_text(add, i + 1, texts[i]);
        sqlite3_bind_int(add, 7, d->n_layers);
        sqlite3_bind_int(add, 8, d->n_heads);
        hsc__db_bind_text(add, 9, started);
        status = hsc__db_step(&d->sql, add, err);
    }
    if (status == HSC_OK) {
        hsc__db_bind_text(find, 1, key.data);
        if (sqlite3_step(find) == SQLITE_ROW) d->run = sqlite3_column_int64(find, 0);
        else status = hsc__db_fail(&d->sql, err);
    }
    sqlite3_finalize(add);
    sqlite3_finalize(find);
    hsc__string_free(&pass);
    hsc__string_free(&key);
    return status;
}

static hsc_status prepare_all(hsc__scan_db *d, hsc_error *err)
{
    HSC_TRY(hsc__db_prepare(&d->sql, &d->find,
                            "SELECT id, digest FROM sentences WHERE run = ? AND pair = ? AND wording = ?", err));
    HSC_TRY(hsc__db_prepare(&d->sql, &d->read, "SELECT layer, head, a, b, sink FROM weights WHERE sentence = ?", err));
    HSC_TRY(hsc__db_prepare(&d->sql, &d->drop, "DELETE FROM sentences WHERE run = ? AND pair = ?", err));
    HSC_TRY(hsc__db_prepare(&d->sql, &d->add,
                            "INSERT INTO sentences (run, pair, wording, line, cluster, digest, text)"
                            " VALUES (?, ?, ?, ?, ?, ?, ?)",
                            err));
    HSC_TRY(hsc__db_prepare(&d->sql, &d->weigh, "INSERT INTO weights VALUES (?, ?, ?, ?, ?, ?)", err));
    return hsc__db_prepare(&d->sql, &d->keep, "INSERT OR IGNORE INTO temp.kept VALUES (?)", err);
}

static hsc_status open_all(hsc__scan_db *d, const hsc__scan *scan, const char *pairs_path, hsc_error *err)
{
    d->n_layers = hsc__cli_reader(&scan->opened)->n_layers;
    d->n_heads = hsc__cli_reader(&scan->opened)->n_heads;
    HSC_TRY(hsc__db_open(&d->sql, scan->options->db, err));
    HSC_TRY(hsc__db_execute(&d->sql, "CREATE TEMP TABLE kept (pair TEXT PRIMARY KEY) WITHOUT ROWID", err));
    HSC_TRY(begin_run(d, scan, pairs_path, err));
    return prepare_all(d, err);
}

hsc_status hsc__scan_db_open(hsc__scan_db **out, const hsc__scan *scan, const char *pairs_path, hsc_error *err)
{
    hsc__scan_db *d = hsc__calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return hsc__fail_memory(err, sizeof *d, "a database");
    char *absolute = realpath(pairs_path, NULL);
    hsc_status status = open_all(d, scan, absolute ? absolute : pairs_path, err);
    free(absolute);
    if (status == HSC_OK) *out = d;
    else hsc__scan_db_close(d);
    return status;
}

void hsc__scan_db_close(hsc__scan_db *d)
{
    if (!d) return;
    sqlite3_stmt *const statements[] = {d->find, d->read, d->drop, d->add, d->weigh, d->keep};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) sqlite3_finalize(statements[i]);
    hsc__db_close(&d->sql);
    hsc__free(d);
}

/* --------------------------------------------------------------------------------------------------------- pairs ----
 */

static void hex(uint64_t digest, char out[17])
{
    snprintf(out, 17, "%016llx", (unsigned long long)digest);
}

/* The row of a sentence with this digest, or -1. */
static sqlite3_int64 find_sentence(hsc__scan_db *d, const hsc_pair *pair, int wording, const char *digest)
{
    sqlite3_int64 id = -1;
    sqlite3_bind_int64(d->find, 1, d->run);
    hsc__db_bind_text(d->find, 2, pair->id);
    sqlite3_bind_int(d->find, 3, wording);
    if (sqlite3_step(d->find) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(d->find, 1), digest) == 0)
        id = sqlite3_column_int64(d->find, 0);
    sqlite3_reset(d->find);
    return id;
}

/* Whether a stored weight can be one; what somebody else wrote there is computed anew. */
static bool is_weight(sqlite3_stmt *row, int column)
{
    double value = sqlite3_column_double(row, column);
    return sqlite3_column_type(row, column) == SQLITE_FLOAT && value >= 0 && value < 1.01;
}

/* Returns the number of heads that were there. */
static int read_weights(hsc__scan_db *d, sqlite3_int64 sentence, hsc_seen *seen)
{
    int n = 0;
    sqlite3_bind_int64(d->read, 1, sentence);
    while (sqlite3_step(d->read) == SQLITE_ROW) {
        int layer = sqlite3_column_int(d->read, 0), head = sqlite3_column_int(d->read, 1);
        if (layer < 0 || layer >= d->n_layers || head < 0 || head >= d->n_heads) continue;
        if (!is_weight(d->read, 2) || !is_weight(d->read, 3) || !is_weight(d->read, 4)) continue;
        seen[(size_t)layer * (size_t)d->n_heads + (size_t)head] =
            (hsc_seen){(float)sqlite3_column_double(d->read, 2), (float)sqlite3_column_double(d->read, 3),
                       (float)sqlite3_column_double(d->read, 4)};
        n++;
    }
    sqlite3_reset(d->read);
    return n;
}

static int load(void *user, const hsc_pair *pair, uint64_t digest, hsc_seen *seen)
{
    hsc__scan_db *d = user;
    int n_heads = d->n_layers * d->n_heads;
    char text[17];
    hex(digest, text);
    for (int w = 0; w < 2; w++) {
        sqlite3_int64 sentence = find_sentence(d, pair, w, text);
        if (sentence < 0 || read_weights(d, sentence, seen + (size_t)w * (size_t)n_heads) != n_heads) return 0;
    }
    hsc__db_bind_text(d->keep, 1, pair->id);
    return hsc__db_step(&d->sql, d->keep, NULL) == HSC_OK;
}

static hsc_status save_sentence(hsc__scan_db *d, const hsc_pair *pair, int wording, const char *digest,
                                const hsc_seen *seen, hsc_error *err)
{
    const hsc_wording *w = &pair->wording[wording];
    sqlite3_bind_int64(d->add, 1, d->run);
    hsc__db_bind_text(d->add, 2, pair->id);
    sqlite3_bind_int(d->add, 3, wording);
    sqlite3_bind_int(d->add, 4, w->line);
    hsc__db_bind_text(d->add, 5, pair->cluster);
    hsc__db_bind_text(d->add, 6, digest);
    hsc__db_bind_text(d->add, 7, w->text); /* NULL where the file has ids */
    HSC_TRY(hsc__db_step(&d->sql, d->add, err));
    sqlite3_int64 sentence = sqlite3_last_insert_rowid(d->sql.db);
    for (int h = 0; h < d->n_layers * d->n_heads; h++) {
        sqlite3_bind_int64(d->weigh, 1, sentence);
        sqlite3_bind_int(d->weigh, 2, h / d->n_heads);
        sqlite3_bind_int(d->weigh, 3, h % d->n_heads);
        sqlite3_bind_double(d->weigh, 4, (double)seen[h].a);
        sqlite3_bind_double(d->weigh, 5, (double)seen[h].b);
        sqlite3_bind_double(d->weigh, 6, (double)seen[h].sink);
        HSC_TRY(hsc__db_step(&d->sql, d->weigh, err));
    }
    return HSC_OK;
}

static hsc_status save_pair(void *user, const hsc_pair *pair, uint64_t digest, const hsc_seen *seen, hsc_error *err)
{
    hsc__scan_db *d = user;
    char text[17];
    hex(digest, text);
    if (!d->open) HSC_TRY(hsc__db_execute(&d->sql, "BEGIN IMMEDIATE", err));
    d->open = true;
    sqlite3_bind_int64(d->drop, 1, d->run); /* what an edited line left behind */
    hsc__db_bind_text(d->drop, 2, pair->id);
    HSC_TRY(hsc__db_step(&d->sql, d->drop, err));
    for (int w = 0; w < 2; w++)
        HSC_TRY(save_sentence(d, pair, w, text, seen + (size_t)w * (size_t)(d->n_layers * d->n_heads), err));
    hsc__db_bind_text(d->keep, 1, pair->id);
    return hsc__db_step(&d->sql, d->keep, err);
}

static hsc_status flush(void *user, hsc_error *err)
{
    hsc__scan_db *d = user;
    if (!d->open) return HSC_OK;
    d->open = false;
    return hsc__db_execute(&d->sql, "COMMIT", err);
}

hsc_scan_store hsc__scan_db_store(hsc__scan_db *db)
{
    return (hsc_scan_store){.load = load, .save = save_pair, .flush = flush, .user = db};
}

/* --------------------------------------------------------------------------------------------------------- heads ----
 */

static hsc_status save_head(const hsc__scan_db *d, const hsc__scan *scan, sqlite3_stmt *add, int head, hsc_error *err)
{
    const hsc_scan_head *h = &scan->heads[head];
    const hsc_held_out *o = hsc__scan_held(scan, head);
    const double values[] = {
#define VALUE(name, value) value,
        HSC__HEAD_FIGURES(VALUE)
#undef VALUE
                o
            ? o->shift
            : NAN,
        o ? o->ci.low : NAN, o ? o->ci.high : NAN, o ? o->p : NAN, o ? o->accuracy : NAN};
    sqlite3_bind_int64(add, 1, d->run);
    sqlite3_bind_int(add, 2, h->layer);
    sqlite3_bind_int(add, 3, h->head);
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++) hsc__db_bind_real(add, i + 4, values[i]);
    return hsc__db_step(&d->sql, add, err);
}

/* All rows in one transaction: the figures, what is no longer in the file, and the time. */
static hsc_status finish(hsc__scan_db *d, const hsc__scan *scan, sqlite3_stmt *add, hsc_error *err)
{
    char finished[32], sql[160];
    hsc__db_now(finished, sizeof finished);
    snprintf(sql, sizeof sql, "DELETE FROM sentences WHERE run = %lld AND pair NOT IN (SELECT pair FROM temp.kept)",
             (long long)d->run);
    HSC_TRY(hsc__db_execute(&d->sql, sql, err));
    for (int h = 0; h < scan->n_heads; h++) HSC_TRY(save_head(d, scan, add, h, err));
    snprintf(sql, sizeof sql, "UPDATE runs SET finished = '%s' WHERE id = %lld", finished, (long long)d->run);
    return hsc__db_execute(&d->sql, sql, err);
}

hsc_status hsc__scan_db_finish(hsc__scan_db *d, const hsc__scan *scan, hsc_error *err)
{
    sqlite3_stmt *add;
    HSC_TRY(hsc__db_prepare(
        &d->sql, &add,
        "INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " ?, ?, ?, ?, ?)",
        err));
    hsc_status status = hsc__db_execute(&d->sql, "BEGIN IMMEDIATE", err);
    if (status == HSC_OK) {
        status = finish(d, scan, add, err);
        if (status == HSC_OK) status = hsc__db_execute(&d->sql, "COMMIT", err);
        if (status != HSC_OK) sqlite3_exec(d->sql.db, "ROLLBACK", NULL, NULL, NULL);
    }
    sqlite3_finalize(add);
    return status;
}
