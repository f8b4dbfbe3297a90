#include "distributed/unit_buffers.h"

#include <stdlib.h>

#include "distributed/unit_buckets.h"
#include "torch/autograd.h"
#include "util/util.h"

#define GATHER_STREAM 1
#define REDUCE_STREAM 2

/* ---- gradients: GradReducePipeline ---- */

static void free_oldest(struct machine *m, struct unit_buffers *b)
{
	struct unit_bucket *g = &b->buckets[b->queue[0]];

	tensor_unref(m, &g->gradient);
	b->queued--;
	for (size_t i = 0; i < b->queued; i++)
		b->queue[i] = b->queue[i + 1];
}

/* The bucket and those that are reduced with it, once all of their gradients are there. */
static void reduce(struct machine *m, struct unit_buffers *b, const struct unit_bucket *g)
{
	tensor *parts = xcalloc(b->count, sizeof(*parts));
	int64_t waiting = 0;

	for (size_t i = 0; i < b->queued; i++)
		waiting += b->buckets[b->queue[i]].size;
	while (b->queued && waiting > b->most_waiting) {
		waiting -= b->buckets[b->queue[0]].size;
		free_oldest(m, b);
	}
	for (size_t k = 0; k < b->count; k++) {
		struct unit_bucket *o = &b->buckets[k];

		if (o != g && (g->unit < 0 || o->unit != g->unit || o->experts != g->experts))
			continue;
		parts[k] = tensor_new_on(m, REDUCE_STREAM, TERM_COLLECTIVE, o->size / o->ranks,
					 b->gradients.type);
		b->queue = grow(b->queue, b->queued, &b->queue_room, sizeof(*b->queue));
		b->queue[b->queued++] = k;
		o->ready = 0;
	}
	for (size_t k = 0; k < b->count; k++)
		tensor_unref(m, &parts[k]);
	free(parts);
}

static int is_ready(const struct unit_buffers *b, const struct unit_bucket *g)
{
	for (size_t k = 0; k < b->count; k++) {
		const struct unit_bucket *o = &b->buckets[k];

		if ((o == g || (g->unit >= 0 && o->unit == g->unit && o->experts == g->experts)) &&
		    o->ready < o->count)
			return 0;
	}
	return 1;
}

/* machine.on_gradient */
static void add_to_bucket(struct machine *m, struct param *p)
{
	struct unit_buffers *b = m->unit_buffers;
	struct unit_bucket *g = &b->buckets[p->bucket];
	/* `optim` reduces in the last micro-batch alone, which needs no more in another one */
	int is_reduced = b->masters_shared && g->ranks > 1;

	if (is_reduced && b->gradients_shared && !g->gradient.storage)
		g->gradient = tensor_new_as(m, TERM_BUCKETS, g->size, b->gradients.type);
	tensor_unref(m, &p->grad);
	g->ready += (size_t)is_reduced;
	if (is_reduced && is_ready(b, g))
		reduce(m, b, g);
}

/* ---- buffers ---- */

static int64_t stored(const struct unit_bucket *g, int shared)
{
	return shared ? g->size / g->ranks : g->size;
}

static int is_gathered(const struct unit_buffers *b, const struct unit_bucket *g)
{
	return b->weights_shared && g->ranks > 1;
}

/* The parameters become views of the bucket; with parts, all of it has a block during this. */
static void make_bucket(struct machine *m, const struct unit_buffers *b, struct unit_bucket *g)
{
	const struct hparams *s = b->hparams;

	if (s->zero) {
		g->part = tensor_new_as(m, TERM_FLAT_WEIGHTS, stored(g, b->weights_shared),
					s->weights);
		g->weights = is_gathered(b, g)
				     ? tensor_new_as(m, TERM_GATHERED, g->size, s->weights)
				     : tensor_ref(g->part);
	}
	g->master = tensor_new_as(m, TERM_MASTER, stored(g, b->masters_shared), F32);
	for (size_t i = 0; i < g->count && s->zero; i++) {
		struct param *p = b->module->params[g->items[i]];

		tensor_assign(m, &p->value, tensor_part(g->weights, p->value.n));
		param_init(p);
	}
	if (is_gathered(b, g))
		storage_empty(m, g->weights);
}

static void make_units(struct unit_buffers *b, size_t count)
{
	b->units = xcalloc(count + 1, sizeof(*b->units));
	for (size_t i = 0; i < count; i++)
		b->units[i] = (struct buffer_unit){ b, (int64_t)i };
}

void unit_buffers_make(struct machine *m, struct unit_buffers *b, const struct unit_layout *layout)
{
	int64_t units = (int64_t)layout->units, elements = 0, all = 0;

	*b = (struct unit_buffers){ .hparams = layout->hparams,
				    .module = layout->module,
				    .masters_shared = layout->hparams->zero > 0,
				    .gradients_shared = layout->hparams->zero > 1,
				    .weights_shared = layout->hparams->zero > 2,
				    .most_waiting = 1000000000 };
	unit_buckets_make(layout, b);
	make_units(b, layout->units);
	for (size_t k = 0; k < b->count; k++) {
		struct unit_bucket *g = &b->buckets[k];

		make_bucket(m, b, g);
		all += stored(g, b->gradients_shared);
		elements += g->unit < 0 ? 0 : g->size;
	}
	b->gradients = tensor_new_as(m, TERM_GRADIENT_BUFFER, all, b->hparams->gradients);
	/* MegatronFSDP: suggested_communication_unit_size */
	if (units && elements / units * 2 > b->most_waiting)
		b->most_waiting = elements / units * 2;
	allocator_empty_cache(m->allocator);
	m->unit_buffers = b;
	m->on_gradient = add_to_bucket;
}

int64_t unit_buffers_part(const struct unit_buffers *b, size_t i)
{
	const struct hparams *s = b->hparams;
	const struct param *p = b->module->params[i];
	const struct unit_bucket *g = &b->buckets[p->bucket];
	int64_t share = g->size / g->ranks, from, to, rank = g->ranks - 1;
	size_t k = 0;

	if (!b->masters_shared)
		return p->value.n;
	/* Megatron-LM reports its last rank */
	if (s->is_placed || !s->training_loop)
		rank = (s->rank * s->cp + s->context_rank) * g->ranks / (s->dp * s->cp);
	while (g->items[k] != i)
		k++;
	from = rank * share > g->at[k] ? rank * share : g->at[k];
	to = smaller_of(rank * share + share, g->at[k] + p->value.n);
	return to > from ? to - from : 0;
}

/* ---- weights: AllGatherPipeline ---- */

static int is_freed(const struct unit_bucket *g)
{
	return g->weights.storage && !g->weights.storage->block;
}

/* Gathers the wanted buckets, and ahead of time those that follow or come before. */
static void gather_wanted(struct machine *m, struct unit_buffers *b, int step)
{
	size_t first = 0, last = b->count - 1;
	int64_t ahead = 0;

	while (first < b->count && !b->buckets[first].wanted)
		first++;
	if (first == b->count)
		return;
	while (!b->buckets[last].wanted)
		last--;
	for (size_t k = step > 0 ? first : last; step; k += (size_t)step) {
		struct unit_bucket *g = &b->buckets[k];

		if (k >= b->count || (!g->wanted && ahead >= b->most_waiting / 2))
			break;
		for (size_t i = 0; i < b->count && !g->wanted; i++) {
			struct unit_bucket *o = &b->buckets[i];

			if (i != k &&
			    (g->unit < 0 || o->unit != g->unit || o->experts != g->experts))
				continue;
			ahead += o->size;
			o->wanted = 1;
		}
	}
	for (size_t k = 0; k < b->count; k++) {
		struct unit_bucket *g = &b->buckets[k];

		if (g->wanted && is_gathered(b, g) && is_freed(g)) {
			g->weights.storage->stream = GATHER_STREAM;
			storage_fill(m, g->weights, g->weights.type);
		}
		g->wanted = 0;
	}
}

static void gather_unit(struct machine *m, struct unit_buffers *b, int64_t unit, int step)
{
	for (size_t k = 0; k < b->count; k++)
		b->buckets[k].wanted = b->buckets[k].unit == unit;
	gather_wanted(m, b, step);
}

static void release_unit(struct machine *m, struct unit_buffers *b, int64_t unit)
{
	for (size_t k = 0; k < b->count; k++)
		if (b->buckets[k].unit == unit && is_gathered(b, &b->buckets[k]))
			storage_empty(m, b->buckets[k].weights);
}

static void before_backward(struct machine *m, struct grad_node *n)
{
	const struct buffer_unit *u = n->hook;

	gather_unit(m, u->all, u->number, -1);
	n->out[0] = tensor_ref(n->in[0]);
}

static void after_backward(struct machine *m, struct grad_node *n)
{
	const struct buffer_unit *u = n->hook;

	release_unit(m, u->all, u->number);
	n->out[0] = tensor_ref(n->in[0]);
}

tensor unit_buffers_before(struct machine *m, struct unit_buffers *b, int64_t unit, tensor x)
{
	if (!b->weights_shared)
		return tensor_ref(x);
	gather_unit(m, b, unit, !m->backward);
	return with_backward_hook(m, x, after_backward, &b->units[unit]);
}

void unit_buffers_after(struct machine *m, struct unit_buffers *b, int64_t unit, tensor *out)
{
	if (!b->weights_shared)
		return;
	/* a layer that runs again in the backward pass keeps its weights for it */
	if (!m->backward)
		release_unit(m, b, unit);
	tensor_assign(m, out, with_backward_hook(m, *out, before_backward, &b->units[unit]));
}

void unit_buffers_use(struct machine *m, struct unit_buffers *b, const struct param *p)
{
	if (!p || !b->weights_shared)
		return;
	b->buckets[p->bucket].wanted = 1;
	gather_wanted(m, b, 1);
}

/* ---- the step ---- */

void unit_buffers_finish(struct machine *m, struct unit_buffers *b)
{
	while (b->queued)
		free_oldest(m, b);
	for (size_t k = 0; k < b->count; k++) {
		tensor_unref(m, &b->buckets[k].gradient);
		b->buckets[k].ready = 0;
	}
}

void unit_buffers_before_step(struct machine *m, struct unit_buffers *b)
{
	for (size_t k = 0; k < b->count; k++)
		if (is_gathered(b, &b->buckets[k]))
			storage_empty(m, b->buckets[k].weights);
}

void unit_buffers_after_step(struct machine *m, struct unit_buffers *b)
{
	unit_buffers_use(m, b, b->module->params[0]);
}

void unit_buffers_release(struct unit_buffers *b)
{
	for (size_t k = 0; k < b->count; k++) {
		free(b->buckets[k].items);
		free(b->buckets[k].at);
	}
	free(b->buckets);
	free(b->queue);
	free(b->units);
}
