/* GPTNeoXForCausalLM with parallel residuals. Variables live as long as those of its functions. */
#include "families/plain_codes.h"

#include "families/llama_tables.h"
#include "families/plain_modules.h"
#include "torch/autocast.h"

#include "util/util.h"

/* GPTNeoXAttention.forward. The projection becomes heads before it is split, so that its gradient
 * is copied back. */
static tensor attention(struct machine *m, struct plain_layer *l, tensor x, tensor *weights)
{
	struct plain *g = l->model;
	const int64_t sizes[3] = { x.n, x.n, x.n };
	tensor qkv, part[3], out;

	m->current_term = TERM_ATTN_QKV;
	qkv = linear(m, x, l->qkv.weight, l->qkv.bias);
	tensor_assign(m, &qkv, copied_back(m, qkv));
	split(m, qkv, part, sizes, 3);
	out = plain_rotary_attention(m, g, part, weights);
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, linear(m, out, l->out.weight, l->out.bias));
	tensor_unref(m, &qkv);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	return out;
}

/* GPTNeoXLayer.forward: (mlp + attention) + input */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	const double p = l->model->s->hidden_dropout;
	tensor x, part, fed, out, weights = none;

	m->current_term = TERM_ATTN_NORM;
	x = plain_normed(m, l->model, &l->norm[0], input);
	part = attention(m, l, x, &weights);
	tensor_unref(m, &x);
	tensor_assign(m, &part, dropout(m, part, p));
	m->current_term = TERM_MLP_NORM;
	x = plain_normed(m, l->model, &l->norm[1], input);
	fed = plain_mlp(m, l, x, linear);
	tensor_unref(m, &x);
	tensor_assign(m, &fed, dropout(m, fed, p));
	x = add(m, fed, part);
	out = add(m, x, input);
	tensor_unref(m, &x);
	tensor_unref(m, &part);
	tensor_unref(m, &weights);
	tensor_unref(m, &fed);
	return out;
}

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	tensor tokens = plain_rotary_embedded(m, g);

	return plain_rotary_output(m, g, block, tokens, dropout(m, tokens, g->s->hidden_dropout),
				   logits);
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l)
{
	const int64_t h = g->s->hidden, f = g->s->ffn;

	l->norm[0] = plain_norm(m, g);
	l->norm[1] = plain_norm(m, g);
	l->qkv = plain_dense(m, g, 3 * h, h, TERM_ATTENTION_WEIGHTS);
	l->out = plain_dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->up = plain_dense(m, g, f, h, TERM_MLP_WEIGHTS);
	l->down = plain_dense(m, g, h, f, TERM_MLP_WEIGHTS);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;

	plain_rotary_make(m, g, make_layer);
	g->head = s->untied ? plain_weight(m, g, s->vocab, s->hidden, TERM_HEAD) : g->tokens;
}

static void check(const struct hparams *s, struct inputs *in)
{
	if (!s->linear_bias)
		input_reject(in, CONFIG_add_bias_linear, "true: not modelled yet without");
	if (!s->rope)
		input_reject(in, CONFIG_position_embedding_type, "rope with GPT-NeoX");
}

const struct plain_code plain_neox = { make, forward, plain_release, check, 0, 0, 0, 0 };
