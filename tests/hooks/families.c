/*
 * One family of CUDA's entry points a run, on the simulated device: families FAMILY WAY
 *
 * WAY is the way to the functions: link; dlsym (of libcuda.so.1 and of the runtime's names);
 * gpa and gpa_11 (the two cuGetProcAddress, by name, version and flags); entry and entry_by_version
 * (the runtime's look-ups). Prints what the trace must hold, worked out by hand, one line an event
 * in order:
 *
 *   event KIND ADDRESS BYTES DEVICE     KIND is a name of events.def; ADDRESS or DEVICE "-": not
 * compared
 *
 * and ends with status 0 when every call said what it should.
 */
#define _GNU_SOURCE
#include "expect.h"

#include <dlfcn.h>
#include <string.h>

/* FUNCTION(symbol, name, version, flags): the driver's; `name` as cuGetProcAddress knows it */
#define DRIVER_FUNCTIONS(FUNCTION)                                                     \
	FUNCTION(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                 \
	FUNCTION(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0)                       \
	FUNCTION(cuMemFree_v2, "cuMemFree", 3020, 0)                                   \
	FUNCTION(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0)                      \
	FUNCTION(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0)                            \
	FUNCTION(cuMemAllocHost_v2, "cuMemAllocHost", 3020, 0)                         \
	FUNCTION(cuMemFreeHost, "cuMemFreeHost", 2000, 0)                              \
	FUNCTION(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0)                   \
	FUNCTION(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0)                  \
	FUNCTION(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                         \
	FUNCTION(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 2)                    \
	FUNCTION(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                           \
	FUNCTION(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 2)                      \
	FUNCTION(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0)                         \
	FUNCTION(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0)                       \
	FUNCTION(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0)                         \
	FUNCTION(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0)             \
	FUNCTION(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0)         \
	FUNCTION(cuMemCreate, "cuMemCreate", 10020, 0)                                 \
	FUNCTION(cuMemRelease, "cuMemRelease", 10020, 0)                               \
	FUNCTION(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0) \
	FUNCTION(cuMemAddressReserve, "cuMemAddressReserve", 10020, 0)                 \
	FUNCTION(cuMemAddressFree, "cuMemAddressFree", 10020, 0)                       \
	FUNCTION(cuMemMap, "cuMemMap", 10020, 0)                                       \
	FUNCTION(cuMemUnmap, "cuMemUnmap", 10020, 0)                                   \
	FUNCTION(cuMemSetAccess, "cuMemSetAccess", 10020, 0)
/* clang-format off */
#define RUNTIME_FUNCTIONS(FUNCTION) \
	FUNCTION(cudaMalloc) \
	FUNCTION(cudaFree) \
	FUNCTION(cudaMallocPitch) \
	FUNCTION(cudaMalloc3D) \
	FUNCTION(cudaMallocManaged) \
	FUNCTION(cudaHostAlloc) \
	FUNCTION(cudaMallocHost) \
	FUNCTION(cudaFreeHost) \
	FUNCTION(cudaHostRegister) \
	FUNCTION(cudaHostUnregister) \
	FUNCTION(cudaMallocAsync) \
	FUNCTION(cudaFreeAsync) \
	FUNCTION(cudaMallocAsync_ptsz) \
	FUNCTION(cudaFreeAsync_ptsz) \
	FUNCTION(cudaMallocFromPoolAsync) \
	FUNCTION(cudaMemPoolCreate) \
	FUNCTION(cudaMemPoolTrimTo) \
	FUNCTION(cudaMemPoolDestroy) \
	FUNCTION(cudaDeviceReset)
/* clang-format on */

extern __typeof__(cuMemAllocAsync) cuMemAllocAsync_ptsz;
extern __typeof__(cuMemFreeAsync) cuMemFreeAsync_ptsz;
extern __typeof__(cudaMallocAsync) cudaMallocAsync_ptsz;
extern __typeof__(cudaFreeAsync) cudaFreeAsync_ptsz;

static struct {
#define FUNCTION(symbol, ...) __typeof__(symbol) *symbol;
	DRIVER_FUNCTIONS(FUNCTION)
	RUNTIME_FUNCTIONS(FUNCTION)
#undef FUNCTION
} api;

static const char *way;

static void *by_name(const char *name, int version, unsigned long long flags)
{
	__typeof__(&cuGetProcAddress_v2) ask =
		(__typeof__(ask))dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
	int (*ask_11)(const char *, void **, int, uint64_t) =
		(__typeof__(ask_11))dlsym(RTLD_DEFAULT, "cuGetProcAddress");
	void *found = NULL, *self = NULL;
	CUdriverProcAddressQueryResult status;
	enum cudaDriverEntryPointQueryResult said;

	if (strcmp(way, "gpa") == 0) { /* as the runtime does: by way of itself */
		check(name, ask("cuGetProcAddress", &self, 12000, 0, &status), 0);
		check(name, ((__typeof__(ask))self)(name, &found, version, flags, &status), 0);
	} else if (strcmp(way, "gpa_11") == 0) {
		check(name, ask_11(name, &found, version, flags), 0);
	} else if (strcmp(way, "entry") == 0) {
		check(name, (int)cudaGetDriverEntryPoint(name, &found, flags, &said), 0);
	} else {
		check(name,
		      (int)cudaGetDriverEntryPointByVersion(name, &found, (unsigned)version, flags,
							    &said),
		      0);
	}
	return found;
}

static void reach(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (strcmp(way, "link") == 0) {
#define FUNCTION(symbol, ...) api.symbol = symbol;
		DRIVER_FUNCTIONS(FUNCTION)
		RUNTIME_FUNCTIONS(FUNCTION)
#undef FUNCTION
		return;
	}
#define FUNCTION(symbol, ...) api.symbol = (__typeof__(&symbol))dlsym(RTLD_DEFAULT, #symbol);
	RUNTIME_FUNCTIONS(FUNCTION)
#undef FUNCTION
#define FUNCTION(symbol, name, version, flags)                                                  \
	api.symbol = (__typeof__(&symbol))(strcmp(way, "dlsym") ? by_name(name, version, flags) \
								: dlsym(driver, #symbol));
	DRIVER_FUNCTIONS(FUNCTION)
#undef FUNCTION
}

#define RT(function, ...) check(#function, (int)api.function(__VA_ARGS__), 0)
#define DRV RT

static void linear(void)
{
	void *a, *b;
	CUdeviceptr c, d;

	RT(cudaFree, NULL); /* makes a context; no event */
	RT(cudaMalloc, &a, MiB + 3);
	event("DEVICE_ALLOC", ADDR(a), MiB + 3, 0);
	DRV(cuMemAlloc_v2, &c, 3 * MiB);
	event("DEVICE_ALLOC", c, 3 * MiB, 0);
	RT(cudaMalloc, &b, 0); /* NULL: nothing was given */
	check("cudaMalloc", (int)api.cudaMalloc(&b, 1ull << 50), 2);
	event("DEVICE_FAIL", ANY, 1ull << 50, 0);
	check("cuMemAlloc_v2", (int)api.cuMemAlloc_v2(&d, 1ull << 50), 2);
	event("DEVICE_FAIL", ANY, 1ull << 50, 0);
	check("cudaFree", (int)api.cudaFree((char *)a + 512) != 0, 1); /* not an allocation */
	check("cuMemFree_v2", (int)api.cuMemFree_v2(4096) != 0, 1);
	DRV(cuMemFree_v2, (CUdeviceptr)a); /* each API frees what the other gave */
	event("DEVICE_FREE", ADDR(a), -(MiB + 3), 0);
	RT(cudaFree, (void *)c);
	event("DEVICE_FREE", c, -3 * MiB, 0);
	check("cudaFree", (int)api.cudaFree((void *)c) != 0, 1); /* a second time */
	DRV(cuMemAlloc_v2, &d, 5);
	event("DEVICE_ALLOC", d, 5, 0);
	check("cudaFreeHost", (int)api.cudaFreeHost((void *)d) != 0,
	      1); /* refused, and taken back */
	event("DEVICE_FREE", d, -5, 0);
	event("DEVICE_ALLOC", d, 5, 0);
	DRV(cuMemFree_v2, d);
	event("DEVICE_FREE", d, -5, 0);
}

static void pitch(void)
{
	struct cudaPitchedPtr three;
	void *a;
	size_t p;
	CUdeviceptr c;

	RT(cudaMallocPitch, &a, &p, 1000, 10); /* rows of 1024 bytes */
	event("DEVICE_ALLOC", ADDR(a), 10240, 0);
	RT(cudaMalloc3D, &three, ((struct cudaExtent){ 1000, 10, 3 }));
	event("DEVICE_ALLOC", ADDR(three.ptr), 30720, 0);
	DRV(cuMemAllocPitch_v2, &c, &p, 1025, 4, 4);
	event("DEVICE_ALLOC", c, (long long)p * 4, 0);
	RT(cudaFree, a);
	event("DEVICE_FREE", ADDR(a), -10240, 0);
	RT(cudaFree, three.ptr);
	event("DEVICE_FREE", ADDR(three.ptr), -30720, 0);
	DRV(cuMemFree_v2, c);
	event("DEVICE_FREE", c, -(long long)p * 4, 0);
}

static void managed(void)
{
	void *a;
	CUdeviceptr c;

	RT(cudaMallocManaged, &a, 7 * MiB, cudaMemAttachGlobal);
	event("MANAGED_ALLOC", ADDR(a), 7 * MiB, 0);
	DRV(cuMemAllocManaged, &c, 9 * MiB, CU_MEM_ATTACH_GLOBAL);
	event("MANAGED_ALLOC", c, 9 * MiB, 0);
	DRV(cuMemFree_v2, (CUdeviceptr)a);
	event("MANAGED_FREE", ADDR(a), -7 * MiB, 0);
	RT(cudaFree, (void *)c);
	event("MANAGED_FREE", c, -9 * MiB, 0);
}

/* Pinned host memory alone begins no trace: a process that has nothing on a GPU leaves none. */
static void begin(void)
{
	void *first, *unseen;

	RT(cudaHostAlloc, &unseen, 4096, 0);
	RT(cudaFreeHost, unseen);
	RT(cudaMalloc, &first, MiB);
	event("DEVICE_ALLOC", ADDR(first), MiB, 0);
}

static void host(void)
{
	void *a, *b, *c, *d;

	begin();

	RT(cudaHostAlloc, &a, 4096, 0);
	event("HOST_ALLOC", ADDR(a), 4096, -1);
	RT(cudaMallocHost, &b, 8192);
	event("HOST_ALLOC", ADDR(b), 8192, -1);
	DRV(cuMemHostAlloc, &c, MiB, CU_MEMHOSTALLOC_PORTABLE);
	event("HOST_ALLOC", ADDR(c), MiB, -1);
	DRV(cuMemAllocHost_v2, &d, 2 * MiB);
	event("HOST_ALLOC", ADDR(d), 2 * MiB, -1);
	DRV(cuMemFreeHost, a);
	event("HOST_FREE", ADDR(a), -4096, -1);
	RT(cudaFreeHost, c);
	event("HOST_FREE", ADDR(c), -MiB, -1);
	RT(cudaFreeHost, b);
	event("HOST_FREE", ADDR(b), -8192, -1);
	RT(cudaFreeHost, d);
	event("HOST_FREE", ADDR(d), -2 * MiB, -1);
}

static void host_register(void)
{
	static char memory[1 << 16] __attribute__((aligned(4096)));

	begin();
	RT(cudaHostRegister, memory, 8192, 0);
	event("HOST_REGISTER", ADDR(memory), 8192, -1);
	DRV(cuMemHostRegister_v2, memory + 16384, 4096, 0);
	event("HOST_REGISTER", ADDR(memory + 16384), 4096, -1);
	DRV(cuMemHostUnregister, memory);
	event("HOST_UNREGISTER", ADDR(memory), -8192, -1);
	RT(cudaHostUnregister, memory + 16384);
	event("HOST_UNREGISTER", ADDR(memory + 16384), -4096, -1);
	check("cudaHostUnregister", (int)api.cudaHostUnregister(memory) != 0, 1);
}

static void async(void)
{
	cudaStream_t s;
	void *a, *b, *e;
	CUdeviceptr c, d;

	check("cudaStreamCreate", (int)cudaStreamCreate(&s), 0);
	RT(cudaMallocAsync, &a, 1000, s); /* the pool's used counter moves by 512s */
	event("POOL_ALLOC", ADDR(a), 1024, 0);
	RT(cudaMallocAsync_ptsz, &b, 3 * MiB, NULL);
	event("POOL_ALLOC", ADDR(b), 3 * MiB, 0);
	DRV(cuMemAllocAsync, &c, 5 * MiB, (CUstream)s);
	event("POOL_ALLOC", c, 5 * MiB, 0);
	DRV(cuMemAllocAsync_ptsz, &d, 40 * MiB, NULL);
	event("POOL_ALLOC", d, 40 * MiB, 0);
	RT(cudaMallocAsync, &e, 2 * MiB, NULL);
	event("POOL_ALLOC", ADDR(e), 2 * MiB, 0);
	RT(cudaFreeAsync, a, s);
	event("POOL_FREE", ADDR(a), -1024, 0);
	DRV(cuMemFreeAsync_ptsz, (CUdeviceptr)b, NULL);
	event("POOL_FREE", ADDR(b), -3 * MiB, 0);
	RT(cudaFreeAsync_ptsz, (void *)c, NULL);
	event("POOL_FREE", c, -5 * MiB, 0);
	DRV(cuMemFree_v2, d); /* pool memory may be freed so too */
	event("POOL_FREE", d, -40 * MiB, 0);
	RT(cudaFree, e);
	event("POOL_FREE", ADDR(e), -2 * MiB, 0);
}

/* The levels are what all pools of the device hold: steps of 32 MiB. */
static void pools(void)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
						    .id = 0 } };
	struct cudaMemPoolProps same = { .allocType = cudaMemAllocationTypePinned,
					 .location = { .type = cudaMemLocationTypeDevice,
						       .id = 0 } };
	CUmemoryPool pool;
	cudaMemPool_t other;
	CUdeviceptr a;
	void *b;

	DRV(cuMemPoolCreate, &pool, &properties);
	DRV(cuMemAllocFromPoolAsync, &a, 10 * MiB, pool, NULL);
	event("POOL_ALLOC", a, 10 * MiB, 0);
	level("POOL_RESERVED", 32 * MiB, 0);
	RT(cudaMemPoolCreate, &other, &same);
	RT(cudaMallocFromPoolAsync, &b, 33 * MiB, other, NULL);
	event("POOL_ALLOC", ADDR(b), 33 * MiB, 0);
	level("POOL_RESERVED", 96 * MiB, 0);
	RT(cudaFreeAsync, b, NULL);
	event("POOL_FREE", ADDR(b), -33 * MiB, 0);
	level("POOL_RESERVED", 96 * MiB, 0);
	RT(cudaMemPoolTrimTo, other, 0);
	level("POOL_RESERVED", 32 * MiB, 0);
	DRV(cuMemFreeAsync, a, NULL);
	event("POOL_FREE", a, -10 * MiB, 0);
	DRV(cuMemPoolDestroy, pool);
	level("POOL_RESERVED", 0, 0);
	RT(cudaMemPoolDestroy, other);
}

static CUmemAllocationProp on_device(void)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
}

static void vmm(void)
{
	CUmemAllocationProp where = on_device();
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;

	DRV(cuMemAddressReserve, &va, 1024 * MiB, 0, 0, 0); /* addresses are no memory */
	DRV(cuMemCreate, &h, 20 * MiB, &where, 0);
	event("PHYSICAL_ALLOC", h, 20 * MiB, 0);
	DRV(cuMemMap, va, 20 * MiB, 0, h, 0);
	event("MAP", va, 20 * MiB, 0);
	DRV(cuMemUnmap, va, 20 * MiB);
	event("UNMAP", va, -20 * MiB, 0);
	DRV(cuMemRelease, h);
	event("PHYSICAL_FREE", h, -20 * MiB, 0);
	check("cuMemCreate", (int)api.cuMemCreate(&h, 1ull << 50, &where, 0), 2);
	event("DEVICE_FAIL", ANY, 1ull << 50, 0);
	check("cuMemRelease", (int)api.cuMemRelease(h) != 0, 1);
	DRV(cuMemAddressFree, va, 1024 * MiB);
}

/* One handle mapped twice, released while mapped: its bytes count once and go with the last
 * mapping. */
static void vmm_references(void)
{
	CUmemAllocationProp where = on_device();
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr va;

	DRV(cuMemAddressReserve, &va, 64 * MiB, 0, 0, 0);
	DRV(cuMemCreate, &h, 8 * MiB, &where, 0);
	event("PHYSICAL_ALLOC", h, 8 * MiB, 0);
	DRV(cuMemMap, va, 8 * MiB, 0, h, 0);
	event("MAP", va, 8 * MiB, 0);
	DRV(cuMemMap, va + 8 * MiB, 4 * MiB, 2 * MiB, h, 0);
	event("MAP", va + 8 * MiB, 4 * MiB, 0);
	DRV(cuMemRelease, h); /* still mapped */
	DRV(cuMemRetainAllocationHandle, &again, (void *)(va + 10 * MiB));
	check("cuMemUnmap", (int)api.cuMemUnmap(va, 14 * MiB) != 0,
	      1); /* refused, and taken back */
	event("UNMAP", va, -8 * MiB, 0);
	event("UNMAP", va + 8 * MiB, -4 * MiB, 0);
	event("MAP", va, 8 * MiB, 0);
	event("MAP", va + 8 * MiB, 4 * MiB, 0);
	DRV(cuMemUnmap, va, 12 * MiB); /* both at once */
	event("UNMAP", va, -8 * MiB, 0);
	event("UNMAP", va + 8 * MiB, -4 * MiB, 0);
	DRV(cuMemRelease, again);
	event("PHYSICAL_FREE", h, -8 * MiB, 0);
	DRV(cuMemCreate, &h, 2 * MiB, &where, 0);
	event("PHYSICAL_ALLOC", h, 2 * MiB, 0);
	DRV(cuMemMap, va, 2 * MiB, 0, h, 0);
	event("MAP", va, 2 * MiB, 0);
	DRV(cuMemRelease, h);
	DRV(cuMemUnmap, va, 2 * MiB); /* the last reference to it */
	event("UNMAP", va, -2 * MiB, 0);
	event("PHYSICAL_FREE", h, -2 * MiB, 0);
}

static void vmm_host(void)
{
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
						    .id = 3 } };
	CUmemGenericAllocationHandle h, before;
	void *p;

	DRV(cuMemCreate, &before, 6 * MiB, &where, 0); /* memory of the host begins no trace */
	RT(cudaMalloc, &p, MiB);
	event("DEVICE_ALLOC", ADDR(p), MiB, 0);
	DRV(cuMemCreate, &h, 6 * MiB, &where, 0); /* id 3 is no device */
	event("HOST_ALLOC", h, 6 * MiB, -1);
	DRV(cuMemRelease, h);
	event("HOST_FREE", h, -6 * MiB, -1);
}

/* Captured calls take effect when the graph runs: no allocation now, and no free. */
static void capture(void)
{
	cudaStream_t s;
	cudaGraph_t graph;
	void *a, *b;
	CUdeviceptr c;

	check("cudaStreamCreate", (int)cudaStreamCreate(&s), 0);
	RT(cudaMallocAsync, &b, MiB, s);
	event("POOL_ALLOC", ADDR(b), MiB, 0);
	check("begin", (int)cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed), 0);
	RT(cudaMallocAsync, &a, 16 * MiB, s);
	DRV(cuMemAllocAsync, &c, 16 * MiB, (CUstream)s);
	RT(cudaFreeAsync, a, s);
	check("end", (int)cudaStreamEndCapture(s, &graph), 0);
	RT(cudaFreeAsync, b, s);
	event("POOL_FREE", ADDR(b), -MiB, 0);
}

static void reset(void)
{
	void *a, *b, *c;

	RT(cudaMalloc, &a, 4 * MiB);
	event("DEVICE_ALLOC", ADDR(a), 4 * MiB, 0);
	RT(cudaMallocAsync, &b, 6 * MiB, NULL);
	event("POOL_ALLOC", ADDR(b), 6 * MiB, 0);
	RT(cudaDeviceReset);
	event("DEVICE_FREE", ADDR(a), -4 * MiB, 0);
	RT(cudaMalloc, &c, 2 * MiB);
	event("DEVICE_ALLOC", ADDR(c), 2 * MiB, 0);
}

int main(int argc, char **argv)
{
	static const struct family families[] = { { "linear", linear },
						  { "pitch", pitch },
						  { "managed", managed },
						  { "host", host },
						  { "host_register", host_register },
						  { "async", async },
						  { "pools", pools },
						  { "vmm", vmm },
						  { "vmm_references", vmm_references },
						  { "vmm_host", vmm_host },
						  { "capture", capture },
						  { "reset", reset } };

	if (argc != 3)
		return 2;
	check("cuInit", (int)cuInit(0), 0);
	check("cudaSetDevice", (int)cudaSetDevice(0), 0);
	way = argv[2];
	reach();
	return RUN_FAMILY(families, argv[1]);
}
