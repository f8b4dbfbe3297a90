#ifndef MEMTRACE_DISTRIBUTED_DDP_H
#define MEMTRACE_DISTRIBUTED_DDP_H

#include "torch/module.h"

struct ddp {
	tensor *buckets;
	size_t count, room;
	/* elements of the parameters, in the order of their gradients in the first backward pass */
	int64_t *order;
	size_t arrived, order_room;
	int rebuilt;
	int64_t cap, first; /* bytes of a bucket, and of the first bucket */
	enum dtype type;
	int views; /* gradient_as_bucket_view */
};

void ddp_wrap(struct machine *m, struct ddp *d, const struct hparams *s,
	      const struct module *module);
void ddp_forward(struct machine *m, struct ddp *d);
void ddp_release(struct ddp *d);

#endif
