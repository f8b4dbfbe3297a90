/* The simulated NCCL beside its arithmetic: one call each, with the data that NCCL's documentation
 * says each rank gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#include "ranks.h"

#define MIB ((size_t)1 << 20)
enum { CUDA_ERROR = 1, INTERNAL_ERROR = 3 };

int ncclBcast(void *data, size_t count, int type, int root, ncclComm_t comm, void *stream);
int ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, void *config);
int ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int ids, ncclUniqueId *id,
			     void *config);
int ncclCommInitAll(ncclComm_t *comms, int devices, const int *list);
int ncclCommFinalize(ncclComm_t comm);
int ncclCommCuDevice(ncclComm_t comm, int *device);
int ncclCommMemStats(ncclComm_t comm, int stat, uint64_t *out);
int ncclCommGetAsyncError(ncclComm_t comm, int *error);
int ncclCommRegister(ncclComm_t comm, void *buffer, size_t bytes, void **handle);
int ncclCommDeregister(ncclComm_t comm, void *handle);
int ncclMemAlloc(void **pointer, size_t bytes);
int ncclMemFree(void *pointer);
const char *ncclGetErrorString(int error);
const char *ncclGetLastError(ncclComm_t comm);

/* Three ranks; rank r has 10 r, 10 r + 1, 10 r + 2. */
static int play_collectives(ncclComm_t comm, int rank, int ranks)
{
	int32_t own[3] = { 10 * rank, 10 * rank + 1, 10 * rank + 2 }, all[3] = { -1, -1, -1 };
	(void)ranks;
	WANT(!ncclGather(own, all, 1, INT32, 1, comm, NULL));
	WANT(rank == 1 ? all[0] == 0 && all[1] == 10 && all[2] == 20 : all[0] == -1);
	all[0] = -1;
	WANT(!ncclScatter(own, all, 1, INT32, 2, comm, NULL) && all[0] == 20 + rank);
	WANT(!ncclAlltoAll(own, all, 1, INT32, comm, NULL));
	WANT(all[0] == rank && all[1] == 10 + rank && all[2] == 20 + rank);
	all[0] = -1;
	WANT(!ncclReduce(own, all, 1, INT32, SUM, 0, comm, NULL) && all[0] == (rank ? -1 : 30));
	all[0] = rank;
	WANT(!ncclBcast(all, 1, INT32, 2, comm, NULL) && all[0] == 2);
	WANT(!ncclGroupStart());
	WANT(!ncclBroadcast(own, all, 2, INT32, 1, comm, NULL));
	WANT(!ncclBroadcast(own, all + 2, 1, INT32, 0, comm, NULL));
	WANT(!ncclGroupEnd());
	WANT(all[0] == 10 && all[1] == 11 && all[2] == 0);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void every_rank_gets_its_data(void **state)
{
	(void)state;
	assert_int_equal(run(3, play_collectives, -1), 0);
}

/* Pickled objects: 300,000 bytes from rank 0 to rank 1, in several pieces. */
static int play_large(ncclComm_t comm, int rank, int ranks)
{
	enum { MANY = 300000 };
	static uint8_t bytes[MANY];
	(void)ranks;
	for (int i = 0; !rank && i < MANY; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	WANT(!ncclBroadcast(bytes, bytes, MANY, UINT8, 0, comm, NULL));
	for (int i = 0; i < MANY; i++)
		WANT(bytes[i] == (uint8_t)(i * 7 + i / 256));
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void large_broadcasts_stay_in_order(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_large, -1), 0);
}

static void a_communicator_of_one_answers(void **state)
{
	ncclComm_t comm, pair[2] = { NULL, NULL };
	ncclUniqueId id;
	int number = 9;
	uint64_t bytes = 9;
	float x = 3;
	void *handle = NULL;

	(void)state;
	assert_int_equal(ncclCommInitAll(&comm, 1, NULL), 0);
	assert_true(!ncclCommCount(comm, &number) && number == 1);
	assert_true(!ncclCommUserRank(comm, &number) && number == 0);
	number = 9;
	assert_true(!ncclCommCuDevice(comm, &number) && number == 0);
	assert_true(!ncclCommGetAsyncError(comm, &number) && number == 0);
	assert_string_equal(ncclGetLastError(comm), "");
	for (int operation = SUM; operation <= AVG; operation++)
		assert_true(!ncclAllReduce(&x, &x, 1, FLOAT, operation, comm, NULL) && x == 3);
	assert_true(!ncclCommRegister(comm, &x, sizeof x, &handle) && handle);
	assert_int_equal(ncclCommDeregister(comm, handle), 0);
	assert_true(!ncclCommMemStats(comm, 0, &bytes) && bytes == 0); /* suspended */
	assert_int_equal(ncclCommMemStats(comm, 3, &bytes), 0);
	assert_int_equal(ncclCommMemStats(comm, 4, &bytes), INVALID_ARGUMENT);
	assert_int_equal(ncclCommMemStats(comm, -1, &bytes), INVALID_ARGUMENT);
	assert_int_equal(ncclCommMemStats(NULL, 0, &bytes), INVALID_ARGUMENT);
	assert_int_equal(ncclCommFinalize(comm), 0);
	assert_int_equal(ncclCommFinalize(NULL), INVALID_ARGUMENT);
	assert_int_equal(ncclCommDestroy(comm), 0);
	assert_int_equal(ncclCommDestroy(NULL), 0);
	assert_int_equal(ncclGetUniqueId(&id), 0);
	assert_int_equal(ncclCommInitRankConfig(&comm, 1, id, 0, NULL), 0);
	assert_int_equal(ncclCommDestroy(comm), 0);
	assert_int_equal(ncclGetUniqueId(&id), 0);
	assert_int_equal(ncclCommInitRankScalable(&comm, 1, 0, 1, &id, NULL), 0);
	assert_int_equal(ncclCommAbort(comm), 0);
	assert_int_equal(ncclCommInitRank(&comm, 2, id, 2), INVALID_ARGUMENT);
	assert_int_equal(ncclCommInitRank(&comm, 2, id, -1), INVALID_ARGUMENT);
	assert_int_equal(ncclCommInitRank(&comm, 0, id, 0), INVALID_ARGUMENT);
	assert_null(comm);
	assert_int_equal(ncclCommInitAll(pair, 2, NULL), INVALID_USAGE);
}

static void nothing_is_done_without_a_communicator(void **state)
{
	float x = 3;

	(void)state;
	assert_int_equal(ncclAllReduce(&x, &x, 1, FLOAT, SUM, NULL, NULL), INVALID_ARGUMENT);
	assert_int_equal(ncclAllGather(&x, &x, 1, FLOAT, NULL, NULL), INVALID_ARGUMENT);
	assert_int_equal(ncclReduceScatter(&x, &x, 1, FLOAT, SUM, NULL, NULL), INVALID_ARGUMENT);
	assert_int_equal(ncclAlltoAll(&x, &x, 1, FLOAT, NULL, NULL), INVALID_ARGUMENT);
	assert_int_equal(ncclSend(&x, 1, FLOAT, 0, NULL, NULL), INVALID_ARGUMENT);
	assert_int_equal(ncclRecv(&x, 1, FLOAT, 0, NULL, NULL), INVALID_ARGUMENT);
	assert_true(x == 3);
}

static size_t free_bytes(void)
{
	size_t available, total;
	assert_int_equal(cudaMemGetInfo(&available, &total), cudaSuccess);
	return available;
}

/* Buffers of NCCL are memory of the device, in granules. */
static void buffers_are_memory_of_the_device(void **state)
{
	void *p = NULL, *q = NULL;

	(void)state;
	assert_int_equal(cudaFree(NULL), cudaSuccess); /* makes the context */
	const size_t before = free_bytes();
	assert_int_equal(ncclMemAlloc(&p, 3 * MIB), 0);
	assert_int_equal(free_bytes(), before - 4 * MIB);
	assert_int_equal(ncclMemAlloc(&q, before + 1), CUDA_ERROR);
	assert_int_equal(ncclMemFree(p), 0);
	assert_int_equal(free_bytes(), before);
	assert_int_equal(ncclMemFree(p), INVALID_ARGUMENT);
	assert_int_equal(ncclMemFree(NULL), 0);
}

static void errors_have_texts(void **state)
{
	(void)state;
	assert_string_equal(ncclGetErrorString(0), "no error");
	assert_non_null(strstr(ncclGetErrorString(CUDA_ERROR), "unhandled cuda error"));
	assert_non_null(strstr(ncclGetErrorString(SYSTEM_ERROR), "unhandled system error"));
	assert_non_null(strstr(ncclGetErrorString(INTERNAL_ERROR), "internal error"));
	assert_string_equal(ncclGetErrorString(INVALID_ARGUMENT), "invalid argument");
	assert_non_null(strstr(ncclGetErrorString(INVALID_USAGE), "invalid usage"));
	assert_string_equal(ncclGetErrorString(REMOTE_ERROR),
			    "remote process exited or there was a network error");
	assert_string_equal(ncclGetErrorString(99), "unknown result code");
}

int main(void)
{
	setenv("CUDASIM_TIMEOUT", "5", 1);
	setenv("CUDASIM_NCCL_VERSION", "22900", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rank_gets_its_data),
		cmocka_unit_test(large_broadcasts_stay_in_order),
		cmocka_unit_test(buffers_are_memory_of_the_device),
		cmocka_unit_test(a_communicator_of_one_answers),
		cmocka_unit_test(nothing_is_done_without_a_communicator),
		cmocka_unit_test(errors_have_texts),
	};
	return cmocka_run_group_tests_name("simulated NCCL, call by call", tests, NULL, NULL);
}
