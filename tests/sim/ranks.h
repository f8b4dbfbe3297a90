/* One role, played by ranks in forked processes of one communicator. */
#ifndef MEMTRACE_TEST_RANKS_H
#define MEMTRACE_TEST_RANKS_H

#include "calls.h"
#include "forks.h"

/* A rank's role: 0 for success, else the source line of the failed check. */
#define WANT(condition)                  \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)
typedef int (*role)(ncclComm_t comm, int rank, int ranks);

static inline int run(int ranks, role play, int killed)
{
	ncclUniqueId id;
	pid_t pids[8];
	int worst = 0;
	assert_int_equal(ncclGetUniqueId(&id), 0);
	for (int rank = 0; rank < ranks; rank++) {
		pids[rank] = fork_job();
		if (pids[rank])
			continue;
		ncclComm_t comm;
		int wrong = ncclCommInitRank(&comm, ranks, id, rank) ? __LINE__
								     : play(comm, rank, ranks);
		if (wrong)
			fprintf(stderr, "rank %d: line %d\n", rank, wrong);
		end_job(wrong ? 1 : 0);
	}
	for (int rank = 0; rank < ranks; rank++) {
		int status;
		waitpid(pids[rank], &status, 0);
		if (rank != killed && status)
			worst = 1;
	}
	return worst;
}

#endif
