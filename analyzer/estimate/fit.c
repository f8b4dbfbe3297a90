#include "estimate/fit.h"

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

/* The allocator frees its cache before it fails, so a job that ran without failure is never red. */
enum fit estimate_fit(const struct estimate *e, wide memory)
{
	if (estimate_out_of_memory(e))
		return FIT_RED;
	if (e->stage_count && e->stages[0].in_device == FIT_FITS)
		return device_fit(estimate_device(e), memory) == FIT_GREEN ? FIT_GREEN : FIT_YELLOW;
	return device_fit(e->total, memory);
}
