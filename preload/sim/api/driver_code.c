/* The driver's modules, functions and launches: handles, and kernels that do nothing. */
#include "device/common.h"
#include "device/device.h"
#include "device/handle.h"
#include "time/speed.h"
#include "device/stream.h"
#include "kernels/kernels.h"

#include <cuda.h>
#include <string.h>

#define REDUCTION "reduction_" /* a reduction that PyTorch compiles when it is first used */

static CUresult made(void *handle)
{
	*(void **)handle = handle_new();
	return (CUresult)sim_ready();
}

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *name)
{
	(void)name;
	return made(module);
}
EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	(void)image;
	return made(module);
}
EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *o,
				   void **v)
{
	(void)image, (void)n, (void)o, (void)v;
	return made(module);
}
EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	(void)image;
	return made(module);
}
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	(void)module;
	CUresult status = made(function);
	if (!status && !strncmp(name, REDUCTION, strlen(REDUCTION)))
		kernel_register(*function, strdup(name)); /* the table of kernels keeps the name */
	return status;
}
EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
				  void **jit_values, unsigned jits, CUlibraryOption *options,
				  void **values, unsigned count)
{
	(void)code, (void)jit, (void)jit_values, (void)jits, (void)options, (void)values,
		(void)count;
	return made(library);
}
EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	(void)library, (void)name;
	return made(kernel);
}
EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	*function = (CUfunction)kernel;
	return (CUresult)sim_ready();
}

static CUresult function_attribute(int *value, CUfunction_attribute attribute)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = 32;
		break;
	default:
		*value = 0;
	}
	return (CUresult)sim_ready();
}
EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
	(void)function;
	return function_attribute(value, attribute);
}
EXPORT CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
				     CUdevice device)
{
	(void)kernel, (void)device;
	return function_attribute(value, attribute);
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
							    int threads, size_t shared)
{
	(void)function, (void)threads, (void)shared;
	*blocks = 2;
	return (CUresult)sim_ready();
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
								     CUfunction function,
								     int threads, size_t shared,
								     unsigned flags)
{
	(void)flags;
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
EXPORT CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function,
					     const CUlaunchConfig *config)
{
	(void)function, (void)config;
	*count = 16;
	return (CUresult)sim_ready();
}

static CUresult launched(CUstream stream, const unsigned grid[3], const unsigned block[3])
{
	int error = device_use_current();
	uint64_t threads = (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
	if (!error)
		stream_work(stream, speed_threads(threads));
	return (CUresult)error;
}
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			       unsigned by, unsigned bz, unsigned shared, CUstream stream,
			       void **arguments, void **extra)
{
	(void)shared, (void)extra;
	if (arguments)
		kernel_run(f, arguments, gx, gy);
	return launched(stream, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz });
}
PTSZ(cuLaunchKernel);
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **arguments,
				 void **extra)
{
	(void)f, (void)arguments, (void)extra;
	return launched(config->hStream,
			(unsigned[]){ config->gridDimX, config->gridDimY, config->gridDimZ },
			(unsigned[]){ config->blockDimX, config->blockDimY, config->blockDimZ });
}
PTSZ(cuLaunchKernelEx);
EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
					  unsigned bx, unsigned by, unsigned bz, unsigned shared,
					  CUstream stream, void **arguments)
{
	(void)f, (void)shared, (void)arguments;
	return launched(stream, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz });
}
PTSZ(cuLaunchCooperativeKernel);
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	stream_work(stream, 0);
	if (!capture_of(stream, NULL, NULL))
		function(data);
	return (CUresult)sim_ready();
}
PTSZ(cuLaunchHostFunc);

/* Nothing is ever logged. */
EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback callback, void *data,
				       CUlogsCallbackHandle *handle)
{
	(void)callback, (void)data;
	return made(handle);
}
