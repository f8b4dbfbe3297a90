/* The identity of this process: rank, job, launcher, command line, some environment variables, the
 * declared configuration. Values that secret.def recognises as secrets do not enter the trace. */
#ifndef PRELOAD_IDENTITY_H
#define PRELOAD_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

struct identity {
	int rank, local_rank, world_size, local_world_size,
		restart_count; /* -1: unknown; restart_count 0 */
	unsigned pid, ppid;
	uint64_t launcher_start_ns;
	int is_child; /* one of several processes of a run that have no rank */
	char host[64];
	char job_id[64];
	char run_id[64];
};

/* Fills W from the environment and /proc. */
void identity_read(struct identity *w);

/* Writes command line, environment, working directory and executable into the tables. */
void identity_describe(void);

/* Writes the file of MEMTRACE_CONFIG into the tables; CUT: TEXT is only its beginning. */
void identity_add_config(const char *text, size_t n, int cut);

#endif
