#include "distributed/fsdp1.h"
#include "torch/autograd.h"
#include "torch/streams.h"

#include "util/util.h"

#define UNSHARD_STREAM 1
#define POST_BACKWARD_STREAM 2
#define PRE_UNSHARD_STREAM 3
#define COMPUTE_STREAM 0
#define IN_FLIGHT 2  /* _FreeEventQueue._max_num_inflight_all_gathers */
#define ALIGNMENT 16 /* bytes: the alignment of each parameter in the flat one */

static enum dtype compute_type(const struct fsdp_unit *u)
{
	return u->fsdp->hparams->sharded_compute;
}

static enum dtype weights_type(const struct fsdp_unit *u)
{
	return u->fsdp->hparams->weights;
}

/* ---- made ---- */

static int64_t aligned(const struct fsdp_unit *u, int64_t at)
{
	int64_t unit = ALIGNMENT / dtype_width(compute_type(u));

	return round_up(at, unit);
}

/* Sets p->shard of each parameter: its elements in this rank's shard of the flat parameter. */
static void lay_out(struct fsdp_unit *u)
{
	const struct hparams *s = u->fsdp->hparams;
	int64_t at = 0, begin, end;

	for (size_t i = 0; i < u->count; i++)
		at = aligned(u, at) + u->params[i]->value.n;
	u->elements = round_up(at, s->dp);
	begin = u->elements / s->dp * s->rank;
	end = begin + u->elements / s->dp;
	at = 0;
	for (size_t i = 0; i < u->count; i++) {
		struct param *p = u->params[i];
		int64_t from = aligned(u, at), to = from + p->value.n;

		at = to;
		from = from > begin ? from : begin;
		to = to < end ? to : end;
		p->shard = to > from ? to - from : -1;
		p->unit = u;
	}
}

void fsdp1_shard(struct machine *m, struct fsdp_unit *u)
{
	tensor flat;

	if (!u->count)
		return;
	lay_out(u);
	flat = tensor_new_as(m, TERM_FLAT_WEIGHTS, u->elements, weights_type(u));
	u->shards = xcalloc(1, sizeof(*u->shards));
	u->shards[0] = tensor_new_as(m, TERM_FLAT_WEIGHTS, u->elements / u->fsdp->hparams->dp,
				     weights_type(u));
	tensor_unref(m, &flat);
	for (size_t i = 0; i < u->count; i++)
		tensor_unref(m, &u->params[i]->value);
}

/* ---- a unit's weights ---- */

/* The rate limiter: the host waits until the reshard before the last is complete. */
static void limit(struct machine *m, struct fsdp *f)
{
	if (f->freed - f->waited < IN_FLIGHT)
		return;
	host_wait_event(m, f->freed_units[f->waited].stream, f->freed_units[f->waited].event);
	f->waited++;
}

static void unshard(struct machine *m, struct fsdp_unit *u)
{
	enum dtype type = compute_type(u);
	tensor input = none;

	if (u->prefetched || !u->count)
		return;
	if (u->unsharded) {
		limit(m, u->fsdp);
		return;
	}
	if (type != weights_type(u)) {
		input = tensor_new_on(m, PRE_UNSHARD_STREAM, TERM_COLLECTIVE,
				      u->elements / u->fsdp->hparams->dp, type);
		stream_wait(m, UNSHARD_STREAM, PRE_UNSHARD_STREAM);
	}
	limit(m, u->fsdp);
	if (u->gathered.storage)
		storage_fill(m, u->gathered, type);
	else
		u->gathered = tensor_new_on(m, UNSHARD_STREAM, TERM_GATHERED, u->elements, type);
	record_stream(input, UNSHARD_STREAM);
	tensor_unref(m, &input);
	for (size_t i = 0; i < u->count; i++) {
		struct param *p = u->params[i];

		if (!p->value.storage) {
			p->value.storage = tensor_ref(u->gathered).storage;
			p->value.type = type;
		}
		param_init(p);
	}
	u->unsharded = 1;
}

/* Frees the gathered weights, on `stream`. */
static void reshard(struct machine *m, struct fsdp_unit *u, int stream)
{
	struct fsdp *f = u->fsdp;

	record_stream(u->gathered, stream);
	storage_empty(m, u->gathered);
	f->freed_units = grow(f->freed_units, f->freed, &f->free_room, sizeof(*f->freed_units));
	f->freed_units[f->freed++] = (struct freed){ stream, stream_event(m, stream) };
	u->unsharded = u->prefetched = 0;
}

/* ---- backward ---- */

/* Copies the gradients into one flat gradient, which is reduced and scattered, and frees the
 * weights. */
static void split_backward(struct machine *m, struct grad_node *n)
{
	struct fsdp_unit *u = n->hook;
	struct fsdp *f = u->fsdp;
	enum dtype type = compute_type(u);
	tensor flat, cast = none;

	stream_wait(m, UNSHARD_STREAM, COMPUTE_STREAM);
	flat = tensor_new_on(m, UNSHARD_STREAM, TERM_BUCKETS, u->elements, type);

	tensor_unref(m, &n->in[0]);
	u->split = NULL;
	for (size_t i = 0; i < u->count; i++) {
		record_stream(u->params[i]->grad, UNSHARD_STREAM);
		tensor_unref(m, &u->params[i]->grad);
	}
	reshard(m, u, UNSHARD_STREAM);
	stream_wait(m, POST_BACKWARD_STREAM, UNSHARD_STREAM);
	if (type != weights_type(u))
		cast = tensor_new_on(m, POST_BACKWARD_STREAM, TERM_BUCKETS, u->elements,
				     weights_type(u));
	fsdp_add_reduced(m, u,
			 tensor_new_on(m, POST_BACKWARD_STREAM, TERM_GRADIENTS,
				       u->elements / f->hparams->dp, weights_type(u)));
	tensor_unref(m, &cast);
	record_stream(flat, POST_BACKWARD_STREAM);
	tensor_unref(m, &flat);
}

/* Passes the gradient to the node that split the flat parameter into views. */
static void note_gradient(struct machine *m, struct param *p)
{
	struct fsdp_unit *u = p->unit;

	(void)m;
	if (u && u->split && !u->split->in[0].storage)
		node_receive(u->split, 0, tensor_ref(p->grad));
}

/* Gathers the unit's weights, and ahead of time those of the unit that runs next. */
static void before_backward(struct machine *m, struct fsdp_unit *u)
{
	unshard(m, u);
	stream_wait(m, COMPUTE_STREAM, UNSHARD_STREAM);
	if (u > u->fsdp->units) {
		unshard(m, u - 1);
		u[-1].prefetched = 1;
	}
}

static void output_backward(struct machine *m, struct grad_node *n)
{
	before_backward(m, n->hook);
	n->out[0] = tensor_ref(n->in[0]);
}

/* ---- forward ---- */

void fsdp1_before(struct machine *m, struct fsdp_unit *u)
{
	struct grad_node *n;

	if (m->replaying || !u->count)
		return;
	unshard(m, u);
	stream_wait(m, COMPUTE_STREAM, UNSHARD_STREAM);
	n = grad_node_new(m, split_backward, &u->params[0]->value, 1);
	if (!n)
		return;
	n->edge[0] = NULL; /* the node must not count as a use of the parameter */
	n->hook = u;
	u->split = n;
}

tensor fsdp1_after(struct machine *m, struct fsdp_unit *u, tensor x)
{
	if (!m->replaying && u->fsdp->hparams->reshard)
		reshard(m, u, COMPUTE_STREAM);
	return with_backward_hook(m, x, output_backward, u);
}

/* init_flat_param_attributes: storages are allocated on the current stream and freed at once. */
static void make_storages(struct machine *m, const struct fsdp_unit *u)
{
	const int64_t width = dtype_width(compute_type(u));

	m->current_term = TERM_GATHERED;
	if (compute_type(u) != weights_type(u))
		scratch(m, u->elements / u->fsdp->hparams->dp * width);
	scratch(m, u->elements * width);
	if (compute_type(u) != weights_type(u))
		scratch(m, u->elements * dtype_width(weights_type(u)));
}

void fsdp1_root_before(struct machine *m, struct fsdp *f)
{
	m->on_gradient = note_gradient;
	for (size_t i = 0; !f->flat_made && i < f->count; i++)
		make_storages(m, &f->units[i]);
	f->flat_made = 1;
	stream_wait(m, UNSHARD_STREAM, COMPUTE_STREAM);
	stream_wait(m, PRE_UNSHARD_STREAM, COMPUTE_STREAM);
	if (f->gradients_cleared)
		fsdp_clear_reduced(m, f);
	f->gradients_cleared = 0;
	fsdp1_before(m, &f->units[f->count - 1]);
}

void fsdp1_start_backward(struct machine *m, struct fsdp *f)
{
	before_backward(m, &f->units[f->count - 1]);
}

void fsdp1_finish(struct machine *m)
{
	stream_wait(m, COMPUTE_STREAM, POST_BACKWARD_STREAM);
}
