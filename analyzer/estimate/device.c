#include "estimate/device.h"

#include <string.h>
#include <strings.h>

#include "estimate/inputs.h"

/* Estimates are compared with the nominal size, as in document 003 (40 and 94 GiB), not with the
 * smaller size that a driver makes usable. */
static const struct gpu_row {
	struct gpu gpu;
	const char *device, *alias_of;
} gpus[] = {
#if __has_include("../../preload/sim/device/gpus.def")
#define GPU(name, nominal, usable, major, minor, processors, device, l2, ...) \
	{ { name, nominal, 10 * (major) + (minor), processors, usable, l2 }, device, NULL },
#define GPU_ALIAS(alias, of) { { alias, 0, 0, 0, 0, 0 }, NULL, of },
#include "../../preload/sim/device/gpus.def"
#undef GPU
#undef GPU_ALIAS
#endif
	{ { .name = NULL }, NULL, NULL },
};

const struct gpu *gpu_find(const char *name)
{
	for (const struct gpu_row *g = gpus; g->gpu.name; g++)
		if (!strcasecmp(name, g->gpu.name) || (g->device && !strcasecmp(name, g->device)))
			return g->alias_of ? gpu_find(g->alias_of) : &g->gpu;
	return NULL;
}

int64_t gpu_threads(const struct gpu *gpu)
{
	int threads = 0;

#define ARCH(major, minor, of_processor, blocks, shared) \
	threads = gpu->capability >= 10 * (major) + (minor) ? (of_processor) : threads;
#include "../../preload/sim/device/archs.def"
	return (int64_t)threads * gpu->processors;
}

void gpu_names(struct buf *list, const char *separator)
{
	for (const struct gpu_row *g = gpus; g->gpu.name; g++)
		if (!g->alias_of)
			buf_addf(list, "%s%s", list->length ? separator : "", g->gpu.name);
}

wide device_memory(const struct config *c, struct err *e)
{
	const struct gpu *g;
	struct buf list = { 0 };

	if (GIVEN(c, device_memory_bytes)) {
		if (c->device_memory_bytes > 0)
			return c->device_memory_bytes;
		return err_set(e, "device_memory_bytes is %lld (%s), expected a number of bytes",
			       (long long)c->device_memory_bytes,
			       c->origin[CONFIG_device_memory_bytes]);
	}
	if (!GIVEN(c, gpu))
		return 0;
	g = gpu_find(c->gpu);
	if (g)
		return (wide)g->gib << 30;
	gpu_names(&list, ", ");
	err_set(e, "gpu is \"%s\" (%s), expected one of %s", c->gpu, c->origin[CONFIG_gpu],
		list.text ? list.text : "");
	buf_release(&list);
	return -1;
}

wide device_usable(const struct config *c)
{
	const struct gpu *g = GIVEN(c, gpu) ? gpu_find(c->gpu) : NULL;

	if (GIVEN(c, device_memory_bytes))
		return c->device_memory_bytes;
	return g ? g->usable : 0;
}
