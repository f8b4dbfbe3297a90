/* ns of one look-up by dlsym, and of one cudaMalloc with its cudaFree: as they are found in this
 * process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
	int (*allocate)(void **, size_t), (*release)(void *);
	const int looks = 300000, pairs = 20000;
	double start = now();
	void *p = NULL;

	for (int i = 0; i < looks; i++)
		p = dlsym(RTLD_DEFAULT, "getpid");
	printf("%.1f ", (now() - start) / looks);
	*(void **)&allocate = dlsym(RTLD_DEFAULT, "cudaMalloc");
	*(void **)&release = dlsym(RTLD_DEFAULT, "cudaFree");
	if (!p || !allocate || !release)
		return 1;
	start = now();
	for (int i = 0; i < pairs; i++)
		if (allocate(&p, 4u << 20) || release(p))
			return 1;
	printf("%.1f\n", (now() - start) / pairs / 2);
	return 0;
}
