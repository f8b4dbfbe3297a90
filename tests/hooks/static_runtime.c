/* A program with a CUDA runtime inside: its first call looks up the driver's names. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <link.h>
#include <stdio.h>

static int print(struct dl_phdr_info *o, size_t size, void *data)
{
	(void)size, (void)data;
	if (o->dlpi_name[0])
		printf("base %s %#lx\n", o->dlpi_name, (unsigned long)o->dlpi_addr);
	return 0;
}

int main(void)
{
	void *p;

	printf("result %d\n", (int)cudaMalloc(&p, 1 << 20));
	dl_iterate_phdr(print, NULL);
	return 0;
}
