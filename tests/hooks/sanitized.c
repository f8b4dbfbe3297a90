/* A program with a sanitizer: threads, look-ups, libraries that come and go, allocations on the
 * device if there is one. Prints 400 and whether there was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static int (*allocate)(void **p, size_t n);
static int (*release)(void *p);
static atomic_int done;

static void *work(void *unused)
{
	for (int i = 0; i < 100; i++) {
		void *p = malloc(100), *q = NULL;

		if (allocate && (allocate(&q, 1 << 20) || release(q)))
			exit(1);
		if (!dlsym(RTLD_DEFAULT, "strlen") || dlsym(RTLD_DEFAULT, "cuNothing"))
			exit(2);
		free(p);
		done++;
	}
	return unused;
}

int main(void)
{
	pthread_t thread[4];
	void *handle = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

	if (!handle || !dlsym(handle, "cos") || dlclose(handle))
		return 3;
	allocate = (int (*)(void **, size_t))dlsym(RTLD_DEFAULT, "cudaMalloc");
	release = (int (*)(void *))dlsym(RTLD_DEFAULT, "cudaFree");
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	printf("%d %d\n", done, allocate != NULL);
	return 0;
}
