#include "export/insert.h"

#include <stdlib.h>

#include "util/util.h"

/* ---- the virtual table, of one row for each of the batch ---- */

struct insert_table {
	sqlite3_vtab base;
	struct insert *insert;
};

struct insert_cursor {
	sqlite3_vtab_cursor base;
	const struct insert *insert;
	size_t row;
};

/* "CREATE TABLE NAME (COLUMN TYPE, ...)" */
static void put_create(struct buf *sql, const char *name, enum table_id table)
{
	size_t count;
	const struct export_column *columns = table_columns(table, &count);

	buf_addf(sql, "CREATE TABLE %s (", name);
	for (size_t i = 0; i < count; i++)
		buf_addf(sql, "%s%s %s", i ? ", " : "", columns[i].name,
			 columns[i].type == CELL_TEXT ? "TEXT" : "INTEGER");
	buf_puts(sql, ")");
}

static int connect_table(sqlite3 *db, void *insert, int count, const char *const *words,
			 sqlite3_vtab **table, char **message)
{
	struct insert_table *t = xcalloc(1, sizeof(*t));
	struct buf sql = { 0 };
	int status;

	(void)count, (void)words, (void)message;
	t->insert = insert;
	*table = &t->base;
	put_create(&sql, "rows", t->insert->table);
	status = t->insert->sqlite->declare_vtab(db, sql.text);
	buf_release(&sql);
	if (status != SQLITE_OK) {
		free(t);
		*table = NULL;
	}
	return status;
}

static int disconnect_table(sqlite3_vtab *table)
{
	free(table);
	return SQLITE_OK;
}

static int best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
	(void)table;
	info->estimatedRows = BATCH_ROWS;
	return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **cursor)
{
	struct insert_cursor *c = xcalloc(1, sizeof(*c));

	c->insert = ((struct insert_table *)table)->insert;
	*cursor = &c->base;
	return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
	free(cursor);
	return SQLITE_OK;
}

static int first_row(sqlite3_vtab_cursor *cursor, int plan, const char *text, int count,
		     sqlite3_value **values)
{
	(void)plan, (void)text, (void)count, (void)values;
	((struct insert_cursor *)cursor)->row = 0;
	return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *cursor)
{
	((struct insert_cursor *)cursor)->row++;
	return SQLITE_OK;
}

static int is_at_end(sqlite3_vtab_cursor *cursor)
{
	const struct insert_cursor *c = (const struct insert_cursor *)cursor;

	return c->row >= c->insert->batch->rows;
}

static int put_column(sqlite3_vtab_cursor *cursor, sqlite3_context *result, int column)
{
	const struct insert_cursor *c = (const struct insert_cursor *)cursor;
	const struct batch *b = c->insert->batch;
	const struct sqlite *s = c->insert->sqlite;
	const struct cell *cell = &b->cells[c->row * b->columns + (size_t)column];

	if (cell->type == CELL_INTEGER)
		s->result_int64(result, cell->integer);
	else if (cell->type == CELL_TEXT)
		s->result_text(result, b->texts.text + cell->integer, (int)cell->text.length,
			       SQLITE_STATIC);
	else
		s->result_null(result);
	return SQLITE_OK;
}

static int row_number(sqlite3_vtab_cursor *cursor, sqlite3_int64 *number)
{
	*number = (sqlite3_int64)((const struct insert_cursor *)cursor)->row;
	return SQLITE_OK;
}

/* Without xCreate: the table has the module's name, and nothing of it is in the file. */
static const sqlite3_module module = {
	.xConnect = connect_table,
	.xBestIndex = best_index,
	.xDisconnect = disconnect_table,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = first_row,
	.xNext = next_row,
	.xEof = is_at_end,
	.xColumn = put_column,
	.xRowid = row_number,
};

/* ---- the statement ---- */

int insert_begin(struct insert *n, const struct sqlite *sqlite, enum table_id table)
{
	const char *name = export_tables[table].name;
	struct buf create = { 0 }, rows = { 0 }, insert = { 0 };
	int status;

	*n = (struct insert){ .sqlite = sqlite, .table = table };
	put_create(&create, name, table);
	buf_addf(&rows, "rows_of_%s", name);
	buf_addf(&insert, "INSERT INTO %s SELECT * FROM %s", name, rows.text);
	status = sqlite->exec(sqlite->db, create.text, NULL, NULL, NULL);
	if (status == SQLITE_OK)
		status = sqlite->create_module(sqlite->db, rows.text, &module, n);
	if (status == SQLITE_OK)
		status = sqlite->prepare_v2(sqlite->db, insert.text, -1, &n->statement, NULL);
	buf_release(&create);
	buf_release(&rows);
	buf_release(&insert);
	return status;
}

int insert_batch(struct insert *n, const struct batch *b)
{
	int status;

	n->batch = b;
	status = n->sqlite->step(n->statement);
	n->sqlite->reset(n->statement);
	n->batch = NULL;
	return status == SQLITE_DONE ? SQLITE_OK : status;
}

void insert_release(struct insert *n)
{
	if (n->statement)
		n->sqlite->finalize(n->statement);
	n->statement = NULL;
}
