/* Opens the given library (owner.c) with RTLD_DEEPBIND: its linked calls go past the libraries
 * before it. */
#define _GNU_SOURCE
#include "expect.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
	int (*take)(void **, unsigned long long *, unsigned long long *);
	unsigned long long b, c;
	void *library, *a;

	check("cudaMalloc", (int)cudaMalloc(&a, 3 << 20), 0);
	event("DEVICE_ALLOC", ADDR(a), 3 * MiB, 0);
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
	take = library ? (__typeof__(take))dlsym(library, "take") : NULL;
	check("take", take ? take(&a, &b, &c) : -1, 0);
	return failed;
}
