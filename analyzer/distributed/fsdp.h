/* A model in FSDP1 or FSDP2. Each block is a unit, and the root has the other parameters; or the
 * root has all. */
#ifndef MEMTRACE_DISTRIBUTED_FSDP_H
#define MEMTRACE_DISTRIBUTED_FSDP_H

#include "distributed/fsdp_units.h"

/* Shards the module's parameters. Block i has module->params[first[i]] up to [first[i + 1]], the
 * root the others. */
void fsdp_wrap(struct machine *m, struct fsdp *f, const struct hparams *s, struct module *module,
	       const size_t *first, size_t blocks);
/* Before and after a block's forward pass: replace its input and its output, which the caller owns.
 */
tensor fsdp_before(struct machine *m, struct fsdp_unit *u, tensor x);
tensor fsdp_after(struct machine *m, struct fsdp_unit *u, tensor x);
void fsdp_root_before(struct machine *m, struct fsdp *f);
void fsdp_root_after(struct machine *m, struct fsdp *f);
/* Before the backward pass: the last block's weights are gathered ahead. */
void fsdp_start_backward(struct machine *m, struct fsdp *f);
/* At the end of the backward pass: reduces the root's gradients. */
void fsdp_finish(struct machine *m, struct fsdp *f);
void fsdp_zero_grad(struct machine *m, struct fsdp *f);
void fsdp_release(struct fsdp *f);

#endif
