/* The transformer layers of Megatron-core. */
#include "megatron/layers.h"

#include "megatron/compiled.h"
#include "megatron/embedding_loss.h"
#include "megatron/gdn.h"
#include "torch/checkpoint.h"
#include "megatron/mamba.h"
#include "megatron/mla.h"
#include "megatron/moe.h"
#include "megatron/tensor_parallel.h"
#include "megatron/transformer_engine.h"

#include "util/util.h"

/* torch.baddbmm(buffer, q, k^T, beta=0, alpha=scale): the gradients are scaled by copies. */
static void scores_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 1; i >= 0; i--) {
		tensor product = gemm(m, n->sizes[i], n->in[0].type);

		n->out[i] = tensor_new(m, product.n, product.type);
		tensor_unref(m, &product);
	}
}

static tensor scores(struct machine *m, struct megatron_rank *r, tensor q, tensor k)
{
	tensor in[2] = { q, k };
	int64_t n = score_count(r, q, k);
	struct grad_node *node;

	global_buffer(m, r, n, q.type);
	node = grad_node_new(m, scores_backward, in, 2);
	if (node) {
		node->sizes[0] = q.n;
		node->sizes[1] = k.n;
	}
	save_for_backward(m, node, q);
	save_for_backward(m, node, k);
	return with_grad_fn(gemm(m, n, q.type), node, 0);
}

/* Flash attention has no mask and no repeated heads. */
static tensor flash(struct machine *m, struct megatron_rank *r, const tensor *in)
{
	const struct hparams *s = r->s;
	const struct flash_shape shape = { s->batch, r->heads, s->tokens / s->cp, s->head,
					   s->attention_dropout };

	m->current_term = TERM_ATTN_CONTEXT;
	return flash_attention(m, in[0], in[1], in[2], &shape);
}

/* forward_torch_softmax(): without a mask causal attention makes one for each call. */
static tensor masked_by_torch(struct machine *m, const struct megatron_layer *l, tensor scores,
			      tensor given)
{
	const struct hparams *s = l->chunk->rank->s;
	int64_t n = scores.n / (s->batch * l->chunk->rank->heads);
	tensor precise = to(m, scores, F32), mask = tensor_ref(given), ones, out;

	if (!mask.storage && !l->of_images) {
		ones = tensor_new(m, n, F32);
		tensor_assign(m, &mask, tensor_new(m, n, F32));
		tensor_unref(m, &ones);
		tensor_assign(m, &mask, tensor_new(m, n, BOOL));
	}
	out = softmax_of_torch(m, precise, mask, scores.type);
	tensor_unref(m, &precise);
	tensor_unref(m, &mask);
	return out;
}

/* DotProductAttention.forward. `in`: q, k, v, the mask */
static tensor core_attention(struct machine *m, void *context, const tensor *in)
{
	struct megatron_layer *l = *(struct megatron_layer **)context;
	struct megatron_rank *r = l->chunk->rank;
	const int64_t width = r->s->batch * r->s->head;
	tensor raw, a, k, v, out;

	if (r->s->transformer_engine)
		return te_attention(m, l, in);
	if (r->s->attention != EAGER)
		return flash(m, r, in);
	k = tensor_ref(in[1]);
	v = tensor_ref(in[2]);
	m->current_term = TERM_ATTN_QKV;
	if (r->heads != r->groups) {
		tensor_assign(m, &k, repeat(m, k, in[0].n));
		tensor_assign(m, &v, repeat(m, v, in[0].n));
	}
	m->current_term = TERM_ATTN_SCORES;
	raw = scores(m, r, in[0], k);
	m->current_term = TERM_ATTN_SOFTMAX;
	a = softmax_is_fused(r, in[0].n / r->heads / width, in[1].n / r->groups / width)
		    ? masked_softmax(m, raw)
		    : masked_by_torch(m, l, raw, in[3]);
	tensor_assign(m, &a, dropout(m, a, r->s->attention_dropout));
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, a, v, in[0].n / r->s->head * r->s->value_head);
	tensor_assign(m, &out, contiguous(m, out));
	tensor_unref(m, &raw);
	tensor_unref(m, &a);
	tensor_unref(m, &k);
	tensor_unref(m, &v);
	return out;
}

static tensor head_norm(struct machine *m, struct megatron_layer *l, struct norm_weights *w,
			tensor x)
{
	const struct hparams *s = l->chunk->rank->s;

	if (s->rms_norm)
		return fused_rms_norm(m, x, w->weight, s->head);
	return layer_norm(m, x, w->weight, w->bias, s->head);
}

/* Queries, keys and values: views of one product, normalized and rotated. *gate is the part of the
 * product that gates the output, with --attention-output-gate. */
static void project(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x,
		    tensor *in, tensor *gate)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	int64_t rows = x.n / s->hidden * (s->sequence_parallel ? s->tp : 1);
	int64_t each = rows * s->head, sizes[4];
	struct offload *o = offload_of(r, OFFLOAD_QKV);
	int copied, rotates = s->rope && !l->of_images;
	tensor qkv, part[4] = { none, none, none, none }, entered;

	sizes[0] = sizes[3] = each * r->heads;
	sizes[1] = sizes[2] = each * r->groups;
	m->current_term = TERM_ATTN_QKV;
	entered = offload_enter(m, o, OFFLOAD_QKV, x);
	qkv = parallel_linear(m, r, entered, l->qkv, l->qkv_bias, 1);
	split(m, qkv, part, sizes, s->output_gate ? 4 : 3);
	tensor_unref(m, &qkv);
	/* reshape() of the query heads that share a key head */
	copied = r->heads != r->groups && (r->groups > 1 || !s->transformer_engine);
	if (copied)
		tensor_assign(m, &part[0], contiguous(m, part[0]));
	*gate = copied && s->output_gate ? contiguous(m, part[3]) : tensor_ref(part[3]);
	if (s->qk_norm) {
		tensor_assign(m, &part[0], head_norm(m, l, &l->q_norm, part[0]));
		tensor_assign(m, &part[1], head_norm(m, l, &l->k_norm, part[1]));
	}
	offload_leave(m, o);
	offload_commit(m, o, OFFLOAD_QKV, &part[0], &entered, 1);
	tensor_unref(m, &entered);
	for (int i = 0; i < 2; i++) {
		in[i] = !rotates        ? tensor_ref(part[i])
			: s->fused_rope ? fused_rotary(m, part[i])
					: apply_rotary(m, part[i], b->rotary.n);
	}
	/* Transformer Engine needs the same layout for all three */
	if ((rotates || s->qk_norm || copied) && s->transformer_engine)
		tensor_assign(m, &part[2], contiguous(m, part[2]));
	if (copied && !rotates && !s->qk_norm && s->transformer_engine)
		tensor_assign(m, &in[1], contiguous(m, in[1]));
	in[2] = tensor_ref(part[2]);
	for (int i = 0; i < 4; i++)
		tensor_unref(m, &part[i]);
}

/* What attention saves is a group if core_attn is offloaded. Recomputed attention has none. */
static tensor offloaded_attention(struct machine *m, struct megatron_layer *l, const tensor *in)
{
	struct offload *o = offload_of(l->chunk->rank, OFFLOAD_ATTENTION);
	tensor all[4] = { offload_enter(m, o, OFFLOAD_ATTENTION, in[0]), in[1], in[2], in[3] };
	tensor out = core_attention(m, &l, all);

	offload_leave(m, o);
	offload_commit(m, o, OFFLOAD_ATTENTION, &out, all, 3);
	tensor_unref(m, &all[0]);
	return out;
}

/* Attention and its output projection. `in`: queries, keys and values, which are taken, and the
 * mask. They are discarded behind attention if `d` is not NULL. `gate` is taken, if it is there. */
static tensor attend(struct machine *m, struct megatron_layer *l, tensor *in, tensor gate,
		     struct param *proj, struct discarded *d)
{
	struct megatron_rank *r = l->chunk->rank;
	struct offload *o = offload_of(r, OFFLOAD_PROJECTION);
	tensor out = r->s->recompute_attention
			     ? checkpoint_reentrant(m, core_attention, &l,
						    sizeof(struct megatron_layer *), in, 4)
			     : offloaded_attention(m, l, in);
	tensor entered;

	discard_outputs(m, d, &out);
	if (gate.storage)
		tensor_assign(m, &out, compiled_gate(m, out, gate));
	entered = offload_enter(m, o, OFFLOAD_PROJECTION, out);
	tensor_assign(m, &out, tensor_ref(entered));
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, parallel_linear(m, r, out, proj, NULL, 0));
	tensor_assign(m, &out, tp_reduce(m, r, out));
	offload_leave(m, o);
	offload_commit(m, o, OFFLOAD_PROJECTION, &out, &entered, 1);
	tensor_unref(m, &entered);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &in[i]);
	tensor_unref(m, &gate);
	return out;
}

static tensor attention(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	struct discarded *d = NULL;
	tensor in[4], gate = none;

	if (l->gdn.in)
		return gdn_forward(m, l, x);
	if (r->s->latent.kv_rank)
		d = mla_project(m, l, x, in);
	else
		project(m, l, b, x, in, &gate);
	in[3] = l->in_encoder ? b->encoder.mask : b->mask;
	return attend(m, l, in, gate, l->proj, d);
}

/* CrossAttention: the encoder's output has a projection for keys and values. */
static tensor cross_attention(struct machine *m, struct megatron_layer *l, struct microbatch *b,
			      tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	int64_t half[2];
	tensor in[4], kv;

	m->current_term = TERM_ATTN_QKV;
	kv = parallel_linear(m, r, b->encoder.output, l->cross.kv, l->cross.kv_bias, 1);
	half[0] = half[1] = kv.n / 2;
	split(m, kv, &in[1], half, 2);
	tensor_unref(m, &kv);
	in[0] = parallel_linear(m, r, x, l->cross.q, l->cross.q_bias, 1);
	in[3] = b->encoder.cross_mask;
	return attend(m, l, in, none, l->cross.proj, NULL);
}

/* bias_dropout_add: residual + dropout(x + bias) */
static tensor bias_dropout_add(struct machine *m, struct megatron_rank *r, tensor x,
			       struct param *bias, tensor residual)
{
	tensor sum, dropped, out;

	if (r->s->fused_dropout)
		return compiled_dropout_add(m, r, x, bias, residual);
	sum = bias ? add(m, x, bias->value) : tensor_ref(x);
	dropped = dropout(m, sum, r->s->hidden_dropout);
	out = add(m, residual, dropped);
	tensor_unref(m, &sum);
	tensor_unref(m, &dropped);
	return out;
}

tensor layer_dense(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	int64_t sizes[2];
	tensor h, part[2], out;
	int compiled;

	m->current_term = TERM_MLP_HIDDEN;
	h = parallel_linear(m, r, x, l->up, NULL, 1);
	compiled = r->s->gated ? r->s->fused_swiglu : r->s->fused_gelu && l->up_bias;
	if (l->up_bias && !compiled)
		tensor_assign(m, &h, add(m, h, l->up_bias->value));
	if (compiled) {
		tensor_assign(m, &h, compiled_activation(m, h, l->up_bias, r->s->gated));
	} else if (r->s->gated) {
		sizes[0] = sizes[1] = h.n / 2;
		split(m, h, part, sizes, 2);
		tensor_unref(m, &h);
		h = silu(m, part[0]);
		tensor_assign(m, &part[1], shift(m, part[1]));
		tensor_assign(m, &h, mul(m, h, part[1]));
		tensor_unref(m, &part[0]);
		tensor_unref(m, &part[1]);
	} else {
		tensor_assign(m, &h, gelu(m, h));
	}
	m->current_term = TERM_MLP_OUT;
	out = parallel_linear(m, r, h, l->down, NULL, 0);
	tensor_unref(m, &h);
	tensor_assign(m, &out, tp_reduce(m, r, out));
	return out;
}

struct norm_call {
	struct megatron_rank *rank;
	struct norm_weights *weights;
};

static void run_norm(struct machine *m, void *context, const tensor *in, tensor *out)
{
	struct norm_call *c = context;

	out[0] = hidden_norm(m, c->rank, c->weights, in[0]);
}

/* The normalization before a part of a layer. --recompute-modules layernorm discards its output
 * behind that part (*d), unless Transformer Engine's linear layer has it: `fused`. */
static tensor norm_before(struct machine *m, struct megatron_rank *r, struct norm_weights *w,
			  tensor x, int fused, struct discarded **d)
{
	struct norm_call call = { r, w };
	struct discarded_region region = { run_norm, &call, sizeof(call), 1, 1 };
	tensor out;

	*d = NULL;
	if (!r->s->recompute_norms || fused)
		return hidden_norm(m, r, w, x);
	*d = discardable(m, &region, &x, &out);
	return out;
}

tensor layer_attention(struct machine *m, struct megatron_layer *l, struct microbatch *b,
		       tensor input)
{
	struct megatron_rank *r = l->chunk->rank;
	int fused = r->s->transformer_engine && !r->s->latent.kv_rank;
	struct offload *o = fused ? NULL : offload_of(r, OFFLOAD_ATTENTION_NORM);
	tensor in = offload_enter(m, o, OFFLOAD_ATTENTION_NORM, input);
	struct discarded *d;
	tensor x, part, out;

	m->current_term = TERM_ATTN_NORM;
	x = norm_before(m, r, &l->before_attention, in, fused, &d);
	offload_leave(m, o);
	part = attention(m, l, b, x);
	discard_outputs(m, d, &part);
	tensor_unref(m, &x);
	m->current_term = TERM_ATTN_OUT;
	out = bias_dropout_add(m, r, part, l->proj_bias, input);
	tensor_unref(m, &part);
	offload_commit(m, o, OFFLOAD_ATTENTION_NORM, &out, &input, 1);
	tensor_unref(m, &in);
	return out;
}

static tensor layer_cross_attention(struct machine *m, struct megatron_layer *l,
				    struct microbatch *b, tensor input)
{
	struct megatron_rank *r = l->chunk->rank;
	tensor x, part, out;

	m->current_term = TERM_ATTN_NORM;
	x = hidden_norm(m, r, &l->cross.before, input);
	part = cross_attention(m, l, b, x);
	tensor_unref(m, &x);
	out = bias_dropout_add(m, r, part, l->cross.proj_bias, input);
	tensor_unref(m, &part);
	return out;
}

/* The feed-forward part of a layer, dense or with experts. `context`: the layer. */
static tensor feed_forward(struct machine *m, void *context, const tensor *in)
{
	struct megatron_layer *l = *(struct megatron_layer **)context;

	return l->router ? moe_forward(m, l, in[0]) : layer_dense(m, l, in[0]);
}

void mlp_begin(struct machine *m, struct megatron_layer *l, tensor input, struct mlp_call *call)
{
	struct megatron_rank *r = l->chunk->rank;
	int fused = r->s->transformer_engine && !l->router;

	call->offload = fused ? NULL : offload_of(r, OFFLOAD_MLP_NORM);
	call->entered = offload_enter(m, call->offload, OFFLOAD_MLP_NORM, input);
	m->current_term = TERM_MLP_NORM;
	call->x = norm_before(m, r, &l->before_mlp, call->entered, fused, &call->discarded);
	offload_leave(m, call->offload);
}

void mlp_end(struct machine *m, struct megatron_layer *l, struct mlp_call *call, tensor *part,
	     tensor residual)
{
	m->current_term = TERM_MLP_OUT;
	tensor_assign(m, part,
		      bias_dropout_add(m, l->chunk->rank, *part, l->router ? NULL : l->down_bias,
				       residual));
	offload_commit(m, call->offload, OFFLOAD_MLP_NORM, part, &residual, 1);
}

tensor layer_mlp(struct machine *m, struct megatron_layer *l, tensor input)
{
	struct megatron_rank *r = l->chunk->rank;
	int again = l->router ? r->s->recompute_moe : r->s->recompute_mlp;
	struct mlp_call call;
	tensor part;

	mlp_begin(m, l, input, &call);
	part = again ? checkpoint_reentrant(m, feed_forward, &l, sizeof(struct megatron_layer *),
					    &call.x, 1)
		     : feed_forward(m, &l, &call.x);
	if (again && l->router && part.grad_fn)
		checkpoint_input_refs(part, l->graph);
	discard_outputs(m, call.discarded, &part);
	tensor_unref(m, &call.x);
	mlp_end(m, l, &call, &part, input);
	tensor_unref(m, &call.entered);
	return part;
}

/* MambaLayer.forward */
static tensor layer_mamba(struct machine *m, struct megatron_layer *l, tensor input)
{
	struct megatron_rank *r = l->chunk->rank;
	tensor x, part, out;

	m->current_term = TERM_ATTN_NORM;
	x = hidden_norm(m, r, &l->before_attention, input);
	part = mamba_mix(m, l, x);
	tensor_unref(m, &x);
	out = bias_dropout_add(m, r, part, NULL, input);
	tensor_unref(m, &part);
	return out;
}

/* A layer of a hybrid model is one part of a transformer layer, or Mamba's. */
static tensor hybrid_forward(struct machine *m, struct megatron_layer *l, struct microbatch *b,
			     tensor input)
{
	struct megatron_rank *r = l->chunk->rank;
	tensor out = l->kind == 'M'   ? layer_mamba(m, l, input)
		     : l->kind == '*' ? layer_attention(m, l, b, input)
				      : layer_mlp(m, l, input);

	release_masks(m, r);
	return out;
}

int graph_has(const struct megatron_layer *l, enum graph_part part)
{
	const struct hparams *s = l->chunk->rank->s;

	if (part == GRAPH_ATTENTION)
		return s->graphs.attention;
	return l->router ? s->graphs.router : s->graphs.mlp;
}

/* The input of a layer's part, which the caller owns: the graph's own copy if a graph begins there.
 * If a graph has ended before, blocks are allocated again from here on. */
static tensor graph_enter(struct machine *m, struct megatron_layer *l, enum graph_part part,
			  tensor x)
{
	int wanted = l->chunk->rank->graphed && graph_has(l, part);

	if (!wanted || m->in_graph) {
		m->in_graph = wanted;
		return tensor_ref(x);
	}
	m->in_graph = 1;
	return contiguous(m, x);
}

static tensor forward(struct machine *m, struct megatron_layer *l, struct microbatch *b,
		      tensor input)
{
	struct megatron_rank *r = l->chunk->rank;
	tensor out, in;

	if (l->kind)
		return hybrid_forward(m, l, b, input);
	in = graph_enter(m, l, GRAPH_ATTENTION, input);
	out = layer_attention(m, l, b, in);
	tensor_unref(m, &in);
	if (l->cross.q)
		tensor_assign(m, &out, layer_cross_attention(m, l, b, out));
	in = graph_enter(m, l, GRAPH_MLP, out);
	tensor_unref(m, &out);
	out = layer_mlp(m, l, in);
	tensor_unref(m, &in);
	m->in_graph = 0;
	release_masks(m, r);
	return out;
}

tensor layer_forward(struct machine *m, struct megatron_layer *l, struct microbatch *b,
		     tensor input)
{
	enum term_id part = m->part;
	tensor out;

	if (l->of_images)
		m->part = TERM_VISION;
	out = forward(m, l, b, input);
	m->part = part;
	return out;
}
