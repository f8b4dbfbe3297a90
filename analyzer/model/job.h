/* How `estimate` and `plan` are told of a job: files, its command line, single values. */
#ifndef MODEL_JOB_H
#define MODEL_JOB_H

#include "config/config.h"

enum job_list { JOB_CONFIG, JOB_SET, JOB_ENV, JOB_FIX, JOB_LISTS };

struct job {
	/* In the order given; each points into argv. */
	char **lists[JOB_LISTS], **command;
	size_t counts[JOB_LISTS], command_count;
};

/* Takes the options that may be given several times, and the command after "--", out of argv.
 * `lists` is how many of job_list the command knows. Returns how many arguments are left, or -1.
 * Released in both cases. */
int job_take(struct job *job, int lists, int argc, char **argv, struct err *e);
void job_release(struct job *job);
int job_is_empty(const struct job *job);

/* Files, then the command line, then `world_size` (0: not given) and `gpu` (or NULL), then --set:
 * later ones win. */
int job_read(const struct job *job, struct config *c, int world_size, const char *gpu,
	     struct err *e);

#endif
