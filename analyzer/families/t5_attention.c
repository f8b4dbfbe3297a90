#include "families/t5_attention.h"

#include "families/plain_modules.h"
#include "torch/autocast.h"

/* ---- the bias ---- */

/* The logarithmic buckets of far positions: x.float() / a, log, / b, * c; .to(long), a + x, and the
 * smaller of this and the last bucket. */
static tensor far_buckets(struct machine *m, int64_t n)
{
	tensor x = tensor_new(m, n, F32), last;

	for (int i = 0; i < 4; i++)
		tensor_assign(m, &x, tensor_new(m, n, F32));
	for (int i = 0; i < 2; i++)
		tensor_assign(m, &x, tensor_new(m, n, I64));
	last = tensor_new(m, n, I64);
	tensor_assign(m, &x, tensor_new(m, n, I64));
	tensor_unref(m, &last);
	return x;
}

/* _relative_position_bucket of n pairs of positions */
static tensor buckets_of(struct machine *m, int64_t n, int is_decoder)
{
	tensor buckets = none, distance, is_near, far, chosen;

	if (is_decoder) { /* -min(x, zeros) */
		tensor zeros = tensor_new(m, n, I64);

		distance = tensor_new(m, n, I64);
		tensor_unref(m, &zeros);
		tensor_assign(m, &distance, tensor_new(m, n, I64));
	} else { /* 0 + (x > 0).to(long) * half of the buckets; abs(x) */
		buckets = tensor_new(m, n, BOOL);
		for (int i = 0; i < 3; i++)
			tensor_assign(m, &buckets, tensor_new(m, n, I64));
		distance = tensor_new(m, n, I64);
	}
	is_near = tensor_new(m, n, BOOL);
	far = far_buckets(m, n);
	chosen = tensor_new(m, n, I64); /* where(is_small, ...), which is added */
	if (is_decoder)
		buckets = tensor_new(m, n, I64);
	tensor_unref(m, &chosen);
	tensor_unref(m, &distance);
	tensor_unref(m, &is_near);
	tensor_unref(m, &far);
	return buckets;
}

/* compute_bias */
static tensor relative_bias(struct machine *m, struct plain_layer *l, int64_t queries, int64_t keys,
			    int is_decoder)
{
	tensor first = tensor_new(m, queries, I64), second, pairs, buckets, out;

	tensor_assign(m, &first, tensor_new(m, queries, I64));
	second = tensor_new(m, keys, I64);
	pairs = tensor_new(m, queries * keys, I64);
	buckets = buckets_of(m, pairs.n, is_decoder);
	out = embedding_permuted(m, buckets, l->buckets, l->model->s->heads);
	tensor_unref(m, &first);
	tensor_unref(m, &second);
	tensor_unref(m, &pairs);
	tensor_unref(m, &buckets);
	return out;
}

/* The bias of a layer that attends to the encoder is zero. It gets a gradient if layers are
 * recomputed. */
static tensor zero_bias(struct machine *m, struct plain *g, int64_t n, enum dtype type)
{
	tensor out = tensor_new(m, n, type);

	if (g->s->recompute != RECOMPUTE_FULL)
		return out;
	if (!m->replaying) {
		g->zeros.value = tensor_ref(out);
		param_init(&g->zeros);
	}
	out.grad_fn = &g->zeros.accumulate;
	return out;
}

/* create_position_bias_mask. The bias of relative positions is a view with the heads last, and is
 * copied. */
static tensor mask_of(struct machine *m, const struct t5_call *call, int64_t queries, int64_t keys,
		      int is_zero)
{
	tensor first, second, causal, mask, out;

	if (is_zero)
		return tensor_ref(call->bias);
	if (!call->causal)
		return contiguous(m, call->bias);
	first = tensor_new(m, queries, I64);
	second = tensor_new(m, keys, I64);
	causal = tensor_new(m, queries * keys, BOOL);
	tensor_unref(m, &first);
	tensor_unref(m, &second);
	mask = where(m, causal, call->bias);
	out = contiguous(m, mask);
	tensor_unref(m, &causal);
	tensor_unref(m, &mask);
	return out;
}

/* ---- attention ---- */

static tensor kernel(struct machine *m, struct plain_layer *l, const tensor *in,
		     struct t5_call *call, int is_zero)
{
	const struct hparams *s = l->model->s;
	const int64_t width = s->batch * s->heads * s->head;
	const struct flash_shape shape = { s->batch, s->heads, in[0].n / width, s->head,
					   s->attention_dropout };
	tensor mask, out;

	m->current_term = TERM_ATTN_SOFTMAX;
	mask = mask_of(m, call, shape.queries, in[1].n / width, is_zero);
	out = biased_attention(m, in[0], in[1], in[2], mask, &shape);
	tensor_unref(m, &mask);
	return out;
}

tensor t5_attention(struct machine *m, struct plain_layer *l, tensor x, struct t5_call *call)
{
	struct plain *g = l->model;
	const struct hparams *s = g->s;
	const int is_zero = call->parts == l->cross;
	int64_t queries, keys;
	tensor part[3], out;

	m->current_term = TERM_ATTN_QKV;
	for (int i = 0; i < 3; i++) {
		part[i] = linear(m, i ? call->source : x, call->parts[i].weight, NULL);
		/* as BERT's */
		if (s->attention == EAGER && (i != 1 || s->batch > 1))
			tensor_assign(m, &part[i], copied_back(m, part[i]));
	}
	queries = part[0].n / (s->batch * s->heads * s->head);
	keys = part[1].n / (s->batch * s->heads * s->head);
	m->current_term = TERM_ATTN_SOFTMAX;
	if (!call->bias.storage)
		call->bias = is_zero ? zero_bias(m, g, s->heads * queries * keys, part[0].type)
				     : relative_bias(m, l, queries, keys, call->causal);
	out = s->attention == EAGER
		      ? plain_eager(m, g, part, call->bias, call->mask, &call->weights)
		      : kernel(m, l, part, call, is_zero);
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, linear(m, out, call->out->weight, NULL));
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	return out;
}
