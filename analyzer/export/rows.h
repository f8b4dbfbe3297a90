/* A trace as rows of tables (tables.def). */
#ifndef MEMTRACE_EXPORT_ROWS_H
#define MEMTRACE_EXPORT_ROWS_H

#include "export/input.h"

enum table_id {
#define TABLE(id, meaning) TABLE_##id,
#define COLUMN(table, name, type, meaning)
#include "export/tables.def"
#undef TABLE
#undef COLUMN
	TABLE_COUNT
};

/* All columns of all tables. FIRST_blocks is the first one of the table "blocks". */
enum column_id {
#define TABLE(id, meaning) FIRST_##id, BEFORE_##id = FIRST_##id - 1,
#define COLUMN(table, name, type, meaning) COLUMN_##table##_##name,
#include "export/tables.def"
#undef TABLE
#undef COLUMN
	COLUMN_COUNT
};

#define MAX_COLUMNS 16

enum cell_type { CELL_NULL, CELL_INTEGER, CELL_TEXT };

struct export_column {
	enum table_id table;
	const char *name;
	enum cell_type type;
	const char *meaning;
};

struct export_table {
	const char *name, *meaning;
};

extern const struct export_table export_tables[TABLE_COUNT];

/* The columns of a table in order. */
const struct export_column *table_columns(enum table_id table, size_t *count);

/* A value. A text is valid UTF-8 and stays until the next row. */
struct cell {
	enum cell_type type;
	int64_t integer;
	struct str text;
};

/* `cells` are the columns of the table in order. */
typedef void row_function(void *context, enum table_id table, const struct cell *cells);

/* Calls `row` for each row of the tables that are wanted (bits 1 << enum table_id): processes and
 * stacks first, a block when it is freed or at the end. */
void rows_of(const struct input *in, unsigned tables, row_function *row, void *context);

#endif
