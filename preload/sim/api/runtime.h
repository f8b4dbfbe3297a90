/* What the runtime's files share. */
#ifndef CUDASIM_RUNTIME_H
#define CUDASIM_RUNTIME_H

#include "device/sim.h"

#include <cuda_runtime_api.h>

static inline cudaError_t rt(int error)
{
	return (cudaError_t)runtime_error(error);
}
cudaError_t runtime_on_device(void); /* the current device has its context, or why not */

/* Entry points of older CUDA majors, which today's headers do not declare. */
EXPORT cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device);
EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
					       enum cudaStreamCaptureStatus *status,
					       unsigned long long *id, cudaGraph_t *graph,
					       const cudaGraphNode_t **dependencies, size_t *count);
EXPORT cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
					       enum cudaStreamCaptureStatus *status,
					       unsigned long long *id, cudaGraph_t *graph,
					       const cudaGraphNode_t **dependencies,
					       const cudaGraphEdgeData **edges, size_t *count);
EXPORT cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
							  cudaGraphNode_t *dependencies,
							  const cudaGraphEdgeData *edges,
							  size_t count, unsigned flags);
EXPORT cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end);

/* What nvcc-compiled host code calls. */
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

#endif
