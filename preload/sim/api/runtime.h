/* The answers of runtime calls: rt() keeps an error for cudaGetLastError(). */
#ifndef CUDASIM_RUNTIME_H
#define CUDASIM_RUNTIME_H

#include "device/device.h"
#include "device/status.h"

#include <cuda_runtime_api.h>

static inline cudaError_t rt(int error)
{
	return (cudaError_t)runtime_error(error);
}

/* cudaSuccess once the current device has its context. */
static inline cudaError_t runtime_on_device(void)
{
	return rt(device_use_current());
}

#endif
