/*
 * Results in SQLite. A run is one model, one way to compute and read, and one file of pairs; its key stands for all of
 * them. Pairs are kept batch by batch, each batch in one transaction, so that a run that was killed goes on after its
 * last whole batch; a pair is found again by its id and by the digest of its tokens, so an edited line is run anew.
 * docs/scan.md documents the schema.
 */
#include "cli/scan.h"

#include "base/file.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SCHEMA_VERSION = 1 };

static const char schema[] =
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, model TEXT NOT NULL, pairs TEXT NOT NULL,"
    " query TEXT NOT NULL, keys TEXT NOT NULL, pass TEXT NOT NULL, n_layers INTEGER NOT NULL, n_heads INTEGER NOT NULL,"
    " started TEXT NOT NULL, finished TEXT);"
    "CREATE TABLE sentences (id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " pair TEXT NOT NULL, wording INTEGER NOT NULL, line INTEGER NOT NULL, cluster TEXT NOT NULL, digest TEXT NOT NULL,"
    " text TEXT, UNIQUE (run, pair, wording));"
    "CREATE TABLE weights (sentence INTEGER NOT NULL REFERENCES sentences(id) ON DELETE CASCADE, layer INTEGER NOT "
    "NULL,"
    " head INTEGER NOT NULL, a REAL NOT NULL, b REAL NOT NULL, sink REAL NOT NULL, PRIMARY KEY (sentence, layer, head))"
    " WITHOUT ROWID;"
    "CREATE TABLE heads (run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, layer INTEGER NOT NULL,"
    " head INTEGER NOT NULL, a1 REAL, b1 REAL, a2 REAL, b2 REAL, shift REAL, ci_low REAL, ci_high REAL, dz REAL,"
    " share REAL, mass REAL, sink REAL, p REAL, p_fwer REAL, q REAL, accuracy REAL, acc_low REAL, acc_high REAL,"
    " pair_accuracy REAL, held_out_shift REAL, held_out_low REAL, held_out_high REAL, held_out_p REAL,"
    " held_out_accuracy REAL, PRIMARY KEY (run, layer, head)) WITHOUT ROWID;"
    "PRAGMA user_version = 1;";

struct hsc__scan_db {
    sqlite3 *db;
    char *path;
    sqlite3_int64 run;
    int n_layers, n_heads;
    bool open; /* a transaction is open */
    sqlite3_stmt *find, *read, *drop, *add, *weigh, *keep;
};

static hsc_status fail(const hsc__scan_db *d, hsc_error *err)
{
    int code = sqlite3_errcode(d->db);
    hsc_status status = code == SQLITE_NOMEM ? HSC_ENOMEM : code == SQLITE_NOTADB ? HSC_EFORMAT : HSC_EIO;
    return hsc__fail(err, status, 0, "%s: %s", d->path, sqlite3_errmsg(d->db));
}

static hsc_status execute(const hsc__scan_db *d, const char *sql, hsc_error *err)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK ? HSC_OK : fail(d, err);
}

static hsc_status prepare(const hsc__scan_db *d, sqlite3_stmt **out, const char *sql, hsc_error *err)
{
    return sqlite3_prepare_v2(d->db, sql, -1, out, NULL) == SQLITE_OK ? HSC_OK : fail(d, err);
}

/* Runs a statement that gives no row, and makes it ready for the next time. */
static hsc_status finish_step(const hsc__scan_db *d, sqlite3_stmt *statement, hsc_error *err)
{
    hsc_status status = sqlite3_step(statement) == SQLITE_DONE ? HSC_OK : fail(d, err);
    sqlite3_reset(statement);
    return status;
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    sqlite3_bind_text(statement, at, text, -1, SQLITE_TRANSIENT);
}

/* The first column of the first row, or `fallback`. */
static hsc_status ask(const hsc__scan_db *d, const char *sql, sqlite3_int64 fallback, sqlite3_int64 *out,
                      hsc_error *err)
{
    sqlite3_stmt *statement;
    HSC_TRY(prepare(d, &statement, sql, err));
    int step = sqlite3_step(statement);
    *out = step == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : fallback;
    hsc_status status = step == SQLITE_ROW || step == SQLITE_DONE ? HSC_OK : fail(d, err);
    sqlite3_finalize(statement);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- the run ----
 */

static void add_bytes(uint64_t *hash, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) *hash = (*hash ^ b[i]) * 0x100000001B3U; /* FNV-1a */
}

/* Size and time of change of a file; nothing when there is none. */
static void add_file(uint64_t *hash, const char *folder, const char *name)
{
    struct stat info;
    char *path = name ? hsc__path_join(folder, name) : hsc__strndup(folder, strlen(folder));
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        int64_t facts[] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
        add_bytes(hash, facts, sizeof facts);
    }
    hsc__free(path);
}

/* Tensors by name, type and shape, and the files' sizes and times: a model that was replaced is another one. */
static uint64_t model_key(const hsc__opened *opened)
{
    static const char *const files[] = {NULL, "config.json", "model.safetensors", "model.safetensors.index.json"};
    uint64_t hash = 0xCBF29CE484222325U;
    for (size_t i = 0; i < hsc_model_n_tensors(opened->model); i++) {
        hsc_tensor_info info;
        if (hsc_model_tensor(opened->model, i, &info) != HSC_OK) continue;
        add_bytes(&hash, info.name, strlen(info.name));
        add_bytes(&hash, info.dtype_name, strlen(info.dtype_name));
        add_bytes(&hash, info.shape, (size_t)info.n_dims * sizeof *info.shape);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) add_file(&hash, opened->path, files[i]);
    return hash;
}

static const char *const keys_names[] = {"sum", "mean", "last"};

static void describe(const hsc__scan *scan, const char *pairs_path, hsc__string *pass, hsc__string *key)
{
    const hsc__scan_options *o = scan->options;
    hsc__pass_describe(pass, &o->pass, scan->opened.model);
    hsc__string_printf(pass, ", kernels %s", hsc_isa());
    hsc__string_printf(key, "headscope %s|%016llx|%s|%s|%s|%s|", hsc_version(),
                       (unsigned long long)model_key(&scan->opened), pairs_path, scan->query_name, keys_names[o->keys],
                       o->cluster ? o->cluster : "");
    hsc__string_printf(key, "%s|%s", o->bos ? o->bos : "", pass->data ? pass->data : "");
}

static void now(char *out, size_t capacity)
{
    time_t t = time(NULL);
    struct tm utc;
    gmtime_r(&t, &utc);
    strftime(out, capacity, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static hsc_status begin_run(hsc__scan_db *d, const hsc__scan *scan, const char *pairs_path, hsc_error *err)
{
    hsc__string pass = {0}, key = {0};
    char started[32];
    sqlite3_stmt *add = NULL, *find = NULL;
    describe(scan, pairs_path, &pass, &key);
    now(started, sizeof started);
    hsc_status status = pass.failed || key.failed ? hsc__fail_memory(err, 256, "the run's key") : HSC_OK;
    if (status == HSC_OK)
        status = prepare(d, &add,
                         "INSERT OR IGNORE INTO runs (key, model, pairs, query, keys, pass, n_layers, n_heads, started)"
                         " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                         err);
    if (status == HSC_OK) status = prepare(d, &find, "SELECT id FROM runs WHERE key = ?", err);
    if (status == HSC_OK) {
        const char *const texts[] = {
            key.data, scan->opened.name, pairs_path, scan->query_name, keys_names[scan->options->keys], pass.data};
        for (int i = 0; i < 6; i++) bind_text(add, i + 1, texts[i]);
        sqlite3_bind_int(add, 7, d->n_layers);
        sqlite3_bind_int(add, 8, d->n_heads);
        bind_text(add, 9, started);
        status = finish_step(d, add, err);
    }
    if (status == HSC_OK) {
        bind_text(find, 1, key.data);
        if (sqlite3_step(find) == SQLITE_ROW) d->run = sqlite3_column_int64(find, 0);
        else status = fail(d, err);
    }
    sqlite3_finalize(add);
    sqlite3_finalize(find);
    hsc__string_free(&pass);
    hsc__string_free(&key);
    return status;
}

static hsc_status make_schema(const hsc__scan_db *d, hsc_error *err)
{
    sqlite3_int64 version, n_tables;
    HSC_TRY(ask(d, "PRAGMA user_version", 0, &version, err));
    HSC_TRY(ask(d, "SELECT count(*) FROM sqlite_master", 0, &n_tables, err));
    HSC_FAIL_IF(version != 0 && version != SCHEMA_VERSION, HSC_EUNSUPPORTED,
                "%s: has schema version %lld, this program writes %d", d->path, (long long)version, SCHEMA_VERSION);
    HSC_FAIL_IF(version == 0 && n_tables > 0, HSC_EFORMAT, "%s: is a database of something else", d->path);
    if (version == SCHEMA_VERSION) return HSC_OK;
    HSC_TRY(execute(d, "BEGIN IMMEDIATE", err));
    hsc_status status = execute(d, schema, err);
    if (status == HSC_OK) return execute(d, "COMMIT", err);
    sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static hsc_status prepare_all(hsc__scan_db *d, hsc_error *err)
{
    HSC_TRY(prepare(d, &d->find, "SELECT id, digest FROM sentences WHERE run = ? AND pair = ? AND wording = ?", err));
    HSC_TRY(prepare(d, &d->read, "SELECT layer, head, a, b, sink FROM weights WHERE sentence = ?", err));
    HSC_TRY(prepare(d, &d->drop, "DELETE FROM sentences WHERE run = ? AND pair = ?", err));
    HSC_TRY(prepare(d, &d->add,
                    "INSERT INTO sentences (run, pair, wording, line, cluster, digest, text)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    err));
    HSC_TRY(prepare(d, &d->weigh, "INSERT INTO weights VALUES (?, ?, ?, ?, ?, ?)", err));
    return prepare(d, &d->keep, "INSERT OR IGNORE INTO temp.kept VALUES (?)", err);
}

static hsc_status open_all(hsc__scan_db *d, const hsc__scan *scan, const char *pairs_path, hsc_error *err)
{
    d->path = hsc__strndup(scan->options->db, strlen(scan->options->db));
    if (!d->path) return hsc__fail_memory(err, strlen(scan->options->db) + 1, "a path");
    d->n_layers = scan->opened.config->n_layers;
    d->n_heads = scan->opened.config->n_heads;
    if (sqlite3_open(d->path, &d->db) != SQLITE_OK) return fail(d, err);
    sqlite3_busy_timeout(d->db, 10000);
    HSC_TRY(execute(d, "PRAGMA foreign_keys = ON", err));
    HSC_TRY(make_schema(d, err));
    HSC_TRY(execute(d, "CREATE TEMP TABLE kept (pair TEXT PRIMARY KEY) WITHOUT ROWID", err));
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
    sqlite3_close(d->db);
    hsc__free(d->path);
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
    bind_text(d->find, 2, pair->id);
    sqlite3_bind_int(d->find, 3, wording);
    if (sqlite3_step(d->find) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(d->find, 1), digest) == 0)
        id = sqlite3_column_int64(d->find, 0);
    sqlite3_reset(d->find);
    return id;
}

/* Returns the number of heads that were there. */
static int read_weights(hsc__scan_db *d, sqlite3_int64 sentence, hsc_seen *seen)
{
    int n = 0;
    sqlite3_bind_int64(d->read, 1, sentence);
    while (sqlite3_step(d->read) == SQLITE_ROW) {
        int layer = sqlite3_column_int(d->read, 0), head = sqlite3_column_int(d->read, 1);
        if (layer < 0 || layer >= d->n_layers || head < 0 || head >= d->n_heads) continue;
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
    bind_text(d->keep, 1, pair->id);
    return finish_step(d, d->keep, NULL) == HSC_OK;
}

static hsc_status save_sentence(hsc__scan_db *d, const hsc_pair *pair, int wording, const char *digest,
                                const hsc_seen *seen, hsc_error *err)
{
    const hsc_wording *w = &pair->wording[wording];
    sqlite3_bind_int64(d->add, 1, d->run);
    bind_text(d->add, 2, pair->id);
    sqlite3_bind_int(d->add, 3, wording);
    sqlite3_bind_int(d->add, 4, w->line);
    bind_text(d->add, 5, pair->cluster);
    bind_text(d->add, 6, digest);
    bind_text(d->add, 7, w->text); /* NULL where the file has ids */
    HSC_TRY(finish_step(d, d->add, err));
    sqlite3_int64 sentence = sqlite3_last_insert_rowid(d->db);
    for (int h = 0; h < d->n_layers * d->n_heads; h++) {
        sqlite3_bind_int64(d->weigh, 1, sentence);
        sqlite3_bind_int(d->weigh, 2, h / d->n_heads);
        sqlite3_bind_int(d->weigh, 3, h % d->n_heads);
        sqlite3_bind_double(d->weigh, 4, (double)seen[h].a);
        sqlite3_bind_double(d->weigh, 5, (double)seen[h].b);
        sqlite3_bind_double(d->weigh, 6, (double)seen[h].sink);
        HSC_TRY(finish_step(d, d->weigh, err));
    }
    return HSC_OK;
}

static hsc_status save(void *user, const hsc_pair *pair, uint64_t digest, const hsc_seen *seen, hsc_error *err)
{
    hsc__scan_db *d = user;
    char text[17];
    hex(digest, text);
    if (!d->open) HSC_TRY(execute(d, "BEGIN IMMEDIATE", err));
    d->open = true;
    sqlite3_bind_int64(d->drop, 1, d->run); /* what an edited line left behind */
    bind_text(d->drop, 2, pair->id);
    HSC_TRY(finish_step(d, d->drop, err));
    for (int w = 0; w < 2; w++)
        HSC_TRY(save_sentence(d, pair, w, text, seen + (size_t)w * (size_t)(d->n_layers * d->n_heads), err));
    bind_text(d->keep, 1, pair->id);
    return finish_step(d, d->keep, err);
}

static hsc_status flush(void *user, hsc_error *err)
{
    hsc__scan_db *d = user;
    if (!d->open) return HSC_OK;
    d->open = false;
    return execute(d, "COMMIT", err);
}

hsc_scan_store hsc__scan_db_store(hsc__scan_db *db)
{
    return (hsc_scan_store){.load = load, .save = save, .flush = flush, .user = db};
}

/* --------------------------------------------------------------------------------------------------------- heads ----
 */

static hsc_status save_head(const hsc__scan_db *d, const hsc__scan *scan, sqlite3_stmt *add, int head, hsc_error *err)
{
    const hsc_scan_head *h = &scan->heads[head];
    const hsc_held_out *o = hsc__scan_held(scan, head);
    const double values[] = {h->a1,
                             h->b1,
                             h->a2,
                             h->b2,
                             h->shift,
                             h->ci.low,
                             h->ci.high,
                             h->dz,
                             h->share,
                             h->mass,
                             h->sink,
                             h->p,
                             h->p_fwer,
                             h->q,
                             h->accuracy,
                             h->acc_ci.low,
                             h->acc_ci.high,
                             h->pair_accuracy,
                             o ? o->shift : NAN,
                             o ? o->ci.low : NAN,
                             o ? o->ci.high : NAN,
                             o ? o->p : NAN,
                             o ? o->accuracy : NAN};
    sqlite3_bind_int64(add, 1, d->run);
    sqlite3_bind_int(add, 2, h->layer);
    sqlite3_bind_int(add, 3, h->head);
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++) { /* NaN becomes NULL */
        if (isfinite(values[i])) sqlite3_bind_double(add, i + 4, values[i]);
        else sqlite3_bind_null(add, i + 4);
    }
    return finish_step(d, add, err);
}

/* All rows in one transaction: the figures, what is no longer in the file, and the time. */
static hsc_status finish(hsc__scan_db *d, const hsc__scan *scan, sqlite3_stmt *add, hsc_error *err)
{
    char finished[32], sql[160];
    now(finished, sizeof finished);
    snprintf(sql, sizeof sql, "DELETE FROM sentences WHERE run = %lld AND pair NOT IN (SELECT pair FROM temp.kept)",
             (long long)d->run);
    HSC_TRY(execute(d, sql, err));
    for (int h = 0; h < scan->n_heads; h++) HSC_TRY(save_head(d, scan, add, h, err));
    snprintf(sql, sizeof sql, "UPDATE runs SET finished = '%s' WHERE id = %lld", finished, (long long)d->run);
    return execute(d, sql, err);
}

hsc_status hsc__scan_db_finish(hsc__scan_db *d, const hsc__scan *scan, hsc_error *err)
{
    sqlite3_stmt *add;
    HSC_TRY(
        prepare(d, &add,
                "INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
                " ?, ?, ?, ?, ?)",
                err));
    hsc_status status = execute(d, "BEGIN IMMEDIATE", err);
    if (status == HSC_OK) {
        status = finish(d, scan, add, err);
        if (status == HSC_OK) status = execute(d, "COMMIT", err);
        if (status != HSC_OK) sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
    }
    sqlite3_finalize(add);
    return status;
}
