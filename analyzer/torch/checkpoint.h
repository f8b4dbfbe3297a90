/* Activation recomputation. */
#ifndef MEMTRACE_CHECKPOINT_H
#define MEMTRACE_CHECKPOINT_H

#include "torch/machine.h"

/* ---- recomputation without reentrance (torch.utils.checkpoint, use_reentrant=False) ---- */
tensor checkpointed(struct machine *m, tensor (*run)(struct machine *, void *, tensor),
		    void *context, tensor input);

/* ---- and with (Megatron's CheckpointFunction, use_reentrant=True): a graph of its own within the
 * backward pass ---- */
#define REENTRANT_INPUTS 4
/* Who holds an input holds the gradient that a backward pass gives it. */
struct input_ref {
	tensor value, gradient;
};
void input_ref_clear(struct machine *m, struct input_ref *k);
/* `context` of `size` bytes is copied. */
tensor checkpoint_reentrant(struct machine *m,
			    tensor (*run)(struct machine *, void *, const tensor *),
			    const void *context, size_t size, const tensor *in, int count);
/* Whoever holds input i of the region whose result is `out` is keepers[i]. */
void checkpoint_input_refs(tensor out, struct input_ref *input_refs);

#endif
