/*
 * As families.c, for calls that the simulated device refuses and fake_device.c does: refused
 * FAMILY
 */
#define _GNU_SOURCE
#include "expect.h"

#include <time.h>

#include <string.h>

#define DO(function, ...) check(#function, (int)function(__VA_ARGS__), 0)

/* The driver tells an array's needs only if mapping was deferred: the shape is counted. */
static void arrays(void)
{
	struct cudaChannelFormatDesc rgba = { 32, 32, 32, 32, cudaChannelFormatKindFloat };
	struct cudaExtent volume = { 100, 50, 10 }, mips = { 256, 256, 0 };
	CUDA_ARRAY_DESCRIPTOR flat = {
		.Width = 1000, .Height = 300, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2
	};
	cudaMipmappedArray_t m;
	cudaArray_t a, b;
	CUarray c;

	DO(cudaMallocArray, &a, &rgba, 1024, 64, 0); /* 1024·16 B × 64 = 1 MiB */
	event("ARRAY_ALLOC", ADDR(a), MiB, 0);
	DO(cudaMalloc3DArray, &b, &rgba, volume, 0); /* 1600 × 50 × 10 */
	event("ARRAY_ALLOC", ADDR(b), 800000, 0);
	DO(cuArrayCreate_v2, &c, &flat); /* 4000 × 300 */
	event("ARRAY_ALLOC", ADDR(c), 1200000, 0);
	DO(cudaMallocMipmappedArray, &m, &rgba, mips, 3, 0); /* (256² + 128² + 64²) × 16 */
	event("ARRAY_ALLOC", ADDR(m), 1376256, 0);
	DO(cudaFreeArray, NULL);
	DO(cudaFreeArray, a);
	event("ARRAY_FREE", ADDR(a), -MiB, 0);
	DO(cuArrayDestroy, (CUarray)b);
	event("ARRAY_FREE", ADDR(b), -800000, 0);
	DO(cuArrayDestroy, c);
	event("ARRAY_FREE", ADDR(c), -1200000, 0);
	DO(cudaFreeMipmappedArray, m);
	event("ARRAY_FREE", ADDR(m), -1376256, 0);
}

/* Another process's memory, opened twice: the same pointer, one alias, which the last close ends.
 */
static void ipc(void)
{
	cudaIpcMemHandle_t theirs;
	CUipcMemHandle same, mine;
	CUdeviceptr again, own;
	void *p;

	memset(&theirs, 4, sizeof(theirs)); /* fake_device.c: 5 MiB */
	memset(&same, 4, sizeof(same));
	DO(cudaIpcOpenMemHandle, &p, theirs, cudaIpcMemLazyEnablePeerAccess);
	event("ALIAS_OPEN", ADDR(p), 5 * MiB, 0);
	DO(cuIpcOpenMemHandle_v2, &again, same, 0);
	check("same pointer", again == (CUdeviceptr)p, 1);
	DO(cuIpcCloseMemHandle, again);
	DO(cuMemAlloc_v2, &own, 2 * MiB); /* between the closes */
	event("DEVICE_ALLOC", own, 2 * MiB, 0);
	DO(cudaIpcCloseMemHandle, p);
	event("ALIAS_CLOSE", ADDR(p), -5 * MiB, 0);
	check("cudaIpcCloseMemHandle", cudaIpcCloseMemHandle(p) != 0, 1);
	DO(cuIpcGetMemHandle, &mine, own); /* giving a handle out changes nothing */
}

static void external(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
					       .size = 12 * MiB };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = MiB, .size = 2 * MiB };
	CUexternalMemory memory;
	CUdeviceptr p;

	DO(cuImportExternalMemory, &memory, &d);
	event("ALIAS_OPEN", ADDR(memory), 12 * MiB, 0);
	DO(cuExternalMemoryGetMappedBuffer, &p, memory, &part); /* a part of it: no more bytes */
	DO(cuDestroyExternalMemory, memory);
	event("ALIAS_CLOSE", ADDR(memory), -12 * MiB, 0);
}

/* Memory by a handle of another process is not ours, with any mapping; nor is a multicast
 * object. */
static void import(void)
{
	CUmulticastObjectProp group = { .numDevices = 1, .size = 64 * MiB };
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle theirs, ours, multicast;

	DO(cuMemImportFromShareableHandle, &theirs, (void *)77,
	   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	event("ALIAS_OPEN", theirs, 0, 0);
	DO(cuMemCreate, &ours, 2 * MiB, &where, 0);
	event("PHYSICAL_ALLOC", ours, 2 * MiB, 0);
	DO(cuMulticastCreate, &multicast, &group);
	DO(cuMulticastAddDevice, multicast, 0);
	DO(cuMulticastBindMem, multicast, 0, ours, 0, 2 * MiB, 0);
	DO(cuMulticastUnbind, multicast, 0, 0, 2 * MiB);
	DO(cuMemRelease, multicast);
	DO(cuMemRelease, theirs);
	event("ALIAS_CLOSE", theirs, 0, 0);
	DO(cuMemRelease, ours);
	event("PHYSICAL_FREE", ours, -2 * MiB, 0);
}

static void pool_pointer(void)
{
	struct cudaMemPoolPtrExportData data = { { 6 } };
	cudaMemPool_t pool;
	void *p;

	DO(cudaDeviceGetDefaultMemPool, &pool, 0);
	DO(cudaMemPoolImportPointer, &p, pool, &data); /* fake_device.c: 7 MiB */
	event("ALIAS_OPEN", ADDR(p), 7 * MiB, 0);
}

/* Nodes allocate when the graph is launched, once, and hold until a trim. */
static void graph(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS want = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = 9 * MiB
	};
	CUgraphNodeParams more = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUgraphNode node;
	CUgraph g = (CUgraph)&more;

	more.alloc.poolProps = want.poolProps;
	more.alloc.bytesize = 4 * MiB;
	DO(cuGraphAddMemAllocNode, &node, g, NULL, 0, &want);
	DO(cuGraphAddNode_v2, &node, g, NULL, NULL, 0, &more);
	DO(cuGraphAddMemFreeNode, &node, g, NULL, 0, want.dptr);
	DO(cuGraphLaunch, (CUgraphExec)g, NULL);
	level("GRAPH_RESERVED", 14 * MiB, 0); /* 10 and 4: whole 2 MiB */
	DO(cudaGraphLaunch, (cudaGraphExec_t)g, NULL);
	DO(cuDeviceGraphMemTrim, 0);
	level("GRAPH_RESERVED", 0, 0);
}

extern __typeof__(cuGraphUpload) cuGraphUpload_ptsz;
extern __typeof__(cudaGraphUpload) cudaGraphUpload_ptsz;
extern __typeof__(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;
extern __typeof__(cudaGraphInstantiateWithParams) cudaGraphInstantiateWithParams_ptsz;

/* Two more MiB in the graph's nodes. */
static CUgraph with_2_more(void)
{
	static CUgraphNodeParams more = {
		.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
			   .bytesize = 2 * MiB }
	};
	CUgraphNode node;

	DO(cuGraphAddNode_v2, &node, (CUgraph)&more, NULL, NULL, 0, &more);
	return (CUgraph)&more;
}

/* An upload takes the memory, by a call of its own or with the instance; no launch follows. */
static void graph_upload(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS how = { 0 },
				      uploading = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD };
	cudaGraphInstantiateParams like_how = { .flags = cudaGraphInstantiateFlagUpload };
	cudaGraphExec_t run;
	CUgraphExec made;

	DO(cuGraphUpload, (CUgraphExec)with_2_more(), NULL);
	level("GRAPH_RESERVED", 2 * MiB, 0);
	DO(cuGraphUpload_ptsz, (CUgraphExec)with_2_more(), NULL);
	level("GRAPH_RESERVED", 4 * MiB, 0);
	DO(cudaGraphUpload, (cudaGraphExec_t)with_2_more(), NULL);
	level("GRAPH_RESERVED", 6 * MiB, 0);
	DO(cudaGraphUpload_ptsz, (cudaGraphExec_t)with_2_more(), NULL);
	level("GRAPH_RESERVED", 8 * MiB, 0);
	DO(cuGraphInstantiateWithParams, &made, with_2_more(), &how); /* takes nothing */
	DO(cuGraphInstantiateWithParams, &made, with_2_more(), &uploading);
	level("GRAPH_RESERVED", 12 * MiB, 0);
	DO(cuGraphInstantiateWithParams_ptsz, &made, with_2_more(), &uploading);
	level("GRAPH_RESERVED", 14 * MiB, 0);
	DO(cudaGraphInstantiateWithParams, &run, (cudaGraph_t)with_2_more(), &like_how);
	level("GRAPH_RESERVED", 16 * MiB, 0);
	DO(cudaGraphInstantiateWithParams_ptsz, &run, (cudaGraph_t)with_2_more(), &like_how);
	level("GRAPH_RESERVED", 18 * MiB, 0);
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* The second launch comes right after the first, whose level was read: its own is read with the
 * next event. */
static void graph_next_event(void)
{
	CUdeviceptr p;

	DO(cuGraphLaunch, (CUgraphExec)with_2_more(), NULL);
	level("GRAPH_RESERVED", 2 * MiB, 0);
	DO(cuGraphLaunch, (CUgraphExec)with_2_more(), NULL);
	pause_ms(20);
	DO(cuMemAlloc_v2, &p, MiB);
	event("DEVICE_ALLOC", p, MiB, 0);
	level("GRAPH_RESERVED", 4 * MiB, 0);
}

/* The same, and nothing follows. */
static void graph_trailing(void)
{
	DO(cuGraphLaunch, (CUgraphExec)with_2_more(), NULL);
	level("GRAPH_RESERVED", 2 * MiB, 0);
	DO(cuGraphLaunch, (CUgraphExec)with_2_more(), NULL);
	level("GRAPH_RESERVED", 4 * MiB, 0);
	pause_ms(300);
}

/* Pools of managed memory give managed memory, for any maker of the pool. */
static void managed_pools(void)
{
#if CUDA_VERSION >= 13000
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
				      .location = here };
	CUmemoryPool pool, of_cuda;
	CUdeviceptr a, b;

	DO(cuMemPoolCreate, &pool, &properties);
	DO(cuMemAllocFromPoolAsync, &a, 10 * MiB, pool, NULL);
	event("MANAGED_ALLOC", a, 10 * MiB, 0);
	DO(cuMemGetDefaultMemPool, &of_cuda, &here, CU_MEM_ALLOCATION_TYPE_MANAGED);
	DO(cuMemAllocFromPoolAsync, &b, 6 * MiB, of_cuda, NULL);
	event("MANAGED_ALLOC", b, 6 * MiB, 0);
	DO(cuMemFreeAsync, a, NULL);
	event("MANAGED_FREE", a, -10 * MiB, 0);
	DO(cuMemFreeAsync, b, NULL);
	event("MANAGED_FREE", b, -6 * MiB, 0);
#endif
}

static void driver_reset(void)
{
	CUdeviceptr a, b;

	DO(cuMemAlloc_v2, &a, 4 * MiB);
	event("DEVICE_ALLOC", a, 4 * MiB, 0);
	DO(cuMemAllocAsync, &b, 6 * MiB, NULL);
	event("POOL_ALLOC", b, 6 * MiB, 0);
	DO(cuDevicePrimaryCtxReset_v2, 0);
	event("DEVICE_FREE", a, -4 * MiB, 0);
	DO(cuMemAlloc_v2, &a, 2 * MiB);
	event("DEVICE_ALLOC", a, 2 * MiB, 0);
}

/* The driver refuses null pointers; a library before it must not dereference them. */
static void null_arguments(void)
{
	CUipcMemHandle handle = { { 4 } };
	CUmipmappedArray m;
	CUexternalMemory e;
	cudaArray_t a;
	CUdeviceptr p;
	CUarray c;

	check("cudaMallocArray", (int)cudaMallocArray(&a, NULL, 16, 16, 0), cudaErrorInvalidValue);
	check("cuArrayCreate_v2", (int)cuArrayCreate_v2(&c, NULL), CUDA_ERROR_INVALID_VALUE);
	check("cuArray3DCreate_v2", (int)cuArray3DCreate_v2(&c, NULL), CUDA_ERROR_INVALID_VALUE);
	check("cuMipmappedArrayCreate", (int)cuMipmappedArrayCreate(&m, NULL, 1),
	      CUDA_ERROR_INVALID_VALUE);
	check("cuImportExternalMemory", (int)cuImportExternalMemory(&e, NULL),
	      CUDA_ERROR_INVALID_VALUE);
	check("cuIpcOpenMemHandle_v2", (int)cuIpcOpenMemHandle_v2(NULL, handle, 0),
	      CUDA_ERROR_INVALID_VALUE);
	DO(cuMemAlloc_v2, &p, MiB);
	event("DEVICE_ALLOC", p, MiB, 0);
}

/* A context's end frees what was allocated in it, and nothing else. */
static void contexts(void)
{
	CUctxCreateParams how = { 0 };
	CUdeviceptr a, b, c;
	CUcontext own;

	DO(cuMemAlloc_v2, &a, 4 * MiB);
	event("DEVICE_ALLOC", a, 4 * MiB, 0);
	DO(cuCtxCreate_v4, &own, &how, 0, 0);
	DO(cuMemAlloc_v2, &b, 6 * MiB);
	event("DEVICE_ALLOC", b, 6 * MiB, 0);
	DO(cuMemAlloc_v2, &c, 8 * MiB);
	event("DEVICE_ALLOC", c, 8 * MiB, 0);
	DO(cuMemFree_v2, b);
	event("DEVICE_FREE", b, -6 * MiB, 0);
	DO(cuCtxDestroy_v2, own);
	event("DEVICE_FREE", c, -8 * MiB, 0);
	check("cuCtxDestroy_v2", cuCtxDestroy_v2(own) != 0, 1);
	DO(cuMemAlloc_v2, &b, 2 * MiB);
	event("DEVICE_ALLOC", b, 2 * MiB, 0);
	DO(cuMemFree_v2, a);
	event("DEVICE_FREE", a, -4 * MiB, 0);
}

int main(int argc, char **argv)
{
	static const struct family families[] = { { "arrays", arrays },
						  { "ipc", ipc },
						  { "external", external },
						  { "import", import },
						  { "pool_pointer", pool_pointer },
						  { "graph", graph },
						  { "graph_upload", graph_upload },
						  { "graph_next_event", graph_next_event },
						  { "graph_trailing", graph_trailing },
						  { "managed_pools", managed_pools },
						  { "driver_reset", driver_reset },
						  { "contexts", contexts },
						  { "null_arguments", null_arguments } };

	check("cuInit", (int)cuInit(0), 0);
	check("cudaFree", (int)cudaFree(NULL), 0);
	return argc == 2 ? RUN_FAMILY(families, argv[1]) : 2;
}
