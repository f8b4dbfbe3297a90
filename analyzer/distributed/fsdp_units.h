/* The units of FSDP1 and FSDP2. The parameters of a unit are gathered and freed together. */
#ifndef MEMTRACE_DISTRIBUTED_FSDP_UNITS_H
#define MEMTRACE_DISTRIBUTED_FSDP_UNITS_H

#include "torch/module.h"
#include "torch/machine.h"

struct fsdp_unit {
	struct fsdp *fsdp;
	struct param **params;
	size_t count;
	int64_t elements;
	tensor *shards;
	tensor gathered; /* the output of the all-gather, until the next unit's is copied */
	int unsharded;   /* its parameters are gathered */
	int is_root, prefetched, gathers_none_ahead;
	size_t pending;          /* shards whose gradients are in `reduced` */
	tensor reduced;          /* this rank's part of the reduced gradients */
	struct grad_node *split; /* FSDP1: the node that splits the flat parameter into views */
};

struct fsdp {
	const struct hparams *hparams;
	struct fsdp_unit *units; /* the blocks, then the root */
	size_t count;
	int64_t ranks; /* that share a parameter */
	tensor last_gather, reduce_input;
	/* FSDP1: the first forward pass has allocated the flat parameters; zero_grad() was called
	 * since the last forward pass */
	int flat_made, gradients_cleared;
	/* FSDP1: the events of freed units, and how many of them the host has waited for */
	struct freed {
		int stream;
		int64_t event;
	} * freed_units;
	size_t freed, waited, free_room;
};

/* Keeps this rank's part of reduced gradients (taken), or adds it to that of an earlier
 * micro-batch. */
void fsdp_add_reduced(struct machine *m, struct fsdp_unit *u, tensor reduced);
void fsdp_clear_reduced(struct machine *m, struct fsdp *f);

#endif
