/* FSDP2 (torch.distributed.fsdp.fully_shard), and FSDP1 (fsdp_flat.c): one unit a block, and the
 * root for the rest; or the root alone. */
#ifndef MEMTRACE_FSDP_H
#define MEMTRACE_FSDP_H

#include "torch/hparams.h"

struct unit {
	struct fsdp *fsdp;
	struct param **params;
	size_t count;
	int64_t elements;
	tensor *shards;
	tensor gathered; /* the all-gather's output, until the next one is copied out */
	int whole;       /* its parameters are there */
	int is_root, prefetched;
	tensor reduced; /* this rank's part of the gradients' sum */
	struct node *split; /* FSDP1: what makes views of the flat parameter */
};

struct fsdp {
	const struct shape *shape;
	struct unit *units; /* the blocks, then the root */
	size_t count;
	tensor last_gather, reduce_input;
	/* FSDP1: the first forward pass made the flat parameters; the last zero_grad() is yet to be
	 * seen */
	int made, cleared;
	/* FSDP1: where units were freed, and for how many of these the host waited */
	struct freed {
		int stream;
		int64_t event;
	} *freed_units;
	size_t freed, waited, free_room;
};

/* Shards the module's parameters; block i has module->params[first[i]] to [first[i + 1]], the root
 * the others. */
void fsdp_wrap(struct machine *m, struct fsdp *f, const struct shape *s, struct module *module,
	       const size_t *first, size_t blocks);
/* Around a block's forward pass; the root's own are before the first and after the last. */
tensor fsdp_before(struct machine *m, struct unit *u, tensor x);
tensor fsdp_after(struct machine *m, struct unit *u, tensor x);
void fsdp_root_before(struct machine *m, struct fsdp *f);
void fsdp_root_after(struct machine *m, struct fsdp *f);
/* The root's hook on its output: the last block's weights are gathered ahead. */
void fsdp_start_backward(struct machine *m, struct fsdp *f);
/* At the end of the backward pass. */
void fsdp_finish(struct machine *m, struct fsdp *f);
void fsdp_zero_grad(struct machine *m, struct fsdp *f);
void fsdp_release(struct fsdp *f);

#endif
