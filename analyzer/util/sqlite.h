/* SQLite, whose library is loaded when it is needed, so that no other command needs it. */
#ifndef MEMTRACE_SQLITE_H
#define MEMTRACE_SQLITE_H

#include <sqlite3.h>

#include "util/err.h"

/* The functions of the library that are used: X(name). */
#define SQLITE_FUNCTIONS(X) \
	X(open_v2)          \
	X(close)            \
	X(exec)             \
	X(errmsg)           \
	X(errcode)          \
	X(busy_timeout)     \
	X(prepare_v2)       \
	X(bind_int64)       \
	X(bind_text)        \
	X(bind_null)        \
	X(step)             \
	X(reset)            \
	X(finalize)         \
	X(column_int64)     \
	X(column_text)      \
	X(column_type)      \
	X(create_module)    \
	X(declare_vtab)     \
	X(result_int64)     \
	X(result_text)      \
	X(result_null)

/* s.step(...) is sqlite3_step(...). */
struct sqlite {
	void *library;
#define X(name) __typeof__(&sqlite3_##name) name;
	SQLITE_FUNCTIONS(X)
#undef X
	sqlite3 *db;
};

/* `what`: who needs it, for the message: "the format sqlite". */
int sqlite_load(struct sqlite *s, const char *what, struct err *e);
/* Closes the database too. */
void sqlite_unload(struct sqlite *s);

#endif
