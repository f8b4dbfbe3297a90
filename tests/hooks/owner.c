/* A library that allocates by itself: its memory is its own, not the program's. Its object is
 * named like a vendor's. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

__attribute__((visibility("default"))) int take(void **a, unsigned long long *b,
						unsigned long long *c);

int take(void **a, unsigned long long *b, unsigned long long *c)
{
	__typeof__(&cuMemAlloc_v2) found = (__typeof__(found))dlsym(
		dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuMemAlloc_v2");
	__typeof__(&cuGetProcAddress_v2) ask = (__typeof__(ask))dlsym(
		dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuGetProcAddress_v2");
	__typeof__(&cuMemCreate) create = NULL;
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUdriverProcAddressQueryResult status;
	int result = (int)cudaMalloc(a, 1 << 20);

	result |= (int)found(b, 2 << 20);
	result |= (int)ask("cuMemCreate", (void **)&create, 10020, 0, &status);
	result |= (int)create(c, 4 << 20, &where, 0);
	return result;
}
