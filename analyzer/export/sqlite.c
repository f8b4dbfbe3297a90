/* All tables as an SQLite database. */
#include "export/batch.h"
#include "export/export.h"

#include <stdlib.h>

struct database {
	struct sqlite sqlite;
	struct batch tables[TABLE_COUNT];
	int failed;
};

static int fail(struct database *d, struct err *e)
{
	const struct sqlite *s = &d->sqlite;

	d->failed = 1;
	return err_set(e, "SQLite: %s", s->db ? s->errmsg(s->db) : "no database");
}

static int begin(struct export *x, struct err *e)
{
	struct database *d = xcalloc(1, sizeof(*d));
	struct sqlite *s = &d->sqlite;

	x->state = d;
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
		if (batch_begin(&d->tables[i], s, i) != SQLITE_OK)
			return fail(d, e);
	return 0;
}

static void put_row(void *context, enum table_id table, const struct cell *cells)
{
	struct database *d = context;

	if (!d->failed && batch_add(&d->tables[table], cells) != SQLITE_OK)
		d->failed = 1;
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	struct database *d = x->state;

	rows_of(in, (1u << TABLE_COUNT) - 1, put_row, d);
	return d->failed ? fail(d, e) : 0;
}

static int end(struct export *x, int failed, struct err *e)
{
	struct database *d = x->state;
	struct sqlite *s = d ? &d->sqlite : NULL;
	int status = 0;

	if (!d)
		return 0;
	for (size_t i = 0; i < TABLE_COUNT && s->db && !failed && !status; i++)
		if (batch_end(&d->tables[i]) != SQLITE_OK)
			status = fail(d, e);
	if (s->db && !failed && !status && s->exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		status = fail(d, e);
	for (size_t i = 0; i < TABLE_COUNT; i++)
		batch_release(&d->tables[i]);
	sqlite_unload(s);
	free(d);
	return status;
}

const struct export_writer export_sqlite = { .begin = begin, .add = add, .end = end };
