/* megatron/core/models/bert: bert_model.py, bert_lm_head.py, pooler.py */
#include "megatron/bert.h"

#include "megatron/declare.h"
#include "megatron/tensor_parallel.h"

void bert_declare_types(struct model_chunk *c)
{
	if (c->rank->s->binary_head)
		c->token_types = declare_param(c, TERM_POSITIONS, 2, c->rank->s->hidden, 1);
}

/* torch.nn.Linear, which is made on the host */
static struct param *declare_dense(struct model_chunk *c, int64_t out, struct param **bias)
{
	struct param *weight = declare_param(c, TERM_HEAD, out, c->rank->s->hidden, 1);

	*bias = declare_param(c, TERM_HEAD, 1, out, 1);
	return weight;
}

void bert_declare_head(struct model_chunk *c)
{
	const struct hparams *s = c->rank->s;

	if (!s->is_bert)
		return;
	c->bert.dense = declare_dense(c, s->hidden, &c->bert.dense_bias);
	c->bert.norm.weight = declare_param(c, TERM_NORM_WEIGHTS, 1, s->hidden, 1);
	c->bert.norm.bias = declare_param(c, TERM_NORM_WEIGHTS, 1, s->hidden, 1);
}

void bert_declare_order(struct model_chunk *c)
{
	if (!c->rank->s->binary_head)
		return;
	c->bert.order = declare_dense(c, 2, &c->bert.order_bias);
	c->bert.pooler = declare_dense(c, c->rank->s->hidden, &c->bert.pooler_bias);
}

tensor bert_head(struct machine *m, struct model_chunk *c, tensor x)
{
	struct bert_head *h = &c->bert;
	tensor out;

	if (!h->dense)
		return tensor_ref(x);
	out = linear(m, x, h->dense, h->dense_bias);
	tensor_assign(m, &out, gelu(m, out));
	tensor_assign(m, &out,
		      layer_norm(m, out, h->norm.weight, h->norm.bias, c->rank->s->hidden));
	return out;
}

tensor bert_order(struct machine *m, struct model_chunk *c, tensor x)
{
	const struct hparams *s = c->rank->s;
	struct bert_head *h = &c->bert;
	tensor first, out;

	if (!h->order)
		return none;
	first = slice(m, x, s->batch * s->hidden);
	out = linear_rows(m, first, h->pooler, h->pooler_bias);
	/* torch.tanh keeps its result, as relu does */
	tensor_assign(m, &out, relu(m, out));
	tensor_assign(m, &out, linear_rows(m, out, h->order, h->order_bias));
	tensor_unref(m, &first);
	return out;
}

/* broadcast_data() has text, types, labels, is_random, loss_mask and padding_mask in one tensor. */
void bert_batch(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct megatron_rank *r = c->rank;
	tensor all = tensor_new_as(m, TERM_INPUTS, 5 * r->rows + r->s->batch, I64);

	b->tokens = tensor_part(all, r->rows);
	b->token_types = tensor_part(all, r->rows);
	b->labels = tensor_part(all, r->rows);
	b->order = tensor_part(all, r->s->batch);
	b->weights = tensor_new_as(m, TERM_INPUTS, r->rows, F32);
	tensor_unref(m, &all);
	b->mask = tensor_new_as(m, TERM_INPUTS,
				r->rows * (r->s->transformer_engine ? 1 : r->s->tokens), BOOL);
	if (c->first)
		b->positions = tensor_new_as(m, TERM_INPUTS, r->s->tokens, I64);
}
