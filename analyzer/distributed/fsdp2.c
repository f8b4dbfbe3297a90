#include "distributed/fsdp2.h"

#include "distributed/fsdp1.h"
#include "torch/autograd.h"

#include <stdlib.h>

#include "util/util.h"

#define GATHER_STREAM 1
#define REDUCE_STREAM 2

/* The type of gathered weights and of gradients: MixedPrecisionPolicy(param_dtype). Shards and
 * reduced gradients have the model's type; without a policy the two are the same. */
static enum dtype compute_type(const struct fsdp *f)
{
	return f->hparams->sharded_compute;
}

static int is_flat(const struct fsdp *f)
{
	return f->hparams->wrapper == FSDP1;
}

static int64_t share(const struct fsdp *f, int64_t n)
{
	return divide_up(n, f->hparams->dp);
}

/* Elements of the first rank's shard: whole rows of a matrix, whole experts of a stack. */
static int64_t shard_of(const struct fsdp *f, const struct param *p)
{
	int64_t rows = p->stack ? p->stack : p->value.n / p->in;

	return rows > 1 ? share(f, rows) * (p->value.n / rows) : share(f, p->value.n);
}

/* Allocates the parameter's storage for the gathered weights, padded to the shards of all ranks. */
static void fill(struct machine *m, const struct fsdp *f, struct param *p)
{
	const int64_t n = p->value.n;

	p->value.n = shard_of(f, p) * f->hparams->dp;
	if (p->value.storage)
		storage_fill(m, p->value, compute_type(f));
	else
		p->value = tensor_new_as(m, TERM_GATHERED, p->value.n, compute_type(f));
	p->value.n = n;
	param_init(p);
}

/* ---- a unit's weights ---- */

/* Gathers a unit's weights; shards of another type are converted first. */
static void gather(struct machine *m, struct fsdp_unit *u)
{
	enum dtype type = compute_type(u->fsdp);
	tensor input = none;

	if (u->gathered.storage || u->unsharded)
		return;
	if (type != u->fsdp->hparams->weights)
		input = tensor_new_on(m, GATHER_STREAM, TERM_COLLECTIVE,
				      share(u->fsdp, u->elements), type);
	u->gathered = tensor_new_on(m, GATHER_STREAM, TERM_GATHERED, u->elements, type);
	tensor_unref(m, &input);
}

/* Copies the gathered weights into the parameters; the buffer of the previous gather is freed. */
static void copy_out(struct machine *m, struct fsdp_unit *u)
{
	if (u->unsharded)
		return;
	gather(m, u);
	tensor_assign(m, &u->fsdp->last_gather, none);
	for (size_t i = 0; i < u->count; i++)
		fill(m, u->fsdp, u->params[i]);
	u->fsdp->last_gather = u->gathered;
	u->gathered = none;
	u->unsharded = 1;
}

static void reshard(struct machine *m, struct fsdp_unit *u)
{
	for (size_t i = 0; i < u->count && u->unsharded; i++)
		storage_empty(m, u->params[i]->value);
	u->unsharded = 0;
}

/* ---- backward ---- */

/* Gathers the unit's weights, and ahead of time those of the unit that runs next. */
static void before_backward(struct machine *m, struct fsdp_unit *u)
{
	struct fsdp *f = u->fsdp;

	if (!u->unsharded) {
		copy_out(m, u);
		tensor_assign(m, &f->last_gather, none);
	}
	if (u > f->units && !u->is_root)
		gather(m, u - 1);
}

/* Frees the weights, copies the gradients into one buffer and reduce-scatters it. */
static void after_backward(struct machine *m, struct fsdp_unit *u)
{
	struct fsdp *f = u->fsdp;

	reshard(m, u);
	tensor_assign(m, &f->reduce_input, none);
	f->reduce_input = tensor_new_as(m, TERM_BUCKETS, u->elements, f->hparams->weights);
	for (size_t i = 0; i < u->count; i++)
		tensor_unref(m, &u->params[i]->grad);
	fsdp_add_reduced(m, u,
			 tensor_new_on(m, REDUCE_STREAM, TERM_GRADIENTS, share(f, u->elements),
				       f->hparams->weights));
}

static void output_backward(struct machine *m, struct grad_node *n)
{
	before_backward(m, n->hook);
	n->out[0] = tensor_ref(n->in[0]);
}

static void input_backward(struct machine *m, struct grad_node *n)
{
	after_backward(m, n->hook);
	n->out[0] = tensor_ref(n->in[0]);
}

/* ---- forward ---- */

tensor fsdp_before(struct machine *m, struct fsdp_unit *u, tensor x)
{
	if (is_flat(u->fsdp)) {
		fsdp1_before(m, u);
		return tensor_ref(x);
	}
	if (!m->replaying)
		copy_out(m, u);
	return with_backward_hook(m, x, input_backward, u);
}

tensor fsdp_after(struct machine *m, struct fsdp_unit *u, tensor x)
{
	if (is_flat(u->fsdp))
		return fsdp1_after(m, u, x);
	if (!m->replaying && u->fsdp->hparams->reshard)
		reshard(m, u);
	return with_backward_hook(m, x, output_backward, u);
}

void fsdp_root_before(struct machine *m, struct fsdp *f)
{
	if (is_flat(f))
		fsdp1_root_before(m, f);
	else if (f->units[f->count - 1].count)
		copy_out(m, &f->units[f->count - 1]);
}

void fsdp_root_after(struct machine *m, struct fsdp *f)
{
	tensor_assign(m, &f->last_gather, none);
}

void fsdp_start_backward(struct machine *m, struct fsdp *f)
{
	if (is_flat(f))
		fsdp1_start_backward(m, f);
	else if (f->count > 1 && f->units[f->count - 1].count)
		gather(m, &f->units[f->count - 2]);
}

void fsdp_finish(struct machine *m, struct fsdp *f)
{
	if (is_flat(f)) {
		fsdp1_finish(m);
		return;
	}
	if (f->units[f->count - 1].count)
		after_backward(m, &f->units[f->count - 1]);
	/* if nothing comes before the first unit, its input needs no gradient and its hook did not
	 * run */
	for (size_t i = 0; i + 1 < f->count; i++)
		if (f->units[i].unsharded)
			after_backward(m, &f->units[i]);
	tensor_unref(m, &f->reduce_input);
}

void fsdp_zero_grad(struct machine *m, struct fsdp *f)
{
	/* FSDP1 frees its flat gradients in the next forward pass */
	f->gradients_cleared = 1;
	if (!is_flat(f))
		fsdp_clear_reduced(m, f);
}

/* ---- made ---- */

static void shard(struct machine *m, struct fsdp_unit *u)
{
	if (is_flat(u->fsdp)) {
		fsdp1_shard(m, u);
		return;
	}
	u->shards = xcalloc(u->count + 1, sizeof(*u->shards));
	for (size_t i = 0; i < u->count; i++) {
		struct param *p = u->params[i];

		p->shard = shard_of(u->fsdp, p);
		u->elements += p->shard * u->fsdp->hparams->dp;
		u->shards[i] =
			tensor_new_as(m, TERM_FLAT_WEIGHTS, p->shard, u->fsdp->hparams->weights);
	}
	for (size_t i = 0; i < u->count; i++)
		tensor_unref(m, &u->params[i]->value);
}

void fsdp_wrap(struct machine *m, struct fsdp *f, const struct hparams *s, struct module *module,
	       const size_t *first, size_t blocks)
{
	struct fsdp_unit *root;

	*f = (struct fsdp){ .hparams = s, .count = blocks + 1 };
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
