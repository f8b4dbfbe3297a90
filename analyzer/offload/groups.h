/* Megatron-core's fine-grained activation offloading
 * (pipeline_parallel/fine_grained_activation_offload.py): what operations of a module save for the
 * backward pass is a group. It is copied to host memory when the module is done, its blocks are
 * freed, and it comes back while the backward pass of a later group ends. */
#ifndef MEMTRACE_OFFLOAD_GROUPS_H
#define MEMTRACE_OFFLOAD_GROUPS_H

#include "torch/machine.h"

struct offload;

/* `chunks`: model chunks of the rank; `least`: elements of the smallest tensor that is moved. */
struct offload *offload_new(int chunks, int64_t least);
void offload_free(struct offload *o);
/* Before the forward pass of a micro-batch through a chunk. */
void offload_begin(struct offload *o, int chunk);
/* After the passes of a step. After the first one the last group of each module is known, which
 * stays on the device from then on. */
void offload_end_step(struct offload *o);

/* Begins a group of `module`, a number below 32: from now on what operations save belongs to it.
 * Returns the module's input `x`, which the caller owns. `o` NULL: there are no groups. */
tensor offload_enter(struct machine *m, struct offload *o, int module, tensor x);
/* From now on what operations save stays. */
void offload_leave(struct machine *m, struct offload *o);
/* Ends the group: its tensors are moved, and the blocks of `released`, too. *out is a result of the
 * module. */
void offload_commit(struct machine *m, struct offload *o, int module, tensor *out,
		    const tensor *released, int count);

#endif
