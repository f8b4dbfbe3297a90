/* Megatron-core's model under PyTorch's fully_shard (torch_fully_sharded_data_parallel.py) or under
 * its own FSDP (unit_buffers.h). Without them these functions do nothing. */
#ifndef MEMTRACE_MEGATRON_SHARDED_H
#define MEMTRACE_MEGATRON_SHARDED_H

#include "distributed/fsdp_units.h"
#include "megatron/model.h"

/* Shards the parameters of the rank's chunk. 0: the rank has contiguous buffers. */
int sharded_wrap(struct machine *m, struct megatron_rank *r);

/* Modules outside the layers. */
enum sharded_module { SHARDED_EMBEDDING, SHARDED_NORM, SHARDED_OUTPUT };
/* Before and after the forward pass of a module or of a layer. The input that is returned is the
 * caller's; *out, the output, is replaced. */
tensor sharded_before(struct machine *m, struct model_chunk *c, enum sharded_module which,
		      tensor x);
void sharded_after(struct machine *m, struct model_chunk *c, enum sharded_module which,
		   tensor *out);
tensor sharded_before_layer(struct machine *m, struct megatron_layer *l, tensor x);
void sharded_after_layer(struct machine *m, struct megatron_layer *l, tensor *out);
/* Before and after the forward pass of the whole model. */
void sharded_begin(struct machine *m, const struct model_chunk *c);
void sharded_end(struct machine *m, const struct model_chunk *c, tensor *out);
/* At the end of a backward pass. */
void sharded_finish(struct machine *m, struct megatron_rank *r);
/* Elements of parameter i that this rank's optimizer has, and its unit of fully_shard. */
int64_t sharded_part(const struct model_chunk *c, size_t i);
struct fsdp_unit *sharded_unit(const struct model_chunk *c, size_t i);
/* Before and after the optimizer's step: its gradients, and the weights of the next step. */
void sharded_before_step(struct machine *m, struct megatron_rank *r);
void sharded_after_step(struct machine *m, struct megatron_rank *r);
void sharded_zero_grad(struct machine *m, const struct megatron_rank *r);
void sharded_release(struct megatron_rank *r);

static inline int is_sharded(const struct megatron_rank *r)
{
	return r->fsdp || r->buffers;
}

/* Rejects what the two do not take, or what is not modelled with them. */
void check_sharded_model(const struct hparams *s, struct inputs *in);

#endif
