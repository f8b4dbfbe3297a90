/*
 * Loads a library of CUDA and makes its first call, which is when it looks up the driver's names;
 * then writes
 *
 *   result NUMBER
 *   runtime ADDRESS ADDRESS   of the library's cudaMalloc, by dlsym() and by dlvsym()
 *   base PATH ADDRESS         of each loaded object
 *
 * visit LIBRARY FUNCTION [THIRD]: the function is given room for whatever it returns, 1, THIRD (0)
 * and 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

static int print(struct dl_phdr_info *o, size_t size, void *data)
{
	(void)size, (void)data;
	if (o->dlpi_name[0])
		printf("base %s %#lx\n", o->dlpi_name, (unsigned long)o->dlpi_addr);
	return 0;
}

int main(int argc, char **argv)
{
	static char room[1 << 16];
	void *library = argc >= 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*call)(void *, size_t, size_t, size_t) =
		library ? (int (*)(void *, size_t, size_t, size_t))dlsym(library, argv[2]) : NULL;
	size_t third = argc == 4 ? (size_t)atoi(argv[3]) : 0;

	if (!call) {
		fprintf(stderr, "visit: %s\n", argc >= 3 ? dlerror() : "LIBRARY FUNCTION");
		return 2;
	}
	printf("result %d\n", call(room, 1, third, 1));
	printf("runtime %p %p\n", dlsym(library, "cudaMalloc"),
	       dlvsym(library, "cudaMalloc", "libcudart.so.13"));
	dl_iterate_phdr(print, NULL);
	return 0;
}
