/* Activation recomputation. */
#ifndef MEMTRACE_TORCH_CHECKPOINT_H
#define MEMTRACE_TORCH_CHECKPOINT_H

#include "torch/machine.h"

/* ---- torch.utils.checkpoint(use_reentrant=False) ---- */
/* The most other arguments of a region. */
#define CHECKPOINT_ARGUMENTS 4
tensor checkpointed(struct machine *m, tensor (*run)(struct machine *, void *, tensor),
		    void *context, tensor input);
/* `t` (`none`: nothing) is another argument of the region that runs, which refers to it until its
 * backward pass is done. Without a region, or in its second run, this does nothing. */
void checkpoint_refers(struct machine *m, tensor t);

/* ---- use_reentrant=True, and Megatron's CheckpointFunction: a second graph within the backward
 * pass ---- */
#define REENTRANT_INPUTS 4
/* A variable that refers to an input, and so to the gradient that the backward pass gives to it. */
struct input_ref {
	tensor value, gradient;
};
void input_ref_clear(struct machine *m, struct input_ref *k);
/* `context` has `size` bytes and is copied. The caller owns the result. */
tensor checkpoint_reentrant(struct machine *m,
			    tensor (*run)(struct machine *, void *, const tensor *),
			    const void *context, size_t size, const tensor *in, int count);
/* input_refs[i] gets input i of the region with the result `out` in its backward pass. */
void checkpoint_input_refs(tensor out, struct input_ref *input_refs);

#endif
