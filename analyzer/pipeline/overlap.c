/* Each layer is cut into nodes (models/gpt/fine_grained_callables.py): attention with router,
 * exchange, experts, exchange back. A node has a graph of its own, whose leaf is the node's input;
 * its variables keep input and result until the node's backward pass. */
#include "pipeline/overlap.h"

#include <stdlib.h>

#include "megatron/compiled.h"
#include "megatron/embedding_loss.h"
#include "megatron/layers.h"
#include "megatron/moe.h"
#include "megatron/mtp.h"
#include "megatron/tensor_parallel.h"
#include "torch/autograd.h"
#include "torch/streams.h"
#include "util/util.h"

/* The streams of computation and of exchanges. offload/groups.c has two others. */
enum { COMPUTE = 0, EXCHANGE = 3 };

/* ScheduleNode */
struct schedule_node {
	struct tape tape;
	struct param input;
	tensor output;
	int stream;
};

/* Results of a layer's first node that its last one takes: the residual, the shared expert's. */
enum { RESIDUAL, SHARED, DETACHED };

/* TransformerLayerSchedulePlan */
struct layer_plan {
	/* The schedule keeps what it sent to the next stage, and with it the graph of the node that
	 * made it, and the gradient of the graph's leaf: *sent. NULL: of another layer. */
	tensor *sent;
	struct megatron_layer *layer;
	int predicts; /* a layer of multi-token prediction */
	int last;     /* the decoder's last layer */
	int early;    /* attention's backward pass comes before the experts of the forward pass */
	struct schedule_node attention, dispatch, mlp, combine, after;
	struct param detached[DETACHED];
	tensor before[DETACHED]; /* the same results, with their graph */
	struct mlp_call call;
};

/* TransformerModelChunkSchedulePlan */
struct chunk_plan {
	struct model_chunk *chunk;
	struct microbatch *batch;
	struct schedule_node before, after;
	struct layer_plan *layers;
	int64_t count, left; /* layers, and those whose backward pass has not run */
	tensor sent;
};

int has_combined_passes(const struct hparams *s)
{
	return s->overlaps_experts && !s->graphs.on && s->wrapper == MEGATRON_OWN && !s->pattern &&
	       !s->is_bert && !s->encoder_layers;
}

void check_combined_passes(const struct hparams *s, struct inputs *in)
{
	if (!s->overlaps_experts)
		return;
	if (s->ep == 1)
		input_reject(in, CONFIG_expert_model_parallel_size,
			     "at least 2 with overlap_moe_expert_parallel_comm: Megatron-core "
			     "refuses another");
	if (s->pp > 1 && s->vpp == 1)
		input_reject(in, CONFIG_virtual_pipeline_model_parallel_size,
			     "at least 2 with pipelines and overlap_moe_expert_parallel_comm: "
			     "Megatron-core refuses another");
	if (s->allgather)
		input_reject(in, CONFIG_moe_token_dispatcher_type,
			     "alltoall or flex with overlap_moe_expert_parallel_comm: "
			     "Megatron-core refuses another");
	if (s->recompute == RECOMPUTE_FULL)
		input_reject(in, CONFIG_recompute_granularity,
			     "selective or none with overlap_moe_expert_parallel_comm: "
			     "Megatron-core refuses another");
	if (s->mtp > 1)
		input_reject(in, CONFIG_mtp_num_layers,
			     "at most 1 with overlap_moe_expert_parallel_comm: Megatron-core "
			     "refuses another");
	if (s->mtp == 1 && s->pp == 1)
		input_reject(in, CONFIG_pipeline_model_parallel_size,
			     "at least 2 with mtp_num_layers and "
			     "overlap_moe_expert_parallel_comm: Megatron-core refuses another");
	if (s->shared_ffn && VALUE_OR(in->c, moe_shared_expert_overlap, 0))
		input_reject(in, CONFIG_moe_shared_expert_overlap,
			     "false with overlap_moe_expert_parallel_comm: Megatron-core refuses "
			     "another");
	if (has_combined_passes(s) && s->recompute_moe)
		input_reject(in, CONFIG_recompute_modules,
			     "none of moe with overlap_moe_expert_parallel_comm: not modelled yet");
}

/* ---- nodes ---- */

static void set_stream(struct machine *m, int stream)
{
	stream_wait(m, stream, stream == COMPUTE ? EXCHANGE : COMPUTE);
	m->stream = stream;
}

/* A leaf that shares the storage of x. */
static tensor detach(struct param *leaf, tensor x)
{
	*leaf = (struct param){ .value = tensor_ref(x) };
	param_init(leaf);
	return leaf->value;
}

/* The input of the node's operations, which follow. */
static tensor node_begin(struct machine *m, struct schedule_node *n, int stream, tensor x)
{
	n->stream = stream;
	set_stream(m, stream);
	m->tape = &n->tape;
	return detach(&n->input, x);
}

/* `out` is taken. The caller owns what is returned. */
static tensor node_end(struct machine *m, struct schedule_node *n, tensor out)
{
	n->output = out;
	m->stream = COMPUTE;
	return tensor_ref(out);
}

/* free_input: the storage of the node's input is emptied. */
static void node_free_input(struct machine *m, const struct schedule_node *n)
{
	record_stream(n->input.value, n->stream);
	storage_empty(m, n->input.value);
}

static tensor taken_gradient(struct machine *m, struct param *leaf)
{
	tensor g = leaf->grad;

	leaf->grad.storage = NULL;
	tensor_set_term(m, g, TERM_GRADIENT_FLOW);
	return g;
}

static void node_release(struct machine *m, struct schedule_node *n)
{
	tensor_unref(m, &n->input.value);
	tensor_unref(m, &n->output);
}

/* Replaces *gradient, that of the node's result, by that of its input. */
static void node_backward(struct machine *m, struct schedule_node *n, tensor *gradient)
{
	tensor of_input;

	set_stream(m, n->stream);
	backward(m, &n->tape, n->output, tensor_ref(*gradient));
	record_stream(*gradient, n->stream);
	m->stream = COMPUTE;
	of_input = taken_gradient(m, &n->input);
	node_release(m, n);
	tensor_assign(m, gradient, of_input);
}

/* ---- a layer's forward pass ---- */

static void detach_result(struct layer_plan *p, int i, tensor x)
{
	p->before[i] = tensor_ref(x);
	detach(&p->detached[i], x);
}

/* submodule_attn_forward */
static tensor attention_forward(struct machine *m, struct layer_plan *p, struct microbatch *b,
				tensor in)
{
	struct megatron_layer *l = p->layer;
	tensor x = node_begin(m, &p->attention, COMPUTE, in), out, shared;

	x = p->predicts ? mtp_enter(m, l->chunk, b, x) : tensor_ref(x);
	out = layer_attention(m, l, b, x);
	tensor_unref(m, &x);
	if (!l->router) {
		release_masks(m, l->chunk->rank);
		return node_end(m, &p->attention, out);
	}
	mlp_begin(m, l, out, &p->call);
	tensor_unref(m, &out);
	detach_result(p, RESIDUAL, p->call.entered);
	out = moe_prepare(m, l, p->call.x, &shared);
	tensor_unref(m, &p->call.x);
	tensor_unref(m, &p->call.entered);
	if (shared.storage)
		detach_result(p, SHARED, shared);
	tensor_unref(m, &shared);
	/* the dispatcher keeps the probabilities, and with them the graph and its leaf */
	tensor_assign(m, &l->graph[0].value, tensor_ref(p->attention.input.value));
	return node_end(m, &p->attention, out);
}

static tensor dispatch_forward(struct machine *m, struct layer_plan *p, tensor in)
{
	tensor out;

	/* the numbers of tokens that are sent come from the device */
	host_wait(m, COMPUTE);
	out = node_end(m, &p->dispatch,
		       moe_dispatch(m, p->layer, node_begin(m, &p->dispatch, EXCHANGE, in)));
	node_free_input(m, &p->dispatch);
	return out;
}

static tensor experts_forward(struct machine *m, struct layer_plan *p, tensor in)
{
	tensor out = moe_experts(m, p->layer, node_begin(m, &p->mlp, COMPUTE, in));

	discard_outputs(m, p->call.discarded, &out);
	p->call.discarded = NULL;
	out = node_end(m, &p->mlp, out);
	node_free_input(m, &p->mlp);
	return out;
}

static tensor combine_forward(struct machine *m, struct layer_plan *p, tensor in)
{
	struct megatron_layer *l = p->layer;
	struct model_chunk *c = l->chunk;
	tensor x = node_begin(m, &p->combine, EXCHANGE, in), out;

	out = moe_combine(m, l, x, p->detached[SHARED].value);
	mlp_end(m, l, &p->call, &out, p->detached[RESIDUAL].value);
	record_stream(p->detached[RESIDUAL].value, EXCHANGE);
	release_masks(m, c->rank);
	m->current_term = TERM_FINAL_NORM;
	if (p->last && c->has_norm)
		tensor_assign(m, &out, hidden_norm(m, c->rank, &c->norm, out));
	out = node_end(m, &p->combine, out);
	node_free_input(m, &p->combine);
	return out;
}

static tensor dense_forward(struct machine *m, struct layer_plan *p, tensor in)
{
	tensor out = layer_mlp(m, p->layer, node_begin(m, &p->mlp, COMPUTE, in));

	release_masks(m, p->layer->chunk->rank);
	return node_end(m, &p->mlp, out);
}

/* mtp_post_process */
static tensor after_forward(struct machine *m, struct layer_plan *p, tensor in)
{
	tensor x = node_begin(m, &p->after, COMPUTE, in);

	return node_end(m, &p->after, mtp_leave(m, p->layer->chunk, p->attention.input.value, x));
}

/* ---- a layer's backward pass ---- */

static void attention_backward(struct machine *m, struct layer_plan *p, tensor *gradient)
{
	struct input_ref *kept = &p->layer->graph[0];
	tensor leaf = tensor_ref(p->attention.input.value);

	for (int i = 0; i < DETACHED; i++)
		if (p->detached[i].grad.storage)
			node_receive(p->before[i].grad_fn, p->before[i].output_nr,
				     tensor_ref(p->detached[i].grad));
	node_backward(m, &p->attention, gradient);
	if (p->layer->router && kept->value.storage == leaf.storage)
		tensor_assign(m, &kept->gradient, tensor_ref(*gradient));
	tensor_unref(m, &leaf);
}

/* release_state() */
static void release_layer(struct machine *m, struct layer_plan *p)
{
	for (int i = 0; i < DETACHED; i++) {
		tensor_unref(m, &p->detached[i].value);
		tensor_unref(m, &p->detached[i].grad);
		tensor_unref(m, &p->before[i]);
	}
}

/* TransformerLayerSchedulePlan.run(); one of the layers may be NULL. *x and *gradient are variables
 * of the caller, which keep their tensors until both layers have run. */
static void run_layers(struct machine *m, struct layer_plan *f, struct microbatch *fb,
		       struct layer_plan *b, tensor *x, tensor *gradient)
{
	tensor in = tensor_ref(*x), g = tensor_ref(*gradient);

	if (b && b->predicts)
		node_backward(m, &b->after, &g);
	if (b && b->layer->router)
		node_backward(m, &b->combine, &g);
	if (b && b->sent && b->layer->router)
		*b->sent = tensor_ref(g);
	if (f)
		tensor_assign(m, &in, attention_forward(m, f, fb, in));
	if (b)
		node_backward(m, &b->mlp, &g);
	if (b && b->sent && !b->layer->router)
		*b->sent = tensor_ref(g);
	if (f && f->layer->router)
		tensor_assign(m, &in, dispatch_forward(m, f, in));
	if (b && b->layer->router)
		node_backward(m, &b->dispatch, &g);
	if (b && b->early)
		attention_backward(m, b, &g);
	if (f)
		tensor_assign(m, &in,
			      f->layer->router ? experts_forward(m, f, in)
					       : dense_forward(m, f, in));
	if (f && f->layer->router)
		tensor_assign(m, &in, combine_forward(m, f, in));
	if (f && f->predicts)
		tensor_assign(m, &in, after_forward(m, f, in));
	if (b && !b->early)
		attention_backward(m, b, &g);
	tensor_assign(m, x, in);
	tensor_assign(m, gradient, g);
}

/* ---- a chunk ---- */

static struct chunk_plan *plan_new(struct model_chunk *c, struct microbatch *b)
{
	struct chunk_plan *p = xcalloc(1, sizeof(*p));

	p->chunk = c;
	p->batch = b;
	p->count = p->left = c->layer_count + c->mtp_count;
	p->layers = xcalloc((size_t)p->count, sizeof(*p->layers));
	for (int64_t i = 0; i < p->count; i++) {
		p->layers[i].layer = chunk_layer(c, i);
		p->layers[i].early = c->rank->s->early_attention;
		p->layers[i].predicts = i >= c->layer_count;
		p->layers[i].last = i == c->layer_count - 1;
	}
	if (!c->last && p->count)
		p->layers[p->count - 1].sent = &p->sent;
	return p;
}

static void plan_free(struct machine *m, struct chunk_plan *p)
{
	node_release(m, &p->before);
	node_release(m, &p->after);
	tensor_unref(m, &p->sent);
	free(p->layers);
	free(p);
}

/* PreProcessNode */
static tensor embed(struct machine *m, struct chunk_plan *p)
{
	struct schedule_node *n = &p->before;

	m->tape = &n->tape;
	n->output = p->chunk->first ? chunk_embed(m, p->chunk, p->batch)
				    : tensor_ref(p->batch->input.value);
	return tensor_ref(n->output);
}

static void embed_backward(struct machine *m, struct chunk_plan *p, tensor gradient)
{
	struct param *input = &p->batch->input;

	if (p->chunk->first)
		backward(m, &p->before.tape, p->before.output, tensor_ref(gradient));
	else /* the received tensor is a leaf; its gradient is a copy */
		input->grad = tensor_new_as(m, TERM_PIPELINE, gradient.n, gradient.type);
}

/* PostProcessNode, and the loss */
static tensor losses(struct machine *m, struct chunk_plan *p, tensor in)
{
	struct model_chunk *c = p->chunk;
	tensor x = tensor_ref(node_begin(m, &p->after, COMPUTE, in)), out;

	if (!c->layer_count && !c->mtp_count && c->has_norm)
		tensor_assign(m, &x, hidden_norm(m, c->rank, &c->norm, x));
	if (c->mtp_count) {
		out = mtp_losses(m, c, p->batch, &x);
		tensor_assign(m, &x, out);
	}
	out = chunk_loss(m, c, x);
	tensor_unref(m, &x);
	tensor_unref(m, &p->batch->logits);
	return node_end(m, &p->after, out);
}

static struct layer_plan *next_layer(struct chunk_plan *p, int64_t i, int forward)
{
	if (!p || i >= p->count)
		return NULL;
	return &p->layers[forward ? i : --p->left];
}

/* TransformerModelChunkSchedulePlan.run() up to the exchange between the stages: pairs of layers,
 * then the rest of the backward pass, or of the forward pass. */
static void run_chunks(struct machine *m, struct chunk_plan *f, struct chunk_plan *b, tensor *x,
		       tensor *gradient)
{
	int64_t forward = f ? f->count : 0, back = b ? b->count : 0;

	for (int64_t i = 0; i < forward || i < back; i++) {
		struct layer_plan *bl = next_layer(b, i, 0);

		m->phase = i < back ? BACKWARD : FORWARD;
		run_layers(m, next_layer(f, i, 1), f ? f->batch : NULL, bl, x, gradient);
		if (bl && i < back - 1)
			release_layer(m, bl);
	}
}

static tensor begin_backward(struct machine *m, const struct combined_passes *p,
			     struct chunk_plan *b)
{
	struct microbatch *batch = p->backward;
	tensor gradient;

	m->phase = BACKWARD;
	receive_gradient(m, batch);
	gradient = batch->gradient;
	batch->gradient.storage = NULL;
	if (p->backward_chunk->last)
		node_backward(m, &b->after, &gradient);
	return gradient;
}

void combined_step(struct machine *m, const struct combined_passes *p, struct variables *v)
{
	struct chunk_plan *f = NULL, *b = NULL;
	tensor x = none, gradient = none;

	if (p->forward_chunk) {
		begin_forward(m, p->forward_chunk, p->forward);
		f = p->forward->plan = plan_new(p->forward_chunk, p->forward);
		x = embed(m, f);
	}
	if (p->backward_chunk) {
		b = p->backward->plan;
		gradient = begin_backward(m, p, b);
	}
	run_chunks(m, f, b, &x, &gradient);
	if (p->exchange)
		p->exchange(m, p->context);
	if (b && b->count)
		release_layer(m, &b->layers[0]);
	m->phase = FORWARD;
	if (f && p->forward_chunk->last)
		tensor_assign(m, &x, losses(m, f, x));
	m->phase = BACKWARD;
	if (b)
		embed_backward(m, b, gradient);
	tensor_unref(m, &gradient);
	if (f) {
		p->forward->output = x;
		if (p->forward_chunk->rank->s->training_loop && !p->forward_chunk->last)
			storage_empty(m, x); /* deallocate_output_tensor() */
		end_forward(m, p->forward_chunk, p->forward);
	}
	if (b) {
		plan_free(m, b);
		tensor_unref(m, &p->backward->output);
		end_backward(m, p->backward_chunk, p->backward, v);
	}
}
