/* One rank of a world that does not run otherwise: its communicators have their true sizes, and its
 * peers answer as one that holds the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "calls.h"

enum {
	COLOUR_ALL = 1584342217,
	COLOUR_BLOCK = 948820678,
	COLOUR_STRIDED = 1865766702,
	COLOUR_GRID = 159459957
};

static ncclComm_t world(int ranks, int rank)
{
	ncclUniqueId id = { { 1 } };
	ncclComm_t comm;
	int count, place;
	assert_int_equal(ncclCommInitRank(&comm, ranks, id, rank), 0);
	assert_int_equal(ncclCommCount(comm, &count), 0);
	assert_int_equal(ncclCommUserRank(comm, &place), 0);
	assert_int_equal(count, ranks);
	assert_int_equal(place, rank);
	return comm;
}

static void a_rank_has_a_world_to_itself(void **state)
{
	(void)state;
	ncclComm_t comm = world(4096, 4095);
	int one = 3, all[4096];
	double mean = 2.5;
	assert_int_equal(ncclAllGather(&one, all, 1, INT32, comm, NULL), 0);
	assert_int_equal(all[0], 3);
	assert_int_equal(all[4095], 3);
	assert_int_equal(ncclAllReduce(&one, &one, 1, INT32, SUM, comm, NULL), 0);
	assert_int_equal(one, 3 * 4096);
	assert_int_equal(ncclAllReduce(&mean, &mean, 1, DOUBLE, AVG, comm, NULL), 0);
	assert_true(mean == 2.5);
	assert_int_equal(ncclCommDestroy(comm), 0);
}

/* A root that does not run has this rank's input; in place, nothing changes. */
static void an_absent_root_holds_the_same(void **state)
{
	(void)state;
	ncclComm_t comm = world(8, 3);
	int64_t in = 7, out = 0;
	assert_int_equal(ncclBroadcast(&in, &out, 1, INT64, 0, comm, NULL), 0);
	assert_int_equal(out, 7);
	assert_int_equal(ncclBroadcast(&in, &in, 1, INT64, 0, comm, NULL), 0);
	assert_int_equal(in, 7);
	assert_int_equal(ncclBroadcast(NULL, &out, 1, INT64, 0, comm, NULL), 0);
	assert_int_equal(out, 7);
	assert_int_equal(ncclCommDestroy(comm), 0);
}

/* PyTorch's all_gather into a list: a group of broadcasts, one root a rank, each in place but the
 * rank's own. */
static void a_list_is_gathered(void **state)
{
	(void)state;
	ncclComm_t comm = world(4, 2);
	int64_t in = 27, out[4] = { 0 };
	assert_int_equal(ncclGroupStart(), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			ncclBroadcast(i == 2 ? &in : &out[i], &out[i], 1, INT64, i, comm, NULL), 0);
	assert_int_equal(ncclGroupEnd(), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(out[i], 27);
	assert_int_equal(ncclCommDestroy(comm), 0);
}

/* The data that comes back from an all-to-all adds up to the data that was sent. */
static void counts_stay_balanced(void **state)
{
	(void)state;
	ncclComm_t comm = world(4, 1);
	int64_t sent[4] = { 10, 20, 30, 40 }, got[4] = { 0 };
	assert_int_equal(ncclAlltoAll(sent, got, 1, INT64, comm, NULL), 0);
	assert_memory_equal(sent, got, sizeof sent);
	assert_int_equal(ncclCommDestroy(comm), 0);
}

static void sends_and_receives_return(void **state)
{
	(void)state;
	ncclComm_t comm = world(4, 1);
	int out[2] = { 5, 6 }, in[2] = { 0 }, kept = 9;
	assert_int_equal(ncclGroupStart(), 0);
	assert_int_equal(ncclRecv(&in[0], 1, INT32, 0, comm, NULL), 0);
	assert_int_equal(ncclRecv(&in[1], 1, INT32, 2, comm, NULL), 0);
	assert_int_equal(ncclSend(&out[0], 1, INT32, 0, comm, NULL), 0);
	assert_int_equal(ncclSend(&out[1], 1, INT32, 2, comm, NULL), 0);
	assert_int_equal(ncclGroupEnd(), 0);
	assert_memory_equal(in, out, sizeof in);
	assert_int_equal(ncclRecv(&kept, 1, INT32, 0, comm, NULL), 0);
	assert_int_equal(kept, 9);
	assert_int_equal(ncclCommDestroy(comm), 0);
}

static int split(ncclComm_t comm, int colour, int key)
{
	ncclComm_t part;
	int count, place;
	assert_int_equal(ncclCommSplit(comm, colour, key, &part, NULL), 0);
	assert_int_equal(ncclCommCount(part, &count), 0);
	assert_int_equal(ncclCommUserRank(part, &place), 0);
	assert_int_equal(place, key);
	assert_int_equal(ncclCommDestroy(part), 0);
	return count;
}

/* The colours are abs(hash(tuple(ranks))) % 2**31 as CPython 3.11 prints it. */
static void splits_have_their_true_sizes(void **state)
{
	(void)state;
	ncclComm_t comm = world(512, 413), none;
	assert_int_equal(split(comm, COLOUR_ALL, 413), 512);
	assert_int_equal(split(comm, COLOUR_BLOCK, 5), 8); /* 408 ... 415 */
	assert_int_equal(ncclCommDestroy(comm), 0);
	comm = world(512, 39);
	assert_int_equal(split(comm, COLOUR_STRIDED, 1), 16); /* 7, 39, 71 ... 487 */
	assert_int_equal(ncclCommSplit(comm, -1, 0, &none, NULL), 0);
	assert_null(none);
	assert_int_equal(ncclCommDestroy(comm), 0);
	comm = world(512, 149);
	assert_int_equal(split(comm, COLOUR_GRID, 6), 16); /* 5 + 8i + 128j, i and j below 4 */
	assert_int_equal(split(comm, 12345, 6), 512);      /* no list: said, and taken to be all */
	assert_int_equal(ncclCommDestroy(comm), 0);
}

int main(void)
{
	setenv("CUDASIM_ALONE", "1", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_has_a_world_to_itself),
		cmocka_unit_test(an_absent_root_holds_the_same),
		cmocka_unit_test(a_list_is_gathered),
		cmocka_unit_test(counts_stay_balanced),
		cmocka_unit_test(sends_and_receives_return),
		cmocka_unit_test(splits_have_their_true_sizes),
	};
	return cmocka_run_group_tests_name("played peers", tests, NULL, NULL);
}
