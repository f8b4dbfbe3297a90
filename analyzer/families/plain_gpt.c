/* GPT2LMHeadModel. Variables live as long as those of its functions. */
#include "families/plain_codes.h"

#include "families/llama_tables.h"
#include "families/plain_modules.h"

#include "util/util.h"

/* eager_attention_forward: softmax(q k^T * scaling + mask) v, the weights in v's type before their
 * dropout. *weights are the caller's. */
static tensor eager(struct machine *m, struct plain *g, const tensor *in, tensor *weights)
{
	const struct hparams *s = g->s;
	const int64_t scores = s->batch * s->heads * s->tokens * s->tokens;
	tensor a, b, out;

	m->current_term = TERM_ATTN_QKV;
	a = plain_factor(m, s, in[0]);
	b = plain_factor(m, s, in[1]);
	m->current_term = TERM_ATTN_SCORES;
	out = matmul(m, a, b, scores);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	a = scale(m, out);
	tensor_unref(m, &out);
	m->current_term = TERM_ATTN_SOFTMAX;
	tensor_assign(m, &a, add(m, a, g->mask));
	tensor_assign(m, &a, softmax(m, a, m->autocast ? F32 : a.type));
	tensor_assign(m, &a, to(m, a, in[2].type));
	tensor_assign(m, &a, dropout(m, a, s->attention_dropout));
	m->current_term = TERM_ATTN_QKV;
	b = plain_factor(m, s, in[2]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, a, b, in[2].n);
	tensor_unref(m, &b);
	*weights = a;
	tensor_assign(m, &out, plain_merged(m, s, out));
	return out;
}

/* DynamicLayer.update(): torch.cat() copies keys and values out of the fused projection. Layers
 * that are run again have no cache. */
static void cached(struct machine *m, struct plain_layer *l, tensor *part)
{
	const struct hparams *s = l->model->s;

	if (!s->use_cache || s->recompute == RECOMPUTE_FULL)
		return;
	m->current_term = TERM_ATTN_QKV;
	for (int i = 0; i < 2; i++) {
		tensor_assign(m, &part[i + 1], contiguous(m, part[i + 1]));
		tensor_assign(m, &l->cache[i], tensor_ref(part[i + 1]));
	}
}

/* GPT2Attention.forward */
static tensor attention(struct machine *m, struct plain_layer *l, tensor x, tensor *weights)
{
	struct plain *g = l->model;
	const struct hparams *s = g->s;
	const int64_t sizes[3] = { x.n, x.n, x.n };
	const struct flash_shape flash = { s->batch, s->heads, s->tokens, s->head,
					   s->attention_dropout };
	tensor qkv, part[3], out;

	m->current_term = TERM_ATTN_QKV;
	qkv = conv1d(m, x, l->qkv.weight, l->qkv.bias);
	split(m, qkv, part, sizes, 3);
	tensor_unref(m, &qkv);
	cached(m, l, part);
	m->current_term = TERM_ATTN_CONTEXT;
	if (s->attention == EAGER) {
		/* the heads of keys and values are made before those of queries */
		tensor_assign(m, &part[2], copied_back(m, part[2]));
		tensor_assign(m, &part[0], copied_back(m, part[0]));
		out = eager(m, g, part, weights);
	} else {
		out = flash_attention(m, part[0], part[1], part[2], &flash);
	}
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, conv1d(m, out, l->out.weight, l->out.bias));
	tensor_assign(m, &out, dropout(m, out, s->hidden_dropout));
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	return out;
}

/* GPT2Block.forward */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	tensor x, residual, part, fed, out, weights = none;

	m->current_term = TERM_ATTN_NORM;
	x = plain_normed(m, l->model, &l->norm[0], input);
	part = attention(m, l, x, &weights);
	residual = add(m, part, input);
	m->current_term = TERM_MLP_NORM;
	tensor_unref(m, &x);
	x = plain_normed(m, l->model, &l->norm[1], residual);
	fed = plain_mlp(m, l, x, conv1d);
	tensor_assign(m, &fed, dropout(m, fed, l->model->s->hidden_dropout));
	out = add(m, residual, fed);
	tensor_unref(m, &x);
	tensor_unref(m, &residual);
	tensor_unref(m, &part);
	tensor_unref(m, &weights);
	tensor_unref(m, &fed);
	return out;
}

/* The embeddings of the tokens and of their positions. */
static tensor embedded(struct machine *m, struct plain *g, tensor *tokens, tensor *positions)
{
	const struct hparams *s = g->s;
	tensor x;

	m->current_term = TERM_EMBEDDED;
	*tokens = embedding(m, g->loop.tokens, g->tokens, s->hidden);
	plain_place(m, g);
	*positions = embedding(m, g->places, g->positions, s->hidden);
	x = add(m, *tokens, *positions);
	if (s->attention == EAGER)
		g->mask = causal_mask(m, s, *tokens);
	tensor_assign(m, &x, dropout(m, x, g->embedding_dropout));
	return x;
}

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	tensor tokens, positions, x, loss;

	x = embedded(m, g, &tokens, &positions);
	x = plain_layers(m, g, block, x);
	m->current_term = TERM_FINAL_NORM;
	tensor_assign(m, &x, plain_normed(m, g, &g->last, x));
	tensor_unref(m, &tokens);
	if (g->s->recompute != RECOMPUTE_FULL)
		tensor_unref(m, &g->places);
	tensor_unref(m, &positions);
	if (g->s->recompute != RECOMPUTE_FULL)
		tensor_unref(m, &g->mask);
	loss = plain_output(m, g, x, logits);
	for (int64_t i = 0; i < g->s->layers; i++)
		for (int k = 0; k < 2; k++)
			tensor_unref(m, &g->layers[i].cache[k]);
	return loss;
}

/* Conv1D's weight has a row for each input. */
static struct pair conv(struct machine *m, struct plain *g, int64_t out, int64_t in,
			enum term_id term)
{
	return plain_pair(m, g, in, out, out, term);
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l)
{
	const int64_t h = g->s->hidden, f = g->s->ffn;

	l->norm[0] = plain_norm(m, g);
	l->qkv = conv(m, g, 3 * h, h, TERM_ATTENTION_WEIGHTS);
	l->out = conv(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->norm[1] = plain_norm(m, g);
	l->up = conv(m, g, f, h, TERM_MLP_WEIGHTS);
	l->down = conv(m, g, h, f, TERM_MLP_WEIGHTS);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;

	g->tokens = plain_weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	g->positions = plain_weight(m, g, s->positions, s->hidden, TERM_POSITIONS);
	plain_make_layers(m, g, make_layer);
	g->last = plain_norm(m, g);
	g->head = s->untied ? plain_weight(m, g, s->vocab, s->hidden, TERM_HEAD) : g->tokens;
}

static void check(const struct hparams *s, struct inputs *in)
{
	if (!s->linear_bias)
		input_reject(in, CONFIG_add_bias_linear, "true with GPT-2");
	if (!s->learned_positions)
		input_reject(in, CONFIG_position_embedding_type, "learned_absolute with GPT-2");
}

const struct plain_code plain_gpt = { make, forward, plain_release, check, 0, 0, 0, 0 };
