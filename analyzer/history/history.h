/*
 * The runs that a team remembers: one row a run in an SQLite file, with its configuration, what it
 * was estimated to need, and what it used. Several commands may write it at a time, and a killed
 * one leaves the rows as they were.
 */
#ifndef MEMTRACE_HISTORY_H
#define MEMTRACE_HISTORY_H

#include <jansson.h>

#include "util/buf.h"
#include "util/err.h"
#include "util/sqlite.h"
#include "util/util.h"

/*
 * The columns of a run: X(name, TYPE), behind its number. TEXT may be NULL; an unknown INTEGER is
 * UNKNOWN_BYTES. `job`: the name that was given, else the fingerprint of the configuration. Bytes
 * are of the rank with the highest peak of allocated memory, or of the device without any.
 */
#define HISTORY_COLUMNS(X)              \
	X(run, TEXT)                    \
	X(restart, INTEGER)             \
	X(simulated, INTEGER)           \
	X(job, TEXT)                    \
	X(started_ns, INTEGER)          \
	X(added_ns, INTEGER)            \
	X(fingerprint, TEXT)            \
	X(model, TEXT)                  \
	X(gpu, TEXT)                    \
	X(ranks, INTEGER)               \
	X(world_size, INTEGER)          \
	X(end, TEXT)                    \
	X(verdict, TEXT)                \
	X(duration_ms, INTEGER)         \
	X(steps, INTEGER)               \
	X(memtrace_version, TEXT)       \
	X(config, TEXT)                 \
	X(versions, TEXT)               \
	X(allocated_bytes, INTEGER)     \
	X(reserved_bytes, INTEGER)      \
	X(device_bytes, INTEGER)        \
	X(estimated_allocated, INTEGER) \
	X(estimated_reserved, INTEGER)  \
	X(estimated_device, INTEGER)

/*
 * A process and device of a run, so that nodes may add their ranks one by one: X(name, TYPE). The
 * first five are its place in the run; an unknown number of them is -1.
 */
#define HISTORY_RANK_COLUMNS(X)         \
	X(rank, INTEGER)                \
	X(device, INTEGER)              \
	X(started_ns, INTEGER)          \
	X(pid, INTEGER)                 \
	X(host, TEXT)                   \
	X(end, TEXT)                    \
	X(verdict, TEXT)                \
	X(duration_ms, INTEGER)         \
	X(steps, INTEGER)               \
	X(allocated_bytes, INTEGER)     \
	X(reserved_bytes, INTEGER)      \
	X(device_bytes, INTEGER)        \
	X(estimated_allocated, INTEGER) \
	X(estimated_reserved, INTEGER)  \
	X(estimated_device, INTEGER)

#define HISTORY_TYPE_TEXT char *
#define HISTORY_TYPE_INTEGER int64_t

struct history_rank {
#define X(name, type) HISTORY_TYPE_##type name;
	HISTORY_RANK_COLUMNS(X)
#undef X
};

struct history_part {
	char *component;
	bytes observed, estimated; /* may be UNKNOWN_BYTES */
};

struct history_run {
	int64_t id; /* its number in the list; UNKNOWN_BYTES: it is not written */
#define X(name, type) HISTORY_TYPE_##type name;
	HISTORY_COLUMNS(X)
#undef X
	struct history_part *parts; /* of the worst rank */
	size_t part_count, part_room;
	struct history_rank *members; /* by place */
	size_t member_count, member_room, worst;
};

struct run_store {
	struct sqlite sqlite;
	char *path;
};

/* Opens the file, or makes it. `path` NULL: $XDG_DATA_HOME/memtrace/history.sqlite, or that of
 * ~/.local/share. A file that is something else is refused and left as it is; so is one that must
 * exist and is empty. Must be closed even on failure. */
int history_open(struct run_store *h, const char *path, int must_exist, struct err *e);
void history_close(struct run_store *h);

/* Begins a run with its first record; the records of its other ranks follow by their place. */
struct history_run history_run_of(const json_t *record, const char *job);
void history_run_add(struct history_run *run, const json_t *record);
/* Makes a rank the worst one, if it is the first or its peak is higher; was it? */
int history_run_turn_worst(struct history_run *run, size_t member);
/* Sets what the run has of its ranks. */
void history_run_sum(struct history_run *run);
/* Takes from `known`, which is the same run in the history, the ranks that `run` does not have. */
void history_run_join(struct history_run *run, struct history_run *known);
/* A number of bytes within BYTES_LIMIT, or UNKNOWN_BYTES. */
bytes history_bytes(int64_t value);
/* Keeps numbers of a file within the bounds in which sums and differences of them are numbers too.
 */
void history_run_bound(struct history_run *run);
void history_rank_bound(struct history_rank *rank);
/* Writes runs, all or none. A rank that is there already is replaced, and the others stay. */
int history_write(struct run_store *h, struct history_run *runs, size_t count, struct err *e);

/* The runs, the oldest first, without their parts. The caller releases the list. */
int history_list(struct run_store *h, struct history_run **runs, size_t *count, struct err *e);
/* Reads the parts of a run. */
int history_parts(struct run_store *h, struct history_run *run, struct err *e);
void history_parts_clear(struct history_run *run);
void history_run_release(struct history_run *run);
void history_runs_release(struct history_run *runs, size_t count);
/* Releases all but the runs of a job, named by its job, model or fingerprint; those that stay. */
size_t history_keep_job(struct history_run *runs, size_t count, const char *job);
/* The run of that number, or the latest of that id. NULL: there is none. */
struct history_run *history_find(struct history_run *runs, size_t count, const char *name,
				 struct err *e);

#endif
