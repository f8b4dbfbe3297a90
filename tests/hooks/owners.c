/* Allocations by the program and by the libraries named on its command line (owner.c); each prints
 * the events it caused. */
#define _GNU_SOURCE
#include "expect.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
	unsigned long long b, c;
	void *a;

	check("cudaMalloc", (int)cudaMalloc(&a, 3 << 20), 0);
	event("DEVICE_ALLOC", ADDR(a), 3 * MiB, 0);
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		int (*take)(void **, unsigned long long *, unsigned long long *) =
			library ? (__typeof__(take))dlsym(library, "take") : NULL;

		check(argv[i], take ? take(&a, &b, &c) : -1, 0);
		event("DEVICE_ALLOC", ADDR(a), MiB, 0);
		event("DEVICE_ALLOC", b, 2 * MiB, 0);
		event("PHYSICAL_ALLOC", c, 4 * MiB, 0);
	}
	check("cudaFree", (int)cudaFree(a), 0);
	event("DEVICE_FREE", ADDR(a), -MiB, 0);
	return failed;
}
