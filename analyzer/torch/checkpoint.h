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
struct keeper {
	tensor value, gradient;
};
void drop_keeper(struct machine *m, struct keeper *k);
/* `context` of `size` bytes is copied. */
tensor checkpoint_reentrant(struct machine *m,
			    tensor (*run)(struct machine *, void *, const tensor *),
			    const void *context, size_t size, const tensor *in, int count);
/* Whoever holds input i of the region whose result is `out` is keepers[i]. */
void checkpoint_keepers(tensor out, struct keeper *keepers);

#endif
