/*
 * 8 threads with a pool each let it grow and shrink, then all at once take 33 MiB, for which a pool
 * holds 64 MiB. Prints the level that must be the last one.
 */
#define _GNU_SOURCE
#include "expect.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 40 };

static pthread_barrier_t together;

static void *work(void *unused)
{
	CUmemPoolProps where = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool;
	CUdeviceptr p;

	check("cuMemPoolCreate", (int)cuMemPoolCreate(&pool, &where), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&together);
		check("cuMemAllocFromPoolAsync",
		      (int)cuMemAllocFromPoolAsync(&p, 33 * MiB, pool, NULL), 0);
		pthread_barrier_wait(&together);
		if (i + 1 == ROUNDS)
			break;
		check("cuMemFreeAsync", (int)cuMemFreeAsync(p, NULL), 0);
		check("cuMemPoolTrimTo", (int)cuMemPoolTrimTo(pool, 0), 0);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	check("cuInit", (int)cuInit(0), 0);
	check("cudaFree", (int)cudaFree(NULL), 0);
	pthread_barrier_init(&together, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	level("POOL_RESERVED", THREADS * 64 * MiB, 0);
	return failed;
}
