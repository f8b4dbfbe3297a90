/* libnvidia-ml.so.1 of the simulated devices, a library of its own (linked with settings.c and
 * gpu.c). nvml.h is not needed to build: handles are pointers, results ints, structures as
 * documented there. */
#define _GNU_SOURCE
#include "device/common.h"
#include "device/context.h"
#include "device/settings.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID = 2,
	NVML_UNSUPPORTED = 3,
	NVML_NOT_FOUND = 6,
	NVML_SMALL = 7
};

#define NVML(name, ...)               \
	EXPORT int name(__VA_ARGS__); \
	EXPORT int name(__VA_ARGS__)

static bool good;
static void load(void)
{
	good = settings_load();
}
static int ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load);
	return good ? NVML_OK : NVML_UNINITIALIZED;
}

/* A device's handle is its address here. */
static char devices[MAX_DEVICES];
static int index_of(const void *handle)
{
	long index = (const char *)handle - devices;
	return !ready() && index >= 0 && index < (long)settings.gpus ? (int)index : -1;
}
static int hand_out(unsigned index, void **handle)
{
	if (ready())
		return NVML_UNINITIALIZED;
	if (index >= settings.gpus)
		return NVML_INVALID;
	*handle = &devices[index];
	return NVML_OK;
}
static int text(char *out, unsigned size, const char *value)
{
	return (unsigned)snprintf(out, size, "%s", value) < size ? NVML_OK : NVML_SMALL;
}

NVML(nvmlInit, void)
{
	return ready();
}
NVML(nvmlInit_v2, void)
{
	return ready();
}
NVML(nvmlInitWithFlags, unsigned flags)
{
	(void)flags;
	return ready();
}
NVML(nvmlShutdown, void)
{
	return NVML_OK;
}

EXPORT const char *nvmlErrorString(int error);
EXPORT const char *nvmlErrorString(int error)
{
	switch (error) {
	case NVML_OK:
		return "Success";
	case NVML_UNINITIALIZED:
		return "Uninitialized";
	case NVML_INVALID:
		return "Invalid Argument";
	case NVML_UNSUPPORTED:
		return "Not Supported";
	case NVML_NOT_FOUND:
		return "Not Found";
	case NVML_SMALL:
		return "Insufficient Size";
	default:
		return "Unknown Error";
	}
}

/* ---- the devices */

NVML(nvmlDeviceGetCount, unsigned *count)
{
	*count = ready() ? 0 : (unsigned)settings.gpus;
	return ready();
}
TWIN(nvmlDeviceGetCount, _v2);
NVML(nvmlDeviceGetHandleByIndex, unsigned index, void **handle)
{
	return hand_out(index, handle);
}
TWIN(nvmlDeviceGetHandleByIndex, _v2);
NVML(nvmlDeviceGetHandleByPciBusId, const char *id, void **handle)
{
	unsigned domain, bus;
	if (sscanf(id, "%x:%x", &domain, &bus) != 2)
		return NVML_INVALID;
	return !ready() && bus - 1 >= settings.gpus ? NVML_NOT_FOUND : hand_out(bus - 1, handle);
}
TWIN(nvmlDeviceGetHandleByPciBusId, _v2);

static int write_uuid(int device, char *out, unsigned size)
{
	unsigned char u[16];
	char uuid[48];
	settings_uuid(device, u);
	snprintf(uuid, sizeof uuid,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
	return text(out, size, uuid);
}
NVML(nvmlDeviceGetHandleByUUID, const char *uuid, void **handle)
{
	char own[48];
	if (ready())
		return NVML_UNINITIALIZED;
	for (unsigned i = 0; i < settings.gpus; i++) {
		write_uuid((int)i, own, sizeof own);
		if (!strcmp(uuid, own))
			return hand_out(i, handle);
	}
	return NVML_NOT_FOUND;
}
NVML(nvmlDeviceGetUUID, void *handle, char *out, unsigned size)
{
	int index = index_of(handle);
	return index < 0 ? NVML_INVALID : write_uuid(index, out, size);
}
NVML(nvmlDeviceGetIndex, void *handle, unsigned *index)
{
	int i = index_of(handle);
	*index = i < 0 ? 0 : (unsigned)i;
	return i < 0 ? NVML_INVALID : NVML_OK;
}
NVML(nvmlDeviceGetMinorNumber, void *handle, unsigned *number)
{
	return nvmlDeviceGetIndex(handle, number);
}
NVML(nvmlDeviceGetName, void *handle, char *out, unsigned size)
{
	return index_of(handle) < 0 ? NVML_INVALID : text(out, size, settings.card->device_name);
}
NVML(nvmlDeviceGetCudaComputeCapability, void *handle, int *major, int *minor)
{
	if (index_of(handle) < 0)
		return NVML_INVALID;
	*major = settings.card->major;
	*minor = settings.card->minor;
	return NVML_OK;
}
NVML(nvmlDeviceGetPciInfo, void *handle, char *info)
{
	struct {
		char old_id[16];
		unsigned domain, bus, device, id, subsystem;
		char id_text[32];
	} pci = { .domain = 0 };
	int index = index_of(handle);
	if (index < 0)
		return NVML_INVALID;
	pci.bus = (unsigned)index + 1;
	snprintf(pci.old_id, sizeof pci.old_id, "0000:%02X:00.0", pci.bus & 0xff);
	snprintf(pci.id_text, sizeof pci.id_text, "00000000:%02X:00.0", pci.bus);
	memcpy(info, &pci, sizeof pci);
	return NVML_OK;
}
TWIN(nvmlDeviceGetPciInfo, _v3);

/* ---- memory: the counts of libcudasim, if it is in this process */

static void memory(int index, uint64_t *used, uint64_t *total)
{
	void (*count)(int, uint64_t *, uint64_t *) =
		(void (*)(int, uint64_t *, uint64_t *))dlsym(RTLD_DEFAULT, "cudasim_memory");
	*used = 0;
	*total = settings.total;
	if (count) {
		uint64_t counted;
		count(index, used, &counted);
	}
}

NVML(nvmlDeviceGetMemoryInfo, void *handle, uint64_t info[3])
{
	int index = index_of(handle);
	if (index < 0)
		return NVML_INVALID;
	memory(index, &info[2], &info[0]);
	info[1] = info[0] - info[2];
	return NVML_OK;
}
NVML(nvmlDeviceGetMemoryInfo_v2, void *handle,
     uint64_t info[5]) /* version, total, reserved, free, used */
{
	int index = index_of(handle);
	if (index < 0)
		return NVML_INVALID;
	memory(index, &info[4], &info[1]);
	info[2] = 0;
	info[3] = info[1] - info[4];
	return NVML_OK;
}

struct process { /* nvmlProcessInfo_v1_t; v2 and v3 add the two instance ids */
	unsigned pid;
	unsigned long long used;
	unsigned instances[2];
};
static int processes(void *handle, unsigned *count, void *list, size_t each)
{
	int index = index_of(handle);
	uint64_t used, total;
	if (index < 0)
		return NVML_INVALID;
	memory(index, &used, &total);
	unsigned room = *count;
	*count = used ? 1 : 0;
	if (*count > room || (used && !list))
		return NVML_SMALL;
	if (used) {
		struct process own = { (unsigned)getpid(), used, { ~0u, ~0u } };
		memcpy(list, &own, each);
	}
	return NVML_OK;
}
NVML(nvmlDeviceGetComputeRunningProcesses, void *handle, unsigned *count, void *list)
{
	return processes(handle, count, list, 16);
}
NVML(nvmlDeviceGetComputeRunningProcesses_v2, void *handle, unsigned *count, void *list)
{
	return processes(handle, count, list, sizeof(struct process));
}
NVML(nvmlDeviceGetComputeRunningProcesses_v3, void *handle, unsigned *count, void *list)
{
	return processes(handle, count, list, sizeof(struct process));
}
NVML(nvmlDeviceGetUtilizationRates, void *handle, unsigned rates[2])
{
	rates[0] = rates[1] = 0;
	return index_of(handle) < 0 ? NVML_INVALID : NVML_OK;
}

/* ---- versions, links and fabric */

NVML(nvmlSystemGetDriverVersion, char *out, unsigned size)
{
	return text(out, size, context_driver(settings.driver));
}
NVML(nvmlSystemGetNVMLVersion, char *out, unsigned size)
{
	char version[64]; /* "12.535.183.06": of CUDA 12, and of the driver */
	snprintf(version, sizeof version, "%d.%s", context_cuda(settings.driver, 0) / 1000,
		 context_driver(settings.driver));
	return text(out, size, version);
}
NVML(nvmlSystemGetCudaDriverVersion, int *version)
{
	int (*own)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
	*version = context_cuda(settings.driver, 0);
	return own && own(version) ? NVML_UNINITIALIZED : NVML_OK;
}
TWIN(nvmlSystemGetCudaDriverVersion, _v2);
NVML(nvmlDeviceGetNvLinkRemoteDeviceType, void *handle, unsigned link, int *type)
{
	(void)handle, (void)link;
	*type = 255; /* unknown */
	return NVML_UNSUPPORTED;
}
NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2, void *handle, unsigned link, void *info)
{
	(void)handle, (void)link, (void)info;
	return NVML_UNSUPPORTED;
}
NVML(nvmlDeviceGetP2PStatus, void *a, void *b, int what, int *status)
{
	(void)what;
	*status = 0;
	return index_of(a) < 0 || index_of(b) < 0 ? NVML_INVALID : NVML_OK;
}
/* Not in a fabric: state 0 is "not supported". The structure begins with its version, which stays.
 */
NVML(nvmlDeviceGetGpuFabricInfoV, void *handle, char *info)
{
	memset(info + 4, 0, 28);
	return index_of(handle) < 0 ? NVML_INVALID : NVML_OK;
}
NVML(nvmlDeviceGetGpuFabricInfo, void *handle, void *info)
{
	(void)handle, (void)info;
	return NVML_UNSUPPORTED;
}
