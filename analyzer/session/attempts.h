/*
 * The attempts of jobs of which there are traces or records, and the choice of the one that is
 * read: a launcher restarts a job, and a directory or a file of records may have several jobs.
 */
#ifndef MEMTRACE_ATTEMPTS_H
#define MEMTRACE_ATTEMPTS_H

#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"

/* The facts about one process; those of an attempt are their sum. */
struct attempt_part {
	const char *run_id;
	int restart;
	size_t argument;       /* index of the argument that has it */
	int named;             /* the argument is the file itself: used without being chosen */
	uint64_t start;        /* since the Unix epoch; of an attempt the latest */
	uint64_t ooms, events; /* failed allocations; allocations */
};

struct attempt;
struct attempts {
	struct attempt *all; /* in the order in which they were added */
};

void attempts_add(struct attempts *a, const struct attempt_part *process);
void attempts_release(struct attempts *a);
size_t attempts_count(const struct attempts *a);

/*
 * The attempt to use: of those that `run` names ("ID", "ID:RESTART", ":RESTART", or "oom": one that
 * ran out of memory), the latest. Without `run`, of the latest run of an argument the attempt that
 * tells most: the last that ran out of memory, else the one that allocated most often. NULL: there
 * is none. The texts of what is returned belong to `a`.
 */
const struct attempt_part *attempts_choose(const struct attempts *a, const char *run,
					   size_t argument);
int attempt_has(const struct attempt_part *attempt, const char *run_id, int restart);
/* Does `run`, for which an attempt was chosen, name the whole job? */
int attempt_is_any(const struct attempt_part *chosen, const char *run);
/* The same as attempt_has(); `any`: of every attempt of that job. */
int attempt_covers(const struct attempt_part *attempt, int any, const char *run_id, int restart);

/* Writes which attempts of the job there are, if there are several. */
void attempts_describe(const struct attempts *a, const struct attempt_part *shown, struct buf *out);
/* Adds one line that names the other attempts of the argument, which are left out. `any`: no
 * attempt of the job is. `noun`: what is counted, as "trace". */
void attempts_name_others(const struct attempts *a, const struct attempt_part *used, int any,
			  const char *noun, struct buf *notes);

#endif
