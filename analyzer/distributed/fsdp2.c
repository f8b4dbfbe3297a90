#include "distributed/fsdp2.h"

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

static int64_t share(const struct fsdp *f, int64_t n)
{
	return divide_up(n, f->ranks);
}

/* Whole rows of a matrix, whole experts of a stack. */
int64_t fsdp2_shard_of_rank(const struct fsdp *f, const struct param *p, int64_t rank)
{
	int64_t rows = p->stack ? p->stack : p->value.n / p->in;
	int64_t parts = rows > 1 ? rows : p->value.n, each = share(f, parts);
	int64_t left = parts - rank * each;

	/* without memory for it, a parameter has no elements */
	return left <= 0 ? 0 : smaller_of(left, each) * (p->value.n / parts);
}

static int64_t shard_of(const struct fsdp *f, const struct param *p)
{
	return fsdp2_shard_of_rank(f, p, 0);
}

/* Allocates the parameter's storage for the gathered weights, padded to the shards of all ranks. */
static void fill(struct machine *m, const struct fsdp *f, struct param *p)
{
	const int64_t n = p->value.n;

	p->value.n = shard_of(f, p) * f->ranks;
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
	if (u > f->units && !u->is_root && !u->gathers_none_ahead)
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

tensor fsdp2_before(struct machine *m, struct fsdp_unit *u, tensor x)
{
	if (!m->replaying)
		copy_out(m, u);
	return with_backward_hook(m, x, input_backward, u);
}

tensor fsdp2_after(struct machine *m, struct fsdp_unit *u, tensor x)
{
	/* a region that runs again in the backward pass keeps its weights for it */
	if (!m->replaying && !m->backward && u->fsdp->hparams->reshard)
		reshard(m, u);
	if (m->backward)
		tensor_assign(m, &u->fsdp->last_gather, none);
	return with_backward_hook(m, x, output_backward, u);
}

void fsdp2_root_before(struct machine *m, struct fsdp *f)
{
	if (f->units[f->count - 1].count)
		copy_out(m, &f->units[f->count - 1]);
}

void fsdp2_root_reshard(struct machine *m, struct fsdp *f)
{
	if (f->hparams->reshard)
		reshard(m, &f->units[f->count - 1]);
}

void fsdp2_root_after(struct machine *m, struct fsdp *f)
{
	tensor_assign(m, &f->last_gather, none);
}

void fsdp2_start_backward(struct machine *m, struct fsdp *f)
{
	if (f->units[f->count - 1].count)
		before_backward(m, &f->units[f->count - 1]);
	if (f->count > 1 && f->units[f->count - 1].count)
		gather(m, &f->units[f->count - 2]);
}

void fsdp2_finish(struct machine *m, struct fsdp *f)
{
	if (f->units[f->count - 1].count)
		after_backward(m, &f->units[f->count - 1]);
	/* if nothing comes before the first unit, its input needs no gradient and its hook did not
	 * run */
	for (size_t i = 0; i + 1 < f->count; i++)
		if (f->units[i].unsharded)
			after_backward(m, &f->units[i]);
	tensor_unref(m, &f->reduce_input);
}

/* ---- sharding ---- */

void fsdp2_shard(struct machine *m, struct fsdp_unit *u)
{
	u->shards = xcalloc(u->count + 1, sizeof(*u->shards));
	for (size_t i = 0; i < u->count; i++) {
		struct param *p = u->params[i];

		p->shard = shard_of(u->fsdp, p);
		u->elements += p->shard * u->fsdp->ranks;
		u->shards[i] =
			tensor_new_as(m, TERM_FLAT_WEIGHTS, p->shard, u->fsdp->hparams->weights);
	}
	for (size_t i = 0; i < u->count; i++)
		tensor_unref(m, &u->params[i]->value);
}
