#include "distributed/zero3.h"
#include "distributed/zero3_coordinator.h"
#include "distributed/zero3_modules.h"

#include "torch/hparams.h"

#include <stdlib.h>

#include "torch/ops.h"
#include "torch/streams.h"
#include "util/util.h"

static enum dtype type_of(const struct zero3 *z)
{
	return z->hparams->weights;
}

/* ---- initialization ---- */

/* Init._convert_to_deepspeed_param and partition: cuts each parameter into one partition for each
 * rank. With zero.Init a parameter is whole only while it is made. */
static void shard(struct machine *m, struct zero3 *z)
{
	const struct hparams *s = z->hparams;
	int64_t at = 0;

	for (size_t i = 0; i < z->module->count; i++) {
		struct param *p = z->module->params[i];

		p->sharded = xcalloc(1, sizeof(*p->sharded));
		p->sharded->partition = divide_up(p->value.n, s->dp);
		p->sharded->persists = p->value.n <= s->persistence;
		p->sharded->last_used = -1;
		p->offset = at++;
		z->partitions += p->sharded->partition;
		if (!p->partition.storage && (!s->offload_param || p->sharded->persists))
			p->partition = tensor_new_as(m, TERM_FLAT_WEIGHTS, p->sharded->partition,
						     p->value.type);
		tensor_set_term(m, p->value, TERM_GATHERED);
		storage_empty(m, p->value);
		if (p->value.storage)
			p->value.storage->term = TERM_GATHERED;
	}
}

/* _create_fp16_sub_groups */
static void make_groups(struct zero3 *z)
{
	int64_t n = 0;
	size_t first = 0;

	z->groups = xcalloc(z->module->count, sizeof(*z->groups));
	for (size_t i = 0; i < z->module->count; i++) {
		n += z->module->params[i]->sharded->partition;
		if (n < z->hparams->sub_group && i + 1 < z->module->count)
			continue;
		z->groups[z->group_count++] =
			(struct sub_group){ .elements = n,
					    .first = first,
					    .end = i + 1,
					    .optimizer =
						    xcalloc(1, sizeof(struct flat_optimizer)) };
		first = i + 1;
		n = 0;
	}
}

/* _create_fp32_partitions, initialize_optimizer_states. fp32 weights get a master copy too, because
 * DeepSpeed compares their device object with a string, which is never equal. */
static void make_master(struct machine *m, struct zero3 *z)
{
	int64_t largest = 0;
	tensor zeros;

	for (size_t i = 0; i < z->group_count; i++) {
		struct sub_group *g = &z->groups[i];
		tensor converted = { .storage = NULL };

		if (g->elements > largest)
			largest = g->elements;
		if (type_of(z) != F32)
			converted = tensor_new_as(m, TERM_MASTER, g->elements, F32);
		g->master = tensor_new_as(m, TERM_MASTER, g->elements, F32);
		tensor_unref(m, &converted);
	}
	zeros = tensor_new_as(m, TERM_STEP, largest, F32);
	tensor_unref(m, &zeros);
}

/* ---- gradients ---- */

/* partition_grads: copies this rank's part of the sum to host memory in fp32. */
static void offload(struct machine *m, struct zero3 *z, const struct param *p)
{
	const int64_t partition = p->sharded->partition;
	int before = m->stream;
	tensor copy;

	m->stream = z->partition_stream;
	copy = tensor_new_as(m, TERM_GRADIENTS, partition, type_of(z));
	m->current_term = TERM_CLIP;
	scratch(m, partition * dtype_width(F64)); /* its norm */
	m->current_term = TERM_GRADIENTS;
	if (type_of(z) != F32)
		scratch(m, partition * dtype_width(F32));
	tensor_unref(m, &copy);
	m->stream = before;
}

/* reduce_scatter_coalesced: copies the waiting gradients into one tensor and reduce-scatters it. */
static void reduce(struct machine *m, struct zero3 *z)
{
	int64_t n = 0;
	tensor flat = none;

	if (!z->count)
		return;
	zero3_wait_oldest(m, z->partition_stream, z->reductions, &z->reduction_count);
	for (size_t i = 0; i < z->count; i++)
		n += z->waiting[i]->sharded->partition * z->hparams->dp;
	if (z->count > 1 || n != z->waiting[0]->value.n)
		flat = tensor_new_on(m, z->partition_stream, TERM_BUCKETS, n, type_of(z));
	stream_work(m, z->partition_stream, 2 + (int64_t)z->count);
	for (size_t i = 0; i < z->count; i++) {
		if (z->hparams->offload_optimizer)
			offload(m, z, z->waiting[i]);
		record_stream(z->waiting[i]->grad, z->partition_stream);
		tensor_unref(m, &z->waiting[i]->grad);
	}
	tensor_unref(m, &flat);
	z->count = 0;
	z->filled = 0;
	zero3_note_event(m, z->partition_stream, z->reductions, &z->reduction_count);
}

static void note_gradient(struct machine *m, struct param *p)
{
	struct zero3 *z = m->zero3;
	const int64_t most = z->hparams->reduce_bucket;

	if (z->filled + p->value.n > most && z->filled)
		reduce(m, z);
	stream_wait(m, z->partition_stream, COMPUTE_STREAM);
	if (z->filled + p->value.n <= most) { /* the gradient is copied into the bucket */
		stream_work(m, z->partition_stream, 1);
		record_stream(p->grad, z->partition_stream);
		tensor_unref(m, &p->grad);
	}
	z->waiting[z->count++] = p;
	z->filled += p->value.n;
}

/* ---- the step ---- */

/* get_grad_norm_direct: each gradient in fp64. */
static void norms(struct machine *m, struct zero3 *z, const struct sub_group *g)
{
	tensor *norm = xcalloc(g->end - g->first, sizeof(*norm));

	m->current_term = TERM_CLIP;
	for (size_t i = g->first; i < g->end; i++) {
		tensor precise = tensor_new(m, z->module->params[i]->sharded->partition, F64);

		norm[i - g->first] = tensor_new(m, 1, F64);
		tensor_unref(m, &precise);
	}
	for (size_t i = g->first; i < g->end; i++)
		tensor_unref(m, &norm[i - g->first]);
	free(norm);
}

static void step_group(struct machine *m, struct zero3 *z, struct sub_group *g)
{
	tensor flat = tensor_new_as(m, TERM_GRADIENTS, g->elements, type_of(z)), gradient;

	gradient = type_of(z) == F32 ? tensor_ref(flat)
				     : tensor_new_as(m, TERM_GRADIENTS, g->elements, F32);
	tensor_unref(m, &flat);
	flat_optimizer_step(m, g->optimizer, z->hparams, g->elements);
	tensor_unref(m, &gradient);
}

void zero3_step(struct machine *m, struct zero3 *z)
{
	m->phase = REDUCE;
	reduce(m, z);
	host_wait(m, z->partition_stream);
	m->phase = OPTIMIZER;
	zero3_free_all(m, z);
	for (size_t i = 0; i < z->group_count && !z->hparams->offload_optimizer; i++)
		norms(m, z, &z->groups[i]);
	host_wait(m, COMPUTE_STREAM); /* is_invalid_grad_norm */
	for (size_t i = 0; i < z->group_count && !z->hparams->offload_optimizer; i++)
		step_group(m, z, &z->groups[i]);
	zero3_gather_all(m, z);
}

/* ---- made ---- */

void zero3_wrap(struct machine *m, struct zero3 *z, const struct hparams *s, struct module *module)
{
	int offload = s->offload_optimizer;

	*z = (struct zero3){ .hparams = s,
			     .module = module,
			     .gather_stream = s->overlap ? 1 : COMPUTE_STREAM,
			     .partition_stream = s->overlap ? 2 : COMPUTE_STREAM };
	z->waiting = xcalloc(module->count, sizeof(struct param *));
	shard(m, z);
	for (size_t i = 0; i < module->count; i++)
		tensor_unref(m, &module->params[i]->partition);
	if (!s->offload_param) { /* defragment */
		allocator_empty_cache(m->allocator);
		z->flat = tensor_new_as(m, TERM_FLAT_WEIGHTS, z->partitions, type_of(z));
	}
	make_groups(z);
	if (!offload)
		make_master(m, z);
	z->bucket = tensor_new_as(m, TERM_BUCKETS, s->reduce_bucket, type_of(z));
	if (!offload)
		z->gradients = tensor_new_as(m, TERM_GRADIENTS, z->partitions, type_of(z));
	m->current_term = TERM_GATHERED;
	for (size_t i = 0; i < module->count; i++) /* create_reduce_and_remove_grad_hooks */
		scratch(m, module->params[i]->sharded->partition * s->dp * dtype_width(type_of(z)));
	m->zero3 = z;
	zero3_hook_modules(m);
	m->on_gradient = note_gradient;
}

void zero3_release(struct zero3 *z)
{
	for (size_t i = 0; i < z->group_count; i++) {
		optimizer_release(&z->groups[i].optimizer->optimizer);
		free(z->groups[i].optimizer);
	}
	free(z->waiting);
	free(z->groups);
	free(z->runs);
	free(z->queue);
	free(z->elements_before);
	for (size_t i = 0; z->module && i < z->module->count; i++) {
		free(z->module->params[i]->sharded->uses);
		free(z->module->params[i]->sharded);
	}
}
