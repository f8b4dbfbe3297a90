/* Gradients that no optimizer uses. */
#ifndef MEMTRACE_UNSTEPPED_H
#define MEMTRACE_UNSTEPPED_H

#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "trace/tables.h"

/*
 * Gradients of sizes of which there are fewer states, while the optimizer has states. Small blocks
 * count too: biases, norms and adapters may be all trained parameters. A block without the size of
 * a parameter is a gradient of gradients. If a later step than the first allocates gradients anew,
 * they were freed in between, as by the zero_grad() of an optimizer without states. `l` is
 * classified. `now`: the span of the moment, or NULL.
 */
bytes unstepped_live(const struct lifetimes *l, const struct spans *spans, const struct tables *t,
		     const struct span *now);

#endif
