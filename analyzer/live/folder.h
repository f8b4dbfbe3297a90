/* The traced processes of a directory, read again and again. */
#ifndef MEMTRACE_LIVE_FOLDER_H
#define MEMTRACE_LIVE_FOLDER_H

#include "live/process.h"
#include "util/err.h"

struct folder {
	char *path;
	struct live_process *list; /* by path */
	size_t count, room;
	double silent_s;
	double credit_s; /* seconds that reading tails may take before the next update */
	size_t next;     /* whose tail is read next, of `list` */
	double time_s;   /* of the last update, since the Unix epoch */
};

/* The directory that traces are written to without options: the environment's MEMTRACE_DIR, or
 * the one with the newest trace among memtrace and memtrace-* in the working directory. NULL:
 * none; the caller frees it. */
char *folder_default(void);

/* Fails if the directory cannot be read or has no traces. folder_release() must follow, also then.
 */
int folder_open(struct folder *f, const char *path, double silent_s, struct err *e);
/* Reads the directory and the headers of all that run or have changed. */
int folder_update(struct folder *f, struct err *e);
/* Reads tails of processes that recorded something since theirs was read, one after the other, for
 * `budget_s` seconds. What one takes in excess is missing at the next call. */
void folder_read_tails(struct folder *f, double budget_s);
/* How many processes are in a state. */
size_t folder_count(const struct folder *f, enum live_state s);
void folder_release(struct folder *f);

#endif
