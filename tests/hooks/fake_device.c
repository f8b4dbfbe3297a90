/*
 * What the simulated device refuses, done by hand: arrays, IPC, external memory, pools and handles
 * from other processes, multicast, graph memory, resets by the driver. Preloaded between
 * libmemtrace.so and libcudasim.so. Its runtime functions call the driver's through the same
 * symbols that everybody links with, so that one call passes two hooks.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MiB (1ull << 20)
CUresult fake_map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle);

#define FOREIGN 0x7e0000000000ull /* memory of other processes appears from here on */

/* ---- arrays */

static CUresult array_new(void *handle)
{
	void *array = malloc(64);

	memcpy(handle, &array, sizeof(array));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return array && d && d->Width ? array_new(array) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
	return array && d && d->Width ? array_new(array) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
				       unsigned levels)
{
	return array && d && d->Width && levels ? array_new(array) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuArrayDestroy(CUarray array)
{
	free(array);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	free(array);
	return CUDA_SUCCESS;
}

/* As the driver's for arrays whose mapping was not deferred. */
EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *r, CUarray a,
					     CUdevice d)
{
	(void)r, (void)a, (void)d;
	return CUDA_ERROR_INVALID_VALUE;
}

static CUDA_ARRAY3D_DESCRIPTOR description(const struct cudaChannelFormatDesc *c, size_t w,
					   size_t h, size_t z)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = w,
		.Height = h,
		.Depth = z,
		.Format = c->x == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
			  : c->x == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
				       : CU_AD_FORMAT_FLOAT,
		.NumChannels = (unsigned)((c->x > 0) + (c->y > 0) + (c->z > 0) + (c->w > 0)),
	};
}

EXPORT cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *c,
				   size_t w, size_t h, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	(void)flags;
	if (!c)
		return cudaErrorInvalidValue;
	d = description(c, w, h, 0);
	return (cudaError_t)cuArray3DCreate_v2((CUarray *)array, &d);
}

EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *c,
				     struct cudaExtent e, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = description(c, e.width, e.height, e.depth);

	(void)flags;
	return (cudaError_t)cuArray3DCreate_v2((CUarray *)array, &d);
}

EXPORT cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array,
					    const struct cudaChannelFormatDesc *c,
					    struct cudaExtent e, unsigned levels, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = description(c, e.width, e.height, e.depth);

	(void)flags;
	return (cudaError_t)cuMipmappedArrayCreate((CUmipmappedArray *)array, &d, levels);
}

EXPORT cudaError_t cudaFreeArray(cudaArray_t array)
{
	return array ? (cudaError_t)cuArrayDestroy((CUarray)array) : cudaSuccess;
}

EXPORT cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
	return (cudaError_t)cuMipmappedArrayDestroy((CUmipmappedArray)array);
}

/* ---- other processes' memory: a handle's first byte n means n + 1 MiB at FOREIGN + n GiB */

static unsigned opened[256];

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	memset(handle, (int)(address >> 21), sizeof(*handle));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
	unsigned n = (unsigned char)handle.reserved[0];

	(void)flags;
	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	if (n == 255)
		return CUDA_ERROR_OUT_OF_MEMORY;
	opened[n]++;
	*address = FOREIGN + ((uint64_t)n << 30);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	unsigned n = (unsigned)((address - FOREIGN) >> 30);

	if (address < FOREIGN || n > 255 || !opened[n])
		return CUDA_ERROR_INVALID_VALUE;
	opened[n]--;
	return CUDA_SUCCESS;
}

EXPORT cudaError_t cudaIpcOpenMemHandle(void **address, cudaIpcMemHandle_t handle, unsigned flags)
{
	CUipcMemHandle same;

	memcpy(&same, &handle, sizeof(same));
	return (cudaError_t)cuIpcOpenMemHandle_v2((CUdeviceptr *)address, same, flags);
}

EXPORT cudaError_t cudaIpcCloseMemHandle(void *address)
{
	return (cudaError_t)cuIpcCloseMemHandle((CUdeviceptr)address);
}

EXPORT unsigned fake_ranges; /* number of calls of the next function */

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	static __typeof__(&cuMemGetAddressRange_v2) simulated;

	fake_ranges++;
	if (address >= FOREIGN && address < FOREIGN + (1ull << 40)) {
		uint64_t n = (address - FOREIGN) >> 30;
		if (base)
			*base = FOREIGN + (n << 30);
		if (size)
			*size = (n + 1) * MiB;
		return CUDA_SUCCESS;
	}
	if (!simulated)
		simulated = (__typeof__(simulated))dlsym(RTLD_NEXT, "cuMemGetAddressRange_v2");
	return simulated(base, size, address);
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool,
				       CUmemPoolPtrExportData *data)
{
	(void)pool;
	*address = FOREIGN + ((uint64_t)data->reserved[0] << 30);
	return CUDA_SUCCESS;
}

EXPORT cudaError_t cudaMemPoolImportPointer(void **address, cudaMemPool_t pool,
					    struct cudaMemPoolPtrExportData *data)
{
	return (cudaError_t)cuMemPoolImportPointer((CUdeviceptr *)address, (CUmemoryPool)pool,
						   (CUmemPoolPtrExportData *)data);
}

EXPORT CUresult cuImportExternalMemory(CUexternalMemory *memory,
				       const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
	return memory && d && d->size ? array_new(memory) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
						const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d)
{
	(void)memory;
	*address = FOREIGN + (200ull << 30) + d->offset;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	free(memory);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
					       CUmemAllocationHandleType type)
{
	(void)type;
	*handle = FOREIGN + (uintptr_t)shared;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *p,
						       CUmemGenericAllocationHandle handle)
{
	static __typeof__(&cuMemGetAllocationPropertiesFromHandle) simulated;

	if (handle >= FOREIGN) {
		*p = (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					    .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
		return CUDA_SUCCESS;
	}
	if (!simulated)
		simulated = (__typeof__(simulated))dlsym(RTLD_NEXT,
							 "cuMemGetAllocationPropertiesFromHandle");
	return simulated(p, handle);
}

EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
				  const CUmulticastObjectProp *p)
{
	*handle = FOREIGN + 0x777000 + p->size;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
	(void)handle, (void)device;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
				   CUmemGenericAllocationHandle memory, size_t memory_offset,
				   size_t size, unsigned long long flags)
{
	(void)handle, (void)offset, (void)memory, (void)memory_offset, (void)size, (void)flags;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device,
				  size_t offset, size_t size)
{
	(void)handle, (void)device, (void)offset, (void)size;
	return CUDA_SUCCESS;
}

/* cuMemRelease: handles of other processes and multicast objects are ours, the rest the simulated
 * device's. */
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	static __typeof__(&cuMemRelease) simulated;

	if (handle >= FOREIGN)
		return CUDA_SUCCESS;
	if (!simulated)
		simulated = (__typeof__(simulated))dlsym(RTLD_NEXT, "cuMemRelease");
	return simulated(handle);
}

/* ---- contexts of the program's own */

static CUcontext own_context;

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	static __typeof__(&cuCtxGetCurrent) simulated;

	if (own_context) {
		*context = own_context;
		return CUDA_SUCCESS;
	}
	if (!simulated)
		simulated = (__typeof__(simulated))dlsym(RTLD_NEXT, "cuCtxGetCurrent");
	return simulated(context);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *p, unsigned flags,
			       CUdevice device)
{
	(void)p, (void)flags, (void)device;
	*context = own_context = (CUcontext)&own_context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	if (!context || context != own_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	own_context = NULL;
	return CUDA_SUCCESS;
}

/* ---- the driver's reset does the same as the runtime's */

EXPORT void (*fake_meanwhile)(void); /* the actions of other threads while a device is reset */

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	static cudaError_t (*simulated)(void);

	(void)device;
	if (!simulated)
		simulated = (cudaError_t(*)(void))dlsym(
			dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW), "cudaDeviceReset");
	if (simulated() != cudaSuccess)
		return CUDA_ERROR_UNKNOWN;
	if (fake_meanwhile)
		fake_meanwhile();
	return CUDA_SUCCESS;
}

/* A mapping that memtrace does not see. */
EXPORT CUresult fake_map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle)
{
	__typeof__(&cuMemMap) simulated = (__typeof__(simulated))dlsym(RTLD_NEXT, "cuMemMap");

	return simulated(address, bytes, 0, handle, 0);
}

/* ---- a pool's handle is used again at once */

static CUmemoryPool destroyed;

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	destroyed = pool;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	__typeof__(&cuMemPoolCreate) simulated =
		(__typeof__(simulated))dlsym(RTLD_NEXT, "cuMemPoolCreate");

	CUmemPoolProps of_device = *properties;

	*pool = destroyed;
	destroyed = NULL;
	of_device.allocType =
		CU_MEM_ALLOCATION_TYPE_PINNED; /* the only one that the simulated device has */
	return *pool ? CUDA_SUCCESS : simulated(pool, &of_device);
}

#if CUDA_VERSION >= 13000
/* A pool of CUDA's own for managed memory. */
EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *where,
				       CUmemAllocationType type)
{
	static CUmemoryPool managed;
	CUmemPoolProps properties = { .allocType = type, .location = *where };

	if (!managed)
		cuMemPoolCreate(&managed, &properties);
	*pool = managed;
	return CUDA_SUCCESS;
}
#endif

/* ---- memory that no call shows */

EXPORT CUresult fake_take(size_t bytes);
EXPORT CUresult fake_take(size_t bytes)
{
	__typeof__(&cuMemAlloc_v2) simulated = (__typeof__(simulated))dlsym(
		dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW), "\1cuMemAlloc_v2");
	CUdeviceptr unseen;

	if (!simulated) /* dlsym() gives the wrapper of a name */
		simulated = (__typeof__(simulated))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	return simulated(&unseen, bytes);
}

/* ---- a device of another number, and a call that never returns */

EXPORT int fake_device_number;

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = fake_device_number;
	return CUDA_SUCCESS;
}

EXPORT void (*fake_leave)(void);

EXPORT cudaError_t cudaMalloc(void **p, size_t bytes)
{
	static cudaError_t (*simulated)(void **, size_t);

	if (fake_leave)
		fake_leave();
	if (!simulated)
		simulated = (cudaError_t(*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");
	return simulated(p, bytes);
}

/* A driver that takes what it needs for a handle by a call of its own. */
EXPORT int fake_nested;

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
			    const CUmemAllocationProp *properties, unsigned long long flags)
{
	static __typeof__(&cuMemCreate) simulated;
	CUdeviceptr inside;

	if (fake_nested)
		cuMemAlloc_v2(&inside, bytes);
	if (!simulated)
		simulated = (__typeof__(simulated))dlsym(RTLD_NEXT, "cuMemCreate");
	return simulated(handle, bytes, properties, flags);
}

/* As in libc10.so: PyTorch's allocator reports to this function. */
EXPORT void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes,
								  size_t allocated, size_t reserved,
								  uint16_t device);
EXPORT void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes,
								  size_t allocated, size_t reserved,
								  uint16_t device)
{
	(void)p, (void)bytes, (void)allocated, (void)reserved, (void)device;
}
