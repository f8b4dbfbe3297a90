/* The look-ups of driver entry points in entry.c's table: status 0 found, 1 no such symbol. They
 * are apart from the table, which holds them too, as addresses. */
#include "api/entry.h"
#include "device/common.h"
#include "device/device.h"
#include "device/settings.h"

static int find(const char *name, void **function, int version, int *status)
{
	void *found = entry_find(name, version);
	*function = found;
	if (status)
		*status = found ? 0 : 1;
	if (!found)
		sim_log("no driver entry point %s (version %d)", name, version);
	return found ? SIM_OK : SIM_NOT_FOUND;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	(void)flags;
	return find(name, function, version, NULL);
}
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
			       int *status);
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
			       int *status)
{
	(void)flags;
	return find(name, function, version, status);
}

/* The runtime's versions succeed with any result; CUDA 11's had no status argument. */
EXPORT int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
				   int *status);
EXPORT int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
				   int *status)
{
	(void)flags;
	find(name, function, cuda_version(), cuda_major() >= 12 ? status : NULL);
	return SIM_OK;
}
PTSZ(cudaGetDriverEntryPoint);
EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
					    unsigned long long flags, int *status);
EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
					    unsigned long long flags, int *status)
{
	(void)flags;
	find(name, function, (int)version, status);
	return SIM_OK;
}
PTSZ(cudaGetDriverEntryPointByVersion);
