/* The simulated NCCL, rank by rank in forked processes: right arithmetic, true splits, and waits
 * that end. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <memtrace/together.h>

#include "calls.h"
#include "ranks.h"

static int segments_now(void)
{
	int count = 0;
	DIR *directory = opendir("/dev/shm");
	for (struct dirent *entry; directory && (entry = readdir(directory));)
		count += !strncmp(entry->d_name, "cudasim-", 8);
	if (directory)
		closedir(directory);
	return count;
}

/* Other jobs of this machine have a segment too, but only while their ranks gather: a leak stays.
 */
static int segments(void)
{
	int count = segments_now();
	for (int i = 0; count && i < 200; i++) {
		usleep(20000);
		count = segments_now();
	}
	return count;
}

static int play_reductions(ncclComm_t comm, int rank, int ranks)
{
	float f[3] = { rank + 1.f, -rank, 0.5f };
	WANT(!ncclAllReduce(f, f, 3, FLOAT, SUM, comm, NULL));
	WANT(f[0] == 6 && f[1] == -3 && f[2] == 1.5f);
	int64_t i[2] = { rank, 1ll << (40 + rank) };
	WANT(!ncclAllReduce(i, i, 2, INT64, MAX, comm, NULL));
	WANT(i[0] == 2 && i[1] == 1ll << 42);
	int8_t c[1] = { 100 }; /* 300 wraps to 44 */
	WANT(!ncclAllReduce(c, c, 1, INT8, SUM, comm, NULL) && c[0] == 44);
	double d[1] = { rank + 1 };
	WANT(!ncclAllReduce(d, d, 1, DOUBLE, AVG, comm, NULL) && d[0] == 2);
	/* 1, 2^-24 (the smallest subnormal) and 65504 (the largest), three times: the last is
	 * infinite */
	uint16_t h[3] = { 0x3c00, 0x0001, 0x7bff };
	WANT(!ncclAllReduce(h, h, 3, HALF, SUM, comm, NULL));
	WANT(h[0] == 0x4200 && h[1] == 0x0003 && h[2] == 0x7c00);
	uint16_t b[2] = { 0x3f80, 0xc000 }; /* 1, -2 */
	WANT(!ncclAllReduce(b, b, 2, BFLOAT16, PROD, comm, NULL) && b[0] == 0x3f80 &&
	     b[1] == 0xc100);
	int32_t in[3] = { 10 * rank, 10 * rank + 1, 10 * rank + 2 }, part;
	WANT(!ncclReduceScatter(in, &part, 1, INT32, SUM, comm, NULL) && part == 30 + 3 * rank);
	WANT(!ncclAllGather(&rank, in, 1, INT32, comm, NULL) && in[0] == 0 && in[1] == 1 &&
	     in[2] == 2);
	WANT(!ncclBroadcast(&in[2], &part, 1, INT32, 1, comm, NULL) && part == 2);
	(void)ranks;
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void reductions_are_right(void **state)
{
	(void)state;
	assert_int_equal(run(3, play_reductions, -1), 0);
	assert_int_equal(segments(), 0);
}

/* No rank has these numbers, and no memory so many bytes. */
static int play_wrong_arguments(ncclComm_t comm, int rank, int ranks)
{
	int x[2] = { rank, 7 };
	for (int root = -1; root <= ranks; root += ranks + 1) {
		WANT(ncclBroadcast(x, x, 1, INT32, root, comm, NULL) == INVALID_ARGUMENT);
		WANT(ncclReduce(x, x, 1, INT32, SUM, root, comm, NULL) == INVALID_ARGUMENT);
		WANT(ncclGather(x, x, 1, INT32, root, comm, NULL) == INVALID_ARGUMENT);
		WANT(ncclScatter(x, x, 1, INT32, root, comm, NULL) == INVALID_ARGUMENT);
		WANT(ncclSend(x, 1, INT32, root, comm, NULL) == INVALID_ARGUMENT);
	}
	WANT(!ncclAllReduce(x, x, SIZE_MAX / 4 + 2, INT32, SUM, comm, NULL));
	WANT(!ncclAlltoAll(x, x, SIZE_MAX / 8 + 1, INT32, comm, NULL));
	WANT(x[0] == rank && x[1] == 7);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void wrong_arguments_are_refused(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_wrong_arguments, -1), 0);
}

/* Every rank sends twenty messages, more than a mailbox holds, before anyone has received. */
static int play_ring(ncclComm_t comm, int rank, int ranks)
{
	int out[20], in[20] = { 0 }, own = 5, back = 0;
	WANT(!ncclGroupStart());
	for (int i = 0; i < 20; i++) {
		out[i] = 100 * rank + i;
		WANT(!ncclSend(&out[i], 1, INT32, (rank + 1) % ranks, comm, NULL));
	}
	for (int i = 0; i < 20; i++)
		WANT(!ncclRecv(&in[i], 1, INT32, (rank + ranks - 1) % ranks, comm, NULL));
	WANT(!ncclSend(&own, 1, INT32, rank, comm, NULL) &&
	     !ncclRecv(&back, 1, INT32, rank, comm, NULL));
	WANT(!ncclGroupEnd());
	for (int i = 0; i < 20; i++)
		WANT(in[i] == 100 * ((rank + ranks - 1) % ranks) + i);
	WANT(back == 5);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void sends_cannot_block_one_another(void **state)
{
	(void)state;
	assert_int_equal(run(4, play_ring, -1), 0);
}

/* Colours 0 1 0 -1; the keys turn the order of ranks 0 and 2 around. */
static int play_split(ncclComm_t comm, int rank, int ranks)
{
	static const int colours[] = { 0, 1, 0, -1 }, sizes[] = { 2, 1, 2, 0 },
			 places[] = { 1, 0, 0, 0 };
	ncclComm_t part;
	int count, place, sum = 1;
	(void)ranks;
	WANT(!ncclCommSplit(comm, colours[rank], -rank, &part, NULL));
	if (colours[rank] < 0)
		return part ? __LINE__ : 0;
	WANT(!ncclCommCount(part, &count) && count == sizes[rank]);
	WANT(!ncclCommUserRank(part, &place) && place == places[rank]);
	WANT(!ncclAllReduce(&sum, &sum, 1, INT32, SUM, part, NULL) && sum == sizes[rank]);
	return ncclCommDestroy(part) ? __LINE__ : 0;
}

static void splits_have_their_true_sizes(void **state)
{
	(void)state;
	assert_int_equal(run(4, play_split, -1), 0);
	assert_int_equal(segments(), 0);
}

static int play_death(ncclComm_t comm, int rank, int ranks)
{
	int x = 1;
	(void)ranks;
	if (rank == 1)
		kill(getpid(), SIGKILL);
	return ncclAllReduce(&x, &x, 1, INT32, SUM, comm, NULL) == REMOTE_ERROR ? 0 : __LINE__;
}

static int play_absence(ncclComm_t comm, int rank, int ranks)
{
	int x = 1;
	(void)ranks;
	if (rank == 1) {
		sleep(3);
		return 0;
	}
	return ncclRecv(&x, 1, INT32, 1, comm, NULL) == SYSTEM_ERROR ? 0 : __LINE__;
}

static int play_disagreement(ncclComm_t comm, int rank, int ranks)
{
	int x[2] = { 1, 1 };
	(void)ranks;
	return ncclAllReduce(x, x, rank ? 2 : 1, INT32, SUM, comm, NULL) == INVALID_USAGE
		       ? 0
		       : __LINE__;
}

static void *receive(void *comm)
{
	int x;
	return (void *)(intptr_t)ncclRecv(&x, 1, INT32, 1, comm, NULL);
}

/* A watchdog's way: rank 1 is there and sends nothing, until long after another thread of rank 0
 * gave up. */
static int play_abort(ncclComm_t comm, int rank, int ranks)
{
	pthread_t thread;
	void *result;
	(void)ranks;
	if (rank == 1)
		return usleep(600000) ? __LINE__ : 0;
	WANT(!pthread_create(&thread, NULL, receive, comm));
	usleep(200000);
	WANT(!ncclCommAbort(comm) && !pthread_join(thread, &result));
	return (intptr_t)result == SYSTEM_ERROR ? 0 : __LINE__;
}

static void waits_end(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_abort, -1), 0);
	assert_int_equal(run(2, play_death, 1), 0);
	assert_int_equal(run(2, play_absence, -1), 0);
	assert_int_equal(run(2, play_disagreement, -1), 0);
	assert_int_equal(segments(), 0);
}

/* Only rank 0 of 2 comes: the wait in the beginning ends too, and takes the segment with it. */
static void a_rank_alone_gives_up(void **state)
{
	(void)state;
	ncclUniqueId id;
	ncclComm_t comm;
	assert_int_equal(ncclGetUniqueId(&id), 0);
	assert_int_equal(ncclCommInitRank(&comm, 2, id, 0), SYSTEM_ERROR);
	assert_int_equal(segments(), 0);
}

/* 49 ranks that hold the same: as a factor, 1 / 49 is a little less. */
static void averages_of_whole_numbers_are_whole(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork_job();
	if (!pid) {
		ncclUniqueId id;
		ncclComm_t comm;
		int64_t x = 1;
		setenv("CUDASIM_ALONE", "1", 1);
		end_job(ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 49, id, 0) ||
			ncclAllReduce(&x, &x, 1, INT64, AVG, comm, NULL) || x != 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* More messages in one group than there are ranks of any job. */
static int play_many(ncclComm_t comm, int rank, int ranks)
{
	enum { MANY = 5000 };
	static int out[MANY], in[MANY];
	WANT(!ncclGroupStart());
	for (int i = 0; i < MANY; i++) {
		out[i] = i + rank;
		WANT(!ncclSend(&out[i], 1, INT32, 1 - rank, comm, NULL));
		WANT(!ncclRecv(&in[i], 1, INT32, 1 - rank, comm, NULL));
	}
	WANT(!ncclGroupEnd());
	for (int i = 0; i < MANY; i++)
		WANT(in[i] == i + 1 - rank);
	(void)ranks;
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void a_group_holds_any_number(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_many, -1), 0);
}

/* Is there anything by which the ranks of that communicator meet: a socket, or a file in memory? */
static bool is_met(const ncclUniqueId *id)
{
	char name[40], path[64], line[512];
	bool found = false;
	snprintf(name, sizeof name, "@cudasim-%016llx",
		 (unsigned long long)together_hash(id, sizeof *id));
	snprintf(path, sizeof path, "/dev/shm/%s", name + 1);
	FILE *sockets = fopen("/proc/net/unix", "r");
	while (sockets && fgets(line, sizeof line, sockets))
		found |= strstr(line, name) != NULL;
	if (sockets)
		fclose(sockets);
	return found || !access(path, F_OK);
}

/* No process is left to clean up when all that wait are killed. */
static void killed_ranks_leave_nothing(void **state)
{
	(void)state;
	ncclUniqueId id;
	ncclComm_t comm;
	pid_t pids[2];
	int status;
	assert_int_equal(ncclGetUniqueId(&id), 0);
	setenv("CUDASIM_TIMEOUT", "60", 1);
	for (int rank = 0; rank < 2; rank++)
		if (!(pids[rank] = fork_job()))
			end_job(ncclCommInitRank(&comm, 3, id, rank));
	for (int i = 0; i < 3000 && !is_met(&id); i++)
		usleep(10000);
	assert_true(is_met(&id));
	for (int rank = 0; rank < 2; rank++) {
		kill(pids[rank], SIGKILL);
		waitpid(pids[rank], &status, 0);
		assert_true(WIFSIGNALED(status));
	}
	assert_false(is_met(&id));
	setenv("CUDASIM_TIMEOUT", "1", 1);
}

/* In any order of arrival, all ranks get the same memory. */
static int play_sum(ncclComm_t comm, int rank, int ranks)
{
	int sum = rank;
	WANT(!ncclAllReduce(&sum, &sum, 1, INT32, SUM, comm, NULL));
	return sum == ranks * (ranks - 1) / 2 ? 0 : __LINE__;
}

static void many_ranks_meet(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(run(8, play_sum, -1), 0);
	assert_int_equal(segments(), 0);
}

int main(void)
{
	setenv("CUDASIM_TIMEOUT", "1", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reductions_are_right),
		cmocka_unit_test(wrong_arguments_are_refused),
		cmocka_unit_test(averages_of_whole_numbers_are_whole),
		cmocka_unit_test(sends_cannot_block_one_another),
		cmocka_unit_test(a_group_holds_any_number),
		cmocka_unit_test(splits_have_their_true_sizes),
		cmocka_unit_test(waits_end),
		cmocka_unit_test(a_rank_alone_gives_up),
		cmocka_unit_test(killed_ranks_leave_nothing),
		cmocka_unit_test(many_ranks_meet),
	};
	return cmocka_run_group_tests_name("simulated NCCL", tests, NULL, NULL);
}
