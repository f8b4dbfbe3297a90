/* Attention of models whose heads turn in part: GPT-NeoX and Phi. */
#include "families/plain_modules.h"
#include "torch/autocast.h"

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
static tensor eager(struct machine *m, struct plain *g, const tensor *in, tensor *weights)
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

static tensor kernel(struct machine *m, struct plain *g, const tensor *in)
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
	return g->s->attention == EAGER ? eager(m, g, in, weights) : kernel(m, g, in);
}
