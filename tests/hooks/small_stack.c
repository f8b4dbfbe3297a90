/*
 * The process's first GPU allocation is made on a thread whose stack has as many bytes as the
 * argument says. Then its group is set, to what it is: the C library has every thread of the
 * process do that, by a signal, and waits for each.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static CUcontext context;

static void *work(void *unused)
{
	CUdeviceptr block;

	(void)unused;
	if (cuCtxSetCurrent(context) || cuMemAlloc(&block, 1 << 20) || cuMemFree(block))
		exit(5);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (argc < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
		return 3;
	pthread_attr_init(&attributes);
	if (pthread_attr_setstacksize(&attributes, (size_t)atol(argv[1])) ||
	    pthread_create(&thread, &attributes, work, NULL))
		return 4;
	pthread_join(thread, NULL);
	alarm(20);
	if (setgid(getgid()))
		return 6;
	puts("done");
	return 0;
}
