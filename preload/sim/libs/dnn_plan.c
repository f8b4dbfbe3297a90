#include "libs/dnn_plan.h"

#include "device/device.h"
#include "device/gpu.h"
#include "device/settings.h"
#include "device/status.h"

#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { /* cudnnBackendAttributeName_t */
       HEURISTIC_PROPERTIES = 204,
       CONFIGURATION_WORKSPACE = 303,
       PLAN_PROPERTIES = 407,
       ENGINE_PROPERTIES = 1307,
       PROPERTIES_JSON = 2702,
       FIRST_VERSION = 90800,
};

static const char *const dnn[] = { "libcudnn.so.9", NULL };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *properties; /* of the simulated GPU; NULL: the real library cannot plan */
static int (*create)(int, void **);
static int (*destroy)(void *);
static int (*set)(void *, int, int, int64_t, const void *);
static int (*get)(void *, int, int, int64_t, int64_t *, void *);
static int (*finalize)(void *);

static bool find(const char *name, void *function)
{
	void *address = real_symbol(dnn, name);
	memcpy(function, &address, sizeof address);
	return address;
}

/* The properties that cuDNN asks of a device, under the names of its JSON form. The name, the PCI
 * number, the memory and the driver's version change none of its choices (tried on RTX 3090 and
 * H100 with 9.8 and 9.26). */
static int properties_json(char *out, size_t size)
{
	const struct gpu *gpu = settings.card;
#define A(name) gpu_attribute(gpu, CU_DEVICE_ATTRIBUTE_##name, 0)
	return snprintf(
		out, size,
		"{\"deviceName\":\"%s\",\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":%d,"
		"\"totalGlobalMem\":%llu,\"maxGridSize\":[%d,%d,%d],\"maxBlockSize\":[%d,%d,%d],"
		"\"regsPerBlock\":%d,\"maxRegistersPerSM\":%d,\"multiProcessorCount\":%d,"
		"\"smCountOrigin\":0,\"warpSize\":%d,\"maxSharedMemoryPerBlock\":%d,"
		"\"maxSharedMemoryPerBlockOptin\":%d,\"oversizedSharedMemoryPerBlock\":0,"
		"\"reservedSharedMemoryPerBlock\":%d,\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":%d,"
		"\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":%d,"
		"\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,\"l2CacheSize\":%d}",
		gpu->device_name, gpu->major * 100 + gpu->minor * 10, cuda_version(),
		(unsigned long long)gpu->memory, A(MAX_GRID_DIM_X), A(MAX_GRID_DIM_Y),
		A(MAX_GRID_DIM_Z), A(MAX_BLOCK_DIM_X), A(MAX_BLOCK_DIM_Y), A(MAX_BLOCK_DIM_Z),
		A(MAX_REGISTERS_PER_BLOCK), A(MAX_REGISTERS_PER_MULTIPROCESSOR),
		A(MULTIPROCESSOR_COUNT), A(WARP_SIZE), A(MAX_SHARED_MEMORY_PER_BLOCK),
		A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), A(RESERVED_SHARED_MEMORY_PER_BLOCK),
		A(MAX_BLOCKS_PER_MULTIPROCESSOR), A(MAX_THREADS_PER_BLOCK),
		A(MAX_THREADS_PER_MULTIPROCESSOR), A(COOPERATIVE_LAUNCH), A(CLOCK_RATE),
		A(MEMORY_CLOCK_RATE), A(L2_CACHE_SIZE));
#undef A
}

static void start(void)
{
	char json[1024];
	size_t (*version)(void);
	void *described;
	if (settings.cudnn_workspaces == CUDNN_WORKSPACES_MODEL ||
	    !find("cudnnGetVersion", &version) || version() < FIRST_VERSION)
		return;
	if (!find("cudnnBackendCreateDescriptor", &create) ||
	    !find("cudnnBackendDestroyDescriptor", &destroy) ||
	    !find("cudnnBackendSetAttribute", &set) || !find("cudnnBackendGetAttribute", &get) ||
	    !find("cudnnBackendFinalize", &finalize))
		return;
	int length = properties_json(json, sizeof json);
	if (length <= 0 || (size_t)length >= sizeof json ||
	    create(DESCRIPTOR_PROPERTIES, &described))
		return;
	if (set(described, PROPERTIES_JSON, TYPE_CHAR, length, json) || finalize(described))
		destroy(described);
	else
		properties = described;
	sim_log("cuDNN plans for %s: %s", settings.card->name, properties ? "yes" : "no");
}

void *plan_create(int type)
{
	void *descriptor = NULL;
	sim_planning(true);
	pthread_once(&once, start);
	if (!properties || create(type, &descriptor))
		descriptor = NULL;
	sim_planning(false);
	return descriptor;
}

void plan_destroy(void *descriptor)
{
	sim_planning(true);
	if (descriptor)
		destroy(descriptor);
	sim_planning(false);
}

int plan_set(void *descriptor, int name, int type, int64_t count, const void *elements)
{
	sim_planning(true);
	int status = set(descriptor, name, type, count, elements);
	sim_planning(false);
	return status;
}

int plan_get(void *descriptor, int name, int type, int64_t asked, int64_t *count, void *elements)
{
	sim_planning(true);
	int status = get(descriptor, name, type, asked, count, elements);
	sim_planning(false);
	return status;
}

int64_t plan_workspace(void *configuration)
{
	int64_t count = 0, size = -1;
	int status = plan_get(configuration, CONFIGURATION_WORKSPACE, TYPE_INT64, 1, &count, &size);
	return status || count != 1 ? -1 : size;
}

int plan_finalize(void *descriptor, int type)
{
	int name = type == DESCRIPTOR_HEURISTIC ? HEURISTIC_PROPERTIES
		   : type == DESCRIPTOR_ENGINE  ? ENGINE_PROPERTIES
		   : type == DESCRIPTOR_PLAN    ? PLAN_PROPERTIES
						: 0;
	sim_planning(true);
	int status = name ? set(descriptor, name, TYPE_DESCRIPTOR, 1, &properties) : 0;
	if (!status)
		status = finalize(descriptor);
	sim_planning(false);
	return status;
}
