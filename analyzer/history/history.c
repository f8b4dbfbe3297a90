/* The file of the history. */
#include "history/history.h"

#include "report/report.h"
#include "util/folders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What the header of the file says of its content: "mtrh", and the version of the tables. */
#define APPLICATION 0x6d747268
#define VERSION 1
/* How long a writer waits for others, in milliseconds. */
#define WAIT_MS 60000

static int fail(const struct run_store *h, struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	int code = s->db ? s->errcode(s->db) : SQLITE_NOMEM;

	if (code == SQLITE_NOTADB)
		return err_set(e, "%s is not a history of memtrace: it is no SQLite file", h->path);
	if (code == SQLITE_CORRUPT)
		return err_set(e, "%s is damaged (%s): keep a copy, and name another --file",
			       h->path, s->errmsg(s->db));
	if (code == SQLITE_BUSY)
		return err_set(e, "%s is being written by another process for more than %d s",
			       h->path, WAIT_MS / 1000);
	return err_set(e, "%s: %s", h->path, s->db ? s->errmsg(s->db) : "no memory");
}

static int execute(const struct run_store *h, const char *sql, struct err *e)
{
	const struct sqlite *s = &h->sqlite;

	return s->exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(h, e);
}

/* The first value of a query: a number, and its text if `text` is not NULL. */
static int ask(const struct run_store *h, const char *sql, int64_t *number, struct buf *text,
	       struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	sqlite3_stmt *q = NULL;
	int is_row =
		s->prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK && s->step(q) == SQLITE_ROW;

	if (is_row) {
		*number = s->column_int64(q, 0);
		if (text)
			buf_puts(text, (const char *)s->column_text(q, 0));
	} else {
		fail(h, e);
	}
	s->finalize(q);
	return is_row ? 0 : -1;
}

static const char tables[] = "CREATE TABLE runs ("
#define X(name, type) #name " " #type ", "
	HISTORY_COLUMNS(X)
#undef X
		"PRIMARY KEY (id), UNIQUE (run, restart, simulated));"
		"CREATE TABLE components (run INTEGER, component TEXT, observed INTEGER, estimated INTEGER,"
		" PRIMARY KEY (run, component)) WITHOUT ROWID;";

static int make_tables(const struct run_store *h, struct err *e)
{
	char mark[96];

	snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		 APPLICATION, VERSION);
	return execute(h, tables, e) < 0 || execute(h, mark, e) < 0 ? -1 : 0;
}

/* Is the file a history that this memtrace can read? Makes the tables of an empty one. */
static int check(const struct run_store *h, struct err *e)
{
	struct buf found = { 0 };
	int64_t application, version, entries, number;
	int status = 0;

	if (ask(h, "PRAGMA application_id", &application, NULL, e) < 0 ||
	    ask(h, "PRAGMA user_version", &version, NULL, e) < 0 ||
	    ask(h, "SELECT count(*) FROM sqlite_master", &entries, NULL, e) < 0)
		return -1;
	if (!application && !entries)
		return make_tables(h, e);
	if (application != APPLICATION)
		return err_set(e, "%s is not a history of memtrace: it is another program's file",
			       h->path);
	if (version != VERSION)
		return err_set(e, "%s has version %lld, and this memtrace reads version %d",
			       h->path, (long long)version, VERSION);
	if (ask(h, "PRAGMA quick_check(1)", &number, &found, e) < 0)
		status = -1;
	else if (strcmp(found.text, "ok") != 0)
		status = err_set(e, "%s is damaged (%.200s): keep a copy, and name another --file",
				 h->path, found.text);
	buf_release(&found);
	return status;
}

static char *default_path(struct err *e)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	if (data && *data == '/')
		return xasprintf("%s/memtrace/history.sqlite", data);
	if (home && *home == '/')
		return xasprintf("%s/.local/share/memtrace/history.sqlite", home);
	err_set(e, "neither XDG_DATA_HOME nor HOME is set: name the history with --file");
	return NULL;
}

int history_open(struct run_store *h, const char *path, int must_exist, struct err *e)
{
	struct sqlite *s = &h->sqlite;
	int flags = SQLITE_OPEN_READWRITE | (must_exist ? 0 : SQLITE_OPEN_CREATE), status;
	struct err ignored = { 0 };
	struct stat st;

	*h = (struct run_store){ .path = path ? xstrdup(path) : default_path(e) };
	if (!h->path || sqlite_load(s, "the history", e) < 0)
		return -1;
	if (must_exist && stat(h->path, &st) < 0)
		return err_set(e, "there is no history in %s (%s): memtrace history add makes it",
			       h->path, strerror(errno));
	if (!must_exist)
		folders_make(h->path, 0700, &ignored); /* SQLite says what fails then */
	if (s->open_v2(h->path, &s->db, flags, NULL) != SQLITE_OK)
		return err_set(e,
			       "cannot open %s: %s; --file names a file in a folder that may be "
			       "written",
			       h->path, s->db ? s->errmsg(s->db) : "no memory");
	s->busy_timeout(s->db, WAIT_MS);
	/* Two processes may make the file at one time. */
	if (execute(h, "BEGIN IMMEDIATE", e) < 0)
		return -1;
	status = check(h, e);
	if (!status)
		return execute(h, "COMMIT", e);
	s->exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return -1;
}

void history_close(struct run_store *h)
{
	sqlite_unload(&h->sqlite);
	free(h->path);
	*h = (struct run_store){ 0 };
}

static void bind_INTEGER(const struct sqlite *s, sqlite3_stmt *q, int at, int64_t value)
{
	if (value == UNKNOWN_BYTES)
		s->bind_null(q, at);
	else
		s->bind_int64(q, at, value);
}

static void bind_TEXT(const struct sqlite *s, sqlite3_stmt *q, int at, const char *value)
{
	s->bind_text(q, at, value, -1, SQLITE_STATIC);
}

static char *read_TEXT(const struct sqlite *s, sqlite3_stmt *q, int at)
{
	const char *value = (const char *)s->column_text(q, at);
	struct buf b = { 0 };

	if (!value)
		return NULL;
	buf_add_clean(&b, (struct str){ value, strlen(value) });
	return buf_take(&b);
}

static char *text_or(char *text, const char *other)
{
	return text ? text : xstrdup(other);
}

static int64_t read_INTEGER(const struct sqlite *s, sqlite3_stmt *q, int at)
{
	return s->column_type(q, at) == SQLITE_NULL ? UNKNOWN_BYTES : s->column_int64(q, at);
}

/* Runs a statement once. */
static int step(const struct run_store *h, sqlite3_stmt *q, struct err *e)
{
	int is_done = h->sqlite.step(q) == SQLITE_DONE, status = is_done ? 0 : fail(h, e);

	h->sqlite.reset(q);
	return status;
}

static int add_run(const struct run_store *h, struct history_run *r, sqlite3_stmt *old,
		   sqlite3_stmt *insert, sqlite3_stmt *part, struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	int at = 0;

	bind_TEXT(s, old, 1, r->run);
	bind_INTEGER(s, old, 2, r->restart);
	bind_INTEGER(s, old, 3, r->simulated);
	if (step(h, old, e) < 0)
		return -1;
#define X(name, type) bind_##type(s, insert, ++at, r->name);
	HISTORY_COLUMNS(X)
#undef X
	if (step(h, insert, e) < 0 || ask(h, "SELECT last_insert_rowid()", &r->id, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < r->part_count; i++) {
		bind_INTEGER(s, part, 1, r->id);
		bind_TEXT(s, part, 2, r->parts[i].component);
		bind_INTEGER(s, part, 3, r->parts[i].observed);
		bind_INTEGER(s, part, 4, r->parts[i].estimated);
		if (step(h, part, e) < 0)
			return -1;
	}
	return 0;
}

static int add_all(const struct run_store *h, struct history_run *runs, size_t count, struct err *e)
{
	static const char *const sql[] = {
		"DELETE FROM runs WHERE run IS ? AND restart IS ? AND simulated IS ?",
		"INSERT INTO runs VALUES (" /* the columns follow */,
		"INSERT OR REPLACE INTO components VALUES (?, ?, ?, ?)",
	};
	const struct sqlite *s = &h->sqlite;
	sqlite3_stmt *q[3] = { NULL };
	struct buf insert = { 0 };
	int status = 0, columns = 0;

	buf_puts(&insert, sql[1]);
#define X(name, type) buf_puts(&insert, columns++ ? ", ?" : "?");
	HISTORY_COLUMNS(X)
#undef X
	buf_puts(&insert, ")");
	for (int i = 0; i < 3 && !status; i++)
		if (s->prepare_v2(s->db, i == 1 ? insert.text : sql[i], -1, &q[i], NULL) !=
		    SQLITE_OK)
			status = fail(h, e);
	for (size_t i = 0; i < count && !status; i++)
		status = add_run(h, &runs[i], q[0], q[1], q[2], e);
	for (int i = 0; i < 3; i++)
		s->finalize(q[i]);
	buf_release(&insert);
	return status ? status
		      : execute(h, "DELETE FROM components WHERE run NOT IN (SELECT id FROM runs)",
				e);
}

int history_write(struct run_store *h, struct history_run *runs, size_t count, struct err *e)
{
	if (execute(h, "BEGIN IMMEDIATE", e) < 0)
		return -1;
	if (add_all(h, runs, count, e) == 0)
		return execute(h, "COMMIT", e);
	h->sqlite.exec(h->sqlite.db, "ROLLBACK", NULL, NULL, NULL);
	return -1;
}

/* Ends a query after its last row, which an error may have brought forward. */
static int end_query(const struct run_store *h, sqlite3_stmt *q, struct err *e)
{
	const struct sqlite *s = &h->sqlite;

	s->finalize(q);
	return s->errcode(s->db) == SQLITE_OK || s->errcode(s->db) == SQLITE_DONE ? 0 : fail(h, e);
}

int history_list(struct run_store *h, struct history_run **runs, size_t *count, struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	sqlite3_stmt *q = NULL;
	size_t room = 0;
	int code = s->prepare_v2(s->db,
				 "SELECT "
#define X(name, type) #name ", "
				 HISTORY_COLUMNS(X)
#undef X
					 "0 FROM runs ORDER BY started_ns, id",
				 -1, &q, NULL);

	*runs = NULL;
	*count = 0;
	while (code == SQLITE_OK && s->step(q) == SQLITE_ROW) {
		struct history_run r = { .id = 0 };
		int at = 0;

#define X(name, type) r.name = read_##type(s, q, at++);
		HISTORY_COLUMNS(X)
#undef X
		r.run = text_or(r.run, "");
		r.job = text_or(r.job, "");
		r.config = text_or(r.config, "{}");
		r.versions = text_or(r.versions, "{}");
		history_run_bound(&r);
		*runs = grow(*runs, *count, &room, sizeof(**runs));
		(*runs)[(*count)++] = r;
	}
	return end_query(h, q, e);
}

int history_parts(struct run_store *h, struct history_run *r, struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	sqlite3_stmt *q = NULL;

	if (s->prepare_v2(
		    s->db,
		    "SELECT component, observed, estimated FROM components WHERE run = ? "
		    "ORDER BY max(coalesce(observed, 0), coalesce(estimated, 0)) DESC, component",
		    -1, &q, NULL) != SQLITE_OK)
		return fail(h, e);
	s->bind_int64(q, 1, r->id);
	while (s->step(q) == SQLITE_ROW) {
		r->parts = grow(r->parts, r->part_count, &r->part_room, sizeof(*r->parts));
		r->parts[r->part_count++] = (struct history_part){
			text_or(read_TEXT(s, q, 0), ""),
			history_bytes(read_INTEGER(s, q, 1)),
			history_bytes(read_INTEGER(s, q, 2)),
		};
	}
	return end_query(h, q, e);
}
