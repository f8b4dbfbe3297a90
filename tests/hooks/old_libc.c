/*
 * Runs in roots with an old C library (test_old_glibc.py). As a program: THREADS threads (0: none
 * are made, and the program is linked with neither libpthread nor libdl) allocate ROUNDS blocks of
 * 2 MiB each and free them. -DDRIVER: the two functions of a driver that hands out addresses, for
 * the program without libpthread.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK (2u << 20)

#ifdef DRIVER
__attribute__((visibility("default"))) int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	static uint64_t next = 1ull << 40;

	*address = next;
	next += bytes;
	return 0;
}

__attribute__((visibility("default"))) int cuMemFree_v2(uint64_t address)
{
	return address ? 0 : 1;
}
#else
static int rounds;

static void allocate(int (*take)(uint64_t *, size_t), int (*give_back)(uint64_t))
{
	uint64_t block;

	for (int i = 0; i < rounds; i++)
		if (take(&block, BLOCK) || give_back(block))
			exit(5);
}

#if THREADS
#include <dlfcn.h>
#include <pthread.h>

static void *driver;

static void *function(const char *name)
{
	void *f = dlsym(driver, name);

	if (!f)
		exit(3);
	return f;
}

static void *work(void *context)
{
	int (*set)(void *) = (int (*)(void *))function("cuCtxSetCurrent");

	if (set(context))
		exit(4);
	allocate((int (*)(uint64_t *, size_t))function("cuMemAlloc_v2"),
		 (int (*)(uint64_t))function("cuMemFree_v2"));
	return NULL;
}

static void run(void)
{
	pthread_t thread[THREADS];
	int (*init)(unsigned), (*retain)(void **, int);
	void *context;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		exit(2);
	init = (int (*)(unsigned))function("cuInit");
	retain = (int (*)(void **, int))function("cuDevicePrimaryCtxRetain");
	if (init(0) || retain(&context, 0))
		exit(4);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, context))
			exit(6);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}
#else
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemFree_v2(uint64_t address);

static void run(void)
{
	allocate(cuMemAlloc_v2, cuMemFree_v2);
}
#endif

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : 1;
	run();
	puts("done");
	return 0;
}
#endif
