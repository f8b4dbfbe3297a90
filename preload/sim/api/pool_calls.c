/* The runtime's and the driver's calls of stream-ordered pools. Error numbers are common to both.
 */
#include "api/runtime.h"
#include "device/common.h"
#include "device/device.h"
#include "device/memory.h"
#include "device/pool.h"
#include "device/status.h"
#include "device/stream.h"

#include <cuda.h>

EXPORT cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s)
{
	stream_work(s, 0);
	return rt(pool_alloc(NULL, device_current(), n, p));
}
PTSZ(cudaMallocAsync);
EXPORT cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t pool, cudaStream_t s)
{
	stream_work(s, 0);
	return rt(pool ? pool_alloc((struct pool *)pool, 0, n, p) : SIM_INVALID_VALUE);
}
PTSZ(cudaMallocFromPoolAsync);
EXPORT cudaError_t cudaFreeAsync(void *p, cudaStream_t s)
{
	stream_work(s, 0);
	return rt(p ? memory_free((uint64_t)p) : SIM_INVALID_VALUE);
}
PTSZ(cudaFreeAsync);
EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *p, int device)
{
	return rt(pool_get_default(device, p));
}
EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *p, int device)
{
	return rt(pool_get_current(device, p));
}
EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t p)
{
	return rt(pool_choose(device, (struct pool *)p));
}
EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v)
{
	return rt(pool_attribute((struct pool *)p, (int)a, v));
}
EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v)
{
	return rt(pool_set_attribute((struct pool *)p, (int)a, v));
}
EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t p, size_t keep)
{
	return rt(pool_trim_to((struct pool *)p, keep));
}
EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t p)
{
	return rt(pool_destroy((struct pool *)p));
}
EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t p, const struct cudaMemAccessDesc *d,
					size_t n)
{
	(void)p, (void)d, (void)n;
	return rt(sim_ready()); /* every simulated device reaches every other */
}
EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t *p, const struct cudaMemPoolProps *props)
{
	return rt(props->location.type == cudaMemLocationTypeDevice
			  ? pool_create(props->location.id, props->maxSize, p)
			  : sim_refuse(LIB_cudart, "cudaMemPoolCreate on the host"));
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s)
{
	stream_work(s, 0);
	return n ? (CUresult)pool_alloc(NULL, device_current(), n, p) : CUDA_ERROR_INVALID_VALUE;
}
PTSZ(cuMemAllocAsync);
EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s)
{
	stream_work(s, 0);
	return n && pool ? (CUresult)pool_alloc((struct pool *)pool, 0, n, p)
			 : CUDA_ERROR_INVALID_VALUE;
}
PTSZ(cuMemAllocFromPoolAsync);
EXPORT CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s)
{
	stream_work(s, 0);
	return (CUresult)memory_free(p);
}
PTSZ(cuMemFreeAsync);
EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *p, CUdevice device)
{
	return (CUresult)pool_get_default(device, p);
}
EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *p, CUdevice device)
{
	return (CUresult)pool_get_current(device, p);
}
EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool p)
{
	return (CUresult)pool_choose(device, (struct pool *)p);
}
EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *v)
{
	return (CUresult)pool_attribute((struct pool *)p, (int)a, v);
}
EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *v)
{
	return (CUresult)pool_set_attribute((struct pool *)p, (int)a, v);
}
EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep)
{
	return (CUresult)pool_trim_to((struct pool *)p, keep);
}
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool p)
{
	return (CUresult)pool_destroy((struct pool *)p);
}
EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *d, size_t n)
{
	(void)p, (void)d, (void)n;
	return (CUresult)sim_ready();
}
EXPORT CUresult cuMemPoolCreate(CUmemoryPool *p, const CUmemPoolProps *props)
{
	return (CUresult)(props->location.type == CU_MEM_LOCATION_TYPE_DEVICE
				  ? pool_create(props->location.id, props->maxSize, p)
				  : sim_refuse(LIB_cuda, "cuMemPoolCreate on the host"));
}
