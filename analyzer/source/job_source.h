/*
 * What the source of a job says of the lines on its stacks. The files that are not there, or were
 * changed since the job began, say nothing.
 */
#ifndef MEMTRACE_JOB_SOURCE_H
#define MEMTRACE_JOB_SOURCE_H

#include "source/optimized.h"
#include "source/python_names.h"
#include "trace/tables.h"

#define JOB_SOURCE_MOST_WORK (UINT64_C(1) << 29) /* with more, nothing is known */

/* What is known of the calls with these frames around them, see gradients.h. */
struct rollout_seen {
	uint64_t hash;
	int is_known, is_rollout;
};

/* The functions of a file, by its text, that have a way to gradients, see gradients.h. */
struct asking_functions {
	const char *text;
	struct python_names names;
};

struct job_source {
	const struct tables *tables;
	struct python_files files;
	struct optimized optimized; /* by the job's own files */
	uint64_t work;              /* bytes that were looked at, about */
	/* What is known of the line of each frame; NULL: no file is there. */
	unsigned char *calls, *loops, *returns, *unrolled, *generated;
	struct asking_functions asking[8]; /* the last one may be replaced */
	struct rollout_seen rollouts[64];  /* by the hash; a later one replaces an earlier one */
};

/* `began_ns`: when the job began, since the Unix epoch. `t` has been attributed, and stays. */
void job_source_begin(struct job_source *s, const struct tables *t, uint64_t began_ns);
void job_source_end(struct job_source *s);

/* Is it a file of the job itself, and of no library? */
int job_source_is_own(struct str path);
/* The job's own file behind `f` that could be read, or the first one if that is NULL; NULL: no
 * more. */
const struct python_file *job_source_next(const struct job_source *s, const struct python_file *f);
/* The file of a frame, which may be a library's that calls parts of a model; NULL: it, or the line,
 * is not there, or too much was asked for, so that a huge file cannot keep a report waiting. */
const struct python_file *job_source_file(struct job_source *s, const struct mt_frame *frame);
/* The same; NULL too if it is a library's. */
const struct python_file *job_source_own_file(struct job_source *s, const struct mt_frame *frame);
/* The frame that calls the outermost module of a stack; 0: there is no module, frame_count: what
 * calls it is not on the stack. */
uint32_t job_source_caller(const struct job_source *s, const struct stack *of);

#endif
