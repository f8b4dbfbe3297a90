/* Launches, and the code objects and symbols around them. */
#include "api/runtime.h"
#include "device/common.h"
#include "device/device.h"
#include "device/handle.h"
#include "device/hash.h"
#include "device/memory.h"
#include "time/speed.h"
#include "device/settings.h"
#include "device/stream.h"
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The functions that nvcc-compiled host code calls. */
EXPORT void **__cudaRegisterFatBinary(void *image);
EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
EXPORT void __cudaUnregisterFatBinary(void **handle);
EXPORT char __cudaInitModule(void **handle);
EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
				   int limit, void *thread, void *block, void *block_size,
				   void *grid_size, int *warp_size);
EXPORT void __cudaRegisterVar(void **handle, char *host, char *address, const char *name,
			      int external, size_t size, int constant, int global);
EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name,
				     int external, size_t size, int constant, int global);
EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
					    cudaStream_t stream);
EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
					      void *stream);
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function);
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
				      size_t shared, cudaStream_t stream);

EXPORT void **__cudaRegisterFatBinary(void *image)
{
	static void *handle[4]; /* PyTorch registers hundreds while it loads: none is kept */
	(void)image;
	return handle;
}
EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}
EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}
EXPORT char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}
EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
				   int limit, void *thread, void *block, void *block_size,
				   void *grid_size, int *warp_size)
{
	(void)handle, (void)device, (void)limit, (void)thread, (void)block, (void)block_size;
	(void)grid_size, (void)warp_size;
	kernel_register(host, name);
}

/* ---- device variables: each gets an address when a program first asks for it */

struct variable {
	const void *host;
	size_t size;
	uint64_t address[MAX_DEVICES];
	UT_hash_handle hh;
};
static struct variable *variables; /* by `host` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct variable *variable_of(const void *host)
{
	struct variable *v;
	HASH_FIND_PTR(variables, &host, v);
	return v;
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *address, const char *name,
			      int external, size_t size, int constant, int global)
{
	(void)handle, (void)address, (void)name, (void)external, (void)constant, (void)global;
	struct variable *v = calloc(1, sizeof *v), *old;
	if (!v)
		return;
	v->host = host;
	v->size = size ? size : 1;
	pthread_mutex_lock(&lock);
	hash_was_full = false;
	HASH_REPLACE_PTR(variables, host, v, old);
	pthread_mutex_unlock(&lock);
	free(hash_was_full ? v : old);
}
EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name,
				     int external, size_t size, int constant, int global)
{
	__cudaRegisterVar(handle, (char *)host, address, name, external, size, constant, global);
}

EXPORT cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
	int error = device_use_current(), device = device_current();
	pthread_mutex_lock(&lock);
	struct variable *v = error ? NULL : variable_of(symbol);
	if (!error && !v)
		error = cudaErrorInvalidSymbol;
	/* module memory is part of the modelled context, so it is not charged again */
	if (!error && !v->address[device])
		error = memory_alloc(v->size, device, MEMORY_MODULE, NULL, &v->address[device]);
	if (!error)
		*address = (void *)v->address[device];
	pthread_mutex_unlock(&lock);
	return rt(error);
}
EXPORT cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
	pthread_mutex_lock(&lock);
	struct variable *v = variable_of(symbol);
	if (v)
		*size = v->size;
	pthread_mutex_unlock(&lock);
	return rt(v ? SIM_OK : cudaErrorInvalidSymbol);
}
EXPORT cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes,
				      size_t offset, enum cudaMemcpyKind kind)
{
	void *to = NULL;
	cudaError_t error = cudaGetSymbolAddress(&to, symbol);
	return error ? error : cudaMemcpy((char *)to + offset, from, bytes, kind);
}
EXPORT cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
					enum cudaMemcpyKind kind)
{
	void *from = NULL;
	cudaError_t error = cudaGetSymbolAddress(&from, symbol);
	return error ? error : cudaMemcpy(to, (char *)from + offset, bytes, kind);
}

/* ---- launches */

static uint64_t threads(dim3 d)
{
	return (uint64_t)d.x * d.y * d.z;
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments,
			  cudaStream_t stream)
{
	int error = device_use_current();
	if (error)
		return rt(error);
	stream_work(stream, speed_threads(threads(grid) * threads(block)));
	kernel_run(function, arguments, grid.x, grid.y);
	return cudaSuccess;
}

static _Thread_local struct configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
} configuration;

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
					    cudaStream_t stream)
{
	configuration = (struct configuration){ grid, block, shared, stream };
	return 0;
}
EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	*grid = configuration.grid;
	*block = configuration.block;
	*shared = configuration.shared;
	*(cudaStream_t *)stream = configuration.stream;
	return cudaSuccess;
}
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
	*kernel = (cudaKernel_t)(uintptr_t)function;
	return cudaSuccess;
}
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
				      size_t shared, cudaStream_t stream)
{
	(void)shared;
	return launch((const void *)kernel, grid, block, arguments, stream);
}
TWIN(__cudaLaunchKernel, _ptsz);
EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
				    size_t shared, cudaStream_t stream)
{
	(void)shared;
	return launch(function, grid, block, arguments, stream);
}
PTSZ(cudaLaunchKernel);
EXPORT cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
					       void **arguments, size_t shared, cudaStream_t stream)
{
	(void)shared;
	return launch(function, grid, block, arguments, stream);
}
PTSZ(cudaLaunchCooperativeKernel);
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
				       void **arguments)
{
	return launch(function, config->gridDim, config->blockDim, arguments, config->stream);
}
PTSZ(cudaLaunchKernelExC);

/* ---- resources that a kernel would need: plausible, the same for all */

enum { REGISTERS = 32, BLOCKS_PER_MULTIPROCESSOR = 2, CLUSTER = 8 };

EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function)
{
	int error = device_use_current(), major = cuda_major();
	(void)function;
	if (error)
		return rt(error);
	size_t size = major >= 12 ? sizeof *out
				  : offsetof(struct cudaFuncAttributes, clusterDimMustBeSet);
	struct cudaFuncAttributes a = {
		.maxThreadsPerBlock = 1024,
		.numRegs = REGISTERS,
		.ptxVersion = settings.card->major * 10 + settings.card->minor,
		.binaryVersion = settings.card->major * 10 + settings.card->minor,
		.maxDynamicSharedSizeBytes = (int)settings.card->shared_optin,
	};
	memcpy(out, &a, size);
	return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
								 int threads, size_t shared)
{
	(void)function, (void)threads, (void)shared;
	*blocks = BLOCKS_PER_MULTIPROCESSOR;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, const void *function, int threads, size_t shared, unsigned flags)
{
	(void)flags;
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *function,
							const cudaLaunchConfig_t *config)
{
	(void)function, (void)config;
	*size = CLUSTER;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *function,
						  const cudaLaunchConfig_t *config)
{
	(void)function, (void)config;
	*count = 2 * CLUSTER;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *size, const void *function,
							     int blocks, int threads)
{
	(void)function, (void)threads;
	*size = settings.card ? settings.card->shared_optin / (unsigned)(blocks > 0 ? blocks : 1)
			      : 0;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t *out, const void *symbol)
{
	*out = (cudaFunction_t)(uintptr_t)symbol;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaGetKernel(cudaKernel_t *out, const void *symbol)
{
	*out = (cudaKernel_t)(uintptr_t)symbol;
	return rt(sim_ready());
}

/* ---- libraries loaded at run time */

EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
				       enum cudaJitOption *jit, void **jit_values, unsigned jits,
				       enum cudaLibraryOption *options, void **values,
				       unsigned count)
{
	(void)code, (void)jit, (void)jit_values, (void)jits, (void)options, (void)values,
		(void)count;
	*library = handle_new();
	return rt(sim_ready());
}
EXPORT cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *name,
					   enum cudaJitOption *jit, void **jit_values,
					   unsigned jits, enum cudaLibraryOption *options,
					   void **values, unsigned count)
{
	return cudaLibraryLoadData(library, name, jit, jit_values, jits, options, values, count);
}
EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library,
					const char *name)
{
	(void)library, (void)name;
	*kernel = handle_new();
	return rt(sim_ready());
}
