/*
 * Batches of rows into an SQLite table: SQLite reads all rows of a batch in one statement, from a
 * virtual table. A statement for each row takes four times as long.
 */
#ifndef MEMTRACE_EXPORT_INSERT_H
#define MEMTRACE_EXPORT_INSERT_H

#include "export/batch.h"
#include "util/sqlite.h"

struct insert {
	const struct sqlite *sqlite;
	enum table_id table;
	const struct batch *batch; /* that the virtual table has now */
	sqlite3_stmt *statement;
};

/* Makes the table and the virtual table. Returns an SQLite status. The database must be closed
 * before *n is gone. */
int insert_begin(struct insert *n, const struct sqlite *sqlite, enum table_id table);
/* Inserts the rows of a batch of this table. Returns an SQLite status. */
int insert_batch(struct insert *n, const struct batch *b);
void insert_release(struct insert *n);

#endif
