#include "device/context.h"

#include "device/common.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *version;
	int cuda;
} drivers[] = {
#define DRIVER(branch, version, cuda) { version, cuda },
#include "device/context.def"
};

int context_cuda(uint64_t choice, int runtime)
{
	size_t i = 0;
	if (choice)
		return drivers[choice - 1].cuda;
	while (i + 1 < LENGTH(drivers) && (!runtime || drivers[i].cuda < runtime))
		i++;
	return drivers[i].cuda;
}

const char *context_driver(uint64_t choice)
{
	return drivers[choice ? choice - 1 : LENGTH(drivers) - 1].version;
}

uint64_t context_bytes(const struct gpu *gpu, int cuda)
{
	const char *loading = getenv("CUDA_MODULE_LOADING");
	bool eager = loading && !strcmp(loading, "EAGER");
	int64_t threads = (int64_t)gpu_threads(gpu), bytes = 0;
#define CONTEXT_PART(id, when, fixed, per_thread, low, high) \
	bytes += (when) ? (int64_t)(fixed) + (int64_t)(per_thread)*threads : 0;
#include "device/context.def"
	return (uint64_t)bytes & ~(MIB(1) - 1);
}
