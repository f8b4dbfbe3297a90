/* The file of the history. */
#include "history/history.h"

#include "report/report.h"
#include "util/folders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The header of the file: "mtrh", and the version of the tables. */
#define APPLICATION 0x6d747268
#define VERSION 2
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

/* Columns in SQL, each behind a comma: with its type, its name alone, a value to be bound. */
#define TYPED(name, type) ", " #name " " #type
#define NAMED(name, type) ", " #name
#define VALUE(name, type) ", ?"
#define RUN_TYPED HISTORY_COLUMNS(TYPED)
#define RUN_NAMED HISTORY_COLUMNS(NAMED)
#define RUN_VALUES HISTORY_COLUMNS(VALUE)
#define RANK_TYPED HISTORY_RANK_COLUMNS(TYPED)
#define RANK_NAMED HISTORY_RANK_COLUMNS(NAMED)
#define RANK_VALUES HISTORY_RANK_COLUMNS(VALUE)

static const char tables[] =
	"CREATE TABLE runs (id INTEGER PRIMARY KEY" RUN_TYPED ", UNIQUE (run, restart, simulated));"
	"CREATE TABLE components (run INTEGER, component TEXT, observed INTEGER, estimated INTEGER,"
	" PRIMARY KEY (run, component)) WITHOUT ROWID;";

/* The table that version 1 lacks. */
static const char table_of_ranks[] = "CREATE TABLE ranks (run INTEGER, position INTEGER" RANK_TYPED
				     ", PRIMARY KEY (run, position)) WITHOUT ROWID;";

/* Makes the tables that a file of that version lacks; 0: an empty file. */
static int make_tables(const struct run_store *h, int64_t version, struct err *e)
{
	char mark[96];

	snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		 APPLICATION, VERSION);
	if (!version && execute(h, tables, e) < 0)
		return -1;
	return execute(h, table_of_ranks, e) < 0 || execute(h, mark, e) < 0 ? -1 : 0;
}

static int no_history(const struct run_store *h, const char *why, struct err *e)
{
	return err_set(e, "there is no history in %s (%s): memtrace history add creates it",
		       h->path, why);
}

/* Is the file a history that this memtrace can read? Makes the tables that it lacks, unless it must
 * exist: then it is only read. */
static int check(const struct run_store *h, int must_exist, struct err *e)
{
	struct buf found = { 0 };
	int64_t application, version, entries, number;
	int status = 0;

	if (ask(h, "PRAGMA application_id", &application, NULL, e) < 0 ||
	    ask(h, "PRAGMA user_version", &version, NULL, e) < 0 ||
	    ask(h, "SELECT count(*) FROM sqlite_master", &entries, NULL, e) < 0)
		return -1;
	if (!application && !entries)
		return must_exist ? no_history(h, "the file is empty", e) : make_tables(h, 0, e);
	if (application != APPLICATION)
		return err_set(e, "%s is not a history of memtrace: it is another program's file",
			       h->path);
	if (version < 1 || version > VERSION)
		return err_set(e, "%s has version %lld, and this memtrace reads versions up to %d",
			       h->path, (long long)version, VERSION);
	if (ask(h, "PRAGMA quick_check(1)", &number, &found, e) < 0)
		status = -1;
	else if (strcmp(found.text, "ok") != 0)
		status = err_set(e, "%s is damaged (%.200s): keep a copy, and name another --file",
				 h->path, found.text);
	buf_release(&found);
	return !status && version < VERSION && !must_exist ? make_tables(h, version, e) : status;
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
		return no_history(h, strerror(errno), e);
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
	status = check(h, must_exist, e);
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

/* Ends a query after its last row, which an error may have brought forward. */
static int end_query(const struct run_store *h, sqlite3_stmt *q, struct err *e)
{
	const struct sqlite *s = &h->sqlite;

	s->finalize(q);
	return s->errcode(s->db) == SQLITE_OK || s->errcode(s->db) == SQLITE_DONE ? 0 : fail(h, e);
}

static struct history_run read_run(const struct sqlite *s, sqlite3_stmt *q)
{
	struct history_run r = { .id = s->column_int64(q, 0) };
	int at = 0;

#define X(name, type) r.name = read_##type(s, q, ++at);
	HISTORY_COLUMNS(X)
#undef X
	r.run = text_or(r.run, "");
	r.job = text_or(r.job, "");
	r.config = text_or(r.config, "{}");
	r.versions = text_or(r.versions, "{}");
	history_run_bound(&r);
	return r;
}

/* The runs, or only the one with the id of `like`. */
static int read_runs(const struct run_store *h, const struct history_run *like,
		     struct history_run **runs, size_t *count, struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	sqlite3_stmt *q = NULL;
	size_t room = 0;
	int code =
		s->prepare_v2(s->db,
			      like ? "SELECT id" RUN_NAMED
				     " FROM runs WHERE run IS ? AND restart IS ? AND simulated IS ?"
				   : "SELECT id" RUN_NAMED " FROM runs ORDER BY started_ns, id",
			      -1, &q, NULL);

	*runs = NULL;
	*count = 0;
	if (code == SQLITE_OK && like) {
		bind_TEXT(s, q, 1, like->run);
		bind_INTEGER(s, q, 2, like->restart);
		bind_INTEGER(s, q, 3, like->simulated);
	}
	while (code == SQLITE_OK && s->step(q) == SQLITE_ROW) {
		*runs = grow(*runs, *count, &room, sizeof(**runs));
		(*runs)[(*count)++] = read_run(s, q);
	}
	return end_query(h, q, e);
}

int history_list(struct run_store *h, struct history_run **runs, size_t *count, struct err *e)
{
	return read_runs(h, NULL, runs, count, e);
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

static int read_members(const struct run_store *h, struct history_run *r, struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	sqlite3_stmt *q = NULL;

	if (s->prepare_v2(s->db,
			  "SELECT position" RANK_NAMED
			  " FROM ranks WHERE run = ? ORDER BY position",
			  -1, &q, NULL) != SQLITE_OK)
		return fail(h, e);
	s->bind_int64(q, 1, r->id);
	while (s->step(q) == SQLITE_ROW) {
		struct history_rank x = { .rank = 0 };
		int at = 0;

#define X(name, type) x.name = read_##type(s, q, ++at);
		HISTORY_RANK_COLUMNS(X)
#undef X
		x.host = text_or(x.host, "");
		history_rank_bound(&x);
		r->members =
			grow(r->members, r->member_count, &r->member_room, sizeof(*r->members));
		r->members[r->member_count++] = x;
	}
	return end_query(h, q, e);
}

/* Joins to a run what the history has of it, and takes its number. */
static int join_known(struct run_store *h, struct history_run *r, struct err *e)
{
	struct history_run *known;
	size_t count;
	int status = read_runs(h, r, &known, &count, e);

	history_run_sum(r);
	if (!status && count) {
		status = history_parts(h, known, e) < 0 ? -1 : read_members(h, known, e);
		r->id = known->id;
		if (!status)
			history_run_join(r, known);
	}
	history_runs_release(known, count);
	return status;
}

enum { REMOVE_RUN, ADD_RUN, REMOVE_PARTS, ADD_PART, REMOVE_RANKS, ADD_RANK, STATEMENTS };

static const char *const statements[STATEMENTS] = {
	[REMOVE_RUN] = "DELETE FROM runs WHERE id = ?",
	[ADD_RUN] = "INSERT INTO runs VALUES (?" RUN_VALUES ")",
	[REMOVE_PARTS] = "DELETE FROM components WHERE run = ?",
	[ADD_PART] = "INSERT OR REPLACE INTO components VALUES (?, ?, ?, ?)",
	[REMOVE_RANKS] = "DELETE FROM ranks WHERE run = ?",
	[ADD_RANK] = "INSERT INTO ranks VALUES (?, ?" RANK_VALUES ")",
};

static int remove_rows(const struct run_store *h, sqlite3_stmt *q, int64_t run, struct err *e)
{
	bind_INTEGER(&h->sqlite, q, 1, run);
	return step(h, q, e);
}

static int add_parts(const struct run_store *h, const struct history_run *r, sqlite3_stmt *q,
		     struct err *e)
{
	const struct sqlite *s = &h->sqlite;

	for (size_t i = 0; i < r->part_count; i++) {
		bind_INTEGER(s, q, 1, r->id);
		bind_TEXT(s, q, 2, r->parts[i].component);
		bind_INTEGER(s, q, 3, r->parts[i].observed);
		bind_INTEGER(s, q, 4, r->parts[i].estimated);
		if (step(h, q, e) < 0)
			return -1;
	}
	return 0;
}

static int add_members(const struct run_store *h, const struct history_run *r, sqlite3_stmt *q,
		       struct err *e)
{
	const struct sqlite *s = &h->sqlite;

	for (size_t i = 0; i < r->member_count; i++) {
		int at = 2;

		bind_INTEGER(s, q, 1, r->id);
		bind_INTEGER(s, q, 2, (int64_t)i);
#define X(name, type) bind_##type(s, q, ++at, r->members[i].name);
		HISTORY_RANK_COLUMNS(X)
#undef X
		if (step(h, q, e) < 0)
			return -1;
	}
	return 0;
}

static int add_run(struct run_store *h, struct history_run *r, sqlite3_stmt *const *q,
		   struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	int at = 1;

	if (join_known(h, r, e) < 0 || remove_rows(h, q[REMOVE_RUN], r->id, e) < 0)
		return -1;
	bind_INTEGER(s, q[ADD_RUN], 1, r->id);
#define X(name, type) bind_##type(s, q[ADD_RUN], ++at, r->name);
	HISTORY_COLUMNS(X)
#undef X
	if (step(h, q[ADD_RUN], e) < 0 || ask(h, "SELECT last_insert_rowid()", &r->id, NULL, e) < 0)
		return -1;
	if (remove_rows(h, q[REMOVE_PARTS], r->id, e) < 0 ||
	    remove_rows(h, q[REMOVE_RANKS], r->id, e) < 0)
		return -1;
	return add_parts(h, r, q[ADD_PART], e) < 0 ? -1 : add_members(h, r, q[ADD_RANK], e);
}

static int add_all(struct run_store *h, struct history_run *runs, size_t count, struct err *e)
{
	const struct sqlite *s = &h->sqlite;
	sqlite3_stmt *q[STATEMENTS] = { NULL };
	int status = 0;

	for (int i = 0; i < STATEMENTS && !status; i++)
		if (s->prepare_v2(s->db, statements[i], -1, &q[i], NULL) != SQLITE_OK)
			status = fail(h, e);
	for (size_t i = 0; i < count && !status; i++)
		status = add_run(h, &runs[i], q, e);
	for (int i = 0; i < STATEMENTS; i++)
		s->finalize(q[i]);
	return status;
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
