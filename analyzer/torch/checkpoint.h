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

/* ---- outputs that are discarded: Megatron-core's CheckpointWithoutOutput
 * (tensor_parallel/random.py) ---- */
/* A region runs without a graph. Its outputs are freed when the operations behind it have saved
 * them. In the backward pass, before these operations need them, it runs again: the new outputs are
 * copied into the old ones, and are kept with their graph until the region's own backward pass. */
#define DISCARD_INPUTS 3
#define DISCARD_OUTPUTS 3

/* run() fills out[], each a whole tensor that the caller owns. */
struct discarded_region {
	void (*run)(struct machine *m, void *context, const tensor *in, tensor *out);
	const void *context; /* has `size` bytes and is copied */
	size_t size;
	int inputs, outputs;
};

struct discarded;
/* Runs the region; the caller owns out[] and calls discard_outputs() later. */
struct discarded *discardable(struct machine *m, const struct discarded_region *region,
			      const tensor *in, tensor *out);
/* discard_output_and_register_recompute(): frees the outputs' blocks. They come back when the
 * gradient of *behind, a result that was computed from them, is known. `d` NULL: does nothing. */
void discard_outputs(struct machine *m, struct discarded *d, tensor *behind);

#endif
