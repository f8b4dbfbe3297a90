/* NCCL's own device memory: taken with the communicator and at the first use of each kind, as
 * measured on eight H100s (NVIDIA/nccl, issue 1685; modded-nanogpt's logs), and given back with the
 * communicator, but for its kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "calls.h"

#define MIB(n) ((size_t)(n) << 20)

int cudaMemGetInfo(size_t *available, size_t *total);

static size_t left(void)
{
	size_t available, total;
	assert_int_equal(cudaMemGetInfo(&available, &total), 0);
	return available;
}

static ncclComm_t world(int ranks)
{
	ncclUniqueId id = { { 1 } };
	ncclComm_t comm;
	assert_int_equal(ncclCommInitRank(&comm, ranks, id, 0), 0);
	return comm;
}

static void use(ncclComm_t comm)
{
	int one = 1;
	assert_int_equal(ncclAllReduce(&one, &one, 1, INT32, SUM, comm, NULL), 0);
}

/* NCCL's kernels stay in the process once a communicator of several ranks was made. */
static int load_kernels(void **state)
{
	(void)state;
	return ncclCommDestroy(world(8));
}

enum { CHANNELS = 32 * 3 * 2 + 2 * 2, NVLS = 25 * 2, RING = 24 * 12 };

/* 32 channels with three blocks of 2 MiB and the communicator's two; NVLS another block for each of
 * 24 channels. */
static void a_communicator_has_state(void **state)
{
	(void)state;
	size_t before = left();
	ncclComm_t comm = world(8);
	assert_int_equal(before - left(), MIB(CHANNELS + NVLS));
	assert_int_equal(ncclCommDestroy(comm), 0);
	comm = world(2);
	assert_int_equal(before - left(), MIB(CHANNELS));
	assert_int_equal(ncclCommDestroy(comm), 0);
	assert_int_equal(left(), before);
}

/* One rank has all 64 channels: with its kernels 1183 - 618 - 2 = 563 MiB were measured. */
static void one_rank_has_more_channels(void **state)
{
	(void)state;
	size_t before = left();
	ncclComm_t comm = world(1);
	assert_int_equal(before - left(), MIB(64 * 3 * 2 + 2 * 2));
	use(comm);
	assert_int_equal(before - left(), MIB(64 * 3 * 2 + 2 * 2));
	assert_int_equal(ncclCommDestroy(comm), 0);
	assert_int_equal(left(), before);
}

/* nvidia-smi after a barrier of eight H100s, NCCL 2.27 and 2.28: 1513 to 1521 MiB on each with
 * PyTorch's segment of 2 MiB. */
static void eight_ranks_take_what_was_measured(void **state)
{
	(void)state;
	size_t available, total;
	ncclComm_t comm = world(8);
	use(comm);
	assert_int_equal(cudaMemGetInfo(&available, &total), 0);
	assert_in_range(total - available + MIB(2), MIB(1506), MIB(1528));
	assert_int_equal(ncclCommDestroy(comm), 0);
}

/* 24 channels with a receiver's 10 MiB and a sender's 2 MiB; NVLS 32 MiB a rank of three or more,
 * not for few bytes. */
static void the_first_collective_takes_its_buffers(void **state)
{
	(void)state;
	static int million[1 << 20];
	ncclComm_t comm = world(8);
	size_t before = left();
	use(comm);
	assert_int_equal(before - left(), MIB(RING));
	assert_int_equal(ncclAllReduce(million, million, 1 << 20, INT32, SUM, comm, NULL), 0);
	assert_int_equal(before - left(), MIB(RING + 8 * 32));
	use(comm);
	assert_int_equal(before - left(), MIB(RING + 8 * 32));
	assert_int_equal(ncclCommDestroy(comm), 0);
	comm = world(2);
	before = left();
	assert_int_equal(ncclAllReduce(million, million, 1 << 20, INT32, SUM, comm, NULL), 0);
	assert_int_equal(before - left(), MIB(RING));
	assert_int_equal(ncclCommDestroy(comm), 0);
}

/* Seven peers, 32 channels to and from each: 2.6 GiB; 4.34 - 1.06 GB were measured. */
static void each_peer_takes_its_buffers(void **state)
{
	(void)state;
	ncclComm_t comm = world(8);
	size_t before = left();
	int out[8] = { 0 }, in[8];
	assert_int_equal(ncclSend(out, 1, INT32, 3, comm, NULL), 0);
	assert_int_equal(before - left(), MIB(32 * 2));
	assert_int_equal(ncclRecv(in, 1, INT32, 3, comm, NULL), 0);
	assert_int_equal(before - left(), MIB(32 * 12));
	assert_int_equal(ncclAlltoAll(out, in, 1, INT32, comm, NULL), 0);
	assert_int_equal(before - left(), MIB(7 * 32 * 12));
	assert_true(before - left() > 0.8 * 3.28e9 && before - left() < 3.28e9);
	assert_int_equal(ncclCommDestroy(comm), 0);
}

/* Between nodes all peers share 64 MiB each way. */
static void nodes_share_buffers(void **state)
{
	(void)state;
	ncclComm_t comm = world(512);
	size_t before = left();
	int out[512] = { 0 }, in[512];
	use(comm);
	assert_int_equal(before - left(), MIB(RING));
	assert_int_equal(ncclAlltoAll(out, in, 1, INT32, comm, NULL), 0);
	assert_int_equal(before - left(), MIB(RING + 2 * 64));
	assert_int_equal(ncclCommDestroy(comm), 0);
}

static void no_room_is_said(void **state)
{
	(void)state;
	ncclComm_t comms[300];
	int one = 1, made = 0, error = 0;
	size_t before = left();
	while (!error && made < 300) {
		ncclUniqueId id = { { 1 } };
		error = ncclCommInitRank(&comms[made], 2, id, 0);
		if (!error)
			error = ncclAllReduce(&one, &one, 1, INT32, SUM, comms[made++], NULL);
	}
	assert_int_equal(error, 1); /* unhandled CUDA error */
	assert_int_equal(made, before / MIB(CHANNELS + RING) +
				       (before % MIB(CHANNELS + RING) >= MIB(CHANNELS)));
	while (made)
		assert_int_equal(ncclCommDestroy(comms[--made]), 0);
	assert_int_equal(left(), before);
}

int main(void)
{
	setenv("CUDASIM_ALONE", "1", 1);
	setenv("CUDASIM_GPUS", "8", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_communicator_has_state),
		cmocka_unit_test(one_rank_has_more_channels),
		cmocka_unit_test(eight_ranks_take_what_was_measured),
		cmocka_unit_test(the_first_collective_takes_its_buffers),
		cmocka_unit_test(each_peer_takes_its_buffers),
		cmocka_unit_test(nodes_share_buffers),
		cmocka_unit_test(no_room_is_said),
	};
	return cmocka_run_group_tests_name("NCCL's memory", tests, load_kernels, NULL);
}
