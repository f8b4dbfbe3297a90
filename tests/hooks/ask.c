/*
 * Asks memtrace's cuGetProcAddress for every NAME VERSION FLAGS on stdin, and prints the answers
 * in visit.c's format. Linked with libcuda.so.1, as a program that knows the driver at build
 * time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

extern int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
			       int *status);
extern int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);

static int print(struct dl_phdr_info *o, size_t size, void *data)
{
	(void)size, (void)data;
	if (o->dlpi_name[0])
		printf("base %s %#lx\n", o->dlpi_name, (unsigned long)o->dlpi_addr);
	return 0;
}

int main(void)
{
	unsigned long long flags;
	char name[128];
	int version;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	while (scanf("%127s %d %llu", name, &version, &flags) == 3) {
		void *new = (void *)-1, *old = (void *)-1;
		int result, result_old, status = -7;

		if (version == 0) {
			printf("dlsym %s %p\n", name, dlsym(driver, name));
			continue;
		}
		result = cuGetProcAddress_v2(name, &new, version, flags, &status);
		result_old = cuGetProcAddress(name, &old, version, flags);

		printf("got %s %d %llu %d %d %p %d %p\n", name, version, flags, result, status, new,
		       result_old, old);
	}
	dl_iterate_phdr(print, NULL);
	return 0;
}
