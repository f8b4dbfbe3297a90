/* Traces in the formats of other tools (formats.def). */
#ifndef MEMTRACE_EXPORT_H
#define MEMTRACE_EXPORT_H

#include "export/input.h"
#include "export/output.h"
#include "session/trace_files.h"
#include "util/buf.h"

enum export_flag {
	EXPORT_ONE_RANK = 1,
	EXPORT_BINARY = 2,
	EXPORT_TO_FILE = 4,
	EXPORT_AT_PEAK = 8,
	EXPORT_MOMENT = 16,
	EXPORT_TABLE = 32
};

struct export_options {
	const struct export_format *format;
	const char *path; /* NULL: to `standard` */
	FILE *standard;
	int table; /* enum table_id; of formats that have one table */
	enum export_moment moment;
	int rank;   /* NO_RANK: all */
	int device; /* -1: all, or the one with the highest peak */
};

/* An export that is being written; `state` is the writer's own. */
struct export
{
	const struct export_options *options;
	struct output out;
	struct buf *notes; /* lines for the user */
	void *state;
};

/* The functions of a format; each returns 0 or -1. begin and end may be NULL. end() is called also
 * after a failure, with `failed`, and releases the state. */
struct export_writer {
	int (*begin)(struct export *x, struct err *e);
	int (*add)(struct export *x, const struct input *in, struct err *e);
	int (*end)(struct export *x, int failed, struct err *e);
};

struct export_format {
	const char *name, *summary;
	unsigned flags;
	const struct export_writer *writer;
};

/* All formats; the last one has no name. */
extern const struct export_format export_formats[];

/* Writes the traces. `notes` receives a line for each trace that is left out. */
int export_traces(const struct trace_files *files, const struct export_options *o,
		  struct buf *notes, struct err *e);

#define FORMAT(id, name, flags, summary) extern const struct export_writer export_##id;
#include "export/formats.def"
#undef FORMAT

#endif
