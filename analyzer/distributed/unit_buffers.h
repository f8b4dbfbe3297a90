/* Megatron-core's own FSDP (megatron/core/distributed/fsdp): the parameters of a unit are one
 * bucket, of which each rank stores all or a part. hparams.zero is the sharding strategy: no_shard,
 * optim, optim_grads, optim_grads_params. */
#ifndef MEMTRACE_DISTRIBUTED_UNIT_BUFFERS_H
#define MEMTRACE_DISTRIBUTED_UNIT_BUFFERS_H

#include "torch/module.h"

/* A ParameterGroup. */
struct unit_bucket {
	size_t *items; /* indices of its parameters in the module */
	int64_t *at;   /* the place of each in the bucket */
	size_t count, room;
	int64_t unit; /* the number of the layer; -1: it belongs to no layer */
	int experts;
	int64_t size, ranks; /* elements, and ranks that share them */
	tensor weights;      /* all of them; without a block while only parts are stored */
	tensor part, master; /* this rank's weights, and their fp32 copies */
	tensor gradient;     /* all gradients, until they are reduced */
	size_t ready;        /* parameters whose gradients are in the bucket */
	int wanted;
};

struct buffer_unit {
	struct unit_buffers *all;
	int64_t number;
};

struct unit_buffers {
	const struct hparams *hparams;
	const struct module *module;
	struct unit_bucket *buckets;
	size_t count, room;
	struct buffer_unit *units;
	size_t *queue, queued, queue_room; /* buckets whose gradients are being reduced */
	tensor gradients;                  /* main_grad_buffer of all buckets */
	int weights_shared, gradients_shared, masters_shared; /* each rank has a part */
	int64_t most_waiting; /* elements of gradients that wait for their reduction */
};

/* Unit i has module->params[first[i]] up to first[i + 1]. */
struct unit_layout {
	const struct hparams *hparams;
	const struct module *module;
	const size_t *first;
	size_t units;
};

/* Allocates the buffers, and makes the parameters views of them. */
void unit_buffers_make(struct machine *m, struct unit_buffers *b, const struct unit_layout *layout);
/* Elements of parameter i that this rank's optimizer has. */
int64_t unit_buffers_part(const struct unit_buffers *b, size_t i);
/* Before and after a unit's forward pass. The input that unit_buffers_before() returns is the
 * caller's; *out, the output, is replaced. */
tensor unit_buffers_before(struct machine *m, struct unit_buffers *b, int64_t unit, tensor x);
void unit_buffers_after(struct machine *m, struct unit_buffers *b, int64_t unit, tensor *out);
/* Before the forward pass of a module with this parameter (NULL: none) that is in no unit. */
void unit_buffers_use(struct machine *m, struct unit_buffers *b, const struct param *p);
/* At the end of a backward pass. */
void unit_buffers_finish(struct machine *m, struct unit_buffers *b);
/* finish_grad_sync(): all weights that were gathered are freed. start_param_sync(): the first
 * bucket is gathered, and those that follow. */
void unit_buffers_before_step(struct machine *m, struct unit_buffers *b);
void unit_buffers_after_step(struct machine *m, struct unit_buffers *b);
void unit_buffers_release(struct unit_buffers *b);

#endif
