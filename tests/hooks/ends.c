/*
 * As refused.c: memory that ends together with something else, and calls that must not be asked
 * or begun. ends FAMILY
 */
#define _GNU_SOURCE
#include "expect.h"

#include <pthread.h>
#include <string.h>

#define DO(function, ...) check(#function, (int)function(__VA_ARGS__), 0)

extern void (*fake_meanwhile)(void);
extern unsigned fake_ranges;
CUresult fake_map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle);

/* Pinned memory and other processes' memory end with the context they were made in. */
static void contexts(void)
{
	CUctxCreateParams how = { 0 };
	CUdeviceptr a;
	CUcontext own;
	void *h, *k;

	DO(cuMemAlloc_v2, &a, MiB);
	event("DEVICE_ALLOC", a, MiB, 0);
	DO(cuMemHostAlloc, &k, 2 * MiB, 0);
	event("HOST_ALLOC", ADDR(k), 2 * MiB, -1);
	DO(cuCtxCreate_v4, &own, &how, 0, 0);
	DO(cuMemHostAlloc, &h, 3 * MiB, 0);
	event("HOST_ALLOC", ADDR(h), 3 * MiB, -1);
	DO(cuCtxDestroy_v2, own);
	event("HOST_FREE", ADDR(h), -3 * MiB, -1);
	DO(cuMemFreeHost, k);
	event("HOST_FREE", ADDR(k), -2 * MiB, -1);
}

static void reset_host(void)
{
	CUdeviceptr a;
	void *h;

	DO(cuMemAlloc_v2, &a, MiB);
	event("DEVICE_ALLOC", a, MiB, 0);
	DO(cuMemFree_v2, a);
	event("DEVICE_FREE", a, -MiB, 0);
	DO(cuMemHostAlloc, &h, 3 * MiB, 0);
	event("HOST_ALLOC", ADDR(h), 3 * MiB, -1);
	DO(cuDevicePrimaryCtxReset_v2, 0);
	event("HOST_FREE", ADDR(h), -3 * MiB, -1);
}

static void reset_ipc(void)
{
	CUipcMemHandle handle = { { 4 } };
	CUdeviceptr a;

	DO(cuIpcOpenMemHandle_v2, &a, handle, 0);
	event("ALIAS_OPEN", a, 5 * MiB, 0);
	DO(cuIpcOpenMemHandle_v2, &a, handle, 0); /* the same, once more */
	DO(cuDevicePrimaryCtxReset_v2, 0);
	event("ALIAS_CLOSE", a, -5 * MiB, 0);
	DO(cuIpcOpenMemHandle_v2, &a, handle, 0);
	event("ALIAS_OPEN", a, 5 * MiB, 0);
}

static CUdeviceptr others;

static void *allocate(void *unused)
{
	DO(cuMemAlloc_v2, &others, 2 * MiB);
	event("DEVICE_ALLOC", others, 2 * MiB, 0);
	return unused;
}

static void another_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, allocate, NULL);
	pthread_join(thread, NULL);
}

/* Another thread allocates between the reset and its return, at the address that has just become
 * free. The earlier allocation there is gone; the new one stays. */
static void reset_meanwhile(void)
{
	CUdeviceptr a, b;

	DO(cuMemAlloc_v2, &a, 4 * MiB);
	event("DEVICE_ALLOC", a, 4 * MiB, 0);
	DO(cuMemAlloc_v2, &b, 8 * MiB);
	event("DEVICE_ALLOC", b, 8 * MiB, 0);
	DO(cuMemFree_v2, a);
	event("DEVICE_FREE", a, -4 * MiB, 0);
	fake_meanwhile = another_thread;
	DO(cuDevicePrimaryCtxReset_v2, 0);
	event("DEVICE_FREE", b, -8 * MiB, 0);
	fake_meanwhile = NULL;
	DO(cuMemFree_v2, others);
	event("DEVICE_FREE", others, -2 * MiB, 0);
}

/* On a machine with two devices. */
static void other_device(void)
{
	CUmemoryPool pool;
	CUdeviceptr a, b;

	DO(cuMemAlloc_v2, &a, MiB);
	event("DEVICE_ALLOC", a, MiB, 0);
	DO(cuDeviceGetDefaultMemPool, &pool, 1);
	DO(cuMemAllocFromPoolAsync, &b, 10 * MiB, pool, NULL);
	event("POOL_ALLOC", b, 10 * MiB, 1);
	DO(cuMemFreeAsync, b, NULL);
	event("POOL_FREE", b, -10 * MiB, 1);
}

/* A pool is destroyed while memory of it is in use, and another one gets its handle. */
static void pool_again(void)
{
	CUmemPoolProps where = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool first, second;
	CUdeviceptr a, b;

	DO(cuMemPoolCreate, &first, &where);
	DO(cuMemAllocFromPoolAsync, &a, 10 * MiB, first, NULL);
	event("POOL_ALLOC", a, 10 * MiB, 0);
	level("POOL_RESERVED", 32 * MiB, 0);
	DO(cuMemPoolDestroy, first);
	DO(cuMemPoolCreate, &second, &where);
	check("the handle is used again", second == first, 1);
	DO(cuMemAllocFromPoolAsync, &b, 40 * MiB, second, NULL);
	event("POOL_ALLOC", b, 40 * MiB, 0);
	level("POOL_RESERVED", 64 * MiB, 0); /* fake_device.c gives the old one out again: 50 MiB */
}

/* One call unmaps an unseen mapping and, behind it, a seen one. */
static void unmap_unseen(void)
{
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle h, k;
	CUdeviceptr va;

	DO(cuMemAddressReserve, &va, 64 * MiB, 0, 0, 0);
	DO(cuMemCreate, &h, 4 * MiB, &where, 0);
	event("PHYSICAL_ALLOC", h, 4 * MiB, 0);
	DO(cuMemCreate, &k, 8 * MiB, &where, 0);
	event("PHYSICAL_ALLOC", k, 8 * MiB, 0);
	DO(fake_map, va, 4 * MiB, h);
	DO(cuMemMap, va + 4 * MiB, 8 * MiB, 0, k, 0);
	event("MAP", va + 4 * MiB, 8 * MiB, 0);
	DO(cuMemUnmap, va, 12 * MiB);
	event("UNMAP", va + 4 * MiB, -8 * MiB, 0);
}

/* An address that was not given must not be asked about. */
static void refused(void)
{
	CUipcMemHandle handle = { { (char)255 } };
	CUdeviceptr a = 1234567;

	DO(cuMemAlloc_v2, &a, MiB);
	event("DEVICE_ALLOC", a, MiB, 0);
	check("cuIpcOpenMemHandle_v2", (int)cuIpcOpenMemHandle_v2(&a, handle, 0), 2);
	check("asked for a size", (int)fake_ranges, 0);
}

int main(int argc, char **argv)
{
	static const struct family families[] = {
		{ "contexts", contexts },         { "reset_host", reset_host },
		{ "reset_ipc", reset_ipc },       { "reset_meanwhile", reset_meanwhile },
		{ "other_device", other_device }, { "pool_again", pool_again },
		{ "unmap_unseen", unmap_unseen }, { "refused", refused }
	};

	check("cuInit", (int)cuInit(0), 0);
	check("cudaFree", (int)cudaFree(NULL), 0);
	return argc == 2 ? RUN_FAMILY(families, argv[1]) : 2;
}
