/* SQLite as scan and detect use it: one schema for both, a key for a model, statements with messages. docs/scan.md and
 * docs/detectors.md document the tables. */
#include "cli/db.h"

#include "base/digest.h"
#include "base/file.h"
#include "cli/scan.h"

#include <math.h>
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
    " head INTEGER NOT NULL"
#define COLUMN(name, value) ", " #name " REAL"
    HSC__HEAD_FIGURES(COLUMN)
#undef COLUMN
        ", held_out_shift REAL, held_out_low REAL, held_out_high REAL, held_out_p REAL,"
        " held_out_accuracy REAL, PRIMARY KEY (run, layer, head)) WITHOUT ROWID;"
        "PRAGMA user_version = 1;";

/* Added to databases that a scan made before the detectors were kept as well. */
static const char later[] =
    "CREATE TABLE IF NOT EXISTS detections (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, model TEXT NOT NULL,"
    " corpus TEXT, pass TEXT NOT NULL, n_layers INTEGER NOT NULL, n_heads INTEGER NOT NULL, n_windows INTEGER NOT NULL,"
    " n_tokens INTEGER NOT NULL, n_sequences INTEGER NOT NULL, length INTEGER NOT NULL, seed INTEGER NOT NULL,"
    " finished TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS scores (detection INTEGER NOT NULL REFERENCES detections(id) ON DELETE CASCADE,"
    " layer INTEGER NOT NULL, head INTEGER NOT NULL, detector TEXT NOT NULL, score REAL, ci_low REAL, ci_high REAL,"
    " tl REAL, weight REAL, window INTEGER, query INTEGER, key INTEGER, text TEXT,"
    " PRIMARY KEY (detection, layer, head, detector)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS windows (key TEXT NOT NULL, source TEXT NOT NULL, number INTEGER NOT NULL,"
    " digest TEXT NOT NULL, record BLOB NOT NULL, UNIQUE (key, source, number));";

hsc_status hsc__db_fail(const hsc__db *d, hsc_error *err)
{
    int code = sqlite3_errcode(d->db);
    hsc_status status = code == SQLITE_NOMEM ? HSC_ENOMEM : code == SQLITE_NOTADB ? HSC_EFORMAT : HSC_EIO;
    return hsc__fail(err, status, 0, "%s: %s", d->path, sqlite3_errmsg(d->db));
}

hsc_status hsc__db_execute(const hsc__db *d, const char *sql, hsc_error *err)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK ? HSC_OK : hsc__db_fail(d, err);
}

hsc_status hsc__db_prepare(const hsc__db *d, sqlite3_stmt **out, const char *sql, hsc_error *err)
{
    return sqlite3_prepare_v2(d->db, sql, -1, out, NULL) == SQLITE_OK ? HSC_OK : hsc__db_fail(d, err);
}

/* Runs a statement that gives no row, and makes it ready for the next time. */
hsc_status hsc__db_step(const hsc__db *d, sqlite3_stmt *statement, hsc_error *err)
{
    hsc_status status = sqlite3_step(statement) == SQLITE_DONE ? HSC_OK : hsc__db_fail(d, err);
    sqlite3_reset(statement);
    return status;
}

void hsc__db_bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    sqlite3_bind_text(statement, at, text, -1, SQLITE_TRANSIENT);
}

/* The first column of the first row, or `fallback`. */
static hsc_status ask(const hsc__db *d, const char *sql, sqlite3_int64 fallback, sqlite3_int64 *out, hsc_error *err)
{
    sqlite3_stmt *statement;
    HSC_TRY(hsc__db_prepare(d, &statement, sql, err));
    int step = sqlite3_step(statement);
    *out = step == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : fallback;
    hsc_status status = step == SQLITE_ROW || step == SQLITE_DONE ? HSC_OK : hsc__db_fail(d, err);
    sqlite3_finalize(statement);
    return status;
}

/* -------------------------------------------------------------------------------------------------- keys ---- */

/* Size and time of change of a file; nothing when there is none. */
static void add_file(uint64_t *hash, const char *folder, const char *name)
{
    struct stat info;
    char *path = name ? hsc__path_join(folder, name) : hsc__strndup(folder, strlen(folder));
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        int64_t facts[] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
        hsc__digest_add(hash, facts, sizeof facts);
    }
    hsc__free(path);
}

/* Tensors by name, type and shape, and the files' sizes and times: a model that was replaced is another one. */
uint64_t hsc__db_model_key(const hsc__opened *opened)
{
    static const char *const files[] = {NULL, "config.json", "model.safetensors", "model.safetensors.index.json"};
    uint64_t hash = HSC__DIGEST_START;
    for (size_t i = 0; i < hsc_model_n_tensors(opened->model); i++) {
        hsc_tensor_info info;
        if (hsc_model_tensor(opened->model, i, &info) != HSC_OK) continue;
        hsc__digest_add(&hash, info.name, strlen(info.name));
        hsc__digest_add(&hash, info.dtype_name, strlen(info.dtype_name));
        hsc__digest_add(&hash, info.shape, (size_t)info.n_dims * sizeof *info.shape);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) add_file(&hash, opened->path, files[i]);
    return hash;
}

void hsc__db_now(char *out, size_t capacity)
{
    time_t t = time(NULL);
    struct tm utc;
    gmtime_r(&t, &utc);
    strftime(out, capacity, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* ----------------------------------------------------------------------------------------------------- files ---- */

static hsc_status make_schema(const hsc__db *d, hsc_error *err)
{
    sqlite3_int64 version, n_tables;
    HSC_TRY(ask(d, "PRAGMA user_version", 0, &version, err));
    HSC_TRY(ask(d, "SELECT count(*) FROM sqlite_master", 0, &n_tables, err));
    HSC_FAIL_IF(version != 0 && version != SCHEMA_VERSION, HSC_EUNSUPPORTED,
                "%s: has schema version %lld, this program writes %d", d->path, (long long)version, SCHEMA_VERSION);
    HSC_FAIL_IF(version == 0 && n_tables > 0, HSC_EFORMAT, "%s: is a database of something else", d->path);
    if (version == SCHEMA_VERSION) return hsc__db_execute(d, later, err);
    HSC_TRY(hsc__db_execute(d, "BEGIN IMMEDIATE", err));
    hsc_status status = hsc__db_execute(d, schema, err);
    if (status == HSC_OK) status = hsc__db_execute(d, later, err);
    if (status == HSC_OK) return hsc__db_execute(d, "COMMIT", err);
    sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

hsc_status hsc__db_open(hsc__db *d, const char *path, hsc_error *err)
{
    d->path = hsc__strndup(path, strlen(path));
    if (!d->path) return hsc__fail_memory(err, strlen(path) + 1, "a path");
    if (sqlite3_open(d->path, &d->db) != SQLITE_OK) return hsc__db_fail(d, err);
    sqlite3_busy_timeout(d->db, 10000);
    HSC_TRY(hsc__db_execute(d, "PRAGMA foreign_keys = ON", err));
    return make_schema(d, err);
}

void hsc__db_close(hsc__db *d)
{
    sqlite3_close(d->db);
    hsc__free(d->path);
    *d = (hsc__db){0};
}

void hsc__db_bind_real(sqlite3_stmt *statement, int at, double value)
{
    if (isfinite(value)) sqlite3_bind_double(statement, at, value);
    else sqlite3_bind_null(statement, at);
}
