#include "metrics/metrics_calls.h"
#include "metrics/metrics_moment.h"

#include "metrics/metrics_backward.h"
#include "metrics/metrics_inference.h"
#include "metrics/metrics_larger.h"
#include "metrics/metrics_leaks.h"
#include "metrics/metrics_live.h"
#include "metrics/metrics_own.h"
#include "metrics/metrics_need.h"
#include "metrics/metrics_replaced.h"
#include "metrics/metrics_sizes.h"

#include <stdlib.h>
#include <string.h>

#define MIN_PASSES 3 /* forward passes with which a later one is compared in the second step */

struct moment_pass {
	const struct metrics_pass *p;
	struct device_pass *d;
	unsigned device;
	struct surviving_block *surviving;
	size_t surviving_count, surviving_room;
	bytes run_new, run_model;
	bytes old; /* what backward passes of earlier steps have left, but for the job's code */
	uint32_t old_blocks;
	bytes world; /* ranks of the job */
	uint64_t newest_call;
};

static const struct snapshot *live_at(const struct device_pass *d)
{
	return d->failure ? &d->failure->live : &d->device->at_peak;
}

/* `part` as a percentage of `whole`; 0 if `whole` is 0. */
static int64_t percent(bytes part, bytes whole)
{
	double p = whole > 0 ? (double)part * 100 / (double)whole : 0;

	return p > 1e9 ? (int64_t)1e9 : (int64_t)p;
}

static int is_autograd(const struct metrics_pass *p, const struct mt_record *r)
{
	return (p->tables->thread_flags[r->thread] & THREAD_AUTOGRAD) != 0;
}

static int is_parameter_size(const struct moment_pass *s, bytes size)
{
	return size_counts_find(&live_at(s->d)->parameters, size) > 0;
}

/* A copy of parameters or states: it has their size, and the script itself allocated it after the
 * first step. */
static int is_copy(const struct moment_pass *s, uint32_t stack, bytes size)
{
	stack_tags tags = tags_at(s->p, stack);

	return tables_stack_has_frames(s->p->tables, stack) &&
	       !(tags & (TAGGED(MODEL) | TAGGED(LOSS) | TAGGED(OPTIMIZER) | TAGGED(LOAD) |
			 TAGGED(LOAD_STATE) | TAGGED(BUCKET) | TAGGED(CLIP) | TAGGED(SAVE) |
			 TAGGED(FSDP_GATHER) | TAGGED(ZERO_GATHER) | TAGGED(ZERO))) &&
	       is_parameter_size(s, size);
}

/* Adds what an optimizer of the job's own makes. In a step that failed, what has a parameter's size
 * may be a state. */
static void add_own_temporary(struct moment_pass *s, stack_tags tags, bytes n)
{
	if (!metrics_is_own_step(tags) || is_parameter_size(s, n))
		return;
	add(&s->d->m->own_temporaries, n);
	add(&s->d->m->optimizer_temporaries, n);
}

static void add_request(struct moment_pass *s)
{
	struct metrics *m = s->d->m;
	const struct failure *f = s->d->failure;
	stack_tags tags = f ? tags_at(s->p, f->stack) : 0;
	bytes n = f ? f->requested : 0;

	m->copying = !f;
	if (!f)
		return;
	if (metrics_is_logits(s->d, tags, n)) {
		add(&m->logits, n);
		m->logits_blocks++;
		m->request_is_logits = 1;
	}
	if (metrics_is_score(s->d, tags, m->in_backward && !f->stack, n)) {
		add(&m->attention, n);
		m->attention_blocks++;
	}
	if (tags & TAGGED(OPTIMIZER) && !(tags & TAGGED(STATE)))
		add(&m->optimizer_temporaries, n);
	add_own_temporary(s, tags, n);
	if (tags & TAGGED(ZERO) && !(tags & TAGGED(ZERO_GATHER)) &&
	    stack_hint(tables_stack_flags(s->p->tables, f->stack)) == HINT_COMMUNICATION) {
		add(&m->zero_buckets, n);
		m->zero_bucket = n;
	}
	m->request_is_state = (tags & TAGGED(STATE)) != 0;
	m->request_is_gradient = m->in_backward && is_parameter_size(s, n) &&
				 !tables_stack_has_frames(s->p->tables, f->stack);
	add(&m->clipping, tags & TAGGED(CLIP) ? n : 0);
	add(&m->saving, tags & TAGGED(SAVE) ? n : 0);
	m->copying = !m->in_backward && s->d->run > 1 && is_copy(s, f->stack, n);
	add(&m->copies, m->copying ? n : 0);
	add(&m->loaded, tags & TAGGED(LOAD) ? n : 0);
	m->run_evaluates |=
		evaluation_names_are_of(&s->d->trained_names, s->p->tables, f->stack, tags);
	m->run_trains |= s->d->run_is_open && tags & TAGGED(TRAINS);
	if (s->d->run_is_open) {
		add(&s->d->run_born, n);
		add(&m->run_live, n);
		add(&s->run_model, tags & TAGGED(MODEL) ? n : 0);
	}
}

/* Is it a workspace of cuBLAS or of Transformer Engine? */
static int is_workspace(const struct metrics_pass *p, const struct mt_record *r)
{
	return stack_hint(tables_stack_flags(p->tables, r->stack)) == HINT_WORKSPACES ||
	       workspace_sizes_have(&p->workspaces, r->bytes);
}

/* Adds a block to the metrics of its stack's tags, which may be several. */
static void add_tagged(struct moment_pass *s, const struct mt_record *r, stack_tags tags)
{
	struct metrics *m = s->d->m;
	struct block_tag tag = tag_of(r);
	bytes n = r->bytes;

	/* Parameters, and gradients of the step before, may have that size too. */
	if (tag.run == s->d->run && metrics_is_logits(s->d, tags, n)) {
		add(&m->logits, n);
		m->logits_blocks++;
	}
	if (metrics_is_score(s->d, tags, is_autograd(s->p, r), n)) {
		add(&m->attention, n);
		m->attention_blocks++;
	}
	if (tags & TAGGED(OPTIMIZER) && !(tags & TAGGED(STATE)) && tag.step == (uint16_t)s->d->step)
		add(&m->optimizer_temporaries, n);
	if (tag.step == (uint16_t)s->d->step && !is_autograd(s->p, r))
		add_own_temporary(s, tags, n);
	add(&m->workspaces, is_workspace(s->p, r) ? n : 0);
	add(&m->clipping, tags & TAGGED(CLIP) ? n : 0);
	add(&m->loaded, tags & TAGGED(LOAD) ? n : 0);
	add(&m->loaded_states, tags & TAGGED(LOAD_STATE) ? n : 0);
	add(&m->saving, tags & TAGGED(SAVE) ? n : 0);
	add(&m->buckets, tags & TAGGED(BUCKET) ? n : 0);
	add(&m->recomputed,
	    tags & TAGGED(RECOMPUTE) && s->d->phase == PHASE_BACKWARD && tag.run == s->d->run ? n
											      : 0);
	add(&m->compiling, tags & TAGGED(COMPILE) ? n : 0);
	add(&m->fp8_copies, tags & TAGGED(FP8) ? n : 0);
	add(&m->arena, tags & TAGGED(MEGATRON_FSDP) ? n : 0);
	add(&m->expert_bytes, tags & TAGGED(EXPERT) && tag.run == s->d->run ? n : 0);
	if (tags & TAGGED(FSDP_GATHER)) {
		add(&m->gathered, n);
		m->gathered_blocks++;
		m->gathered_largest = n > m->gathered_largest ? n : m->gathered_largest;
	}
	if (tags & TAGGED(ZERO_GATHER)) {
		add(&m->zero_gathered, n);
		m->zero_gathered_blocks++;
	}
}

/* Adds a block to the metrics of its thread and of the time of its allocation. */
static void add_origin(struct moment_pass *s, const struct mt_record *r, stack_tags tags)
{
	struct metrics *m = s->d->m;
	struct block_tag tag = tag_of(r);
	int autograd = is_autograd(s->p, r);

	/* A gradient that is not sharded is as large as the parameter's shards of all ranks. */
	if (tags & TAGGED(FSDP_GRADIENT) || (autograd && m->tags & TAGGED(FSDP) && s->world > 1 &&
					     is_parameter_size(s, r->bytes / s->world)))
		add(&m->unsharded_gradients, r->bytes);
	if (autograd && tag.step != (uint16_t)s->d->step) {
		add(&m->old_gradients, r->bytes);
		add(&s->old, tables_stack_has_frames(s->p->tables, r->stack) ? 0 : r->bytes);
		s->old_blocks++;
	}
	if (autograd && m->in_backward && tag.run == s->d->run && is_parameter_size(s, r->bytes))
		add(&m->backward_gradients, r->bytes);
	if (!autograd && tag.run > 1 && is_copy(s, r->stack, r->bytes))
		add(&m->copies, r->bytes);
	if (tag.run == s->d->run && s->d->run_is_open) {
		add(&m->run_live, r->bytes);
		add(&s->run_model, tags & TAGGED(MODEL) ? r->bytes : 0);
		add(&s->run_new, tag.removed_by & 1u << WITHOUT_NEW_RUN ? r->bytes : 0);
		m->run_blocks += tags & TAGGED(MODEL) && tag.removed_by & 1u << WITHOUT_NEW_RUN;
		add(&m->run_in_graph, are_made(tag.nodes) ? r->bytes : 0);
		add(&m->run_no_graph, tag.nodes == NODES_NONE ? r->bytes : 0);
		m->run_evaluates |=
			evaluation_names_are_of(&s->d->trained_names, s->p->tables, r->stack, tags);
		m->run_trains |= (tags & TAGGED(TRAINS)) != 0;
	}
}

/* An optimizer's states stay as long as it does. Those that a later step makes are of parameters
 * that are trained since then, or of a second optimizer, which has a metric of its own. */
static void add_surviving(struct moment_pass *s, const struct mt_record *r)
{
	struct block_tag tag = tag_of(r);

	if (tags_at(s->p, r->stack) & TAGGED(STATE))
		return;
	s->surviving =
		grow(s->surviving, s->surviving_count, &s->surviving_room, sizeof(*s->surviving));
	s->surviving[s->surviving_count++] = (struct surviving_block){
		.stack = r->stack < s->p->tables->stack_count ? r->stack : MT_NO_STACK,
		.thread = r->thread,
		.age = (uint16_t)(s->d->step - tag.step),
		.in_run = tag.removed_by & 1u << WITHOUT_NEW_RUN && tag.run == s->d->run,
		.size = r->bytes,
	};
}

/* Compares the blocks of this step with those of the steps before, stack by stack. */
static void record_size_ratio(const struct moment_pass *s)
{
	const struct device_pass *d = s->d;
	bytes now[2] = { 0 }, before[2] = { 0 }; /* outside of experts, in them */
	bytes held[2] = { 0 }, held_before[2] = { 0 };

	for (size_t i = 1; i < s->p->tables->stack_count; i++) {
		const struct stack_levels *l = &d->stacks[i];
		int expert;

		/* Without frames, it is no place: all that a backward pass makes has one stack. */
		if (l->last_step != d->step + 1 || !l->before ||
		    !tables_stack_has_frames(s->p->tables, (uint32_t)i) ||
		    s->p->tags[i] & (TAGGED(OPTIMIZER) | TAGGED(SAVE) | TAGGED(LOAD)))
			continue;
		expert = (s->p->tags[i] & TAGGED(EXPERT)) != 0;
		now[expert] = bytes_add(now[expert], l->now);
		before[expert] = bytes_add(before[expert], l->before);
		held[expert] = bytes_add(held[expert], l->held);
		held_before[expert] = bytes_add(held_before[expert], l->held_before);
	}
	/* Of few passes, the next one may be larger by chance. */
	if (d->step < 2 && (d->step < 1 || d->step_run < MIN_PASSES))
		return;
	/* Larger blocks; or more blocks, as recurrent layers allocate for longer sequences. */
	d->m->size_ratio = larger_of(percent(now[0], before[0]), percent(held[0], held_before[0]));
	d->m->expert_ratio =
		larger_of(percent(now[1], before[1]), percent(held[1], held_before[1]));
}

static void describe_moment(const struct moment_pass *s)
{
	struct device_pass *d = s->d;
	struct metrics *m = d->m;
	const struct failure *f = d->failure;
	const struct device *device = d->device;

	metrics_count_calls(d);
	m->failed = f != NULL;
	m->died = f && !failure_survived(f);
	m->device_total = device->total;
	m->allocated = d->moment.allocated;
	m->reserved = d->moment.reserved;
	m->cached = m->reserved > m->allocated ? m->reserved - m->allocated : 0;
	m->cached_percent = percent(m->cached, m->reserved);
	m->step = d->moment.step;
	m->in_setup = d->phase == PHASE_SETUP;
	m->in_backward = d->phase == PHASE_BACKWARD;
	m->in_evaluation = d->phase == PHASE_EVALUATION;
	m->in_optimizer = d->phase == PHASE_OPTIMIZER;
	m->in_forward = !m->in_backward && !m->in_optimizer;
	m->request_stack = MT_NO_STACK;
	m->outside = bytes_add(d->moment.other, d->moment.untracked);
	if (!f)
		return;
	m->in_graph = are_made(s->p->grad_modes.threads[f->when.thread]);
	m->no_graph = s->p->grad_modes.threads[f->when.thread] == NODES_NONE;
	m->request_stack = f->stack;
	m->requested = f->requested;
	m->no_grad = (tables_stack_flags(s->p->tables, f->stack) & STACK_NO_GRAD) != 0;
	m->by_library = f->from_runtime;
	m->device_free = f->free > INT64_MAX || (device->total && (bytes)f->free > device->total)
				 ? 0
				 : (bytes)f->free;
	m->short_by = larger_of(larger_of(f->requested, f->segment) - m->device_free, 0);
	m->has_largest_free = f->largest_free >= 0;
	m->largest_free = m->has_largest_free ? f->largest_free : 0;
	m->outside = device->total ? device->total - m->device_free - m->reserved : m->outside;
	/* The request may be the first of its phase: its own stack decides. */
	if (tags_at(s->p, f->stack) & TAGGED(OPTIMIZER)) {
		m->in_optimizer = 1;
		m->in_backward = m->in_forward = 0;
	}
}

/* When the newest call of the model began; 0: there was none. */
static uint64_t newest_call(const struct device_pass *d)
{
	const struct spans *all = &d->device->spans;

	for (size_t i = d->span + 1; i-- > 0 && i < all->count;)
		if (activity_is_call(all->list[i].activity))
			return all->list[i].start_ns;
	return 0;
}

/* Memory outside of PyTorch that the line of the failed request took before the newest call of the
 * model, in blocks of the same size. NCCL takes more whenever more ranks talk to each other. */
static void add_library(struct moment_pass *s, const struct mt_record *r)
{
	const struct failure *f = s->d->failure;
	unsigned layer = event_layer(r->kind);

	if (!f || !f->from_runtime || r->device != s->device || !r->stack || r->stack != f->stack ||
	    r->bytes != f->requested || r->time_ns >= s->newest_call ||
	    (layer != MT_LAYER_DEVICE && layer != MT_LAYER_POOL) ||
	    tables_stack_owner(s->p->tables, r->stack) == OWNER_NCCL)
		return;
	s->d->m->library_blocks++;
	add(&s->d->m->library, r->bytes);
}

static int is_block(const struct moment_pass *s, const struct mt_record *r)
{
	return r->kind == MT_TENSOR_ALLOC && r->device == s->device;
}

/* Blocks of a category, of the stacks that have a tag. */
static bytes tagged_of(const struct moment_pass *s, enum category category, stack_tags tag)
{
	const struct snapshot *live = live_at(s->d);
	bytes sum = 0;

	for (size_t i = 0; i < live->count; i++)
		if (live->groups[i].category == category &&
		    tags_at(s->p, live->groups[i].stack) & tag)
			add(&sum, live->groups[i].bytes);
	return sum;
}

/* Adds up the categories of the live blocks. The replay counts a tensor that was read from a
 * checkpoint among the parameters, or the states, as long as it is live; the rules decide whether
 * it should be live. */
static void record_categories(const struct moment_pass *s)
{
	const struct device_pass *d = s->d;
	const bytes *by = live_at(d)->by_category;
	struct metrics *m = d->m;

	m->activations = by[CATEGORY_ACTIVATIONS] + by[CATEGORY_TEMPORARIES];
	m->gradients = by[CATEGORY_GRADIENTS];
	if (m->in_optimizer || m->activations < 0)
		m->activations = 0;
	m->optimizer_states = by[CATEGORY_OPTIMIZER_STATES] -
			      tagged_of(s, CATEGORY_OPTIMIZER_STATES, TAGGED(LOAD));
	m->parameters = by[CATEGORY_PARAMETERS] - tagged_of(s, CATEGORY_PARAMETERS, TAGGED(LOAD));
	m->adapters = tagged_of(s, CATEGORY_PARAMETERS, TAGGED(ADAPTER));
	m->saved_modules = tagged_of(s, CATEGORY_PARAMETERS, TAGGED(SAVED_MODULES));
}

/* Adds up DeepSpeed's communication buffers that gather no parameters, and gradients that lie in
 * no bucket of DDP. */
static void record_buckets(const struct moment_pass *s)
{
	const struct snapshot *live = live_at(s->d);
	struct metrics *m = s->d->m;

	m->beside_buckets = m->gradients;
	/* The failed request is a gradient's. */
	if (m->failed && m->in_backward && is_parameter_size(s, m->requested))
		add(&m->beside_buckets, m->requested);
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		stack_tags tags = tags_at(s->p, g->stack);

		if (g->category == CATEGORY_GRADIENTS && tags & TAGGED(BUCKET))
			add(&m->beside_buckets, -g->bytes);
		else if (g->category == CATEGORY_GRADIENTS && g->largest > m->gradient)
			m->gradient = g->largest;
		if (g->category != CATEGORY_COMMUNICATION || !(tags & TAGGED(ZERO)) ||
		    tags & TAGGED(ZERO_GATHER))
			continue;
		add(&m->zero_buckets, g->bytes);
		m->zero_bucket = g->largest > m->zero_bucket ? g->largest : m->zero_bucket;
	}
}

/* The memory that the device still has for tensors. The bytes of PyTorch and those outside of it
 * may be of different moments, and add up to more than the device has. */
static bytes free_bytes(const struct metrics *m)
{
	return larger_of(m->device_total - m->outside - m->allocated, 0);
}

/*
 * The growth of the KV cache with each call of the model, which is one token for each sequence of
 * the batch. A layer's block is replaced by a larger one in each call: a stack has allocated as
 * many blocks for each layer as there were calls.
 */
static void record_cache(const struct moment_pass *s)
{
	const struct snapshot *live = live_at(s->d);
	struct metrics *m = s->d->m;

	m->kv_cache = live->by_category[CATEGORY_KV_CACHE];
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		const struct stack_levels *l;

		if (g->category != CATEGORY_KV_CACHE || !g->stack || !g->blocks ||
		    g->stack >= s->p->tables->stack_count)
			continue;
		if (s->p->tags[g->stack] & TAGGED(COPY))
			add(&m->kv_copies, g->bytes);
		l = &s->d->stacks[g->stack];
		if (l->blocks / g->blocks > 1 && g->largest > l->first)
			add(&m->kv_token, (g->largest - l->first) /
						  (bytes)(l->blocks / g->blocks - 1) *
						  (bytes)g->blocks);
	}
}

static void finish(struct moment_pass *s)
{
	struct device_pass *d = s->d;
	struct metrics *m = d->m;
	bytes fixed;

	metrics_find_predictions(d);
	metrics_find_grown_results(s->p, d);
	m->run_born = d->run_born;
	m->run_new = percent(s->run_new, m->run_live);
	m->run_model = percent(s->run_model, m->run_live);
	/* Lines of a loop keep what they compute for the backward pass, as the model does. */
	if (metrics_own_loop(m)) {
		add(&m->activations, m->batch_inputs);
		m->batch_inputs = 0;
	}
	metrics_find_one_input(m);
	metrics_find_result(m);
	m->activation_percent = percent(m->activations, m->allocated);
	fixed = bytes_add(m->gradients, m->request_is_gradient ? m->requested : 0);
	/* The first backward pass has not made all gradients yet. */
	if (m->in_backward && m->step < 2 && fixed >= m->parameters / 4)
		fixed = larger_of(fixed, m->parameters);
	fixed = bytes_add(bytes_add(m->parameters, fixed), m->optimizer_states);
	m->static_percent = percent(fixed, larger_of(m->device_total - m->outside, 0));
	/* Leaked blocks are not of this step. */
	m->activations = m->activations > m->leak_bytes ? m->activations - m->leak_bytes : 0;
	if (m->leak_per_step && !m->failed)
		m->leak_steps_to_go = m->device_total > 0 ? free_bytes(m) / m->leak_per_step : -1;
	m->sharded = m->tags & TAGGED(FSDP) ? m->parameters : 0;
	/* The shards are in host memory, and so are their gradients: one that is on the GPU is not
	 * sharded yet. */
	if (m->tags & TAGGED(FSDP) && !m->parameters)
		m->unsharded_gradients = m->gradients;
}

void metrics_at_moment(const struct metrics_pass *p, unsigned device)
{
	struct moment_pass s = { .p = p,
				 .d = (struct device_pass *)&p->devices[device],
				 .device = device,
				 .world = p->trace->header.world_size };
	const struct live_set *live = &p->live;

	describe_moment(&s);
	s.newest_call = newest_call(s.d);
	for (size_t i = 0; i <= live->mask; i++) {
		const struct mt_record *r = &live->slots[i];

		if (!is_block(&s, r)) {
			add_library(&s, r);
			continue;
		}
		add_tagged(&s, r, tags_at(p, r->stack));
		add_origin(&s, r, tags_at(p, r->stack));
		add_surviving(&s, r);
	}
	add_request(&s);
	record_categories(&s);
	record_buckets(&s);
	record_cache(&s);
	metrics_what_is_live(p, s.d, live_at(s.d));
	metrics_find_backward(p, s.d, live_at(s.d), s.old, s.old_blocks);
	metrics_find_inference(p, s.d, live_at(s.d));
	metrics_find_leaks(p->tables, s.d, s.surviving, s.surviving_count);
	record_size_ratio(&s);
	finish(&s);
	metrics_find_larger(p, s.d);
	metrics_find_need(p, s.d);
	free(s.surviving);
}
