/* The local (not Transformer Engine) layers of Megatron-core, forward. */
#include "families/megatron_graphs.h"
#include "torch/checkpoint.h"
#include "families/megatron_mla.h"
#include "families/megatron_moe.h"
#include "families/megatron_mtp.h"
#include "families/megatron_te.h"

#include "util/util.h"

void global_buffer(struct machine *m, struct rank *r, int64_t n, enum dtype type)
{
	if (!r->global.at || r->global.n < n)
		let(m, &r->global, make_as(m, TERM_ATTN_SCORES, n, type));
}

/* defer_embedding_wgrad_compute: the first micro-batches' */
static int waits(struct machine *m, struct rank *r, struct node *n)
{
	size_t most = r->s->deferred ? (size_t)r->s->deferred * 2 : SIZE_MAX;

	(void)m;
	if (!n->sizes[5] || r->waiting_count + 2 > most)
		return 0;
	r->waiting = grow(r->waiting, r->waiting_count + 1, &r->waiting_room, sizeof(*r->waiting));
	r->waiting[r->waiting_count++] = hold(n->saved[0]);
	r->waiting[r->waiting_count++] = hold(n->in[0]);
	return 1;
}

void finish_waiting(struct machine *m, struct rank *r)
{
	while (r->waiting_count)
		drop(m, &r->waiting[--r->waiting_count]);
}

/* LinearWithGradAccumulationAndAsyncCommunication. sizes: of x, weight, bias; whether the input is
 * gathered over sequence parallelism */
static void mlinear_backward(struct machine *m, struct node *n)
{
	enum dtype type = n->in[0].type;
	struct rank *r = m->family;
	int64_t t = n->sizes[3];
	tensor whole;

	if (t > 1)
		global_buffer(m, r, n->sizes[0] * t, type);
	if (n->edge[0]) {
		n->out[0] = gemm(m, n->sizes[0] * t, type);
		n->out[0].view = 1;
	}
	if (t > 1) {
		whole = n->out[0];
		n->out[0] = make_as(m, TERM_COLLECTIVE, n->sizes[0], type);
	}
	if (waits(m, r, n)) {
		if (t > 1)
			drop(m, &whole);
		return;
	}
	n->out[1] = r->s->fused_gradient ? weight_gradient(m, r, n->sizes[1], n->sizes[4], type)
					 : gemm(m, n->sizes[1], type);
	if (n->edge[2])
		n->out[2] = sum_rows(m, n->sizes[2], n->in[0].n / n->sizes[2], type);
	if (t > 1)
		drop(m, &whole);
}

/* The bias is added here unless it is skipped (NULL). */
tensor own_linear(struct machine *m, struct rank *r, tensor x, struct param *weight,
		  struct param *bias, int gathers, int defers)
{
	tensor in[3] = { x, weight->value, bias ? bias->value : none }, out, sum;
	int64_t t = gathers && r->s->sequence_parallel ? r->s->tp : 1;
	struct node *n;

	if (t > 1)
		global_buffer(m, r, x.n * t, x.type);
	n = record(m, mlinear_backward, in, 3);
	if (n) {
		n->sizes[0] = x.n;
		n->sizes[1] = weight->value.n;
		n->sizes[2] = bias ? bias->value.n : 0;
		n->sizes[3] = t;
		n->sizes[4] = weight->in;
		n->sizes[5] = defers;
	}
	save(m, n, x);
	save(m, n, weight->value);
	out = gemm(m, x.n * t / weight->in * (weight->value.n / weight->in), x.type);
	if (bias) {
		sum = make(m, out.n, out.type);
		drop(m, &out);
		out = sum;
	}
	return result(out, n, 0);
}

tensor mlinear(struct machine *m, struct rank *r, tensor x, struct param *weight,
	       struct param *bias, int gathers)
{
	if (r->s->transformer_engine)
		return te_linear(m, r, x, weight, bias, gathers);
	return own_linear(m, r, x, weight, bias, gathers, 0);
}

/* Reduces a row-parallel product: in place, or scattered over sequence parallelism. */
static void gather_backward(struct machine *m, struct node *n)
{
	n->out[0] = make_as(m, TERM_COLLECTIVE, n->in[0].n * n->sizes[0], n->in[0].type);
}

tensor reduced(struct machine *m, struct rank *r, tensor x)
{
	struct node *n;

	if (!r->s->sequence_parallel)
		return hold(x);
	n = record(m, gather_backward, &x, 1);
	if (n)
		n->sizes[0] = r->s->tp;
	return result(make(m, x.n / r->s->tp, x.type), n, 0);
}

tensor normed(struct machine *m, struct rank *r, struct norm_weights *w, tensor x)
{
	if (r->s->rms_norm)
		return fused_rms_norm(m, x, w->weight, r->s->hidden);
	return layer_norm(m, x, w->weight, w->bias, r->s->hidden);
}

/* torch.baddbmm(buffer, q, k^T, beta=0, alpha=scale): the gradients are scaled by copies. */
static void scores_backward(struct machine *m, struct node *n)
{
	for (int i = 1; i >= 0; i--) {
		tensor product = gemm(m, n->sizes[i], n->in[0].type);

		n->out[i] = make(m, product.n, product.type);
		drop(m, &product);
	}
}

static tensor scores(struct machine *m, struct rank *r, tensor q, tensor k)
{
	tensor in[2] = { q, k };
	int64_t n = r->s->batch * r->heads * r->s->tokens * r->s->tokens;
	struct node *node;

	global_buffer(m, r, n, q.type);
	node = record(m, scores_backward, in, 2);
	if (node) {
		node->sizes[0] = q.n;
		node->sizes[1] = k.n;
	}
	save(m, node, q);
	save(m, node, k);
	return result(gemm(m, n, q.type), node, 0);
}

/* Flash attention has no mask and no repeated heads. */
static tensor flash(struct machine *m, struct rank *r, const tensor *in)
{
	const struct shape *s = r->s;
	const struct flash_shape shape = { s->batch, r->heads, s->tokens / s->cp, s->head,
					   s->attention_dropout };

	m->as = TERM_ATTN_CONTEXT;
	return flash_attention(m, in[0], in[1], in[2], &shape);
}

/* DotProductAttention.forward, with forward_torch_softmax. `in`: q, k, v, the mask */
static tensor core_attention(struct machine *m, void *context, const tensor *in)
{
	struct rank *r = *(struct rank **)context;
	tensor raw, a, b, k, v, out;

	if (r->s->transformer_engine)
		return te_attention(m, context, in);
	if (r->s->attention != EAGER)
		return flash(m, r, in);
	k = hold(in[1]);
	v = hold(in[2]);
	m->as = TERM_ATTN_QKV;
	if (r->heads != r->groups) {
		let(m, &k, repeat(m, k, in[0].n));
		let(m, &v, repeat(m, v, in[0].n));
	}
	m->as = TERM_ATTN_SCORES;
	raw = scores(m, r, in[0], k);
	m->as = TERM_ATTN_SOFTMAX;
	if (r->s->fused_softmax && raw.type != F32) {
		a = masked_softmax(m, raw);
	} else {
		a = to(m, raw, F32);
		let(m, &a, masked_in_place(m, a, in[3]));
		b = softmax(m, a, F32);
		let(m, &a, to(m, b, raw.type));
		drop(m, &b);
	}
	let(m, &a, dropout(m, a, r->s->attention_dropout));
	m->as = TERM_ATTN_CONTEXT;
	out = matmul(m, a, v, v.n);
	let(m, &out, contiguous(m, out));
	drop(m, &raw);
	drop(m, &a);
	drop(m, &k);
	drop(m, &v);
	return out;
}

/* cos or sin of the positions in fp32, then in the heads' type */
static tensor table(struct machine *m, tensor frequencies, enum dtype type)
{
	tensor first = make(m, frequencies.n, F32), scaled = make(m, frequencies.n, F32), out;

	drop(m, &first);
	out = type == F32 ? hold(scaled) : make(m, frequencies.n, type);
	drop(m, &scaled);
	return out;
}

/* _apply_rotary_pos_emb_bshd: (t * cos) + (rotate_half(t) * sin), then a copy */
static tensor rotated(struct machine *m, tensor x, tensor frequencies)
{
	const int64_t halves[2] = { x.n / 2, x.n / 2 };
	tensor cosine = table(m, frequencies, x.type), sine = table(m, frequencies, x.type);
	tensor a = mul(m, x, cosine), b, half[2];

	split(m, x, half, halves, 2);
	let(m, &half[1], scale(m, half[1]));
	b = cat(m, half[1], half[0]);
	drop(m, &half[1]);
	drop(m, &half[0]);
	let(m, &b, mul(m, b, sine));
	half[0] = add(m, a, b);
	drop(m, &b);
	drop(m, &a);
	a = contiguous(m, half[0]);
	drop(m, &half[0]);
	drop(m, &sine);
	drop(m, &cosine);
	return a;
}

static tensor head_norm(struct machine *m, struct mlayer *l, struct norm_weights *w, tensor x)
{
	const struct shape *s = l->chunk->rank->s;

	if (s->rms_norm)
		return fused_rms_norm(m, x, w->weight, s->head);
	return layer_norm(m, x, w->weight, w->bias, s->head);
}

/* Queries, keys and values: views of one product, rotated and normalized. */
static void project(struct machine *m, struct mlayer *l, struct microbatch *b, tensor x, tensor *in)
{
	struct rank *r = l->chunk->rank;
	const struct shape *s = r->s;
	int64_t each = r->rows * s->head, sizes[3];
	tensor qkv, part[3];

	sizes[0] = each * r->heads;
	sizes[1] = sizes[2] = each * r->groups;
	m->as = TERM_ATTN_QKV;
	qkv = mlinear(m, r, x, l->qkv, l->qkv_bias, 1);
	split(m, qkv, part, sizes, 3);
	drop(m, &qkv);
	if (r->heads != r->groups && !s->transformer_engine)
		let(m, &part[0], contiguous(m, part[0]));
	if (s->qk_norm) {
		let(m, &part[0], head_norm(m, l, &l->q_norm, part[0]));
		let(m, &part[1], head_norm(m, l, &l->k_norm, part[1]));
	}
	for (int i = 0; i < 2; i++) {
		in[i] = !s->rope        ? hold(part[i])
			: s->fused_rope ? fused_rotary(m, part[i])
					: rotated(m, part[i], b->rotary);
	}
	/* Transformer Engine wants one layout for all three */
	if ((s->rope || s->qk_norm) && s->transformer_engine)
		let(m, &part[2], contiguous(m, part[2]));
	in[2] = hold(part[2]);
	for (int i = 0; i < 3; i++)
		drop(m, &part[i]);
}

static tensor attention(struct machine *m, struct mlayer *l, struct microbatch *b, tensor x)
{
	struct rank *r = l->chunk->rank;
	const struct shape *s = r->s;
	tensor in[4], out;

	if (s->latent.kv_rank)
		mla_project(m, l, x, in);
	else
		project(m, l, b, x, in);
	in[3] = b->mask;
	out = s->recompute_attention
		      ? checkpoint_reentrant(m, core_attention, &r, sizeof(struct rank *), in, 4)
		      : core_attention(m, &r, in);
	m->as = TERM_ATTN_OUT;
	let(m, &out, mlinear(m, r, out, l->proj, NULL, 0));
	let(m, &out, reduced(m, r, out));
	for (int i = 0; i < 3; i++)
		drop(m, &in[i]);
	return out;
}

/* bias_dropout_add: residual + dropout(x + bias) */
static tensor bias_dropout_add(struct machine *m, struct rank *r, tensor x, struct param *bias,
			       tensor residual)
{
	tensor sum, dropped, out;

	if (r->s->fused_dropout)
		return compiled_dropout_add(m, r, x, bias, residual);
	sum = bias ? add(m, x, bias->value) : hold(x);
	dropped = dropout(m, sum, r->s->hidden_dropout);
	out = add(m, residual, dropped);
	drop(m, &sum);
	drop(m, &dropped);
	return out;
}

static tensor mlp(struct machine *m, struct mlayer *l, tensor x)
{
	struct rank *r = l->chunk->rank;
	int64_t sizes[2];
	tensor h, part[2], out;
	int compiled;

	m->as = TERM_MLP_HIDDEN;
	h = mlinear(m, r, x, l->up, NULL, 1);
	compiled = r->s->gated ? r->s->fused_swiglu : r->s->fused_gelu && l->up_bias;
	if (l->up_bias && !compiled)
		let(m, &h, add(m, h, l->up_bias->value));
	if (compiled) {
		let(m, &h, compiled_activation(m, h, l->up_bias, r->s->gated));
	} else if (r->s->gated) {
		sizes[0] = sizes[1] = h.n / 2;
		split(m, h, part, sizes, 2);
		drop(m, &h);
		h = silu(m, part[0]);
		let(m, &part[1], shift(m, part[1]));
		let(m, &h, mul(m, h, part[1]));
		drop(m, &part[0]);
		drop(m, &part[1]);
	} else {
		let(m, &h, gelu(m, h));
	}
	m->as = TERM_MLP_OUT;
	out = mlinear(m, r, h, l->down, NULL, 0);
	drop(m, &h);
	let(m, &out, reduced(m, r, out));
	return out;
}

struct layer_call {
	struct mlayer *layer;
	struct microbatch *batch;
};

tensor layer_attention(struct machine *m, struct mlayer *l, struct microbatch *b, tensor input)
{
	struct rank *r = l->chunk->rank;
	tensor x, part, out;

	m->as = TERM_ATTN_NORM;
	x = normed(m, r, &l->before_attention, input);
	part = attention(m, l, b, x);
	drop(m, &x);
	m->as = TERM_ATTN_OUT;
	out = bias_dropout_add(m, r, part, l->proj_bias, input);
	drop(m, &part);
	return out;
}

/* Experts or none. context: the layer */
static tensor feed_forward(struct machine *m, void *context, const tensor *in)
{
	struct mlayer *l = *(struct mlayer **)context;

	return l->router ? moe_forward(m, l, in[0]) : mlp(m, l, in[0]);
}

tensor layer_mlp(struct machine *m, struct mlayer *l, tensor input)
{
	struct rank *r = l->chunk->rank;
	int again = l->router ? r->s->recompute_moe : r->s->recompute_mlp;
	tensor x, part, out;

	m->as = TERM_MLP_NORM;
	x = normed(m, r, &l->before_mlp, input);
	part = again ? checkpoint_reentrant(m, feed_forward, &l, sizeof(struct mlayer *), &x, 1)
		     : feed_forward(m, &l, &x);
	drop(m, &x);
	m->as = TERM_MLP_OUT;
	out = bias_dropout_add(m, r, part, l->router ? NULL : l->down_bias, input);
	drop(m, &part);
	return out;
}

tensor layer_forward(struct machine *m, struct mlayer *l, struct microbatch *b, tensor input)
{
	struct rank *r = l->chunk->rank;
	tensor out, in = graph_enter(m, l, GRAPH_ATTENTION, input);

	out = layer_attention(m, l, b, in);
	drop(m, &in);
	in = graph_enter(m, l, GRAPH_MLP, out);
	drop(m, &out);
	out = layer_mlp(m, l, in);
	drop(m, &in);
	m->in_graph = 0;
	while (r->mask_count)
		drop(m, &r->masks[--r->mask_count]);
	return out;
}

static tensor layer(struct machine *m, void *context, const tensor *in)
{
	struct layer_call *c = context;

	return layer_forward(m, c->layer, c->batch, in[0]);
}

/* scatter_to_sequence_parallel_region, and a clone of the part */
tensor scattered(struct machine *m, tensor x, int64_t t)
{
	struct node *n = record(m, gather_backward, &x, 1);

	if (n)
		n->sizes[0] = t;
	return result(make(m, x.n / t, x.type), n, 0);
}

tensor maybe_recomputed(struct machine *m, struct mlayer *l,
			tensor (*run)(struct machine *, void *, const tensor *), void *context,
			size_t size, const tensor *in, int count)
{
	tensor out;

	if (l->chunk->rank->s->recompute != RECOMPUTE_FULL)
		return run(m, context, in);
	out = checkpoint_reentrant(m, run, context, size, in, count);
	if (l->router && out.from)
		checkpoint_keepers(out, l->graph);
	return out;
}

tensor chunk_forward(struct machine *m, struct chunk *c, struct microbatch *b)
{
	struct layer_call call = { NULL, b };
	tensor x, out;

	x = c->first ? chunk_embed(m, c, b) : hold(b->input.value);
	for (int64_t i = 0; i < c->layer_count; i++) {
		call.layer = &c->layers[i];
		let(m, &x, maybe_recomputed(m, call.layer, layer, &call, sizeof(call), &x, 1));
	}
	m->as = TERM_FINAL_NORM;
	if (c->has_norm)
		let(m, &x, normed(m, c->rank, &c->norm, x));
	if (!c->last)
		return x;
	if (c->mtp_count)
		let(m, &x, mtp_forward(m, c, b, x));
	out = chunk_loss(m, c, x);
	drop(m, &b->logits);
	drop(m, &x);
	return out;
}
