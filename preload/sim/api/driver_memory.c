/* The driver API's memory beside pools and virtual memory: linear, managed, pinned; copies and
 * fills. */
#include "device/common.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/host.h"
#include "device/memory.h"
#include "time/speed.h"
#include "device/stream.h"

#include <cuda.h>

static CUresult linear(CUdeviceptr *address, size_t bytes)
{
	int error = device_use_current();
	*address = 0;
	if (!error)
		error = bytes ? memory_alloc(bytes, device_current(), MEMORY_LINEAR, NULL,
					     (uint64_t *)address)
			      : SIM_INVALID_VALUE;
	return (CUresult)error;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	return linear(address, bytes);
}
EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
				   unsigned element)
{
	(void)element;
	*pitch = round_up(width, 512);
	return linear(address, product(*pitch, height));
}
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
	(void)flags;
	int error = device_use_current();
	if (!error)
		error = bytes ? memory_alloc(bytes, device_current(), MEMORY_MANAGED, NULL,
					     (uint64_t *)address)
			      : SIM_INVALID_VALUE;
	return (CUresult)error;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	return (CUresult)(address ? memory_free(address) : sim_ready());
}
EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	uint64_t a = 0, t = 0;
	int error = device_use_current();
	if (!error)
		device_memory(device_current(), &a, &t);
	*available = a;
	*total = t;
	return (CUresult)error;
}
EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	struct block block;
	if (!memory_find(address, &block))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = block.base;
	if (size)
		*size = block.size;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
	return (CUresult)(sim_ready() ? SIM_NOT_INITIALIZED : host_alloc(bytes, flags, pointer));
}
EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
	return cuMemHostAlloc(pointer, bytes, 0);
}
EXPORT CUresult cuMemFreeHost(void *pointer)
{
	return (CUresult)host_free(pointer);
}
EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags)
{
	(void)flags;
	return (CUresult)host_register(pointer, bytes);
}
EXPORT CUresult cuMemHostUnregister(void *pointer)
{
	return (CUresult)host_unregister(pointer);
}
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned flags)
{
	(void)flags;
	*address = (CUdeviceptr)pointer;
	return host_find(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- copies and fills */

static CUresult copy(uint64_t to, uint64_t from, size_t bytes, CUstream s, bool blocking)
{
	int error = device_use_current();
	if (!error) {
		stream_work(s, speed_copy((void *)to, (const void *)from, bytes));
		copy_bytes((void *)to, (const void *)from, bytes);
		stream_copied(s, (void *)to, blocking);
	}
	return (CUresult)error;
}
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
	return copy(to, (uint64_t)from, n, NULL, true);
}
EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
	return copy((uint64_t)to, from, n, NULL, true);
}
EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	return copy(to, from, n, NULL, true);
}
EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	return copy(to, from, n, NULL, true);
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
	return copy(to, (uint64_t)from, n, s, false);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
	return copy((uint64_t)to, from, n, s, false);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	return copy(to, from, n, s, false);
}
EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	return copy(to, from, n, s, false);
}
PTSZ(cuMemcpyHtoDAsync_v2);
PTSZ(cuMemcpyDtoHAsync_v2);
PTSZ(cuMemcpyDtoDAsync_v2);
PTSZ(cuMemcpyAsync);

static CUresult fill(CUdeviceptr to, unsigned value, size_t width, size_t count, CUstream s)
{
	int error = device_use_current();
	if (error)
		return (CUresult)error;
	stream_work(s, speed_memory(product(count, width)));
	if (width == 1 || !value)
		fill_bytes((void *)to, (int)(value & 0xff), count * width);
	else
		fill_words((void *)to, value, width, count);
	return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n)
{
	return fill(to, v, 1, n, NULL);
}
EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n)
{
	return fill(to, v, 2, n, NULL);
}
EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned v, size_t n)
{
	return fill(to, v, 4, n, NULL);
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s)
{
	return fill(to, v, 1, n, s);
}
EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s)
{
	return fill(to, v, 2, n, s);
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s)
{
	return fill(to, v, 4, n, s);
}
PTSZ(cuMemsetD8Async);
PTSZ(cuMemsetD16Async);
PTSZ(cuMemsetD32Async);
