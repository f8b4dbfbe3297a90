/* BloomForCausalLM. Variables live as long as those of its functions. */
#include "families/plain_codes.h"

#include "families/alibi.h"
#include "families/bloom_gelu.h"
#include "families/llama_tables.h"
#include "families/plain_modules.h"
#include "torch/autocast.h"

#include "util/util.h"

static void heads_of(struct machine *m, const struct hparams *s, tensor qkv, tensor *part)
{
	for (int i = 0; i < 3; i++)
		part[i] = slice(m, qkv, qkv.n / 3);
	for (int i = 0; i < 3; i++)
		tensor_assign(m, &part[i], plain_factor(m, s, part[i]));
}

/* BloomAttention.forward; *probabilities are the caller's. */
static tensor attention(struct machine *m, struct plain_layer *l, tensor x, tensor residual,
			tensor *probabilities)
{
	struct plain *g = l->model;
	const struct hparams *s = g->s;
	const int64_t scores = s->batch * s->heads * s->tokens * s->tokens;
	tensor qkv, part[3], raw, masked, precise, context, out;

	m->current_term = TERM_ATTN_QKV;
	qkv = linear(m, x, l->qkv.weight, l->qkv.bias);
	heads_of(m, s, qkv, part);
	m->current_term = TERM_ATTN_SCORES;
	raw = baddbmm(m, g->alibi, part[0], part[1], scores);
	masked = add(m, raw, g->mask);
	m->current_term = TERM_ATTN_SOFTMAX;
	precise = softmax(m, masked, F32);
	*probabilities = to(m, precise, part[0].type);
	tensor_unref(m, &precise);
	tensor_assign(m, probabilities, dropout(m, *probabilities, s->attention_dropout));
	m->current_term = TERM_ATTN_CONTEXT;
	context = matmul(m, *probabilities, part[2], part[2].n);
	tensor_assign(m, &context, plain_merged(m, s, context));
	m->current_term = TERM_ATTN_OUT;
	out = linear(m, context, l->out.weight, l->out.bias);
	plain_dropout_add(m, &out, residual, s->hidden_dropout);
	tensor_unref(m, &qkv);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	tensor_unref(m, &raw);
	tensor_unref(m, &masked);
	tensor_unref(m, &context);
	return out;
}

/* BloomMLP.forward */
static tensor mlp(struct machine *m, struct plain_layer *l, tensor x, tensor residual)
{
	tensor h, out;

	m->current_term = TERM_MLP_HIDDEN;
	h = linear(m, x, l->up.weight, l->up.bias);
	tensor_assign(m, &h, bloom_gelu(m, h));
	m->current_term = TERM_MLP_OUT;
	out = linear(m, h, l->down.weight, l->down.bias);
	plain_dropout_add(m, &out, residual, l->model->s->hidden_dropout);
	tensor_unref(m, &h);
	return out;
}

/* BloomBlock.forward, whose result is a tuple with the attention probabilities. */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	struct plain *g = l->model;
	tensor x, part, out, probabilities = none;

	m->current_term = TERM_ATTN_NORM;
	x = plain_normed(m, g, &l->norm[0], input);
	part = attention(m, l, x, input, &probabilities);
	m->current_term = TERM_MLP_NORM;
	tensor_assign(m, &x, plain_normed(m, g, &l->norm[1], part));
	out = mlp(m, l, x, part);
	tensor_unref(m, &x);
	tensor_unref(m, &part);
	plain_give(m, g, probabilities);
	return out;
}

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	const struct hparams *s = g->s;
	tensor tokens, slopes, x;

	m->current_term = TERM_EMBEDDED;
	tokens = embedding(m, g->loop.tokens, g->tokens, s->hidden);
	x = plain_normed(m, g, &g->first, tokens);
	slopes = alibi_slopes(m, s->heads);
	g->alibi = alibi_of(m, s, slopes, x.type);
	g->mask = causal_mask(m, s, tokens);
	x = plain_layers(m, g, block, x);
	m->current_term = TERM_FINAL_NORM;
	tensor_assign(m, &x, plain_normed(m, g, &g->last, x));
	tensor_unref(m, &tokens);
	tensor_unref(m, &slopes);
	if (s->recompute != RECOMPUTE_FULL)
		plain_release(m, g);
	tensor_unref(m, &g->held);
	return plain_output(m, g, x, logits);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;

	g->tokens = plain_weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	g->first = plain_norm(m, g);
	for (int64_t i = 0; i < s->layers; i++) {
		struct plain_layer *l = &g->layers[i];

		g->w.first[i] = g->w.module.count;
		l->norm[0] = plain_norm(m, g);
		l->qkv = plain_dense(m, g, 3 * s->hidden, s->hidden, TERM_ATTENTION_WEIGHTS);
		l->out = plain_dense(m, g, s->hidden, s->hidden, TERM_ATTENTION_WEIGHTS);
		l->norm[1] = plain_norm(m, g);
		l->up = plain_dense(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
		l->down = plain_dense(m, g, s->hidden, s->ffn, TERM_MLP_WEIGHTS);
	}
	g->w.first[s->layers] = g->w.module.count;
	g->last = plain_norm(m, g);
	g->head = s->untied ? plain_weight(m, g, s->vocab, s->hidden, TERM_HEAD) : g->tokens;
}

static void check(const struct hparams *s, struct inputs *in)
{
	if (!s->linear_bias)
		input_reject(in, CONFIG_add_bias_linear, "true with BLOOM");
	if (s->ffn != 4 * s->hidden)
		input_reject(in, CONFIG_ffn_hidden_size, "4 * hidden_size with BLOOM");
	if (s->attention != EAGER)
		input_reject(in, CONFIG_attention, "eager: BLOOM has no other");
	if (s->learned_positions || s->rope)
		input_reject(in, CONFIG_position_embedding_type, "none with BLOOM");
}

const struct plain_code plain_bloom = { make, forward, plain_release, check, 1, 0, 0, 0 };
