/* All tables as an SQLite database. One thread reads the trace, another one writes the database. */
#include "export/export.h"
#include "export/insert.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct database {
	struct sqlite sqlite;
	struct insert inserts[TABLE_COUNT];
	struct batch *batches[TABLE_COUNT]; /* that are being filled */
	struct batch_queue queue;
	pthread_t writer;
	int has_writer;
	atomic_int failed;
};

static int fail(struct database *d, struct err *e)
{
	const struct sqlite *s = &d->sqlite;

	d->failed = 1;
	return err_set(e, "SQLite: %s", s->db ? s->errmsg(s->db) : "no database");
}

static void insert_one(struct database *d, struct batch *b)
{
	if (!d->failed && insert_batch(&d->inserts[b->table], b) != SQLITE_OK)
		d->failed = 1;
	batch_queue_reuse(&d->queue, b);
}

static void *write_batches(void *database)
{
	struct database *d = database;
	struct batch *b;

	while ((b = batch_queue_take(&d->queue)))
		insert_one(d, b);
	return NULL;
}

static int begin(struct export *x, struct err *e)
{
	struct database *d = xcalloc(1, sizeof(*d));
	struct sqlite *s = &d->sqlite;

	x->state = d;
	batch_queue_begin(&d->queue);
	if (sqlite_load(s, "the format sqlite", e) < 0)
		return -1;
	/* The file is complete or removed: nothing needs a journal or a wait for the disk. */
	if (s->open_v2(x->out.whole.temporary, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
		       NULL) != SQLITE_OK)
		return err_set(e, "cannot write %s: %s", x->out.whole.path,
			       s->db ? s->errmsg(s->db) : "no database");
	if (s->exec(s->db,
		    "PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN",
		    NULL, NULL, NULL) != SQLITE_OK)
		return fail(d, e);
	for (enum table_id i = 0; i < TABLE_COUNT; i++)
		if (insert_begin(&d->inserts[i], s, i) != SQLITE_OK)
			return fail(d, e);
	d->has_writer = !pthread_create(&d->writer, NULL, write_batches, d);
	return 0;
}

/* Without a second thread, this one writes. */
static void pass_on(struct database *d, enum table_id table)
{
	struct batch *b = d->batches[table];

	d->batches[table] = NULL;
	if (b && d->has_writer)
		batch_queue_put(&d->queue, b);
	else if (b)
		insert_one(d, b);
}

static void put_row(void *context, enum table_id table, const struct cell *cells)
{
	struct database *d = context;

	if (!d->batches[table])
		d->batches[table] = batch_queue_empty(&d->queue, table);
	if (batch_add(d->batches[table], cells))
		pass_on(d, table);
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	struct database *d = x->state;

	rows_of(in, (1u << TABLE_COUNT) - 1, put_row, d);
	/* After a failure the other thread uses the database no more. */
	return d->failed ? fail(d, e) : 0;
}

/* Waits until all rows are written. */
static void finish_rows(struct database *d)
{
	for (enum table_id i = 0; i < TABLE_COUNT; i++)
		pass_on(d, i);
	batch_queue_close(&d->queue);
	if (d->has_writer)
		pthread_join(d->writer, NULL);
}

static int end(struct export *x, int failed, struct err *e)
{
	struct database *d = x->state;
	struct sqlite *s = d ? &d->sqlite : NULL;
	int status = 0;

	if (!d)
		return 0;
	finish_rows(d);
	if (s->db && !failed &&
	    (d->failed || s->exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK))
		status = fail(d, e);
	for (size_t i = 0; i < TABLE_COUNT; i++)
		insert_release(&d->inserts[i]);
	sqlite_unload(s);
	batch_queue_release(&d->queue);
	free(d);
	return status;
}

const struct export_writer export_sqlite = { .begin = begin, .add = add, .end = end };
