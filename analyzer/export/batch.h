/*
 * Rows on their way into an SQLite table: SQLite reads a thousand of them in one statement, from a
 * virtual table. A statement for each row takes four times as long.
 */
#ifndef MEMTRACE_EXPORT_BATCH_H
#define MEMTRACE_EXPORT_BATCH_H

#include "export/rows.h"
#include "util/buf.h"
#include "util/sqlite.h"

struct batch {
	const struct sqlite *sqlite;
	enum table_id table;
	size_t columns, rows;
	struct cell *cells; /* `columns` of each row; the text of one is at `integer` of `texts` */
	struct buf texts;
	sqlite3_stmt *insert;
};

/* Makes the table and the virtual table. Returns an SQLite status, as all of these. The database
 * must be closed before *b is gone. */
int batch_begin(struct batch *b, const struct sqlite *sqlite, enum table_id table);
int batch_add(struct batch *b, const struct cell *cells);
/* Inserts the rows that are left. */
int batch_end(struct batch *b);
void batch_release(struct batch *b);

#endif
