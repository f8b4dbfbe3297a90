/* Rows that SQLite reads from a batch are in its table, in order and unchanged. */
#include "export/insert.h"
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
static int add_row(struct batch *b, int64_t i)
{
	int full;

	char text[40];
	struct cell cells[MAX_COLUMNS] = { { .type = CELL_NULL } };

	memset(text, 'x', sizeof(text));
	cells[COLUMN_records_sequence - FIRST_records] =
		(struct cell){ .type = CELL_INTEGER, .integer = i };
	cells[COLUMN_records_bytes - FIRST_records] =
		(struct cell){ .type = CELL_INTEGER, .integer = -i * i };
	cells[COLUMN_records_event - FIRST_records] =
		(struct cell){ .type = CELL_TEXT, .text = { text, (size_t)(i % 40) } };
	full = batch_add(b, cells);
	memset(text, '?', sizeof(text)); /* a text stays until the next row only */
	return full;
}

static void open_database(struct sqlite *s)
{
	struct err e = { 0 };

	assert_int_equal(sqlite_load(s, "the test", &e), 0);
	assert_int_equal(s->open_v2(":memory:", &s->db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
}

static void rows_arrive(void **state)
{
	struct sqlite s;
	struct insert n;
	struct batch_queue q;
	struct batch *b;

	(void)state;
	open_database(&s);
	batch_queue_begin(&q);
	assert_int_equal(insert_begin(&n, &s, TABLE_records), SQLITE_OK);
	b = batch_queue_empty(&q, TABLE_records);
	for (int64_t i = 1; i <= ROWS; i++) {
		int full = add_row(b, i);

		assert_int_equal(full, i % BATCH_ROWS == 0);
		if (!full && i != ROWS)
			continue;
		assert_int_equal(insert_batch(&n, b), SQLITE_OK);
		batch_queue_reuse(&q, b);
		b = batch_queue_empty(&q, TABLE_records);
	}
	assert_int_equal(ask(&s, "SELECT count(*) FROM records WHERE sequence = rowid AND "
				 "bytes = -sequence * sequence AND "
				 "event = substr(printf('%.40c', 'x'), 1, sequence % 40) AND "
				 "thread IS NULL AND device IS NULL"),
			 ROWS);
	/* the virtual table is not in the file */
	assert_int_equal(ask(&s, "SELECT count(*) FROM sqlite_master"), 1);
	insert_release(&n);
	batch_queue_reuse(&q, b);
	batch_queue_release(&q);
	sqlite_unload(&s);
}

/* A table that is there already is an error, and nothing leaks. */
static void refused(void **state)
{
	struct sqlite s;
	struct insert n;

	(void)state;
	open_database(&s);
	assert_int_equal(s.exec(s.db, "CREATE TABLE records (a)", NULL, NULL, NULL), SQLITE_OK);
	assert_int_not_equal(insert_begin(&n, &s, TABLE_records), SQLITE_OK);
	insert_release(&n);
	sqlite_unload(&s);
}

static void *put_batches(void *queue)
{
	for (int64_t i = 0; i < 100; i++) {
		struct batch *b = batch_queue_empty(queue, TABLE_records);

		add_row(b, i);
		batch_queue_put(queue, b);
	}
	batch_queue_close(queue);
	return NULL;
}

/* More batches than the queue holds arrive in order, and few are made. */
static void batches_arrive_in_order(void **state)
{
	struct batch_queue q;
	struct batch *b;
	pthread_t thread;
	int64_t next = 0;
	size_t made = 0;

	(void)state;
	batch_queue_begin(&q);
	assert_int_equal(pthread_create(&thread, NULL, put_batches, &q), 0);
	while ((b = batch_queue_take(&q))) {
		assert_int_equal(b->rows, 1);
		assert_int_equal(b->cells[COLUMN_records_sequence - FIRST_records].integer, next++);
		batch_queue_reuse(&q, b);
	}
	assert_int_equal(next, 100);
	pthread_join(thread, NULL);
	for (b = q.empty; b; b = b->next)
		made++;
	assert_in_range(made, 1, 10);
	/* What nobody takes is freed too. */
	batch_queue_put(&q, batch_queue_empty(&q, TABLE_records));
	batch_queue_release(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_arrive),
		cmocka_unit_test(refused),
		cmocka_unit_test(batches_arrive_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
