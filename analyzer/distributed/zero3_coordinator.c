/* partitioned_param_coordinator.py: when parameters are gathered and released. The coordinator
 * records the modules of the first step, and from then on prefetches the parameters that come next.
 */
#include "torch/streams.h"
#include "distributed/zero3_coordinator.h"
#include "torch/hparams.h"
#include "distributed/zero3.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

/* One all-gather of several parameters; its buffer is copied out when the first of them is needed.
 */
struct param_gather {
	tensor flat;
	struct param **params;
	size_t count;
	int refs, done;
};

/* ---- the host's waits ---- */

/* The host waits for the oldest event if more than two are outstanding. */
void zero3_wait_oldest(struct machine *m, int stream, int64_t *events, size_t *count)
{
	while (*count && events[0] <= m->streams[stream].done)
		memmove(events, events + 1, --*count * sizeof(*events));
	if (*count <= 2)
		return;
	host_wait_event(m, stream, events[0]);
	memmove(events, events + 1, --*count * sizeof(*events));
}

void zero3_note_event(struct machine *m, int stream, int64_t *events, size_t *count)
{
	events[(*count)++] = stream_event(m, stream);
}

/* ---- gathers ---- */

static void fill(struct machine *m, struct param *p, int stream, int64_t elements)
{
	int64_t n = p->value.n;

	if (!p->value.storage)
		return;
	p->value.storage->stream = stream;
	p->value.n = elements;
	storage_fill(m, p->value, p->value.type);
	p->value.n = n;
}

static int is_offloaded(const struct zero3 *z)
{
	return z->hparams->offload_param;
}

/* Pieces in host memory are copied to the device first. */
static void gather_one(struct machine *m, struct zero3 *z, struct param *p)
{
	struct sharded_param *s = p->sharded;

	fill(m, p, z->gather_stream, s->partition * z->hparams->dp);
	if (is_offloaded(z))
		s->staged = tensor_new_on(m, z->gather_stream, TERM_COLLECTIVE, s->partition,
					  p->value.type);
}

static void gather_many(struct machine *m, struct zero3 *z, struct param_gather *g)
{
	tensor *pieces = xcalloc(g->count, sizeof(*pieces));
	int64_t n = 0;

	for (size_t i = 0; i < g->count; i++)
		n += g->params[i]->sharded->partition;
	g->flat = tensor_new_on(m, z->gather_stream, TERM_COLLECTIVE, n * z->hparams->dp,
				z->hparams->weights);
	for (size_t i = 0; is_offloaded(z) && i < g->count; i++)
		pieces[i] = tensor_new_on(m, z->gather_stream, TERM_COLLECTIVE,
					  g->params[i]->sharded->partition, z->hparams->weights);
	for (size_t i = 0; i < g->count; i++)
		tensor_unref(m, &pieces[i]);
	free(pieces);
	for (size_t i = 0; i < g->count; i++)
		g->params[i]->sharded->gather = g;
}

/* __all_gather_params: gathers the partitioned ones of `params`, in the module's order. */
static void gather(struct machine *m, struct zero3 *z, struct param **params, size_t count)
{
	struct param_gather *g = xcalloc(1, sizeof(*g));

	g->params = xcalloc(count, sizeof(*g->params));
	for (size_t i = 0; i < count; i++) {
		struct sharded_param *s = params[i]->sharded;

		if (s->status != NOT_AVAILABLE)
			continue;
		s->status = IN_FLIGHT;
		z->available += params[i]->value.n;
		g->params[g->count++] = params[i];
	}
	if (g->count > 1) {
		g->refs = (int)g->count;
		gather_many(m, z, g);
		return;
	}
	if (g->count)
		gather_one(m, z, g->params[0]);
	free(g->params);
	free(g);
}

static void copy_out(struct machine *m, const struct zero3 *z, struct param_gather *g)
{
	for (size_t i = 0; i < g->count && !g->done; i++) {
		g->params[i]->sharded->status = AVAILABLE;
		fill(m, g->params[i], z->gather_stream, g->params[i]->value.n);
	}
	g->done = 1;
}

static void wait_for(struct machine *m, struct zero3 *z, struct param *p)
{
	struct param_gather *g = p->sharded->gather;

	zero3_wait_oldest(m, z->gather_stream, z->fetches, &z->fetch_count);
	p->sharded->status = AVAILABLE;
	p->sharded->gather = NULL;
	tensor_unref(m, &p->sharded->staged);
	if (g) {
		copy_out(m, z, g);
		if (!--g->refs) {
			tensor_unref(m, &g->flat);
			free(g->params);
			free(g);
		}
	}
	zero3_note_event(m, z->gather_stream, z->fetches, &z->fetch_count);
}

/* Is the parameter gathered, but not yet waited for by its module? */
static int is_in_flight(const struct param *p)
{
	return p->sharded->status == IN_FLIGHT || p->sharded->gather;
}

static void release(struct machine *m, struct zero3 *z, struct param *p)
{
	struct sharded_param *s = p->sharded;

	if (s->status != AVAILABLE || s->active)
		return;
	record_stream(p->value, COMPUTE_STREAM);
	if (s->views.storage && s->views.storage->refs > 1)
		storage_move(m, p->value, s->views);
	storage_empty(m, p->value);
	tensor_unref(m, &s->views);
	s->status = NOT_AVAILABLE;
	z->available -= p->value.n;
}

/* ---- ahead ---- */

static void pass_queue(struct zero3 *z, const struct module_run *v)
{
	size_t wanted = 0;
	const struct param *seen[2] = { NULL, NULL };
	size_t count = 0;

	for (int i = 0; i < 2; i++)
		wanted += v->params[i] && v->params[i]->sharded->last_used < (int64_t)z->now;
	while (z->queue_first < z->queue_count && count < wanted) {
		struct param_use *u = &z->queue[z->queue_first++];

		u->param->sharded->last_used = u->run;
		if (u->param != seen[0] && u->param != seen[1])
			seen[count++] = u->param;
	}
}

static int by_offset(const void *a, const void *b)
{
	const struct param *p = *(struct param *const *)a, *q = *(struct param *const *)b;

	return p->offset < q->offset ? -1 : p->offset > q->offset;
}

static int contains(struct param **params, size_t count, const struct param *p)
{
	for (size_t i = 0; i < count; i++)
		if (params[i] == p)
			return 1;
	return 0;
}

static void prefetch(struct machine *m, struct zero3 *z)
{
	int64_t most = z->hparams->max_live - z->available, n = 0;
	struct param **params = NULL;
	size_t count = 0, room = 0;

	if (most > z->hparams->prefetch_bucket)
		most = z->hparams->prefetch_bucket;
	while (z->queue_first < z->queue_count && n < most) {
		struct param_use *u = &z->queue[z->queue_first++];
		struct sharded_param *s = u->param->sharded;

		if (s->last_used < u->run)
			s->last_used = u->run;
		if (s->status != NOT_AVAILABLE || contains(params, count, u->param))
			continue;
		params = grow(params, count, &room, sizeof(*params));
		params[count++] = u->param;
		n += u->param->value.n;
	}
	if (count) {
		qsort(params, count, sizeof(*params), by_offset);
		gather(m, z, params, count);
	}
	free(params);
}

/* ---- modules ---- */

void zero3_fetch(struct machine *m, struct zero3 *z, struct param *weight)
{
	struct module_run v = { { weight, weight ? weight->sharded->bias : NULL } };
	int count = !!v.params[0] + !!v.params[1];

	if (z->trace == RECORDING) {
		z->runs = grow(z->runs, z->run_count, &z->run_room, sizeof(*z->runs));
		z->runs[z->run_count++] = v;
	}
	gather(m, z, v.params, (size_t)count);
	for (int i = 0; i < count; i++) {
		v.params[i]->sharded->active = 1;
		if (is_in_flight(v.params[i]))
			wait_for(m, z, v.params[i]);
	}
	stream_wait(m, COMPUTE_STREAM, z->gather_stream);
	if (z->trace == COMPLETE) {
		pass_queue(z, &v);
		if (z->hparams->prefetch_bucket > 0)
			prefetch(m, z);
	}
	z->now++;
}

/* __params_to_release: a parameter that is used again soon is not released. */
static int comes_back(const struct zero3 *z, const struct param *p)
{
	struct sharded_param *s = p->sharded;

	if (s->persists || s->last_used > (int64_t)z->now)
		return 1;
	while (s->next_use < s->use_count && s->uses[s->next_use] < (int64_t)z->now)
		s->next_use++;
	return s->next_use < s->use_count &&
	       z->elements_before[s->uses[s->next_use]] - z->elements_before[z->now] <
		       z->hparams->max_reuse;
}

void zero3_release_params(struct machine *m, struct zero3 *z, struct param *weight)
{
	struct param *params[2] = { weight, weight ? weight->sharded->bias : NULL };
	int stays[2] = { 0, 0 };

	for (int i = 0; i < 2; i++)
		stays[i] = params[i] && z->trace == COMPLETE && comes_back(z, params[i]);
	for (int i = 0; i < 2; i++) {
		if (!params[i])
			continue;
		params[i]->sharded->active = 0;
		if (!stays[i])
			release(m, z, params[i]);
	}
}

/* ---- steps ---- */

static void note_use(struct sharded_param *s, int64_t run)
{
	s->uses = grow(s->uses, s->use_count, &s->use_room, sizeof(*s->uses));
	s->uses[s->use_count++] = run;
}

static void make_queue(struct zero3 *z)
{
	z->queue = xcalloc(2 * z->run_count + 1, sizeof(*z->queue));
	z->elements_before = xcalloc(z->run_count + 1, sizeof(*z->elements_before));
	for (size_t i = 0; i < z->run_count; i++) {
		z->elements_before[i + 1] = z->elements_before[i];
		for (int k = 0; k < 2; k++) {
			struct param *p = z->runs[i].params[k];

			if (!p)
				continue;
			z->elements_before[i + 1] += p->value.n;
			z->queue[z->queue_count++] = (struct param_use){ p, (int64_t)i };
			note_use(p->sharded, (int64_t)i);
		}
	}
}

/* reset_step */
void zero3_before_forward(struct machine *m, struct zero3 *z)
{
	(void)m;
	if (z->trace == RECORDING)
		make_queue(z);
	if (z->trace != COMPLETE)
		z->trace = z->trace == INVALID ? RECORDING : COMPLETE;
	z->queue_first = z->now = 0;
	z->available = 0;
	for (size_t i = 0; i < z->module->count; i++) {
		z->module->params[i]->sharded->last_used = -1;
		z->module->params[i]->sharded->next_use = 0;
	}
}

void zero3_free_all(struct machine *m, struct zero3 *z)
{
	for (size_t i = 0; i < z->module->count; i++) {
		struct param *p = z->module->params[i];

		if (is_in_flight(p))
			wait_for(m, z, p);
		p->sharded->active = 0;
		release(m, z, p);
	}
}

/* persistent_parameters[0].all_gather(persistent_parameters), after the step */
void zero3_gather_all(struct machine *m, struct zero3 *z)
{
	size_t count = 0;

	for (size_t i = 0; is_offloaded(z) && i < z->module->count; i++) {
		struct sharded_param *s = z->module->params[i]->sharded;

		if (s->persists)
			s->staged = tensor_new_as(m, TERM_COLLECTIVE, s->partition,
						  z->hparams->weights);
	}
	for (size_t i = 0; i < z->module->count; i++) {
		struct param *p = z->module->params[i];

		if (!p->sharded->persists)
			continue;
		count++;
		p->sharded->status = AVAILABLE;
		fill(m, p, COMPUTE_STREAM, p->sharded->partition * z->hparams->dp);
	}
	if (count)
		host_wait_all(m);
	for (size_t i = 0; i < z->module->count; i++)
		tensor_unref(m, &z->module->params[i]->sharded->staged);
}
