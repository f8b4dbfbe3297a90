/* The driver API beside memory and code: devices, contexts, pointers, streams and events. */
#include "api/vmm.h"
#include "device/common.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/host.h"
#include "device/memory.h"
#include "device/settings.h"
#include "device/status.h"
#include "device/stream.h"

#include <cuda.h>

static CUresult ready(void)
{
	return (CUresult)sim_ready();
}

static CUresult known_device(CUdevice device)
{
	return sim_ready() || !driver_started()                ? CUDA_ERROR_NOT_INITIALIZED
	       : device < 0 || device >= (int)settings.visible ? CUDA_ERROR_INVALID_DEVICE
							       : CUDA_SUCCESS;
}

EXPORT CUresult cuInit(unsigned flags)
{
	(void)flags;
	driver_start();
	return ready()            ? CUDA_ERROR_NOT_INITIALIZED
	       : settings.visible ? CUDA_SUCCESS
				  : CUDA_ERROR_NO_DEVICE;
}
EXPORT CUresult cuDriverGetVersion(int *version)
{
	*version = cuda_version();
	return CUDA_SUCCESS;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define ERROR(driver, runtime, text) { driver, #driver, text },
#define RUNTIME_ERROR(runtime, text)
#include "api/errors.def"
#undef ERROR
#undef RUNTIME_ERROR
};

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	for (size_t i = 0; i < LENGTH(errors); i++)
		if (errors[i].code == error) {
			*text = errors[i].text;
			return CUDA_SUCCESS;
		}
	*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
	for (size_t i = 0; i < LENGTH(errors); i++)
		if (errors[i].code == error) {
			*name = errors[i].name;
			return CUDA_SUCCESS;
		}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

/* ---- devices */

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return known_device(ordinal);
}
EXPORT CUresult cuDeviceGetCount(int *count)
{
	bool answers = !sim_ready() && driver_started();
	*count = answers ? (int)settings.visible : 0;
	return answers ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	CUresult error = known_device(device);
	if (!error)
		snprintf(name, (size_t)size, "%s", settings.card->device_name);
	return error;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult error = known_device(device);
	*bytes = error ? 0 : settings.total;
	return error;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult error = known_device(device);
	if (!error)
		*value = gpu_attribute(settings.card, (int)attribute, device);
	return error;
}
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CUresult error = known_device(device);
	if (!error)
		settings_uuid(settings.physical[device], (unsigned char *)uuid);
	return error;
}
#undef cuDeviceGetUuid
EXPORT CUresult cuDeviceGetUuid(
	CUuuid *uuid, CUdevice device); /* the name before CUDA 11.4, which cuda.h now hides */
EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}
EXPORT CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
	CUresult error = known_device(device);
	if (!error)
		snprintf(id, (size_t)size, "0000:%02X:00.0", settings.physical[device] + 1);
	return error;
}
EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	*can = device != peer;
	return known_device(device) ? CUDA_ERROR_INVALID_DEVICE : known_device(peer);
}

/* ---- contexts: each device has only its primary one, and the device is its handle */

static int primaries[MAX_DEVICES];
static CUcontext context_of(int device)
{
	return (CUcontext)&primaries[device];
}

static int device_of(CUcontext context)
{
	long index = (int *)context - primaries;
	return index >= 0 && index < MAX_DEVICES ? (int)index : -1;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	*context = NULL;
	int error = device_use(device);
	if (!error)
		*context = context_of(device);
	return (CUresult)error;
}
EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	CUresult error = known_device(device);
	*flags = 0;
	*active = !error && device_active(device);
	return error;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = device_active(device_current()) ? context_of(device_current()) : NULL;
	return ready();
}
EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	int device = context ? device_of(context) : device_current();
	return device < 0 ? CUDA_ERROR_INVALID_CONTEXT : (CUresult)device_select(device);
}
EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = device_current();
	return ready();
}

static _Thread_local struct {
	int device[64];
	int depth;
} stack;

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	int device = device_of(context);
	if (device < 0 || stack.depth == LENGTH(stack.device))
		return CUDA_ERROR_INVALID_CONTEXT;
	stack.device[stack.depth++] = device_current();
	return (CUresult)device_select(device);
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	if (!stack.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context)
		*context = context_of(device_current());
	return (CUresult)device_select(stack.device[--stack.depth]);
}
EXPORT CUresult cuCtxSynchronize(void)
{
	return (CUresult)device_synchronize();
}
EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return ready();
}
EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	*value = gpu_limit((int)limit);
	return ready();
}
EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
	(void)context;
	*version = 3020;
	return ready();
}

/* ---- attributes of a pointer */

EXPORT CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct block block;
	bool device = memory_find(address, &block), host = !device && host_find((void *)address);
	if (!device && !host)
		return CUDA_ERROR_INVALID_VALUE;
	int where = !device                         ? device_current()
		    : block.kind == MEMORY_RESERVED ? vmm_device(address)
						    : block.device;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)out = context_of(where < 0 ? 0 : where);
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)out = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(uint64_t *)out = address;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_t *)out = device ? block.base : address;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)out = device ? block.size : 0;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)out = where;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)out = device && block.kind == MEMORY_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)out = where >= 0;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)out = 0;
		break;
	default:
		return (CUresult)sim_refuse(LIB_cuda, "this attribute of cuPointerGetAttribute");
	}
	return CUDA_SUCCESS;
}

/* ---- streams and events */

EXPORT CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
	return (CUresult)stream_create(s, flags, 0);
}
EXPORT CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int p)
{
	return (CUresult)stream_create(s, flags, p);
}
EXPORT CUresult cuStreamDestroy_v2(CUstream s)
{
	return (CUresult)stream_destroy(s);
}
EXPORT CUresult cuStreamSynchronize(CUstream s)
{
	return (CUresult)stream_synchronize(s);
}
PTSZ(cuStreamSynchronize);
EXPORT CUresult cuStreamQuery(CUstream s)
{
	return (CUresult)stream_query(s);
}
PTSZ(cuStreamQuery);
EXPORT CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
	(void)flags;
	return (CUresult)stream_wait(s, e);
}
PTSZ(cuStreamWaitEvent);
EXPORT CUresult cuStreamGetPriority(CUstream s, int *p)
{
	return (CUresult)stream_priority(s, p);
}
EXPORT CUresult cuStreamGetFlags(CUstream s, unsigned *f)
{
	return (CUresult)stream_flags(s, f);
}
EXPORT CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
	*status = capture_of(s, NULL, NULL) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
					    : CU_STREAM_CAPTURE_STATUS_NONE;
	return ready();
}
PTSZ(cuStreamIsCapturing);
EXPORT CUresult cuStreamGetCtx(CUstream s, CUcontext *context)
{
	int device, error = stream_device(s, &device);
	*context = context_of(error ? 0 : device);
	return (CUresult)error;
}
EXPORT CUresult cuEventCreate(CUevent *e, unsigned flags)
{
	return (CUresult)event_create(e, flags);
}
EXPORT CUresult cuEventDestroy_v2(CUevent e)
{
	return (CUresult)event_destroy(e);
}
EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
	return (CUresult)event_record(e, s);
}
PTSZ(cuEventRecord);
EXPORT CUresult cuEventQuery(CUevent e)
{
	return (CUresult)event_query(e);
}
EXPORT CUresult cuEventSynchronize(CUevent e)
{
	return (CUresult)event_synchronize(e);
}
