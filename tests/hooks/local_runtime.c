/*
 * Three things in one file, by what is defined: RUNTIME, a runtime of its own (libcudart.so.13)
 * that hands out addresses; PLUGIN, a library that is linked with it; otherwise a program that
 * loads the plugin RTLD_LOCAL, as Python loads its extensions: the runtime is then in no scope that
 * RTLD_DEFAULT or RTLD_NEXT sees.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#if defined(RUNTIME)

int cudaMalloc(void **p, size_t n);
int cudaFree(void *p);
int cudaGetDevice(int *device);

int cudaMalloc(void **p, size_t n)
{
	static char *next = (char *)0x7d0000000000;

	*p = next;
	next += n;
	return 0;
}

int cudaFree(void *p)
{
	return p == (void *)0x7d0000000000 ? 0 : 1;
}

int cudaGetDevice(int *device)
{
	*device = 0;
	return 0;
}

#elif defined(PLUGIN)

extern int cudaMalloc(void **p, size_t n);
extern int cudaFree(void *p);
int plugin(void);

int plugin(void)
{
	void *a, *b;
	int result = cudaMalloc(&a, 3 << 20) | cudaMalloc(&b, 5 << 20) | cudaFree(a);

	printf("event DEVICE_ALLOC %lu %d 0\nevent DEVICE_ALLOC %lu %d 0\nevent DEVICE_FREE %lu %d 0\n",
	       (unsigned long)a, 3 << 20, (unsigned long)b, 5 << 20, (unsigned long)a, -(3 << 20));
	return result;
}

#else

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*plugin)(void) = library ? (int (*)(void))dlsym(library, "plugin") : NULL;

	return plugin ? plugin() : 2;
}

#endif
