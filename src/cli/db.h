/* A database of results: what scan_db.c and detect_db.c share. */
#ifndef HSC_CLI_DB_H
#define HSC_CLI_DB_H

#include "cli/shared.h"

#include <sqlite3.h>

typedef struct hsc__db {
    sqlite3 *db;
    char *path;
} hsc__db;

/* Opens or makes a database with the schema. HSC_EFORMAT: it is one of something else; HSC_EUNSUPPORTED: of another
 * version. Close it either way. */
hsc_status hsc__db_open(hsc__db *db, const char *path, hsc_error *err);
void hsc__db_close(hsc__db *db);

/* The reason of the last failure. */
hsc_status hsc__db_fail(const hsc__db *db, hsc_error *err);
hsc_status hsc__db_execute(const hsc__db *db, const char *sql, hsc_error *err);
hsc_status hsc__db_prepare(const hsc__db *db, sqlite3_stmt **out, const char *sql, hsc_error *err);
/* Runs a statement that gives no row, and makes it ready for the next time. */
hsc_status hsc__db_step(const hsc__db *db, sqlite3_stmt *statement, hsc_error *err);
/* NULL, and a number that is not finite, become SQL's NULL. */
void hsc__db_bind_text(sqlite3_stmt *statement, int at, const char *text);
void hsc__db_bind_real(sqlite3_stmt *statement, int at, double value);

/* Stands for the model's file: its tensors, sizes and times. */
uint64_t hsc__db_model_key(const hsc__opened *opened);
/* The time as "2026-01-31T12:00:00Z". */
void hsc__db_now(char *out, size_t capacity);

#endif
