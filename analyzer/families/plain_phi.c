/* PhiForCausalLM: attention and feed-forward network get the same input. */
#include "families/plain_codes.h"

#include "families/llama_tables.h"
#include "families/plain_modules.h"

/* PhiAttention.forward: heads are views, so that their gradients are copied. */
static tensor attention(struct machine *m, struct plain_layer *l, tensor x, tensor *weights)
{
	const struct hparams *s = l->model->s;
	tensor part[3], out;

	m->current_term = TERM_ATTN_QKV;
	for (int i = 0; i < 3; i++) {
		part[i] = linear(m, x, l->parts[i].weight, l->parts[i].bias);
		if (i < 2 || s->attention == EAGER)
			tensor_assign(m, &part[i], copied_back(m, part[i]));
	}
	out = plain_rotary_attention(m, l->model, part, weights);
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, linear(m, out, l->out.weight, l->out.bias));
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	return out;
}

/* PhiDecoderLayer.forward: (attention + mlp) + input */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	const double p = l->model->s->hidden_dropout;
	tensor x, part, fed, sum, out, weights = none;

	m->current_term = TERM_ATTN_NORM;
	x = plain_normed(m, l->model, &l->norm[0], input);
	part = attention(m, l, x, &weights);
	tensor_assign(m, &part, dropout(m, part, p));
	fed = plain_mlp(m, l, x, linear);
	tensor_assign(m, &fed, dropout(m, fed, p));
	sum = add(m, part, fed);
	out = add(m, sum, input);
	tensor_unref(m, &sum);
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

	tensor_assign(m, &tokens, dropout(m, tokens, g->embedding_dropout));
	return plain_rotary_output(m, g, block, tokens, tensor_ref(tokens), logits);
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l)
{
	const int64_t h = g->s->hidden, f = g->s->ffn;

	for (int i = 0; i < 3; i++)
		l->parts[i] = plain_dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->out = plain_dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->up = plain_dense(m, g, f, h, TERM_MLP_WEIGHTS);
	l->down = plain_dense(m, g, h, f, TERM_MLP_WEIGHTS);
	l->norm[0] = plain_norm(m, g);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;
	struct pair head;

	plain_rotary_make(m, g, make_layer);
	head = plain_dense(m, g, s->vocab, s->hidden, TERM_HEAD);
	g->head = head.weight;
	g->head_bias = head.bias;
}

static void check(const struct hparams *s, struct inputs *in)
{
	if (!s->untied)
		input_reject(in, CONFIG_untie_embeddings_and_output_weights, "true with Phi");
	if (s->qk_norm)
		input_reject(in, CONFIG_qk_layernorm, "false: not modelled yet with Phi");
}

const struct plain_code plain_phi = { make, forward, plain_release, check, 0, 0, 0, 0 };
