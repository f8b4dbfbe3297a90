/* Parameters, the contiguous buffers of DistributedDataParallel, and the optimizer with fp32
 * masters. */
#include "megatron/parameters.h"

#include "megatron/bert.h"
#include "megatron/transformer_engine.h"
#include "megatron/llava.h"
#include "megatron/declare.h"
#include "megatron/mla.h"
#include "megatron/mtp.h"
#include "megatron/sharded.h"
#include "megatron/t5.h"

#include <stdlib.h>

#include "util/util.h"
#include "config/parameter_count.h"

/* ---- parameters, in the order of model.parameters() ---- */

static void declare_language_model(struct model_chunk *c)
{
	const struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;

	if (c->first || c->mtp_count) {
		c->tokens = declare_param(c, TERM_EMBEDDING, r->vocab, s->hidden, 0);
		if (s->learned_positions)
			c->positions = declare_param(c, TERM_POSITIONS, s->positions, s->hidden, 1);
		bert_declare_types(c);
	}
	t5_declare_encoder(c);
	c->layers = xcalloc((size_t)c->layer_count, sizeof(*c->layers));
	for (int64_t i = 0; i < c->layer_count; i++) {
		size_t from = c->module.count;

		c->layers[i].first_param = from;
		declare_layer(c, &c->layers[i], c->first_layer + i, c->encoder.count > 0);
		if (fp8_layer(s, c->first_layer + i))
			quantize_layer(c, from);
	}
	c->after_layers = c->module.count;
	/* the final norm is in the chunk of the last layer with multi-token prediction, else in
	 * that of the loss */
	c->has_norm =
		s->mtp ? c->layer_count && c->first_layer + c->layer_count == s->layers : c->last;
	if (c->has_norm)
		c->norm = declare_norm(c, s->hidden);
	mtp_declare(c);
	if (!c->last)
		return;
	bert_declare_head(c);
	if (s->untied || !c->first)
		c->head = declare_param(c, TERM_HEAD, r->vocab, s->hidden, 0);
	c->output = !s->untied && c->tokens ? c->tokens : c->head;
	if (s->is_bert || (s->encoder_layers && !s->untied))
		c->output_bias = declare_param(c, TERM_HEAD, 1, r->vocab, 0);
	bert_declare_order(c);
}

static void declare_chunk(struct model_chunk *c)
{
	const struct hparams *s = c->rank->s;

	size_t from = 0;

	if (s->vision.by_transformers) {
		mimo_declare_images(c);
		from = c->module.count;
	}
	declare_language_model(c);
	for (size_t i = from; s->vision.language_frozen && i < c->module.count; i++)
		c->module.params[i]->frozen = 1;
	if (s->vision.patch && !s->vision.by_transformers && c->first)
		llava_declare_images(c);
}

/* Does another stage have the same weight? */
static int is_shared(const struct model_chunk *c, const struct param *p)
{
	const struct hparams *s = c->rank->s;

	if (!s->zero || s->pp == 1)
		return 0;
	if (p == c->tokens)
		return !s->untied || s->mtp;
	return p == c->head && !s->untied && !c->mtp_count;
}

/* is_managed_by_layer_wise_optimizer() */
static int has_muon(const struct hparams *s, const struct param *p)
{
	return s->optimizer == MUON && p->in > 1 && p->value.n > p->in &&
	       p->term != TERM_EMBEDDING && p->term != TERM_POSITIONS && p->term != TERM_HEAD;
}

/* A buffer holds the weights of one type that the same ranks share. Experts that all ranks have
 * count as other weights. */
static enum buffer_kind kind_of(const struct hparams *s, const struct param *p)
{
	return p->term == TERM_EXPERT_WEIGHTS && s->ep > 1    ? EXPERT_BUFFER
	       : s->fp8_weights && p->quantized               ? FP8_BUFFER
	       : s->layer_wise == BY_LAYOUT && has_muon(s, p) ? MATRIX_BUFFER
							      : DENSE_BUFFER;
}

static enum dtype weight_type(const struct hparams *s, const struct param *p)
{
	return kind_of(s, p) == FP8_BUFFER ? U8 : s->weights;
}

/* Weights are allocated on the device in their own type. Norms and positions are made on the host,
 * moved in fp32 and then converted. */
static void make_parameters(struct machine *m, struct model_chunk *c)
{
	const int passes = c->rank->s->weights == F32 ? 2 : 3;

	for (int pass = 0; pass < passes; pass++)
		for (size_t i = 0; i < c->module.count; i++) {
			struct param *p = c->module.params[i];
			enum made_on made = (enum made_on)c->on_host[i];
			enum dtype type =
				pass == 1 && made == ON_HOST ? F32 : weight_type(c->rank->s, p);

			if (pass == 2 ? made == ON_HOST : (made != ON_DEVICE) == pass)
				tensor_assign(m, &p->value,
					      tensor_new_as(m, p->term, p->value.n, type));
		}
	for (size_t i = 0; i < c->module.count; i++)
		param_init(c->module.params[i]);
}

/* ---- param_and_grad_buffer.py ---- */

static int64_t least_multiple(int64_t a, int64_t b)
{
	return a / greatest_divisor(a, b) * b;
}

/* The offset of a parameter in the contiguous buffer, and the bounds of its bucket. Ranks shard
 * each bucket. */
struct buffer_slot {
	int64_t at, bucket, bucket_end;
};

/* The number of ranks that share the optimizer states of a buffer. */
static int64_t sharing(const struct hparams *s, enum buffer_kind kind)
{
	int64_t ranks = s->dp * s->cp;

	if (!s->zero)
		return 1;
	return (kind == EXPERT_BUFFER ? ranks * s->tp / (s->etp * s->ep) : ranks) / s->instances;
}

/* Elements of a bucket: Megatron-core's max(40000000, 1000000 * data-parallel size) unless it is
 * given (DistributedDataParallel). There is one bucket unless gradients are reduced during the
 * backward pass. */
static int64_t bucket_size(const struct hparams *s)
{
	int64_t size = s->dp * s->cp * 1000000;

	if (!s->overlap_grad_reduce)
		return INT64_MAX;
	return s->bucket_size ? s->bucket_size : size > 40000000 ? size : 40000000;
}

/* Ends the bucket that begins at `from` and has `count` parameters. Returns its end. */
static int64_t end_bucket(const struct hparams *s, struct buffer_slot **places, size_t count,
			  int64_t from, int64_t at, enum buffer_kind kind)
{
	if (s->zero)
		at = round_up(at, least_multiple(sharing(s, kind), 128));
	for (size_t i = 0; i < count; i++) {
		places[i]->bucket = from;
		places[i]->bucket_end = at;
	}
	return at;
}

/* Lays out the parameters in reverse order. With the distributed optimizer each begins at a
 * multiple of 64 elements, each bucket ends at a multiple of dp and of 128, and an embedding that
 * two stages share has its own bucket. */
static void lay_out(struct model_chunk *c, enum buffer_kind kind)
{
	const struct hparams *s = c->rank->s;
	struct buffer_slot **open = xcalloc(c->module.count, sizeof(struct buffer_slot *));
	int64_t at = 0, from = 0, most = bucket_size(s);
	size_t count = 0;

	for (size_t i = c->module.count; i-- > 0;) {
		struct param *p = c->module.params[i];
		int shared = is_shared(c, p);

		if (kind_of(s, p) != kind || p->frozen)
			continue;
		at = s->zero ? round_up(at, 64) : at;
		if (shared && count) {
			from = at = end_bucket(s, open, count, from, at, kind);
			count = 0;
		}
		c->slots[i].at = at;
		open[count++] = &c->slots[i];
		at += p->value.n;
		if (shared || at - from >= most) {
			from = at = end_bucket(s, open, count, from, at, kind);
			count = 0;
		}
	}
	c->buffers[kind].elements = count ? end_bucket(s, open, count, from, at, kind) : at;
	free(open);
}

static void make_buffers(struct machine *m, struct model_chunk *c, enum buffer_kind kind)
{
	const struct hparams *s = c->rank->s;
	struct param_and_grad_buffer *b = &c->buffers[kind];

	lay_out(c, kind);
	if (!b->elements)
		return;
	if (s->zero)
		b->weights = tensor_new_as(m, TERM_FLAT_WEIGHTS, b->elements,
					   kind == FP8_BUFFER ? U8 : s->weights);
	b->gradients = tensor_new_as(m, TERM_GRADIENT_BUFFER, b->elements, s->gradients);
	for (size_t i = c->module.count; s->zero && i-- > 0;) {
		struct param *p = c->module.params[i];
		int64_t n = p->value.n;

		if (kind_of(s, p) != kind || p->frozen)
			continue;
		tensor_assign(m, &p->value, tensor_ref(b->weights));
		p->value.n = n;
		param_init(p);
	}
}

/* ---- the optimizer ---- */

static void add_shard(struct machine *m, struct megatron_rank *r, int64_t n,
		      struct optimizer_shard shard)
{
	struct optimizer_shard *sh;
	tensor copy;

	if (n <= 0)
		return;
	r->shards = grow(r->shards, r->shard_count, &r->shard_room, sizeof(*r->shards));
	sh = &r->shards[r->shard_count++];
	*sh = shard;
	sh->n = n;
	if (r->s->weights == F32 || r->buffers)
		return;
	copy = tensor_new_as(m, TERM_MASTER, n, r->s->weights);
	sh->master = tensor_new_as(m, TERM_MASTER, n, F32);
	tensor_unref(m, &copy);
}

static int smaller_parameter(const void *a, const void *b)
{
	const struct param *const *x = a, *const *y = b;

	return (*x)->value.n < (*y)->value.n ? -1 : (*x)->value.n > (*y)->value.n;
}

/* _shard_params_ping_pong() deals the parameters, in the order of their sizes, to the first rank up
 * to the last and back. Does the last rank get this one? */
static int is_last_ranks(const struct model_chunk *c, size_t which)
{
	const struct hparams *s = c->rank->s;
	const struct param *p = c->module.params[which];
	int experts = kind_of(s, p) == EXPERT_BUFFER;
	int64_t ranks = s->dp * s->cp, place;
	struct param **order = xcalloc(c->module.count, sizeof(struct param *));
	size_t count = 0, at = 0;

	if (experts)
		ranks = ranks * s->tp / (s->etp * s->ep);
	for (size_t i = 0; i < c->module.count; i++)
		if ((kind_of(s, c->module.params[i]) == EXPERT_BUFFER) == experts)
			order[count++] = c->module.params[i];
	qsort(order, count, sizeof(struct param *), smaller_parameter);
	while (order[at] != p)
		at++;
	free(order);
	place = (int64_t)at % (2 * ranks);
	return place == ranks - 1 || place == ranks;
}

/* Elements of a parameter in this rank's part of its bucket. Megatron-LM reports the memory of its
 * last rank, so that rank is the default. */
static int64_t part(const struct model_chunk *c, size_t i)
{
	const struct hparams *s = c->rank->s;
	const struct buffer_slot *p = &c->slots[i];
	int64_t ranks = sharing(s, kind_of(s, c->module.params[i])), all = ranks * s->instances;
	int64_t at = s->rank * s->cp + s->context_rank;
	int64_t share = (p->bucket_end - p->bucket) / ranks, from, to;
	/* an instance of the optimizer has consecutive ranks */
	int64_t which = s->is_placed       ? at * all / (s->dp * s->cp) % ranks
			: s->training_loop ? ranks - 1
					   : 0;

	if (s->layer_wise == PING_PONG)
		return is_last_ranks(c, i) ? c->module.params[i]->value.n : 0;

	from = p->bucket + which * share;
	to = smaller_of(from + share, p->at + c->module.params[i]->value.n);
	return to - (from > p->at ? from : p->at);
}

/* The parameter groups of the optimizers: matrices, which decay, then vectors. Expert-parallel
 * weights have a second optimizer. */
#define GROUPS 4

static int group_of(const struct hparams *s, const struct param *p)
{
	int own = kind_of(s, p) == EXPERT_BUFFER;

	return 2 * own + !(p->in > 1 && p->value.n > p->in);
}

/* In the model's order; the distributed optimizer uses the reverse order of its buffers. */
static void make_shards(struct machine *m, struct model_chunk *c, int group)
{
	const struct hparams *s = c->rank->s;
	int sharded = is_sharded(c->rank);

	for (size_t k = 0; k < c->module.count; k++) {
		size_t i = s->zero && !sharded ? c->module.count - 1 - k : k;
		const struct param *p = c->module.params[i];
		const struct optimizer_shard shard = { .group = group,
						       .muon = has_muon(s, p),
						       .unit = sharded_unit(c, i) };

		if (group_of(s, p) == group && !p->frozen)
			add_shard(m, c->rank, sharded ? sharded_part(c, i) : part(c, i), shard);
	}
}

static void make_all_buffers(struct machine *m, struct model_chunk *c)
{
	c->slots = xcalloc(c->module.count, sizeof(struct buffer_slot));
	for (int kind = 0; kind < BUFFERS; kind++)
		make_buffers(m, c, (enum buffer_kind)kind);
}

/* Does it for all layers of latent attention. */
static void with_positions(struct machine *m, const struct model_chunk *c,
			   void (*make)(struct machine *, struct megatron_layer *))
{
	for (int64_t i = 0; i < c->layer_count + c->mtp_count; i++)
		if (chunk_layer(c, i)->kv_down)
			make(m, chunk_layer(c, i));
}

void rank_make(struct machine *m, struct megatron_rank *r)
{
	int sharded;

	for (int64_t i = 0; i < r->s->vpp; i++) {
		declare_chunk(&r->chunks[i]);
		with_positions(m, &r->chunks[i], mla_make_positions);
		llava_number_positions(m, &r->chunks[i]);
		make_parameters(m, &r->chunks[i]);
	}
	for (int64_t i = 0; i < r->s->vpp; i++)
		with_positions(m, &r->chunks[i], mla_convert_positions);
	sharded = sharded_wrap(m, r);
	for (int64_t i = 0; !sharded && i < r->s->vpp; i++)
		make_all_buffers(m, &r->chunks[i]);
	r->dummy = tensor_new_as(m, TERM_OTHER, 1, I32);
	for (size_t i = 0; r->s->training_loop && i < ARRAY_SIZE(r->numbers); i++)
		r->numbers[i] = tensor_new_as(m, TERM_OTHER, 1, F32);
	for (int group = 0; group < GROUPS; group++)
		for (int64_t i = 0; i < r->s->vpp; i++)
			make_shards(m, &r->chunks[i], group);
}

/* torch.optim.Adam's foreach step over one group. */
static void step_group(struct machine *m, struct megatron_rank *r, int group)
{
	tensor *roots = xcalloc(r->shard_count, sizeof(*roots));

	for (size_t i = 0; i < r->shard_count; i++) {
		struct optimizer_shard *sh = &r->shards[i];

		if (sh->group != group || sh->first.storage)
			continue;
		if (r->s->optimizer == SGD || sh->muon) {
			if (r->s->momentum > 0 || sh->muon)
				sh->first = tensor_new_as(m, TERM_MOMENTUM, sh->n, F32);
			continue;
		}
		sh->first = tensor_new_as(m, TERM_MOMENT1, sh->n, F32);
		sh->second = tensor_new_as(m, TERM_MOMENT2, sh->n, F32);
	}
	for (size_t i = 0; i < r->shard_count; i++)
		if (r->shards[i].group == group && !r->s->training_loop)
			roots[i] = tensor_new_as(m, TERM_STEP, r->shards[i].n, F32);
	for (size_t i = r->shard_count; i-- > 0;)
		tensor_unref(m, &roots[i]);
	free(roots);
}

void rank_step(struct machine *m, struct megatron_rank *r)
{
	m->phase = OPTIMIZER;
	sharded_before_step(m, r);
	/* fp32 gradients stay in the buffer, others are copied */
	for (size_t i = 0; !is_sharded(r) && r->s->gradients != F32 && i < r->shard_count; i++)
		r->shards[i].gradient = tensor_new_as(m, TERM_GRADIENTS, r->shards[i].n, F32);
	for (int group = 0; group < GROUPS; group++)
		step_group(m, r, group);
	sharded_after_step(m, r);
	if (!r->s->training_loop)
		rank_zero_grad(m, r);
}

void rank_zero_grad(struct machine *m, struct megatron_rank *r)
{
	for (size_t i = 0; i < r->shard_count; i++)
		tensor_unref(m, &r->shards[i].gradient);
	sharded_zero_grad(m, r);
}

void rank_release(struct megatron_rank *r)
{
	for (int64_t i = 0; i < r->s->vpp; i++) {
		module_release(&r->chunks[i].module);
		free(r->chunks[i].on_host);
		free(r->chunks[i].slots);
		for (int64_t k = 0; k < r->chunks[i].layer_count; k++)
			free(r->chunks[i].layers[k].experts);
		free(r->chunks[i].layers);
		free(r->chunks[i].encoder.layers);
		llava_release(&r->chunks[i]);
		mtp_release(&r->chunks[i]);
	}
	sharded_release(r);
	free(r->chunks);
	free(r->shards);
	free(r->waiting);
}
