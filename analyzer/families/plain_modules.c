#include "families/plain_modules.h"

#include "families/llama_tables.h"
#include "families/train.h"
#include "torch/autocast.h"

struct param *plain_weight(struct machine *m, struct plain *g, int64_t out, int64_t in,
			   enum term_id term)
{
	return module_add(m, &g->w.module, out, in, g->s->weights, term);
}

struct pair plain_pair(struct machine *m, struct plain *g, int64_t out, int64_t in, int64_t bias,
		       enum term_id term)
{
	struct pair p = { plain_weight(m, g, out, in, term), NULL };

	if (bias)
		p.bias = plain_weight(m, g, 1, bias, term);
	return p;
}

void plain_make_layers(struct machine *m, struct plain *g,
		       void (*make_layer)(struct machine *m, struct plain *g,
					  struct plain_layer *l))
{
	const int64_t n = g->s->layers;

	for (int64_t i = 0; i < n; i++) {
		g->w.first[i] = g->w.module.count;
		make_layer(m, g, &g->layers[i]);
	}
	g->w.first[n] = g->w.module.count;
}

struct pair plain_dense(struct machine *m, struct plain *g, int64_t out, int64_t in,
			enum term_id term)
{
	return plain_pair(m, g, out, in, out, term);
}

struct pair plain_norm(struct machine *m, struct plain *g)
{
	return plain_pair(m, g, 1, g->s->hidden, g->s->hidden, TERM_NORM_WEIGHTS);
}

tensor plain_normed(struct machine *m, struct plain *g, const struct pair *norm, tensor x)
{
	return layer_norm(m, x, norm->weight, norm->bias, g->s->hidden);
}

/* activations.py, NewGELUActivation: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
 * Autocast runs pow in fp32 (autocast_mode.h), so that everything after it is in fp32 too; the
 * first half, 0.5 * x, has x's type. Saved: x in the type of pow, the tangent, and both factors. */
static tensor gelu_new(struct machine *m, tensor x)
{
	tensor half = scale(m, x), precise = m->autocast ? to(m, x, F32) : tensor_ref(x), t, out;

	t = power(m, precise);
	tensor_unref(m, &precise);
	tensor_assign(m, &t, scale(m, t));
	tensor_assign(m, &t, add(m, x, t));
	tensor_assign(m, &t, scale(m, t));
	tensor_assign(m, &t, sigmoid(m, t)); /* tanh saves its result, as sigmoid does */
	tensor_assign(m, &t, shift(m, t));
	out = mul(m, half, t);
	tensor_unref(m, &half);
	tensor_unref(m, &t);
	return out;
}

tensor plain_activated(struct machine *m, const struct plain *g, tensor x)
{
	return g->activation == ACTIVATION_GELU_NEW ? gelu_new(m, x)
	       : g->activation == ACTIVATION_RELU   ? relu(m, x)
						    : gelu(m, x);
}

tensor plain_mlp(struct machine *m, struct plain_layer *l, tensor x,
		 tensor (*project)(struct machine *m, tensor x, struct param *weight,
				   struct param *bias))
{
	tensor h, out;

	m->current_term = TERM_MLP_HIDDEN;
	h = project(m, x, l->up.weight, l->up.bias);
	tensor_assign(m, &h, plain_activated(m, l->model, h));
	m->current_term = TERM_MLP_OUT;
	out = project(m, h, l->down.weight, l->down.bias);
	tensor_unref(m, &h);
	return out;
}

void plain_dropout_add(struct machine *m, tensor *x, tensor residual, double p)
{
	tensor dropped = dropout(m, *x, p), out = add(m, residual, dropped);

	tensor_unref(m, &dropped);
	tensor_assign(m, x, out);
}

tensor plain_factor(struct machine *m, const struct hparams *s, tensor heads)
{
	return s->batch > 1 ? contiguous(m, heads) : tensor_ref(heads);
}

tensor plain_merged(struct machine *m, const struct hparams *s, tensor x)
{
	tensor in = s->batch > 1 ? copied_back(m, x) : tensor_ref(x), out;

	out = contiguous(m, in);
	tensor_unref(m, &in);
	return out;
}

tensor plain_eager(struct machine *m, struct plain *g, const tensor *in, tensor bias, tensor mask,
		   tensor *weights)
{
	const struct hparams *s = g->s;
	const int64_t keys = in[1].n / (s->batch * s->heads * s->head);
	tensor a, b, out;

	m->current_term = TERM_ATTN_QKV;
	a = plain_factor(m, s, in[0]);
	b = plain_factor(m, s, in[1]);
	m->current_term = TERM_ATTN_SCORES;
	out = matmul(m, a, b, in[0].n / s->head * keys);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	a = scale(m, out);
	tensor_unref(m, &out);
	if (bias.storage)
		tensor_assign(m, &a, add(m, a, bias));
	if (mask.storage)
		tensor_assign(m, &a, add(m, a, mask));
	m->current_term = TERM_ATTN_SOFTMAX;
	b = softmax(m, a, m->autocast || g->code->precise ? F32 : a.type);
	out = g->code->precise ? to(m, b, in[0].type) : tensor_ref(b);
	tensor_unref(m, &b);
	tensor_assign(m, &a, out);
	tensor_assign(m, &a, dropout(m, a, s->attention_dropout));
	*weights = tensor_ref(a);
	tensor_assign(m, &a, autocasted(m, a));
	m->current_term = TERM_ATTN_QKV;
	b = plain_factor(m, s, in[2]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, a, b, in[0].n);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	tensor_assign(m, &out, plain_merged(m, s, out));
	return out;
}

tensor plain_attention(struct machine *m, struct plain_layer *l, tensor x, const struct pair *last,
		       tensor *weights)
{
	struct plain *g = l->model;
	const struct hparams *s = g->s;
	const struct flash_shape flash = { s->batch, s->heads, s->tokens, s->head,
					   s->attention_dropout };
	tensor part[3], out;

	m->current_term = TERM_ATTN_QKV;
	for (int i = 0; i < 3; i++) {
		part[i] = linear(m, x, l->parts[i].weight, l->parts[i].bias);
		/* The gradient of a kernel has the layout of the projection. That of the keys of a
		 * single sequence is transposed, and so a view. */
		if (s->attention == EAGER && (i != 1 || s->batch > 1))
			tensor_assign(m, &part[i], copied_back(m, part[i]));
	}
	m->current_term = TERM_ATTN_CONTEXT;
	out = s->attention == EAGER ? plain_eager(m, g, part, none, none, weights)
				    : flash_attention(m, part[0], part[1], part[2], &flash);
	if (last) {
		m->current_term = TERM_ATTN_OUT;
		tensor_assign(m, &out, linear(m, out, last->weight, last->bias));
	}
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	return out;
}

tensor plain_turned(struct machine *m, struct plain *g, tensor x)
{
	tensor a, b, first, second;

	a = mul(m, x, g->cos);
	first = slice(m, x, x.n / 2);
	second = slice(m, x, x.n / 2);
	tensor_assign(m, &second, scale(m, second));
	b = cat(m, second, first);
	tensor_unref(m, &second);
	tensor_unref(m, &first);
	first = mul(m, b, g->sin);
	tensor_unref(m, &b);
	b = add(m, a, first);
	tensor_unref(m, &a);
	tensor_unref(m, &first);
	return b;
}

int64_t plain_classes(const struct hparams *s)
{
	return VALUE_OR(s->config, num_labels, 0);
}

static tensor images_of(struct machine *m, const struct hparams *s)
{
	return tensor_new_as(m, TERM_INPUTS,
			     s->batch * s->image.channels * s->image.side * s->image.side, F32);
}

void plain_batch(struct machine *m, const struct hparams *s, struct loop *loop)
{
	tensor old = loop->tokens, labels = none;

	/* both are made before the batch before is dropped */
	tensor_ref(old);
	if (s->image.patch)
		tensor_assign(m, &loop->tokens, images_of(m, s));
	else
		text_batch(m, s, loop);
	if (s->encoder_layers)
		labels = GIVEN(s->config, decoder_seq_length)
				 ? tensor_new_as(m, TERM_INPUTS, s->batch * s->tokens, I64)
				 : tensor_ref(loop->tokens);
	else if (plain_classes(s))
		labels = tensor_new_as(m, TERM_INPUTS, s->batch, I64);
	tensor_unref(m, &old);
	tensor_assign(m, &loop->labels, labels);
}

tensor plain_loss(struct machine *m, tensor logits, tensor targets)
{
	m->phase = LOSS;
	m->current_term = TERM_LOSS;
	return cross_entropy(m, logits, targets);
}

void plain_place(struct machine *m, struct plain *g)
{
	tensor first = tensor_new(m, g->s->tokens, I64);

	tensor_assign(m, &g->places, tensor_new(m, g->s->tokens, I64));
	tensor_unref(m, &first);
}

tensor plain_layers(struct machine *m, struct plain *g,
		    tensor (*block)(struct machine *m, void *context, tensor input), tensor x)
{
	for (int64_t i = 0; i < g->s->layers; i++) {
		tensor out = train_layer(m, &g->w, i, block, &g->layers[i], x);

		tensor_assign(m, &g->held, g->given);
		g->given = none;
		tensor_assign(m, &x, out);
	}
	return x;
}

void plain_release(struct machine *m, void *model)
{
	struct plain *g = model;

	tensor_unref(m, &g->places);
	tensor_unref(m, &g->mask);
	tensor_unref(m, &g->cos);
	tensor_unref(m, &g->sin);
	tensor_unref(m, &g->alibi);
}

tensor plain_output(struct machine *m, struct plain *g, tensor x, tensor *logits)
{
	tensor loss;

	m->current_term = TERM_LOGITS;
	*logits = linear(m, x, g->head, g->head_bias);
	loss = causal_loss(m, g->s, *logits, g->loop.tokens);
	tensor_unref(m, &x);
	return loss;
}

void plain_give(struct machine *m, struct plain *g, tensor t)
{
	if (m->replaying)
		tensor_unref(m, &t);
	else
		g->given = t;
}

/* ---- heads that turn in part: GPT-NeoX and Phi ---- */

/* apply_rotary_pos_emb: the first part of each head turns. Both are replaced. */
static void rotate(struct machine *m, struct plain *g, tensor *x)
{
	tensor part[2], rest[2], now[2];

	for (int i = 0; i < 2; i++) {
		int64_t n = x[i].n / g->s->head * g->rotary;

		part[i] = n == x[i].n ? tensor_ref(x[i]) : slice(m, x[i], n);
		rest[i] = slice(m, x[i], x[i].n - n);
	}
	for (int i = 0; i < 2; i++)
		now[i] = plain_turned(m, g, part[i]);
	for (int i = 0; i < 2; i++)
		tensor_assign(m, &now[i], cat(m, now[i], rest[i]));
	for (int i = 0; i < 2; i++) {
		tensor_unref(m, &part[i]);
		tensor_unref(m, &rest[i]);
		tensor_assign(m, &x[i], now[i]);
	}
}

/* eager_attention_forward: softmax(q k^T * scaling + mask) in fp32, its result in q's type. The
 * values alone are a view of the projection. *weights are the caller's. */
static tensor rotary_eager(struct machine *m, struct plain *g, const tensor *in, tensor *weights)
{
	const struct hparams *s = g->s;
	tensor a, b, out;

	m->current_term = TERM_ATTN_QKV;
	b = autocasted(m, in[1]);
	a = autocasted(m, in[0]);
	m->current_term = TERM_ATTN_SCORES;
	out = matmul(m, a, b, s->batch * s->heads * s->tokens * s->tokens);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	a = scale(m, out);
	tensor_unref(m, &out);
	tensor_assign(m, &a, add(m, a, g->mask));
	m->current_term = TERM_ATTN_SOFTMAX;
	b = softmax(m, a, F32);
	out = to(m, b, in[0].type);
	tensor_unref(m, &b);
	tensor_assign(m, &a, out);
	tensor_assign(m, &a, dropout(m, a, s->attention_dropout));
	*weights = a;
	b = autocasted(m, a);
	m->current_term = TERM_ATTN_QKV;
	a = plain_factor(m, s, in[2]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, b, a, in[2].n);
	tensor_unref(m, &a);
	tensor_unref(m, &b);
	tensor_assign(m, &out, plain_merged(m, s, out));
	return out;
}

static tensor rotary_kernel(struct machine *m, struct plain *g, const tensor *in)
{
	const struct hparams *s = g->s;
	const struct flash_shape flash = { s->batch, s->heads, s->tokens, s->head,
					   s->attention_dropout };
	tensor cast[3], out;

	m->current_term = TERM_ATTN_QKV;
	for (int i = 2; i >= 0; i--)
		cast[i] = autocasted(m, in[i]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = flash_attention(m, cast[0], cast[1], cast[2], &flash);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &cast[i]);
	/* The result has the layout of the queries; that of the memory-efficient kernel, which fp32
	 * has, is b x s x a x d. */
	if (out.type != F32)
		tensor_assign(m, &out, contiguous(m, out));
	return out;
}

tensor plain_rotary_attention(struct machine *m, struct plain *g, tensor *in, tensor *weights)
{
	rotate(m, g, in);
	return g->s->attention == EAGER ? rotary_eager(m, g, in, weights) : rotary_kernel(m, g, in);
}

tensor plain_rotary_embedded(struct machine *m, struct plain *g)
{
	tensor tokens;

	m->current_term = TERM_EMBEDDED;
	tokens = embedding(m, g->loop.tokens, g->tokens, g->s->hidden);
	plain_place(m, g);
	if (g->s->attention == EAGER)
		g->mask = causal_mask(m, g->s, tokens);
	return tokens;
}

tensor plain_rotary_output(struct machine *m, struct plain *g,
			   tensor (*block)(struct machine *m, void *context, tensor input),
			   tensor embedded, tensor x, tensor *logits)
{
	rotary_tables(m, g->s->tokens * g->rotary, x, &g->cos, &g->sin);
	x = plain_layers(m, g, block, x);
	m->current_term = TERM_FINAL_NORM;
	tensor_assign(m, &x, plain_normed(m, g, &g->last, x));
	tensor_unref(m, &embedded);
	if (g->s->recompute != RECOMPUTE_FULL)
		plain_release(m, g);
	return plain_output(m, g, x, logits);
}

void plain_rotary_make(struct machine *m, struct plain *g,
		       void (*make_layer)(struct machine *m, struct plain *g,
					  struct plain_layer *l))
{
	g->tokens = plain_weight(m, g, g->s->vocab, g->s->hidden, TERM_EMBEDDING);
	plain_make_layers(m, g, make_layer);
	g->last = plain_norm(m, g);
	for (int i = 0; i < 2; i++) /* inv_freq, original_inv_freq */
		g->frequencies[i] = tensor_new_as(m, TERM_BUFFERS, g->rotary / 2, F32);
}
