/* The runtime's memory calls: linear, managed and pinned memory, copies, fills, attributes of
 * pointers. */
#include "api/runtime.h"
#include "api/vmm.h"
#include "device/common.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/host.h"
#include "device/memory.h"
#include "time/speed.h"
#include "device/stream.h"
#include "device/timeline.h"

#include <string.h>

static cudaError_t linear(void *pointer, uint64_t bytes)
{
	uint64_t address = 0;
	int error = device_use_current();
	if (!error && bytes)
		error = memory_alloc(bytes, device_current(), MEMORY_LINEAR, NULL, &address);
	memcpy(pointer, &address, sizeof address);
	return rt(error);
}

EXPORT cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
	return linear(pointer, bytes);
}

EXPORT cudaError_t cudaFree(void *pointer)
{
	int error = device_use_current(); /* programs call cudaFree(NULL) to make a context */
	if (!error && pointer)
		timeline_finish_all(ALL_DEVICES);
	return rt(error || !pointer ? error : memory_free((uint64_t)pointer));
}

#define PITCH 512
EXPORT cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
	*pitch = round_up(width, PITCH);
	return linear(pointer, product(*pitch, height));
}
EXPORT cudaError_t cudaMalloc3D(struct cudaPitchedPtr *p, struct cudaExtent extent)
{
	*p = (struct cudaPitchedPtr){ NULL, round_up(extent.width, PITCH), extent.width,
				      extent.height };
	return linear(&p->ptr, product(product(p->pitch, extent.height), extent.depth));
}
EXPORT cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
	uint64_t address = 0;
	int error = device_use_current();
	(void)flags;
	if (!error)
		error = bytes ? memory_alloc(bytes, device_current(), MEMORY_MANAGED, NULL,
					     &address)
			      : SIM_INVALID_VALUE;
	*pointer = (void *)address;
	return rt(error);
}
EXPORT cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	uint64_t a = 0, t = 0;
	int error = device_use_current();
	if (!error)
		device_memory(device_current(), &a, &t);
	*available = a;
	*total = t;
	return rt(error);
}

/* ---- pinned host memory */

EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
	int error = sim_ready();
	return rt(error ? error : host_alloc(bytes, flags, pointer));
}
EXPORT cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
	return cudaHostAlloc(pointer, bytes, 0);
}
EXPORT cudaError_t cudaFreeHost(void *pointer)
{
	if (pointer)
		timeline_finish_all(ALL_DEVICES);
	return rt(host_free(pointer));
}
EXPORT cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags)
{
	int error = sim_ready();
	(void)flags;
	return rt(error ? error : host_register(pointer, bytes));
}
EXPORT cudaError_t cudaHostUnregister(void *pointer)
{
	return rt(host_unregister(pointer));
}
EXPORT cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
	(void)flags;
	*device = host; /* unified addressing */
	return rt(host_find(host) ? SIM_OK : SIM_INVALID_VALUE);
}
EXPORT cudaError_t cudaHostGetFlags(unsigned *flags, void *host)
{
	*flags = cudaHostAllocPortable | cudaHostAllocMapped;
	return rt(host_find(host) ? SIM_OK : SIM_INVALID_VALUE);
}

/* ---- attributes of a pointer */

EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer)
{
	struct block block;
	int error = sim_ready();
	if (error)
		return rt(error);
	memset(out, 0, cuda_major() >= 13 ? sizeof *out : 24); /* CUDA 13 extended the structure */
	out->device = -1;
	out->hostPointer = (void *)pointer;
	if (memory_find((uint64_t)pointer, &block)) {
		bool managed = block.kind == MEMORY_MANAGED;
		int device = block.kind == MEMORY_RESERVED ? vmm_device((uint64_t)pointer)
							   : block.device;
		if (block.kind == MEMORY_RESERVED && device < 0)
			return cudaSuccess; /* addresses without memory */
		out->type = managed ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
		out->device = device;
		out->devicePointer = (void *)pointer;
		out->hostPointer = managed ? (void *)pointer : NULL;
	} else if (host_find(pointer)) {
		out->type = cudaMemoryTypeHost;
		out->device = device_current();
		out->devicePointer = (void *)pointer;
	}
	return cudaSuccess;
}

/* ---- copies and fills */

static cudaError_t copy(void *to, const void *from, size_t bytes, cudaStream_t stream,
			bool blocking)
{
	int error = device_use_current();
	if (error)
		return rt(error);
	stream_work(stream, speed_copy(to, from, bytes));
	copy_bytes(to, from, bytes);
	stream_copied(stream, to, blocking);
	return cudaSuccess;
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
	(void)kind;
	return copy(to, from, bytes, NULL, true);
}
PTDS(cudaMemcpy);
EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
				   enum cudaMemcpyKind kind, cudaStream_t s)
{
	(void)kind;
	return copy(to, from, bytes, s, false);
}
PTSZ(cudaMemcpyAsync);
EXPORT cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
				  size_t bytes)
{
	(void)to_device, (void)from_device;
	return copy(to, from, bytes, NULL, true);
}
EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
				       size_t bytes, cudaStream_t s)
{
	(void)to_device, (void)from_device;
	return copy(to, from, bytes, s, false);
}

static cudaError_t copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			   size_t width, size_t height, cudaStream_t s, bool blocking)
{
	cudaError_t error = runtime_on_device();
	if (error)
		return error;
	stream_work(s, speed_copy(to, from, product(width, height)));
	copy_rows(to, to_pitch, from, from_pitch, width, height);
	stream_copied(s, to, blocking);
	return cudaSuccess;
}

EXPORT cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
				     size_t width, size_t height, enum cudaMemcpyKind kind,
				     cudaStream_t s)
{
	(void)kind;
	return copy_2d(to, to_pitch, from, from_pitch, width, height, s, false);
}
PTSZ(cudaMemcpy2DAsync);
EXPORT cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
				size_t width, size_t height, enum cudaMemcpyKind kind)
{
	(void)kind;
	return copy_2d(to, to_pitch, from, from_pitch, width, height, NULL, true);
}

static cudaError_t fill(void *to, int value, size_t bytes, cudaStream_t s)
{
	int error = device_use_current();
	if (error)
		return rt(error);
	stream_work(s, speed_memory(bytes));
	fill_bytes(to, value, bytes);
	return cudaSuccess;
}

EXPORT cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
	return fill(to, value, bytes, NULL);
}
EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
	return fill(to, value, bytes, s);
}
PTSZ(cudaMemsetAsync);
EXPORT cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
				     cudaStream_t s)
{
	cudaError_t error = runtime_on_device();
	stream_work(s, speed_memory(product(width, height)));
	for (size_t row = 0; !error && row < height; row++)
		fill_bytes((char *)to + row * pitch, value, width);
	return error;
}

/* ---- memory of graphs: captured allocations come from the pool at once, so graphs have none of
 * their own */

EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device,
						  enum cudaGraphMemAttributeType attribute,
						  void *value)
{
	(void)device, (void)attribute;
	*(uint64_t *)value = 0;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device,
						  enum cudaGraphMemAttributeType attribute,
						  void *value)
{
	(void)device, (void)attribute, (void)value;
	return rt(sim_ready());
}
