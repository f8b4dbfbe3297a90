/* torch.arange(): programs make lengths and positions of it. */
#include "device/common.h"
#include "kernels/computed.h"

#include <stdlib.h>
#include <string.h>

/* The result's type is not in the name, only which of the dispatched types it is:
 * "arange_cuda_out(...)::{lambda()#1}::operator()() const::{lambda()#4}::...{lambda(long)#1}". */
static enum number_type dispatched(const char *functor)
{
	static const enum number_type types[] = { NUMBER_UINT8, NUMBER_INT8,  NUMBER_INT32,
						  NUMBER_INT64, NUMBER_INT16, NUMBER_DOUBLE,
						  NUMBER_FLOAT, NUMBER_HALF,  NUMBER_BFLOAT16 };
	static const char mark[] = "{lambda()#1}::operator()() const::{lambda()#";
	const char *at = functor ? strstr(functor, mark) : NULL;
	unsigned long which = at ? strtoul(at + strlen(mark), NULL, 10) : 0;
	return which && which <= LENGTH(types) ? types[which - 1] : NUMBER_NONE;
}

/* (int count, lambda of start and step, type *data) */
bool compute_arange(const struct launch *l)
{
	enum number_type type = dispatched(launch_after(l, "arange_cuda_out(")), wide;
	const char *captured = l->arguments[1];
	uint64_t count = *(unsigned *)l->arguments[0];
	char *data = *(char **)l->arguments[2];
	size_t size = number_size(type);
	if (!type || (number_floating(type) && count > COMPUTED_FLOATS))
		return true;
	if (count > COMPUTED_PLACES) {
		launch_leaves(l, data, count * size);
		return true;
	}
	if (!launch_device(data, count * size))
		return false;
	launch_writes(data, count * size);
	wide = !number_floating(type)  ? NUMBER_INT64
	       : type == NUMBER_DOUBLE ? NUMBER_DOUBLE
				       : NUMBER_FLOAT;
	number start = number_load(captured, wide),
	       step = number_load(captured + number_size(wide), wide);
	for (uint64_t i = 0; i < count; i++)
		number_store(data + i * size, type, start + step * i);
	return true;
}
