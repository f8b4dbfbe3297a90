/* The runtime's device calls: the current one, their number and properties, errors, versions. */
#include "api/runtime.h"
#include "device/common.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/memory.h"
#include "device/settings.h"
#include "device/status.h"
#include "device/stream.h"

#include <cuda.h>
#include <string.h>

/* An entry point of older CUDA majors, which today's headers do not declare. */
EXPORT cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device);

EXPORT cudaError_t cudaGetLastError(void)
{
	int error = runtime_last_error();
	runtime_clear_error();
	return (cudaError_t)error;
}
EXPORT cudaError_t cudaPeekAtLastError(void)
{
	return (cudaError_t)runtime_last_error();
}

static const struct {
	cudaError_t code;
	const char *name, *text;
} errors[] = {
#define ERROR(driver, runtime, text) RUNTIME_ERROR(runtime, text)
#define RUNTIME_ERROR(runtime, text) { runtime, #runtime, text },
#include "api/errors.def"
#undef ERROR
#undef RUNTIME_ERROR
};

EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < LENGTH(errors); i++)
		if (errors[i].code == error)
			return errors[i].text;
	return "unrecognized error code";
}

EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < LENGTH(errors); i++)
		if (errors[i].code == error)
			return errors[i].name;
	return "unrecognized error code";
}

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
	*version = cuda_version();
	return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = cuda_version();
	return cudaSuccess;
}

/* ---- the current device */

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 0;
	if (sim_ready())
		return rt(SIM_NOT_INITIALIZED);
	*count = (int)settings.visible;
	return rt(*count ? SIM_OK : SIM_NO_DEVICE);
}
EXPORT cudaError_t cudaGetDevice(int *device)
{
	*device = device_current();
	return rt(sim_ready());
}
/* Since CUDA 12 this call makes the context; PyTorch therefore avoids it on devices that it has
 * not used. */
EXPORT cudaError_t cudaSetDevice(int device)
{
	int error = device_select(device);
	return rt(error ? error : cuda_major() >= 12 ? device_use(device) : SIM_OK);
}
EXPORT cudaError_t cudaInitDevice(int device, unsigned flags, unsigned inner)
{
	(void)flags, (void)inner;
	return rt(device_use(device));
}
EXPORT cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
	(void)prop;
	*device = 0;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
	*flags = 0;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaDeviceReset(void)
{
	int error = sim_ready();
	if (!error)
		memory_reset(device_current());
	return rt(error);
}
EXPORT cudaError_t cudaDeviceSynchronize(void)
{
	return rt(device_synchronize());
}

/* ---- its properties */

static int known_device(int device)
{
	int error = sim_ready();
	return error                                           ? error
	       : device < 0 || device >= (int)settings.visible ? SIM_INVALID_DEVICE
							       : SIM_OK;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	int error = known_device(device);
	if (!error)
		*value = gpu_attribute(settings.card, (int)attribute, device);
	return rt(error);
}

enum layout { LAYOUT_11, LAYOUT_12, LAYOUT_13 };
static const size_t layout_size[] = { 728, 1032, 1008 };

static const struct prop {
	size_t size;
	int offset[3];
} props[] = {
#define PROP(field, type, value, o11, o12, o13) { sizeof(type), { o11, o12, o13 } },
#define DROPPED(field, type, value, o11, o12) PROP(field, type, value, o11, o12, -1)
#include "device/props.def"
#undef PROP
#undef DROPPED
};

#if CUDART_VERSION >= 13000 && CUDART_VERSION < 14000
/* A field that CUDA 13 dropped has no offset there to check: DROPPED rows end the table. */
#define PROP(field, type, value, o11, o12, o13)                                           \
	_Static_assert(offsetof(struct cudaDeviceProp, field) == (o13) &&                 \
			       sizeof((struct cudaDeviceProp *)0)->field == sizeof(type), \
		       #field);
#define DROPPED(field, type, value, o11, o12)
#include "device/props.def"
#undef PROP
#undef DROPPED
_Static_assert(sizeof(struct cudaDeviceProp) == 1008, "layout_size[LAYOUT_13]");
#endif

static cudaError_t properties(void *out, int device, enum layout layout)
{
	int error = known_device(device);
	if (error)
		return rt(error);
	const long long values[] = {
#define A(name) gpu_attribute(settings.card, CU_DEVICE_ATTRIBUTE_##name, device)
#define PROP(field, type, value, o11, o12, o13) (long long)(value),
#define DROPPED(field, type, value, o11, o12) (long long)(value),
#include "device/props.def"
#undef PROP
#undef DROPPED
	};
	memset(out, 0, layout_size[layout]);
	snprintf(out, 256, "%s", settings.card->device_name);
	settings_uuid(settings.physical[device], (unsigned char *)out + 256);
	for (size_t i = 0; i < LENGTH(props); i++) {
		int offset = props[i].offset[layout];
		if (offset >= 0) /* little endian: the low bytes are the value */
			memcpy((char *)out + offset, &values[i], props[i].size);
	}
	return cudaSuccess;
}

/* Until CUDA 12 the plain name had CUDA 11's layout; CUDA 13 gave it a new one. */
EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	return properties(prop, device, cuda_major() >= 13 ? LAYOUT_13 : LAYOUT_11);
}
EXPORT cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device)
{
	return properties(prop, device, LAYOUT_12);
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	int error = known_device(device);
	if (!error)
		snprintf(id, (size_t)size, "0000:%02X:00.0", settings.physical[device] + 1);
	return rt(error);
}
EXPORT cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	unsigned domain, bus;
	if (sscanf(id, "%x:%x", &domain, &bus) != 2)
		return rt(SIM_INVALID_VALUE);
	for (int d = 0; !known_device(d); d++)
		if (settings.physical[d] + 1u == bus) {
			*device = d;
			return cudaSuccess;
		}
	return rt(SIM_INVALID_VALUE);
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	*value = gpu_limit((int)limit);
	return rt(sim_ready());
}

/* ---- peers: every simulated device reaches every other */

static _Bool peers[MAX_DEVICES][MAX_DEVICES];

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	int error = known_device(device) ? SIM_INVALID_DEVICE : known_device(peer);
	if (!error)
		*can = device != peer;
	return rt(error);
}
EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	(void)flags;
	int error = known_device(peer);
	if (error || peer == device_current())
		return rt(SIM_INVALID_DEVICE);
	_Bool *enabled = &peers[device_current()][peer];
	if (*enabled)
		return rt(cudaErrorPeerAccessAlreadyEnabled);
	*enabled = 1;
	return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	int error = known_device(peer);
	if (error)
		return rt(error);
	if (!peers[device_current()][peer])
		return rt(cudaErrorPeerAccessNotEnabled);
	peers[device_current()][peer] = 0;
	return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute,
					     int device, int peer)
{
	(void)device, (void)peer;
	*value = attribute == cudaDevP2PAttrPerformanceRank ? 0 : 1;
	return rt(sim_ready());
}
