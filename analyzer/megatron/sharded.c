#include "megatron/sharded.h"

#include <stdlib.h>

#include "distributed/fsdp.h"
#include "distributed/fsdp2.h"
#include "distributed/unit_buffers.h"
#include "torch/autograd.h"
#include "util/util.h"

/* The units in the order of model.modules(): embedding, layers, and with Transformer Engine the
 * output layer; then the root, which has the other parameters. */
static size_t layers_end(const struct model_chunk *c)
{
	return 1 + (size_t)c->layer_count;
}

/* The local implementation's output layer is part of the root. */
static int has_output_unit(const struct hparams *s)
{
	return s->transformer_engine;
}

static struct fsdp_unit *unit_of(const struct model_chunk *c, enum sharded_module which)
{
	const struct megatron_rank *r = c->rank;

	if (!r->fsdp || which == SHARDED_NORM ||
	    (which == SHARDED_OUTPUT && !has_output_unit(r->s)))
		return NULL;
	return &r->fsdp->units[which == SHARDED_EMBEDDING ? 0 : layers_end(c)];
}

static struct fsdp_unit *layer_unit(const struct megatron_layer *l)
{
	const struct fsdp *f = l->chunk->rank->fsdp;

	return f ? &f->units[1 + (l - l->chunk->layers)] : NULL;
}

static struct fsdp_unit *root_of(const struct fsdp *f)
{
	return &f->units[f->count - 1];
}

struct fsdp_unit *sharded_unit(const struct model_chunk *c, size_t i)
{
	size_t unit = 0;

	if (!c->rank->fsdp)
		return NULL;
	if (i >= c->after_layers)
		return c->module.params[i] == c->head && has_output_unit(c->rank->s)
			       ? unit_of(c, SHARDED_OUTPUT)
			       : root_of(c->rank->fsdp);
	while (unit < (size_t)c->layer_count && i >= c->layers[unit].first_param)
		unit++;
	return &c->rank->fsdp->units[unit];
}

/* ---- sharding ---- */

static void count_parameters(struct model_chunk *c)
{
	for (size_t i = 0; i < c->module.count; i++)
		sharded_unit(c, i)->count++;
}

static void wrap_units(struct machine *m, struct megatron_rank *r)
{
	struct model_chunk *c = r->chunks;
	struct fsdp *f = r->fsdp = xcalloc(1, sizeof(*f));

	*f = (struct fsdp){ .hparams = r->s,
			    .ranks = r->s->dp * r->s->cp,
			    .count = layers_end(c) + has_output_unit(r->s) + 1 };
	f->units = xcalloc(f->count, sizeof(*f->units));
	count_parameters(c);
	for (size_t k = 0; k < f->count; k++) {
		struct fsdp_unit *u = &f->units[k];

		u->fsdp = f;
		u->is_root = u == root_of(f);
		u->params = xcalloc(u->count + 1, sizeof(*u->params));
		u->count = 0;
	}
	for (size_t i = 0; i < c->module.count; i++) {
		struct fsdp_unit *u = sharded_unit(c, i);

		u->params[u->count++] = c->module.params[i];
	}
	/* With recomputation the module before the first layer, whose weights are gathered ahead,
	 * is that of the rotary positions, which has none. */
	f->units[1].gathers_none_ahead = r->s->recompute && r->s->rope;
	for (size_t k = 0; k < f->count; k++)
		fsdp2_shard(m, &f->units[k]);
}

static void make_unit_buffers(struct machine *m, struct megatron_rank *r)
{
	const struct model_chunk *c = r->chunks;
	size_t units = r->s->zero < 3 ? 0 : (size_t)c->layer_count;
	size_t *first = xcalloc(units + 1, sizeof(*first));
	const struct unit_layout layout = { r->s, &c->module, first, units };

	for (size_t i = 0; i < units; i++)
		first[i] = c->layers[i].first_param;
	first[units] = c->after_layers;
	r->buffers = xcalloc(1, sizeof(*r->buffers));
	unit_buffers_make(m, r->buffers, &layout);
	free(first);
}

int sharded_wrap(struct machine *m, struct megatron_rank *r)
{
	if (r->s->wrapper == MEGATRON_FSDP2) {
		wrap_units(m, r);
		m->on_gradient = NULL;
	} else if (r->s->wrapper == MEGATRON_FSDP) {
		make_unit_buffers(m, r);
	}
	return is_sharded(r);
}

int64_t sharded_part(const struct model_chunk *c, size_t i)
{
	const struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;
	int64_t last;

	if (r->buffers)
		return unit_buffers_part(r->buffers, i);
	last = s->training_loop ? r->fsdp->ranks - 1 : 0;
	return fsdp2_shard_of_rank(r->fsdp, c->module.params[i],
				   s->is_placed ? s->rank * s->cp + s->context_rank : last);
}

/* ---- passes ---- */

/* Under Megatron's own FSDP each module outside the layers gathers its own parameters. */
static void use_parameters(struct machine *m, struct model_chunk *c, enum sharded_module which)
{
	if (which == SHARDED_EMBEDDING) {
		unit_buffers_use(m, c->rank->buffers, c->tokens);
		unit_buffers_use(m, c->rank->buffers, c->positions);
	} else {
		unit_buffers_use(m, c->rank->buffers,
				 which == SHARDED_NORM ? c->norm.weight : c->head);
	}
}

tensor sharded_before(struct machine *m, struct model_chunk *c, enum sharded_module which, tensor x)
{
	struct fsdp_unit *u = unit_of(c, which);

	if (c->rank->buffers)
		use_parameters(m, c, which);
	return u ? fsdp2_before(m, u, x) : tensor_ref(x);
}

void sharded_after(struct machine *m, struct model_chunk *c, enum sharded_module which, tensor *out)
{
	struct fsdp_unit *u = unit_of(c, which);

	if (u)
		tensor_assign(m, out, fsdp2_after(m, u, *out));
}

tensor sharded_before_layer(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct fsdp_unit *u = layer_unit(l);

	if (l->chunk->rank->buffers)
		return unit_buffers_before(m, l->chunk->rank->buffers, l - l->chunk->layers, x);
	return u ? fsdp2_before(m, u, x) : tensor_ref(x);
}

void sharded_after_layer(struct machine *m, struct megatron_layer *l, tensor *out)
{
	struct fsdp_unit *u = layer_unit(l);

	if (l->chunk->rank->buffers)
		unit_buffers_after(m, l->chunk->rank->buffers, l - l->chunk->layers, out);
	else if (u)
		tensor_assign(m, out, fsdp2_after(m, u, *out));
}

void sharded_begin(struct machine *m, const struct model_chunk *c)
{
	if (c->rank->fsdp)
		fsdp2_root_before(m, c->rank->fsdp);
}

static void output_backward(struct machine *m, struct grad_node *n)
{
	struct fsdp *f = n->hook;

	fsdp2_start_backward(m, f);
	n->out[0] = tensor_ref(n->in[0]);
}

void sharded_end(struct machine *m, const struct model_chunk *c, tensor *out)
{
	struct fsdp *f = c->rank->fsdp;

	if (!f)
		return;
	/* reshard_after_forward is given, and so holds for the root too */
	fsdp2_root_reshard(m, f);
	tensor_assign(m, out, with_backward_hook(m, *out, output_backward, f));
	fsdp2_root_after(m, f);
}

void sharded_finish(struct machine *m, struct megatron_rank *r)
{
	if (r->buffers)
		unit_buffers_finish(m, r->buffers);
	else if (r->fsdp)
		fsdp2_finish(m, r->fsdp);
}

/* ---- the optimizer ---- */

/* Float16OptimizerWithFloat16Params._copy_model_grads_to_main_grads(): the gradients of a unit are
 * views of one tensor, which goes with the last of them. */
static void copy_gradients(struct machine *m, struct megatron_rank *r)
{
	if (r->s->weights == F32)
		return;
	for (size_t i = 0; i < r->shard_count; i++)
		r->shards[i].unit->pending++;
	for (size_t i = 0; i < r->shard_count; i++) {
		struct optimizer_shard *sh = &r->shards[i];

		sh->gradient = tensor_new_as(m, TERM_GRADIENTS, sh->n, F32);
		if (!--sh->unit->pending)
			tensor_unref(m, &sh->unit->reduced);
	}
}

void sharded_before_step(struct machine *m, struct megatron_rank *r)
{
	if (r->fsdp)
		copy_gradients(m, r);
	if (!r->buffers)
		return;
	/* fp32 gradients are parts of the buffer */
	for (size_t i = 0; r->s->gradients != F32 && i < r->shard_count; i++)
		r->shards[i].gradient = tensor_new_as(m, TERM_GRADIENTS, r->shards[i].n, F32);
	unit_buffers_before_step(m, r->buffers);
}

void sharded_after_step(struct machine *m, struct megatron_rank *r)
{
	if (r->buffers)
		unit_buffers_after_step(m, r->buffers);
}

void sharded_zero_grad(struct machine *m, const struct megatron_rank *r)
{
	if (r->fsdp)
		fsdp_clear_reduced(m, r->fsdp);
}

void sharded_release(struct megatron_rank *r)
{
	struct fsdp *f = r->fsdp;

	if (r->buffers)
		unit_buffers_release(r->buffers);
	free(r->buffers);
	r->buffers = NULL;
	for (size_t i = 0; f && i < f->count; i++) {
		free(f->units[i].shards);
		free(f->units[i].params);
	}
	if (f)
		free(f->units);
	free(f);
	r->fsdp = NULL;
}

/* ---- check ---- */

static void check_torch_fsdp2(const struct hparams *s, struct inputs *in)
{
	if (s->pp > 1)
		input_reject(in, CONFIG_pipeline_model_parallel_size,
			     "1 with use_torch_fsdp2: Megatron-LM refuses more");
	if (s->ep > 1)
		input_reject(in, CONFIG_expert_model_parallel_size,
			     "1 with use_torch_fsdp2: Megatron-LM refuses more");
	if (VALUE_OR(in->c, use_distributed_optimizer, 0))
		input_reject(in, CONFIG_use_distributed_optimizer,
			     "false with use_torch_fsdp2: Megatron-LM refuses both");
	if (s->fused_gradient)
		input_reject(in, CONFIG_gradient_accumulation_fusion,
			     "false with use_torch_fsdp2: Megatron-LM refuses both");
	if (!s->untied)
		input_reject(in, CONFIG_untie_embeddings_and_output_weights,
			     "true with use_torch_fsdp2: Megatron-LM refuses tied weights");
	if (s->weights == F16)
		input_reject(in, CONFIG_precision,
			     "bf16-mixed or fp32 with use_torch_fsdp2: Megatron-LM refuses fp16");
}

static void check_own_fsdp(const struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;

	estimate_note(in->out, "Megatron's FSDP is that of Megatron-core 0.16.1");
	if (!GIVEN(c, data_parallel_sharding_strategy))
		input_reject(in, CONFIG_data_parallel_sharding_strategy,
			     "no_shard, optim, optim_grads or optim_grads_params with "
			     "use_megatron_fsdp");
	if (s->pp > 1)
		input_reject(in, CONFIG_pipeline_model_parallel_size,
			     "1 with use_megatron_fsdp: not modelled yet");
	if (s->instances > 1)
		input_reject(in, CONFIG_num_distributed_optimizer_instances,
			     "1 with use_megatron_fsdp: not modelled yet");
	if (s->fused_gradient)
		input_reject(in, CONFIG_gradient_accumulation_fusion,
			     "false with use_megatron_fsdp: not modelled yet");
	if (s->weights == F16)
		input_reject(in, CONFIG_precision,
			     "bf16-mixed or fp32 with use_megatron_fsdp: fp16 is not modelled yet");
	if (VALUE_OR(c, use_nccl_ub, 0))
		input_reject(in, CONFIG_use_nccl_ub,
			     "false with use_megatron_fsdp: persistent double buffers are not "
			     "modelled yet");
}

void check_sharded_model(const struct hparams *s, struct inputs *in)
{
	if (s->wrapper == MEGATRON_OWN) {
		if (s->zero > 1)
			input_reject(in, CONFIG_zero_stage,
				     "0 or 1, or use_torch_fsdp2 or use_megatron_fsdp");
		return;
	}
	if (s->wrapper == MEGATRON_FSDP2)
		check_torch_fsdp2(s, in);
	else
		check_own_fsdp(s, in);
	if (s->encoder_layers || s->is_bert || s->hybrid)
		input_reject(in, CONFIG_model_type, "gpt with FSDP: others are not modelled yet");
	if (s->mtp)
		input_reject(in, CONFIG_mtp_num_layers,
			     "0 with FSDP: the units in layers of multi-token prediction are not "
			     "modelled yet");
	if (s->fp8)
		input_reject(in, CONFIG_fp8_format,
			     "none with FSDP: fp8 copies of gathered weights are not modelled yet");
	if (s->graphs.on)
		input_reject(in, CONFIG_cuda_graph_impl, "none with FSDP: not modelled yet");
	if (s->optimizer > SGD)
		input_reject(in, CONFIG_optimizer,
			     "adam or sgd with FSDP: others are not modelled yet");
}
