/* Gradients that no optimizer uses. */
#ifndef MEMTRACE_UNSTEPPED_H
#define MEMTRACE_UNSTEPPED_H

#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "trace/tables.h"

/*
 * Gradients of sizes of which there are fewer states, while the optimizer has states. Small blocks
 * count too: biases, norms and adapters may be all that is trained. What has no parameter's size is
 * a gradient of gradients. What a later step than the first makes anew, something has freed in
 * between, as the zero_grad() of an optimizer without states does. `l` is classified. `now`: the
 * span of the moment, or NULL.
 */
bytes unstepped_live(const struct lifetimes *l, const struct spans *spans, const struct tables *t,
		     const struct span *now);

#endif
