/* Rows that SQLite reads from a batch are in its table, in order and unchanged. */
#include "export/batch.h"
#include "fixture.h"

#define ROWS 2500 /* two whole batches and a part */

/* The answer of a query, one integer. */
static int64_t ask(const struct sqlite *s, const char *query)
{
	sqlite3_stmt *q;
	int64_t answer;

	assert_int_equal(s->prepare_v2(s->db, query, -1, &q, NULL), SQLITE_OK);
	assert_int_equal(s->step(q), SQLITE_ROW);
	answer = s->column_int64(q, 0);
	s->finalize(q);
	return answer;
}

/* Row I: its number and negative square as integers, "x" I % 40 times, and NULL. */
static void add_row(struct batch *b, int64_t i)
{
	char text[40];
	struct cell cells[MAX_COLUMNS] = { { .type = CELL_NULL } };

	memset(text, 'x', sizeof(text));
	cells[COLUMN_records_sequence - FIRST_records] =
		(struct cell){ .type = CELL_INTEGER, .integer = i };
	cells[COLUMN_records_bytes - FIRST_records] =
		(struct cell){ .type = CELL_INTEGER, .integer = -i * i };
	cells[COLUMN_records_event - FIRST_records] =
		(struct cell){ .type = CELL_TEXT, .text = { text, (size_t)(i % 40) } };
	assert_int_equal(batch_add(b, cells), SQLITE_OK);
	memset(text, '?', sizeof(text)); /* a text stays until the next row only */
}

static void rows_arrive(void **state)
{
	struct sqlite s;
	struct batch b;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(sqlite_load(&s, "the test", &e), 0);
	assert_int_equal(s.open_v2(":memory:", &s.db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(batch_begin(&b, &s, TABLE_records), SQLITE_OK);
	for (int64_t i = 1; i <= ROWS; i++)
		add_row(&b, i);
	assert_int_equal(ask(&s, "SELECT count(*) FROM records"), 2048);
	assert_int_equal(batch_end(&b), SQLITE_OK);
	assert_int_equal(batch_end(&b), SQLITE_OK); /* nothing is left */
	assert_int_equal(ask(&s, "SELECT count(*) FROM records WHERE sequence = rowid AND "
				 "bytes = -sequence * sequence AND "
				 "event = substr(printf('%.40c', 'x'), 1, sequence % 40) AND "
				 "thread IS NULL AND device IS NULL"),
			 ROWS);
	/* the virtual table is not in the file */
	assert_int_equal(ask(&s, "SELECT count(*) FROM sqlite_master"), 1);
	batch_release(&b);
	sqlite_unload(&s);
}

/* A table that is there already is an error, and nothing leaks. */
static void refused(void **state)
{
	struct sqlite s;
	struct batch b;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(sqlite_load(&s, "the test", &e), 0);
	assert_int_equal(s.open_v2(":memory:", &s.db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(s.exec(s.db, "CREATE TABLE records (a)", NULL, NULL, NULL), SQLITE_OK);
	assert_int_not_equal(batch_begin(&b, &s, TABLE_records), SQLITE_OK);
	batch_release(&b);
	sqlite_unload(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_arrive),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
