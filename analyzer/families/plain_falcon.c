/* FalconForCausalLM with rotary positions: of one pair of keys and values for all heads
 * (multi_query), or of one for each group of heads (new_decoder_architecture). Variables live as
 * long as those of its functions. */
#include "families/plain_codes.h"

#include "families/llama_tables.h"
#include "families/plain_modules.h"
#include "torch/autocast.h"
#include "torch/streams.h"

#include "util/util.h"

/* FalconLinear.forward: x @ weight.T */
static tensor project(struct machine *m, tensor x, struct param *weight, struct param *bias)
{
	(void)bias;
	return linear_of_view(m, x, weight);
}

static int is_multi_query(const struct hparams *s)
{
	return s->groups == 1;
}

/* qkv[:, :, :, [i]], whose index is a tensor on the device */
static tensor indexed(struct machine *m, tensor qkv, int64_t n)
{
	tensor index = tensor_new(m, 1, I64), out;

	host_wait(m, m->stream); /* the index is copied from host memory */
	out = gather(m, qkv, index, n);
	tensor_unref(m, &index);
	return out;
}

/* _split_heads: the queries are a view; keys and values are copies. In groups each has a copy for
 * every query head, and so have the queries. */
static void split_heads(struct machine *m, const struct hparams *s, tensor qkv, tensor *part)
{
	const int64_t rows = s->batch * s->tokens, width = rows * s->groups * s->head;
	tensor whole[3];

	part[0] = slice(m, qkv, rows * s->hidden);
	for (int i = 1; i < 3; i++)
		part[i] = indexed(m, qkv, width);
	if (is_multi_query(s))
		return;
	whole[0] = contiguous(m, part[0]);
	for (int i = 1; i < 3; i++)
		whole[i] = repeat(m, part[i], rows * s->hidden);
	for (int i = 0; i < 3; i++)
		tensor_assign(m, &part[i], whole[i]);
}

/* A factor of torch.matmul: heads that query heads share become one for each of these, by the same
 * copy. */
static tensor factor(struct machine *m, const struct hparams *s, tensor x)
{
	const int64_t whole = s->batch * s->tokens * s->hidden;

	if (x.n != whole)
		return s->batch > 1 ? repeat(m, x, whole) : slice(m, x, whole);
	return plain_factor(m, s, x);
}

/* softmax(q k^T / sqrt(d) + mask) v; *weights are the caller's. */
static tensor eager(struct machine *m, struct plain *g, const tensor *in, enum dtype type,
		    tensor *weights)
{
	const struct hparams *s = g->s;
	tensor a, b, cast[2], scores, out;

	m->current_term = TERM_ATTN_QKV;
	for (int i = 1; i >= 0; i--)
		cast[i] = autocasted(m, in[i]);
	a = factor(m, s, cast[0]);
	b = factor(m, s, cast[1]);
	m->current_term = TERM_ATTN_SCORES;
	scores = matmul(m, a, b, s->batch * s->heads * s->tokens * s->tokens);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	for (int i = 0; i < 2; i++)
		tensor_unref(m, &cast[i]);
	tensor_assign(m, &scores, copied_back(m, scores)); /* divided in place */
	m->current_term = TERM_ATTN_SOFTMAX;
	a = add(m, scores, g->mask);
	*weights = softmax(m, a, type);
	tensor_unref(m, &a);
	tensor_unref(m, &scores);
	a = autocasted(m, *weights);
	m->current_term = TERM_ATTN_QKV;
	b = factor(m, s, in[2]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, a, b, s->batch * s->tokens * s->hidden);
	tensor_unref(m, &a);
	tensor_unref(m, &b);
	tensor_assign(m, &out, plain_merged(m, s, out));
	return out;
}

static tensor kernel(struct machine *m, struct plain *g, const tensor *in)
{
	const struct hparams *s = g->s;
	const struct flash_shape shape = { s->batch, s->heads, s->tokens, s->head, 0 };
	tensor cast[3], out;

	m->current_term = TERM_ATTN_QKV;
	for (int i = 2; i >= 0; i--)
		cast[i] = autocasted(m, in[i]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = masked_attention(m, cast[0], cast[1], cast[2], &shape);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &cast[i]);
	return out;
}

/* FalconAttention.forward */
static tensor attention(struct machine *m, struct plain_layer *l, tensor x, tensor *weights)
{
	struct plain *g = l->model;
	tensor qkv, part[3], turned[2], out;

	m->current_term = TERM_ATTN_QKV;
	qkv = project(m, x, l->qkv.weight, NULL);
	split_heads(m, g->s, qkv, part);
	for (int i = 0; i < 2; i++)
		turned[i] = plain_turned(m, g, part[i]);
	for (int i = 0; i < 2; i++)
		tensor_assign(m, &part[i], turned[i]);
	out = g->s->attention == EAGER ? eager(m, g, part, x.type, weights) : kernel(m, g, part);
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, project(m, out, l->out.weight, NULL));
	tensor_unref(m, &qkv);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	return out;
}

/* FalconDecoderLayer.forward: (mlp + attention) + input. The norm of the feed-forward network may
 * be that of attention. */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	struct plain *g = l->model;
	tensor x, y, part, fed, out, weights = none;

	m->current_term = TERM_ATTN_NORM;
	x = plain_normed(m, g, &l->norm[0], input);
	m->current_term = TERM_MLP_NORM;
	y = l->norm[1].weight ? plain_normed(m, g, &l->norm[1], input) : tensor_ref(x);
	part = attention(m, l, x, &weights);
	fed = plain_mlp(m, l, y, project);
	tensor_assign(m, &fed, add_in_place(m, fed, part));
	out = tensor_ref(fed);
	plain_dropout_add(m, &out, input, g->s->hidden_dropout);
	tensor_unref(m, &x);
	tensor_unref(m, &y);
	tensor_unref(m, &part);
	tensor_unref(m, &fed);
	plain_give(m, g, weights);
	return out;
}

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	const struct hparams *s = g->s;
	tensor tokens, x;

	m->current_term = TERM_EMBEDDED;
	tokens = embedding(m, g->loop.tokens, g->tokens, s->hidden);
	plain_place(m, g);
	g->mask = causal_mask(m, s, tokens);
	rotary_tables(m, s->tokens * s->head, tokens, &g->cos, &g->sin);
	x = plain_layers(m, g, block, tensor_ref(tokens));
	m->current_term = TERM_FINAL_NORM;
	tensor_assign(m, &x, plain_normed(m, g, &g->last, x));
	tensor_unref(m, &tokens);
	if (s->recompute != RECOMPUTE_FULL)
		plain_release(m, g);
	tensor_unref(m, &g->held);
	return plain_output(m, g, x, logits);
}

/* FalconLinear without a bias */
static struct pair dense(struct machine *m, struct plain *g, int64_t out, int64_t in,
			 enum term_id term)
{
	return plain_pair(m, g, out, in, 0, term);
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l)
{
	const struct hparams *s = g->s;
	const int64_t h = s->hidden, f = s->ffn;

	l->qkv = dense(m, g, h + 2 * s->groups * s->head, h, TERM_ATTENTION_WEIGHTS);
	l->out = dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->up = dense(m, g, f, h, TERM_MLP_WEIGHTS);
	l->down = dense(m, g, h, f, TERM_MLP_WEIGHTS);
	for (int64_t i = 0; i < VALUE_OR(s->config, norms_per_layer, 1); i++)
		l->norm[i] = plain_norm(m, g);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;

	g->tokens = plain_weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	for (int64_t i = 0; i < s->layers; i++) {
		g->w.first[i] = g->w.module.count;
		make_layer(m, g, &g->layers[i]);
	}
	g->w.first[s->layers] = g->w.module.count;
	g->last = plain_norm(m, g);
	for (int i = 0; i < 2; i++) /* inv_freq, original_inv_freq */
		g->frequencies[i] = tensor_new_as(m, TERM_BUFFERS, s->head / 2, F32);
	g->head = s->untied ? plain_weight(m, g, s->vocab, s->hidden, TERM_HEAD) : g->tokens;
}

static void check(const struct hparams *s, struct inputs *in)
{
	const int64_t norms = VALUE_OR(s->config, norms_per_layer, 1);

	if (s->linear_bias)
		input_reject(in, CONFIG_add_bias_linear, "false: not modelled yet with");
	if (!s->rope)
		input_reject(in, CONFIG_position_embedding_type, "rope: not modelled yet without");
	if (s->groups == s->heads)
		input_reject(in, CONFIG_num_query_groups,
			     "less than num_attention_heads: not modelled yet");
	if (norms != 1 && norms != 2)
		input_reject(in, CONFIG_norms_per_layer, "1 or 2 with Falcon");
}

const struct plain_code plain_falcon = { make, forward, plain_release, check, 0, 1, 0, 0 };
