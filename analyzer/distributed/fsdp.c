#include "distributed/fsdp.h"

#include <stdlib.h>

#include "distributed/fsdp1.h"
#include "distributed/fsdp2.h"
#include "util/util.h"

static int is_flat(const struct fsdp *f)
{
	return f->hparams->wrapper == FSDP1;
}

static void shard(struct machine *m, struct fsdp_unit *u)
{
	if (is_flat(u->fsdp))
		fsdp1_shard(m, u);
	else
		fsdp2_shard(m, u);
}

void fsdp_wrap(struct machine *m, struct fsdp *f, const struct hparams *s, struct module *module,
	       const size_t *first, size_t blocks)
{
	struct fsdp_unit *root;

	*f = (struct fsdp){ .hparams = s, .count = blocks + 1, .ranks = s->dp };
	f->units = xcalloc(f->count, sizeof(*f->units));
	root = &f->units[blocks];
	root->fsdp = f;
	root->is_root = 1;
	root->params = xcalloc(module->count, sizeof(*root->params));
	for (size_t i = 0; i < module->count; i++)
		if (s->one_unit || i < first[0] || i >= first[blocks])
			root->params[root->count++] = module->params[i];
	for (size_t i = 0; i < blocks; i++) {
		f->units[i] =
			(struct fsdp_unit){ .fsdp = f,
					    .params = &module->params[first[i]],
					    .count = s->one_unit ? 0 : first[i + 1] - first[i] };
		shard(m, &f->units[i]);
	}
	shard(m, root);
}

tensor fsdp_before(struct machine *m, struct fsdp_unit *u, tensor x)
{
	if (!is_flat(u->fsdp))
		return fsdp2_before(m, u, x);
	fsdp1_before(m, u);
	return tensor_ref(x);
}

tensor fsdp_after(struct machine *m, struct fsdp_unit *u, tensor x)
{
	return is_flat(u->fsdp) ? fsdp1_after(m, u, x) : fsdp2_after(m, u, x);
}

void fsdp_root_before(struct machine *m, struct fsdp *f)
{
	if (is_flat(f))
		fsdp1_root_before(m, f);
	else
		fsdp2_root_before(m, f);
}

void fsdp_root_after(struct machine *m, struct fsdp *f)
{
	if (!is_flat(f))
		fsdp2_root_after(m, f);
}

void fsdp_start_backward(struct machine *m, struct fsdp *f)
{
	if (is_flat(f))
		fsdp1_start_backward(m, f);
	else
		fsdp2_start_backward(m, f);
}

void fsdp_finish(struct machine *m, struct fsdp *f)
{
	if (is_flat(f))
		fsdp1_finish(m);
	else
		fsdp2_finish(m, f);
}

void fsdp_zero_grad(struct machine *m, struct fsdp *f)
{
	/* FSDP1 frees its flat gradients in the next forward pass */
	f->gradients_cleared = 1;
	if (!is_flat(f))
		fsdp_clear_reduced(m, f);
}

void fsdp_release(struct fsdp *f)
{
	if (!f->count)
		return;
	for (size_t i = 0; i < f->count; i++)
		free(f->units[i].shards);
	free(f->units[f->count - 1].params);
	free(f->units);
	free(f->freed_units);
}
