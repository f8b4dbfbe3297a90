/* Ranks 1 and 4 of 8 run, the others are emulated: real data between the two, and both see the
 * same of the absent ones, for which the two take turns: 1 for 0, 3 and 6; 4 for 2, 5 and 7. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls.h"
#include "forks.h"

#include <memtrace/together.h>

enum { WORLD = 8, FIRST = 1, SECOND = 4, STRIDED = 1865766702 };
static const int holder[WORLD] = { 1, 1, 4, 1, 4, 4, 1, 4 };
static struct together *board;
static int file;

#define WANT(condition)                  \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)
typedef int (*role)(ncclComm_t comm, int rank);

static int write_group(const ncclUniqueId *id, int first, int second)
{
	uint32_t row = atomic_load(&board->groups);
	board->group[row] =
		(struct together_group){ together_hash(id, sizeof *id), 2, { first, second } };
	atomic_store(&board->groups, row + 1);
	return 0;
}

/* As in `memtrace simulate`: a board, and a row of it for each rank. */
static int start(int row, int world, int rank, ncclUniqueId id, role play)
{
	char place[64];
	ncclComm_t comm;
	snprintf(place, sizeof place, "/proc/%d/fd/%d:%d", (int)getppid(), file, row);
	setenv("CUDASIM_TOGETHER", place, 1);
	int wrong = ncclCommInitRank(&comm, world, id, rank) ? __LINE__ : play(comm, rank);
	if (wrong)
		fprintf(stderr, "rank %d: line %d\n", rank, wrong);
	return wrong ? 1 : 0;
}

static int run_ranks(int world, int first, int second, role play)
{
	ncclUniqueId id;
	int ranks[2] = { first, second }, bad = 0;
	pid_t pids[2];
	assert_int_equal(ncclGetUniqueId(&id), 0);
	write_group(&id, first, second);
	for (int i = 0; i < 2; i++)
		if (!(pids[i] = fork_job()))
			end_job(start(i, world, ranks[i], id, play));
	for (int i = 0, status; i < 2; i++)
		bad |= waitpid(pids[i], &status, 0) != pids[i] || status;
	return bad;
}

static int run(role play)
{
	return run_ranks(WORLD, FIRST, SECOND, play);
}

static int play_collectives(ncclComm_t comm, int rank)
{
	int all[WORLD], own = 10 * rank, sum = rank + 1, to[WORLD], from[WORLD];
	WANT(!ncclAllGather(&own, all, 1, INT32, comm, NULL));
	for (int i = 0; i < WORLD; i++)
		WANT(all[i] == 10 * holder[i]);
	WANT(!ncclAllReduce(&sum, &sum, 1, INT32, SUM, comm, NULL) && sum == 4 * 2 + 4 * 5);
	for (int i = 0; i < WORLD; i++)
		to[i] = 100 * rank + i;
	WANT(!ncclReduceScatter(to, &own, 1, INT32, SUM, comm, NULL) &&
	     own == 4 * 100 + 4 * 400 + 8 * rank);
	/* Of a rank that runs, the data that it sent here; of an absent one, the data that was
	 * sent there. */
	WANT(!ncclAlltoAll(to, from, 1, INT32, comm, NULL));
	for (int i = 0; i < WORLD; i++)
		WANT(from[i] == (i == FIRST || i == SECOND ? 100 * i + rank : 100 * rank + i));
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static int play_broadcasts(ncclComm_t comm, int rank)
{
	int value = 7 * rank, in = 11 * rank, out[WORLD] = { 0 };
	WANT(!ncclBroadcast(&value, &value, 1, INT32, SECOND, comm, NULL) && value == 7 * SECOND);
	value = 7 * rank; /* 2 does not run: 4 stands for it */
	WANT(!ncclBroadcast(&value, &value, 1, INT32, 2, comm, NULL) && value == 7 * SECOND);
	WANT(!ncclGroupStart());
	for (int i = 0; i < WORLD; i++)
		WANT(!ncclBroadcast(i == rank ? &in : &out[i], &out[i], 1, INT32, i, comm, NULL));
	WANT(!ncclGroupEnd());
	for (int i = 0; i < WORLD; i++)
		WANT(out[i] == 11 * holder[i]);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

/* A pipeline's exchange: with the one that runs, and with an absent one in the same group. */
static int play_messages(ncclComm_t comm, int rank)
{
	int peer = rank == FIRST ? SECOND : FIRST, out = 3 * rank, in = 0, other = 5 * rank,
	    back = 0, kept = 9;
	WANT(!ncclGroupStart());
	WANT(!ncclRecv(&in, 1, INT32, peer, comm, NULL) &&
	     !ncclRecv(&back, 1, INT32, 0, comm, NULL));
	WANT(!ncclSend(&other, 1, INT32, 0, comm, NULL) &&
	     !ncclSend(&out, 1, INT32, peer, comm, NULL));
	WANT(!ncclGroupEnd());
	WANT(in == 3 * peer && back == 5 * rank);
	WANT(!ncclRecv(&kept, 1, INT32, 7, comm, NULL) && kept == 9);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static int play_disagreement(ncclComm_t comm, int rank)
{
	int x[2] = { 1, 1 };
	return ncclAllReduce(x, x, rank == FIRST ? 1 : 2, INT32, SUM, comm, NULL) == INVALID_USAGE
		       ? 0
		       : __LINE__;
}

static void data_travels_between_those_that_run(void **state)
{
	(void)state;
	assert_int_equal(run(play_collectives), 0);
	assert_int_equal(run(play_broadcasts), 0);
	assert_int_equal(run(play_messages), 0);
	assert_int_equal(run(play_disagreement), 0);
}

/* 7, 39, 71 ... 487 of 512: its first two run. */
static int play_split(ncclComm_t comm, int rank)
{
	ncclComm_t part;
	int count, place, sum = rank;
	WANT(!ncclCommSplit(comm, STRIDED, rank == 39, &part, NULL));
	WANT(!ncclCommCount(part, &count) && count == 16);
	WANT(!ncclCommUserRank(part, &place) && place == (rank == 39));
	WANT(!ncclAllReduce(&sum, &sum, 1, INT32, SUM, part, NULL) && sum == 8 * 7 + 8 * 39);
	return ncclCommDestroy(part) || ncclCommDestroy(comm) ? __LINE__ : 0;
}

/* Equal keys, and keys that are nobody's place: the order is the parent's. */
static int play_equal_keys(ncclComm_t comm, int rank)
{
	ncclComm_t part;
	static const int keys[] = { 0, 100, -3 };
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		int count, place, sum = rank;
		WANT(!ncclCommSplit(comm, 0, keys[i], &part, NULL));
		WANT(!ncclCommCount(part, &count) && count == WORLD);
		WANT(!ncclCommUserRank(part, &place) && place == rank);
		WANT(!ncclAllReduce(&sum, &sum, 1, INT32, SUM, part, NULL) &&
		     sum == 4 * FIRST + 4 * SECOND);
		WANT(!ncclCommDestroy(part));
	}
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

/* Each is by itself among ranks that do not run. */
static int play_apart(ncclComm_t comm, int rank)
{
	ncclComm_t part;
	int sum = 1;
	WANT(!ncclCommSplit(comm, rank == 7 ? STRIDED : -1, 0, &part, NULL));
	WANT(rank == 7 || !part);
	if (part)
		WANT(!ncclAllReduce(&sum, &sum, 1, INT32, SUM, part, NULL) && sum == 16);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void splits_keep_those_that_run(void **state)
{
	(void)state;
	assert_int_equal(run_ranks(512, 7, 39, play_split), 0);
	assert_int_equal(run_ranks(512, 7, 39, play_apart), 0);
	assert_int_equal(run(play_equal_keys), 0);
}

static int play_absence(ncclComm_t comm, int rank)
{
	int x = 1;
	if (rank == FIRST)
		return ncclAllReduce(&x, &x, 1, INT32, SUM, comm, NULL) == SYSTEM_ERROR ? 0
											: __LINE__;
	/* The first waits, says so, and looks again. */
	for (int i = 0; i < 100 && !atomic_load(&board->rank[0].waits); i++)
		usleep(10000);
	uint64_t turns = atomic_load(&board->rank[0].turns);
	usleep(100000);
	WANT(atomic_load(&board->rank[0].waits) == 1 && atomic_load(&board->rank[0].turns) > turns);
	WANT(!atomic_load(&board->rank[1].waits));
	sleep(2);
	WANT(!atomic_load(&board->rank[0].waits));
	return 0;
}

static int play_nothing(ncclComm_t comm, int rank)
{
	(void)comm, (void)rank;
	return 0;
}

static void waits_are_told_and_end(void **state)
{
	ncclUniqueId unknown = { { 1 } };
	int status;
	(void)state;
	assert_int_equal(run(play_absence), 0);
	/* An id that never came through the store: said after the time limit. */
	pid_t pid = fork_job();
	if (!pid)
		end_job(start(0, WORLD, FIRST, unknown, play_nothing));
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
	setenv("CUDASIM_TIMEOUT", "1", 1);
	file = memfd_create("board", 0);
	if (file < 0 || ftruncate(file, sizeof *board))
		return 1;
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (board == MAP_FAILED)
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_travels_between_those_that_run),
		cmocka_unit_test(splits_keep_those_that_run),
		cmocka_unit_test(waits_are_told_and_end),
	};
	return cmocka_run_group_tests_name("ranks that run together", tests, NULL, NULL);
}
