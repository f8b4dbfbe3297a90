/* What FSDP1 and FSDP2 have in common: a model in units, which are gathered and freed as wholes. */
#ifndef MEMTRACE_FSDP_UNITS_H
#define MEMTRACE_FSDP_UNITS_H

#include "torch/module.h"
#include "torch/machine.h"

struct fsdp_unit {
	struct fsdp *fsdp;
	struct param **params;
	size_t count;
	int64_t elements;
	tensor *shards;
	tensor gathered; /* the all-gather's output, until the next one is copied out */
	int whole;       /* its parameters are there */
	int is_root, prefetched;
	tensor reduced;          /* this rank's part of the gradients' sum */
	struct grad_node *split; /* FSDP1: what makes views of the flat parameter */
};

struct fsdp {
	const struct hparams *hparams;
	struct fsdp_unit *units; /* the blocks, then the root */
	size_t count;
	tensor last_gather, reduce_input;
	/* FSDP1: the first forward pass made the flat parameters; the last zero_grad() is yet to be
	 * seen */
	int made, cleared;
	/* FSDP1: where units were freed, and for how many of these the host waited */
	struct freed {
		int stream;
		int64_t event;
	} * freed_units;
	size_t freed, waited, free_room;
};

/* This rank's part of a sum of gradients (taken): kept, or added to an earlier micro-batch's. */
void fsdp_keep(struct machine *m, struct fsdp_unit *u, tensor reduced);
void fsdp_drop_gradients(struct machine *m, struct fsdp *f);

#endif
