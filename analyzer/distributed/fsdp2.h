/* FSDP2 (torch.distributed.fsdp.fully_shard), and FSDP1 (fsdp_flat.c): one unit a block, and the
 * root for the rest; or the root alone. */
#ifndef MEMTRACE_FSDP_H
#define MEMTRACE_FSDP_H

#include "distributed/fsdp_units.h"

/* Shards the module's parameters; block i has module->params[first[i]] to [first[i + 1]], the root
 * the others. */
void fsdp_wrap(struct machine *m, struct fsdp *f, const struct hparams *s, struct module *module,
	       const size_t *first, size_t blocks);
/* Around a block's forward pass; the root's own are before the first and after the last. */
tensor fsdp_before(struct machine *m, struct fsdp_unit *u, tensor x);
tensor fsdp_after(struct machine *m, struct fsdp_unit *u, tensor x);
void fsdp_root_before(struct machine *m, struct fsdp *f);
void fsdp_root_after(struct machine *m, struct fsdp *f);
/* The root's hook on its output: the last block's weights are gathered ahead. */
void fsdp_start_backward(struct machine *m, struct fsdp *f);
/* At the end of the backward pass. */
void fsdp_finish(struct machine *m, struct fsdp *f);
void fsdp_zero_grad(struct machine *m, struct fsdp *f);
void fsdp_release(struct fsdp *f);

#endif
