#include "render/modelled.h"

#include <string.h>

#include "estimate/device.h"

enum { THOUSANDTHS = 1000 };

/* In thousandths of the whole. */
struct spread {
	int low, high;
};

/* Every part of a context contributes by its bytes on that GPU. */
static struct spread of_context(const struct gpu *gpu)
{
	const int eager = 0, cuda = 0;
	int64_t threads = gpu_threads(gpu), whole = 0, least = 0, most = 0;

#define CONTEXT_PART(id, when, fixed, per_thread, low, high)            \
	if (when) {                                                     \
		int64_t part = (fixed) + (int64_t)(per_thread)*threads; \
                                                                        \
		whole += part;                                          \
		least += part * (low);                                  \
		most += part * (high);                                  \
	}
#include "../../preload/sim/device/context.def"
	return (struct spread){ (int)(least / whole), (int)(most / whole) };
}

static struct spread of_nccl(const struct gpu *gpu)
{
	struct spread s = { THOUSANDTHS, THOUSANDTHS };

#define NCCL_SPREAD(sm, least, most) \
	s = gpu->capability >= (sm) ? (struct spread){ least, most } : s;
#include "../../preload/sim/nccl/nccl.def"
	return s;
}

int is_modelled(const struct rank *r, const char *owner)
{
	return r->simulated && (!strcmp(owner, "nccl") || !strcmp(owner, "context"));
}

void modelled_bounds(const struct rank *r, const char *owner, bytes size, bytes *low, bytes *high)
{
	const struct gpu *gpu = gpu_find(r->gpu ? r->gpu : "");
	struct spread s;

	if (!gpu)
		gpu = gpu_find("H100-80GB");
	s = strcmp(owner, "nccl") != 0 ? of_context(gpu) : of_nccl(gpu);
	*low = size / THOUSANDTHS * s.low;
	*high = size / THOUSANDTHS * s.high;
}
