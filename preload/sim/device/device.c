/* The process's devices: the current one, the bytes that each has given, and the contexts. Other
 * processes are not seen: a rank has its device to itself. */
#define _GNU_SOURCE
#include "device/device.h"

#include "device/common.h"
#include "device/context.h"
#include "device/settings.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

EXPORT extern const char cudasim_version[];
const char cudasim_version[] =
	"1.0"; /* the tracer takes its presence for "this trace is simulated" */

static struct device {
	_Atomic uint64_t used;
	atomic_bool active;
} devices[MAX_DEVICES];
static _Thread_local int current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A bad setting must not end a host that may never use CUDA: every CUDA call fails instead. */
static int state = -1;

static void load(void)
{
	state = settings_load() ? SIM_OK : SIM_NOT_INITIALIZED;
}

int sim_ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load);
	return state;
}

int device_current(void)
{
	return current;
}

int device_select(int device)
{
	if (sim_ready())
		return SIM_NOT_INITIALIZED;
	if (device < 0 || device >= (int)settings.visible)
		return SIM_INVALID_DEVICE;
	current = device;
	return SIM_OK;
}

int device_charge(int device, uint64_t bytes)
{
	struct device *d = &devices[device];
	uint64_t used = atomic_load(&d->used);
	do {
		if (bytes > settings.total - used)
			return SIM_OUT_OF_MEMORY;
	} while (!atomic_compare_exchange_weak(&d->used, &used, used + bytes));
	return SIM_OK;
}

void device_refund(int device, uint64_t bytes)
{
	atomic_fetch_sub(&devices[device].used, bytes);
}

bool device_active(int device)
{
	return atomic_load(&devices[device].active);
}

int device_use(int device)
{
	if (sim_ready())
		return SIM_NOT_INITIALIZED;
	if (device < 0 || device >= (int)settings.visible)
		return SIM_INVALID_DEVICE;
	if (device_active(device))
		return SIM_OK;
	pthread_mutex_lock(&lock);
	int error = SIM_OK;
	if (!device_active(device)) {
		uint64_t context =
			context_bytes(settings.card, context_cuda(settings.driver, cuda_version()));
		error = device_charge(device, context);
		if (!error)
			atomic_store(&devices[device].active, true);
		sim_log("context on device %d: %llu bytes", device, (unsigned long long)context);
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int device_use_current(void)
{
	return device_use(current);
}

void device_memory(int device, uint64_t *available, uint64_t *total)
{
	*total = settings.total;
	*available = settings.total - atomic_load(&devices[device].used);
}

/* For the NVML object, which is a library of its own. */
void cudasim_memory(int device, uint64_t *used, uint64_t *total)
{
	*total = settings.total;
	*used = device >= 0 && device < MAX_DEVICES ? atomic_load(&devices[device].used) : 0;
}

/* ---- the CUDA that the process was built for */

static int find_runtime(struct dl_phdr_info *info, size_t size, void *major)
{
	const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	(void)size;
	if (!name || strncmp(name, "/libcudart", 10))
		return 0;
	const char *version = strstr(name, ".so.");
	if (!version)
		return 0;
	*(int *)major = atoi(version + 4);
	return 1;
}

int cuda_major(void)
{
	static atomic_int known;
	int major = atomic_load(&known);
	if (major)
		return major;
	dl_iterate_phdr(find_runtime, &major);
	if (!major)
		return 13; /* nothing to go by yet: the headers that this library was built with,
			      and not remembered */
	atomic_store(&known, major);
	return major;
}

int cuda_version(void)
{
	static const char *const runtimes[] = { "libcudart.so.13", "libcudart.so.12",
						"libcudart.so.11.0", NULL };
	static atomic_int known;
	/* The runtime asks the driver for its version while it starts: it cannot be asked then. */
	static _Thread_local bool asking;
	int version = atomic_load(&known);
	if (version)
		return version;
	if (asking)
		return cuda_major() * 1000;
	asking = true;
	int (*real)(int *) = (int (*)(int *))real_symbol(runtimes, "cudaRuntimeGetVersion");
	if (!real || real(&version))
		version = cuda_major() * 1000;
	asking = false;
	atomic_store(&known, version);
	return version;
}

/* The wheel's own library, if it is loaded: our definitions come before it, so a look-up must
 * name the library. */
void *real_symbol(const char *const *libraries, const char *symbol)
{
	for (; *libraries; libraries++) {
		void *library = dlopen(*libraries, RTLD_NOLOAD | RTLD_LAZY);
		Dl_info self, found;
		void *address = library ? dlsym(library, symbol) : NULL;
		if (library)
			dlclose(library);
		if (!address || !dladdr(address, &found) ||
		    !dladdr((const void *)cudasim_version, &self))
			continue;
		if (found.dli_fbase != self.dli_fbase)
			return address;
	}
	return NULL;
}
