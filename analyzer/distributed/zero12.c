#include "distributed/zero12.h"
#include "torch/autograd.h"
#include "torch/streams.h"

#include <stdlib.h>

#include "util/util.h"

#define COMPUTE_STREAM 0
#define REDUCTION_STREAM 1
#define ALIGNMENT 2 /* elements: nccl_start_alignment_factor */

static enum dtype type_of(const struct zero *z)
{
	return z->hparams->weights;
}

/* ---- initialization ---- */

/* Sets p->shard of each parameter: its elements in this rank's partition. */
static void lay_out(struct zero *z)
{
	const struct hparams *s = z->hparams;
	int64_t total = 0, at = 0, begin, step = ALIGNMENT * s->dp;

	for (size_t i = 0; i < z->module->count; i++)
		total += z->module->params[i]->value.n;
	z->share = divide_up(total, step) * ALIGNMENT;
	begin = z->share * s->rank;
	for (size_t i = 0; i < z->module->count; i++) {
		struct param *p = z->module->params[i];
		int64_t from = at > begin ? at : begin, to = at + p->value.n;

		p->offset = at;
		at = to;
		to = to < begin + z->share ? to : begin + z->share;
		p->shard = to > from ? to - from : -1;
		if (p->shard > 0)
			z->owned += p->value.n;
	}
}

static void flatten(struct machine *m, struct zero *z)
{
	enum dtype type = type_of(z);

	z->flat = tensor_new_as(m, TERM_FLAT_WEIGHTS, z->share * z->hparams->dp, type);
	for (size_t i = 0; i < z->module->count; i++) {
		struct param *p = z->module->params[i];

		tensor_unref(m, &p->value);
		p->value.storage = tensor_ref(z->flat).storage;
		param_init(p);
	}
}

static void make_master(struct machine *m, struct zero *z)
{
	tensor partition = tensor_new_as(m, TERM_MASTER, z->share, type_of(z)), zeros;

	if (z->hparams->offload_optimizer) {
		tensor_unref(m, &partition);
		return;
	}
	if (type_of(z) == F32) {
		z->master = partition;
	} else {
		z->master = tensor_new_as(m, TERM_MASTER, z->share, F32);
		tensor_unref(m, &partition);
	}
	zeros = tensor_new_as(m, TERM_STEP, z->share, F32); /* initialize_optimizer_states */
	tensor_unref(m, &zeros);
}

/* temp_grad_buffer_for_gpu_offload: as many elements as the largest parameter. */
static void make_offload_buffer(struct machine *m, struct zero *z)
{
	int64_t most = 0;

	for (size_t i = 0; i < z->module->count; i++)
		if (z->module->params[i]->value.n > most)
			most = z->module->params[i]->value.n;
	tensor_new_as(m, TERM_BUCKETS, most, type_of(z));
}

/* ---- gradients ---- */

/* copy_grads_in_partition: copies this rank's part of the gradient to host memory in fp32. */
static void offload(struct machine *m, struct zero *z, const struct param *p)
{
	m->current_term = TERM_CLIP;
	scratch(m, p->shard * dtype_width(F64)); /* its norm */
	host_wait(m, m->stream);                 /* has_inf_or_nan */
	m->current_term = TERM_GRADIENTS;
	if (type_of(z) != F32)
		scratch(m, p->shard * dtype_width(F32));
}

static void keep_or_clear(struct machine *m, struct zero *z, struct param *p)
{
	if (p->shard > 0 && z->hparams->offload_optimizer)
		offload(m, z, p);
	else if (p->shard > 0 && !z->partition.storage)
		z->partition = tensor_new_as(m, TERM_GRADIENTS, z->owned, type_of(z));
	tensor_unref(m, &p->grad);
}

static void reduce_slices(struct machine *m, struct zero *z, int64_t n, int slices)
{
	if (slices > 1) /* a single gradient is not copied */
		scratch(m, n * dtype_width(type_of(z)));
}

/* average_tensor: cuts the gradients into one slice for each rank that they belong to; slices are
 * flattened again, up to the size of a bucket. */
static void average(struct machine *m, struct zero *z)
{
	int64_t n = 0, owner = -1;
	int slices = 0;

	m->current_term = TERM_COLLECTIVE;
	for (size_t i = 0; i < z->count; i++) {
		int64_t at = z->waiting[i]->offset, end = at + z->waiting[i]->value.n;

		while (at < end) {
			int64_t rank = at / z->share, next = (rank + 1) * z->share;

			if (next > end)
				next = end;
			if (rank != owner && n > z->hparams->reduce_bucket) {
				reduce_slices(m, z, n, slices);
				n = slices = 0;
			}
			slices += rank != owner || !slices;
			owner = rank;
			n += next - at;
			at = next;
		}
	}
	reduce_slices(m, z, n, slices);
}

/* Copies this rank's part of the sum back on the reduction stream, which uses the bucket or the one
 * gradient that is too large for it. */
static void note_use(struct zero *z)
{
	tensor *large = &z->waiting[0]->grad;

	for (size_t i = 0; i < z->count; i++)
		if (z->waiting[i]->shard > 0) {
			record_stream(large->storage ? *large : z->bucket[z->index],
				      REDUCTION_STREAM);
			return;
		}
}

/* reduce_ipg_grads: reduces the waiting gradients and copies this rank's part. */
static void reduce(struct machine *m, struct zero *z)
{
	int before = m->stream;

	if (!z->count)
		return;
	if (z->hparams->overlap) {
		stream_wait(m, REDUCTION_STREAM, COMPUTE_STREAM);
		stream_wait(m, COMPUTE_STREAM, REDUCTION_STREAM);
		note_use(z);
		m->stream = REDUCTION_STREAM;
	}
	average(m, z);
	for (size_t i = 0; i < z->count; i++)
		keep_or_clear(m, z, z->waiting[i]);
	z->count = 0;
	z->filled = 0;
	m->stream = before;
}

static void fill_bucket(struct machine *m, struct zero *z, struct param *p)
{
	const int64_t most = z->hparams->reduce_bucket;

	if (z->filled + p->value.n > most) {
		reduce(m, z);
		z->index ^= z->hparams->overlap;
	}
	/* a gradient that is larger than the bucket is not copied */
	if (p->value.n <= most)
		tensor_unref(m, &p->grad);
	z->waiting[z->count++] = p;
	z->filled += p->value.n;
}

/* process_gradients. Stage 1 without overlap reduces after the backward pass (reduce_gradients). */
static int reduces_late(const struct zero *z)
{
	return z->hparams->zero == 1 && !z->hparams->overlap;
}

static void note_gradient(struct machine *m, struct param *p)
{
	struct zero *z = m->zero;

	for (int i = 0; i <= z->hparams->overlap && !z->filled; i++)
		if (!z->bucket[i].storage)
			z->bucket[i] = tensor_new_as(m, TERM_BUCKETS, z->hparams->reduce_bucket,
						     type_of(z));
	if (!reduces_late(z))
		fill_bucket(m, z, p);
}

static void finish_backward(struct machine *m, struct zero *z)
{
	m->phase = REDUCE;
	for (size_t i = 0; i < z->module->count && reduces_late(z); i++)
		fill_bucket(m, z, z->module->params[i]);
	reduce(m, z);
	if (z->hparams->overlap)
		host_wait_all(m);
	for (int i = 0; i < 2; i++)
		tensor_unref(m, &z->bucket[i]);
	z->index = 0;
}

/* ---- the step ---- */

/* get_grad_norm_direct: each gradient in fp64. */
static void norms(struct machine *m, struct zero *z)
{
	tensor *norm = xcalloc(z->module->count, sizeof(*norm));

	m->current_term = TERM_CLIP;
	for (size_t i = 0; i < z->module->count; i++) {
		if (z->module->params[i]->shard <= 0)
			continue;
		scratch(m, z->module->params[i]->shard * dtype_width(F64));
		norm[i] = tensor_new(m, 1, F64);
	}
	for (size_t i = 0; i < z->module->count; i++)
		tensor_unref(m, &norm[i]);
	free(norm);
}

void zero_step(struct machine *m, struct zero *z)
{
	tensor flat, gradient, scaled, norm;

	finish_backward(m, z);
	m->phase = OPTIMIZER;
	if (z->hparams->offload_optimizer) {
		/* The CPU runs the optimizer's step: it waits for the copies of the gradients and
		 * reads their norm, not for later work of the reduction stream. */
		host_wait(m, m->stream);
		return;
	}
	norms(m, z);
	scaled = tensor_new(m, 1, F32);
	norm = tensor_new(m, 1, F32);
	flat = tensor_new_as(m, TERM_GRADIENTS, z->share, type_of(z));
	gradient = type_of(z) == F32 ? tensor_ref(flat)
				     : tensor_new_as(m, TERM_GRADIENTS, z->share, F32);
	tensor_unref(m, &flat);
	tensor_unref(m, &z->partition);
	flat_optimizer_step(m, &z->optimizer, z->hparams, z->share);
	tensor_unref(m, &gradient);
	tensor_unref(m, &scaled);
	tensor_unref(m, &z->norm);
	z->norm = norm;
}

/* ---- made ---- */

void zero_wrap(struct machine *m, struct zero *z, const struct hparams *s, struct module *module)
{
	*z = (struct zero){ .hparams = s, .module = module };
	z->waiting = xcalloc(module->count, sizeof(struct param *));
	lay_out(z);
	flatten(m, z);
	make_master(m, z);
	if (s->offload_optimizer)
		make_offload_buffer(m, z);
	m->zero = z;
	m->on_gradient = note_gradient;
}

void zero_release(struct zero *z)
{
	optimizer_release(&z->optimizer.optimizer);
	free(z->waiting);
}

void zero_check(const struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;

	if (!s->zero)
		input_reject(in, CONFIG_zero_stage,
			     "1 to 3: DeepSpeed without ZeRO is not modelled yet");
	if (s->zero == 3 && s->dp < 2)
		input_reject(in, CONFIG_data_parallel_size, "2 or more with ZeRO-3");
	if (s->zero == 3 && s->router_logits)
		input_reject(
			in, CONFIG_output_router_logits,
			"false with ZeRO-3: routers gathered for the loss are not modelled yet");
	if (s->offload_optimizer && VALUE_OR(c, optimizer_offload_fraction, 1) < 1)
		input_reject(in, CONFIG_optimizer_offload_fraction,
			     "1: a part in host memory is not modelled yet");
	if (VALUE_OR(c, zero_hpz_partition_size, 1) > 1)
		input_reject(in, CONFIG_zero_hpz_partition_size, "1: ZeRO++ is not modelled yet");
	if (!VALUE_OR(c, contiguous_gradients, 1))
		input_reject(in, CONFIG_contiguous_gradients,
			     "true: the other is not modelled yet");
	if (VALUE_OR(c, round_robin_gradients, 0))
		input_reject(in, CONFIG_round_robin_gradients,
			     "false: the other is not modelled yet");
	if (s->microbatches > 1)
		input_reject(in, CONFIG_num_microbatches,
			     "1: accumulated gradients of DeepSpeed are not modelled yet");
	if (s->offload_optimizer && s->optimizer != ADAM)
		input_reject(in, CONFIG_optimizer, "adam or adamw in host memory");
	if (s->optimizer == ADAGRAD || s->optimizer == MUON)
		input_reject(
			in, CONFIG_optimizer,
			"another with DeepSpeed: Adagrad's states and Muon's matrices are not flat");
	if (s->weights == F16 || s->autocast)
		input_reject(in, CONFIG_precision, "bf16-mixed or fp32 with DeepSpeed");
}
