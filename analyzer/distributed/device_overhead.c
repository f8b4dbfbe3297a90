/* Device memory beside the blocks of tensors: the allocator's cache, the CUDA context, NCCL. */
#include "distributed/device_overhead.h"

#include "util/util.h"

static void add(struct stage *to, const char *id, const char *component, const char *kind,
		const char *source, wide taken)
{
	if (taken)
		to->outside[to->outside_count++] =
			(struct outside){ id, component, kind, source, taken };
}

wide outside_allocator(const struct constants *k, const wide nccl[NCCL_GROUPS])
{
	wide sum = k->context;

	for (int i = 0; i < NCCL_GROUPS; i++)
		sum += nccl[i];
	return sum;
}

void outside_fill(struct stage *to, const struct constants *k, const wide nccl[NCCL_GROUPS])
{
	to->outside = xcalloc(NCCL_GROUPS + 2, sizeof(*to->outside));
	add(to, "reserved_overhead", "reserved_overhead", "exact",
	    "the allocator's segments beyond the blocks in use", to->reserved - to->total);
	add(to, "context", "context", "measured",
	    "measured on an A100 (document 001): CUDA context and modules", k->context);
	for (int i = 0; i < NCCL_GROUPS; i++)
		add(to, nccl_group_rows[i].id, "nccl", "assumed", nccl_group_rows[i].source,
		    nccl[i]);
	to->device = to->total;
	for (size_t i = 0; i < to->outside_count; i++)
		to->device += to->outside[i].bytes;
}
