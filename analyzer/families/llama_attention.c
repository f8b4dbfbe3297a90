/* The attention of transformers' decoders: rotary positions, grouped heads, eager or by a kernel.
 */
#include "families/llama_attention.h"

#include "families/norms.h"
#include "torch/autocast.h"
#include "torch/module.h"
#include "torch/ops.h"

/* (x * cos) + (rotate_half(x) * sin) */
static tensor turned(struct machine *m, const struct rotary_table *table, tensor x)
{
	tensor a, b, first, second;

	a = mul(m, x, table->cos);
	first = slice(m, x, x.n / 2);
	second = slice(m, x, x.n / 2);
	tensor_assign(m, &second, scale(m, second));
	b = cat(m, second, first);
	tensor_unref(m, &second);
	tensor_unref(m, &first);
	first = mul(m, b, table->sin);
	tensor_unref(m, &b);
	b = add(m, a, first);
	tensor_unref(m, &a);
	tensor_unref(m, &first);
	return b;
}

/* With a partial rotation the heads are put together again, even if all of them turn. */
static tensor rotated(struct machine *m, const struct llama_layer *l,
		      const struct rotary_table *table, tensor x)
{
	int64_t n = x.n / l->model->s->head * l->model->rotary;
	tensor part, rest, out;

	if (!l->model->row->partial)
		return turned(m, table, x);
	part = n == x.n ? tensor_ref(x) : slice(m, x, n);
	rest = slice(m, x, x.n - n);
	out = turned(m, table, part);
	tensor_assign(m, &out, cat(m, out, rest));
	tensor_unref(m, &rest);
	tensor_unref(m, &part);
	return out;
}

/* The tables of a layer: those of all layers, or with neighbours that turn together half of each,
 * every number twice. */
static struct rotary_table tables_of(struct machine *m, const struct llama_layer *l)
{
	const struct llama *g = l->model;
	const struct rotary_table *all = &g->rope[l->sliding];

	if (!g->row->interleaved)
		return (struct rotary_table){ tensor_ref(all->cos), tensor_ref(all->sin) };
	m->current_term = TERM_ROPE;
	return (struct rotary_table){ tensor_new(m, all->cos.n, all->cos.type),
				      tensor_new(m, all->sin.n, all->sin.type) };
}

/* repeat_kv: a single key/value head is expanded without a copy. */
static tensor repeated(struct machine *m, struct llama *g, tensor x)
{
	const struct hparams *s = g->s;
	int64_t n = x.n / s->groups * s->heads;

	if (s->groups == s->heads)
		return tensor_ref(x);
	return s->groups == 1 ? slice(m, x, n) : repeat(m, x, n);
}

/* Are repeated heads contiguous? A single head and a batch of one need no copy. */
static int are_repeated(const struct hparams *s)
{
	return s->groups != s->heads && (s->groups > 1 || s->batch == 1);
}

/* The operand of torch.matmul: cast into *cast, and copied if its heads are not contiguous. */
static tensor operand(struct machine *m, tensor x, int is_contiguous, tensor *cast)
{
	*cast = autocasted(m, x);
	return is_contiguous ? tensor_ref(*cast) : contiguous(m, *cast);
}

/* eager_attention_forward. *weights are the attention's weights, the caller's. */
static tensor eager(struct machine *m, struct llama *g, tensor q, tensor k, tensor v,
		    tensor *weights)
{
	const struct hparams *s = g->s;
	tensor keys, values, a, b, out, cast[2];

	m->current_term = TERM_ATTN_QKV;
	keys = repeated(m, g, k);
	values = repeated(m, g, v);
	a = operand(m, q, g->row->partial, &cast[0]);
	b = operand(m, keys, are_repeated(s) || (g->row->partial && s->groups == s->heads),
		    &cast[1]);
	m->current_term = TERM_ATTN_SCORES;
	out = matmul(m, a, b, s->batch * s->heads * s->tokens * s->tokens);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	tensor_unref(m, &cast[1]);
	tensor_unref(m, &cast[0]);
	a = scale(m, out);
	tensor_unref(m, &out);
	if (g->row->capped)
		tensor_assign(m, &a, capped(m, a));
	tensor_assign(m, &a, add(m, a, g->mask));
	m->current_term = TERM_ATTN_SOFTMAX;
	b = softmax(m, a, F32);
	out = to(m, b, q.type);
	tensor_unref(m, &b);
	tensor_assign(m, &a, out);
	tensor_assign(m, &a, dropout(m, a, s->attention_dropout));
	b = autocasted(m, a);
	m->current_term = TERM_ATTN_QKV;
	tensor_assign(m, weights, a);
	a = operand(m, values, are_repeated(s), &cast[0]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, b, a, q.n);
	tensor_unref(m, &a);
	tensor_unref(m, &cast[0]);
	tensor_unref(m, &b);
	tensor_assign(m, &out, copied_back(m, out));
	tensor_assign(m, &out, contiguous(m, out));
	tensor_unref(m, &keys);
	tensor_unref(m, &values);
	return out;
}

/* The layer's mask; without storage if the kernel's own causal mask is enough. */
static tensor mask_of(const struct llama_layer *l)
{
	return l->sliding ? l->model->sliding : l->model->mask;
}

static tensor sdpa(struct machine *m, struct llama_layer *l, tensor q, tensor k, tensor v)
{
	struct llama *g = l->model;
	const struct hparams *s = g->s;
	const int masked = mask_of(l).storage != NULL;
	const struct flash_shape flash = { s->batch, s->heads, s->tokens, s->head,
					   s->attention_dropout };
	tensor keys, values, in[3], out;

	m->current_term = TERM_ATTN_QKV;
	/* use_gqa_in_sdpa: without a mask the kernel itself shares the heads */
	keys = masked ? repeated(m, g, k) : tensor_ref(k);
	values = masked ? repeated(m, g, v) : tensor_ref(v);
	in[2] = autocasted(m, values);
	in[1] = autocasted(m, keys);
	in[0] = autocasted(m, q);
	m->current_term = TERM_ATTN_CONTEXT;
	out = masked ? masked_attention(m, in[0], in[1], in[2], &flash)
		     : flash_attention(m, in[0], in[1], in[2], &flash);
	/* the kernels' result has the layout of the queries */
	if (g->row->partial)
		tensor_assign(m, &out, contiguous(m, out));
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &in[i]);
	tensor_unref(m, &keys);
	tensor_unref(m, &values);
	return out;
}

/* One projection of x, or its part of the fused one. */
static tensor projected(struct machine *m, struct llama_layer *l, tensor x, tensor all, int i)
{
	const struct hparams *s = l->model->s;
	struct param *weights[3] = { l->q, l->k, l->v };

	return l->model->row->fused_qkv
		       ? slice(m, all, x.n / s->hidden * (i ? s->groups : s->heads) * s->head)
		       : linear(m, x, weights[i], l->bias[i]);
}

/* Queries, keys and values as heads, with their norms. The views are not contiguous, so that their
 * gradients are copied; the values' view is the caller's. */
static void project(struct machine *m, struct llama_layer *l, tensor x, tensor *out)
{
	const struct decoder *row = l->model->row;
	struct param *norms[2] = { l->q_norm, l->k_norm };
	const int64_t width = l->model->s->head;
	tensor all = row->fused_qkv ? linear(m, x, l->q, l->bias[0]) : none;

	for (int i = 0; i < 3; i++) {
		out[i] = projected(m, l, x, all, i);
		if (i < 2 && row->qk_norm == QK_WHOLE)
			tensor_assign(m, &out[i],
				      normed(m, row, norms[i], out[i], norms[i]->value.n));
		if (i < 2 && !row->late_views)
			tensor_assign(m, &out[i], copied_back(m, out[i]));
		if (i < 2 && row->qk_norm == QK_AT_ONCE)
			tensor_assign(m, &out[i], normed(m, row, norms[i], out[i], width));
	}
	tensor_unref(m, &all);
	for (int i = 0; i < 2; i++) {
		if (row->late_views)
			tensor_assign(m, &out[i], copied_back(m, out[i]));
		if (row->qk_norm == QK_AFTER_ALL)
			tensor_assign(m, &out[i], normed(m, row, norms[i], out[i], width));
	}
}

tensor llama_attention(struct machine *m, struct llama_layer *l, tensor x, tensor *weights)
{
	struct llama *g = l->model;
	struct rotary_table table;
	tensor part[3], q, k, v, out, now;

	x = module_enter(m, NULL, NULL, x);
	m->current_term = TERM_ATTN_QKV;
	project(m, l, x, part);
	q = part[0], k = part[1], v = part[2];
	/* the gradient of the fused kernels has the layout of the projection */
	if (g->s->attention == EAGER || (mask_of(l).storage && g->s->groups != g->s->heads))
		tensor_assign(m, &v, copied_back(m, v));
	table = tables_of(m, l);
	m->current_term = TERM_ATTN_QKV;
	now = rotated(m, l, &table, q);
	out = rotated(m, l, &table, k);
	tensor_unref(m, &table.cos);
	tensor_unref(m, &table.sin);
	tensor_assign(m, &q, now);
	tensor_assign(m, &k, out);
	out = g->s->attention == EAGER ? eager(m, g, q, k, v, weights) : sdpa(m, l, q, k, v);
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, linear(m, out, l->o, NULL));
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	tensor_unref(m, &q);
	tensor_unref(m, &k);
	tensor_unref(m, &v);
	return out;
}
