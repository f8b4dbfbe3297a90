/* The sizes of GPUs, and the rule of 80 %. */
#include "estimate/inputs.h"

#include <string.h>
#include <strings.h>

/* The device's nominal size: document 003 compares with 40 and 94 GiB, not with what a driver
 * leaves of them. */
static const struct gpu {
	const char *name, *device, *alias_of;
	int gib, major, minor, processors;
	int64_t usable, l2_cache;
} gpus[] = {
#if __has_include("../../preload/sim/device/gpus.def")
#define GPU(name, nominal, usable, major, minor, processors, device, l2, ...) \
	{ name, device, NULL, nominal, major, minor, processors, usable, l2 },
#define GPU_ALIAS(alias, name) { alias, NULL, name, 0, 0, 0, 0, 0, 0 },
#include "../../preload/sim/device/gpus.def"
#undef GPU
#undef GPU_ALIAS
#endif
	{ NULL, NULL, NULL, 0, 0, 0, 0, 0, 0 },
};

static const struct gpu *find(const char *name)
{
	for (const struct gpu *g = gpus; g->name; g++)
		if (!strcasecmp(name, g->name) || (g->device && !strcasecmp(name, g->device)))
			return g->alias_of ? find(g->alias_of) : g;
	return NULL;
}

int device_compute(const char *gpu, int *capability, int *processors, int64_t *l2_cache)
{
	const struct gpu *g = find(gpu);

	if (!g)
		return -1;
	*capability = 10 * g->major + g->minor;
	*processors = g->processors;
	*l2_cache = g->l2_cache;
	return 0;
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
	g = find(c->gpu);
	if (g)
		return (wide)g->gib << 30;
	for (g = gpus; g->name; g++)
		if (!g->alias_of)
			buf_addf(&list, "%s%s", list.length ? ", " : "", g->name);
	err_set(e, "gpu is \"%s\" (%s), expected one of %s", c->gpu, c->origin[CONFIG_gpu],
		list.text ? list.text : "");
	buf_release(&list);
	return -1;
}

wide device_usable(const struct config *c)
{
	const struct gpu *g = GIVEN(c, gpu) ? find(c->gpu) : NULL;

	if (GIVEN(c, device_memory_bytes))
		return c->device_memory_bytes;
	return g ? g->usable : 0;
}

enum fit device_fit(wide total, wide memory)
{
	if (10 * total <= 8 * memory)
		return FIT_GREEN;
	return total <= memory ? FIT_YELLOW : FIT_RED;
}

const char *fit_word(enum fit f)
{
	static const char *const words[] = { "green", "yellow", "red" };

	return words[f];
}

int estimate_out_of_memory(const struct estimate *e)
{
	for (size_t i = 0; i < e->stage_count; i++)
		if (e->stages[i].in_device == FIT_OUT_OF_MEMORY)
			return 1;
	return 0;
}

wide estimate_device(const struct estimate *e)
{
	wide most = estimate_most(e);

	for (size_t i = 0; i < e->stage_count; i++)
		most = largest(most, e->stages[i].device);
	return most;
}

/* A cache that does not fit is given back: what fits is never red. */
enum fit estimate_fit(const struct estimate *e, wide memory)
{
	if (estimate_out_of_memory(e))
		return FIT_RED;
	if (e->stage_count && e->stages[0].in_device == FIT_FITS)
		return device_fit(estimate_device(e), memory) == FIT_GREEN ? FIT_GREEN : FIT_YELLOW;
	return device_fit(e->total, memory);
}
