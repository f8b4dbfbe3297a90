/* The GPU table and the attributes of a device. */
#include "device/gpu.h"

#include "device/common.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct gpu gpus[] = {
#define GPU(...) { __VA_ARGS__ },
#include "device/gpus.def"
#undef GPU
};

static const struct {
	const char *alias, *name;
} aliases[] = {
#define GPU(...)
#define GPU_ALIAS(alias, name) { alias, name },
#include "device/gpus.def"
#undef GPU
};

const struct gpu *gpu_find(const char *name)
{
	for (size_t i = 0; i < LENGTH(aliases); i++)
		if (!strcasecmp(name, aliases[i].alias))
			name = aliases[i].name;
	for (size_t i = 0; i < LENGTH(gpus); i++)
		if (!strcasecmp(name, gpus[i].name) || !strcasecmp(name, gpus[i].device_name))
			return &gpus[i];
	return NULL;
}

size_t gpu_names(char *out, size_t size)
{
	size_t at = 0;
	for (size_t i = 0; i < LENGTH(gpus) && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "one of ",
				       gpus[i].name);
	return at;
}

static const struct arch {
	int major, minor, threads, blocks, shared;
} archs[] = {
#define ARCH(...) { __VA_ARGS__ },
#include "device/archs.def"
};

static const struct arch *arch_of(const struct gpu *gpu)
{
	size_t i = 0;
	while (i + 1 < LENGTH(archs) &&
	       (archs[i].major != gpu->major || archs[i].minor != gpu->minor))
		i++;
	return &archs[i];
}

uint64_t gpu_threads(const struct gpu *gpu)
{
	return (uint64_t)gpu->multiprocessors * (uint64_t)arch_of(gpu)->threads;
}

int gpu_attribute(const struct gpu *gpu, int attribute, int device)
{
	const struct arch *arch = arch_of(gpu);
	bool hopper = gpu->major >= 9;
	(void)arch, (void)hopper, (void)device;
	switch (attribute) {
#define ATTRIBUTE(name, value)           \
	case CU_DEVICE_ATTRIBUTE_##name: \
		return (int)(value);
#include "device/attributes.def"
#undef ATTRIBUTE
	}
	return 0; /* an attribute that is not in the table is a feature that the device lacks */
}

/* The driver's defaults; the runtime's numbers are the same. */
uint64_t gpu_limit(int limit)
{
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		return 1024;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		return MIB(1);
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return MIB(8);
	default:
		return 0;
	}
}
