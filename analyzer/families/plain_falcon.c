/* FalconForCausalLM: keys and values are those of each head, of all heads (multi_query), or of each
 * group of heads (new_decoder_architecture). Variables live as long as those of its functions. */
#include "families/plain_codes.h"

#include "families/alibi.h"
#include "families/llama_tables.h"
#include "families/plain_modules.h"
#include "torch/autocast.h"
#include "torch/streams.h"

#include "util/util.h"

/* FalconLinear.forward: x @ weight.T + bias, whose sum autocast leaves in fp32 */
static tensor project(struct machine *m, tensor x, struct param *weight, struct param *bias)
{
	tensor out = linear_of_view(m, x, weight);

	if (bias)
		tensor_assign(m, &out, add(m, out, bias->value));
	return out;
}

static int is_multi_query(const struct hparams *s)
{
	return s->groups == 1;
}

/* Attention and feed-forward network one after the other. Only groups have two norms for both side
 * by side. */
static int is_sequential(const struct hparams *s)
{
	return VALUE_OR(s->config, norms_per_layer, 1) == 2 &&
	       (s->groups == 1 || s->groups == s->heads);
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

/* _split_heads: the queries are a view; keys and values are copies, unless each head has its own.
 * In groups each has a copy for every query head, and so have the queries. */
static void split_heads(struct machine *m, const struct hparams *s, tensor qkv, tensor *part)
{
	const int64_t rows = s->batch * s->tokens, width = rows * s->groups * s->head;
	tensor whole[3];

	part[0] = slice(m, qkv, rows * s->hidden);
	for (int i = 1; i < 3; i++)
		part[i] = s->groups == s->heads ? slice(m, qkv, width) : indexed(m, qkv, width);
	if (s->groups == s->heads)
		return;
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

/* q k^T */
static tensor scores_of(struct machine *m, const struct hparams *s, const tensor *in)
{
	tensor a, b, cast[2], scores;

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
	return scores;
}

/* weights @ v, with the heads of a token together */
static tensor weighted(struct machine *m, const struct hparams *s, tensor weights, tensor v)
{
	tensor cast, a, b, out;

	m->current_term = TERM_ATTN_QKV;
	cast = autocasted(m, v);
	m->current_term = TERM_ATTN_SOFTMAX;
	a = autocasted(m, weights);
	m->current_term = TERM_ATTN_QKV;
	b = factor(m, s, cast);
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, a, b, s->batch * s->tokens * s->hidden);
	tensor_unref(m, &a);
	tensor_unref(m, &b);
	tensor_unref(m, &cast);
	tensor_assign(m, &out, plain_merged(m, s, out));
	return out;
}

/* softmax(q k^T / sqrt(d) + mask) v; *weights are the caller's. */
static tensor eager(struct machine *m, struct plain *g, const tensor *in, enum dtype type,
		    tensor *weights)
{
	tensor a, scores = scores_of(m, g->s, in);

	tensor_assign(m, &scores, copied_back(m, scores)); /* divided in place */
	m->current_term = TERM_ATTN_SOFTMAX;
	a = add(m, scores, g->mask);
	*weights = softmax(m, a, type);
	tensor_unref(m, &a);
	tensor_unref(m, &scores);
	return weighted(m, g->s, *weights, in[2]);
}

/* softmax((q k^T + alibi) / sqrt(d) + mask) v, in fp32 up to the sum with the mask. The last result
 * and variables of the function are *kept. */
static tensor eager_alibi(struct machine *m, struct plain *g, const tensor *in, enum dtype type,
			  tensor *kept, tensor *weights)
{
	tensor sum, converted;

	kept[1] = scores_of(m, g->s, in);
	m->current_term = TERM_ATTN_SCORES;
	kept[0] = to(m, kept[1], F32);
	kept[2] = add(m, kept[0], g->alibi);
	tensor_assign(m, &kept[2], copied_back(m, kept[2])); /* multiplied in place */
	m->current_term = TERM_ATTN_SOFTMAX;
	sum = add(m, kept[2], g->mask);
	converted = to(m, sum, type);
	*weights = softmax(m, converted, type);
	tensor_unref(m, &converted);
	tensor_unref(m, &sum);
	tensor_assign(m, weights, dropout(m, *weights, g->s->attention_dropout));
	return weighted(m, g->s, *weights, in[2]);
}

static tensor kernel(struct machine *m, struct plain *g, const tensor *in)
{
	const struct hparams *s = g->s;
	const struct flash_shape shape = { s->batch, s->heads, s->tokens, s->head,
					   s->rope ? 0 : s->attention_dropout };
	tensor cast[3], mask = none, out;

	m->current_term = TERM_ATTN_SOFTMAX;
	if (!s->rope)
		mask = autocasted(m, g->mask);
	m->current_term = TERM_ATTN_QKV;
	for (int i = 2; i >= 0; i--)
		cast[i] = autocasted(m, in[i]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = s->rope ? masked_attention(m, cast[0], cast[1], cast[2], &shape)
		      : biased_attention(m, cast[0], cast[1], cast[2], mask, &shape);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &cast[i]);
	tensor_unref(m, &mask);
	return out;
}

/* FalconAttention.forward */
static tensor attention(struct machine *m, struct plain_layer *l, tensor x, tensor *weights)
{
	struct plain *g = l->model;
	tensor qkv, part[3], turned[2], kept[3] = { none, none, none }, out;

	m->current_term = TERM_ATTN_QKV;
	qkv = project(m, x, l->qkv.weight, l->qkv.bias);
	split_heads(m, g->s, qkv, part);
	for (int i = 0; i < 2 && g->s->rope; i++)
		turned[i] = plain_turned(m, g, part[i]);
	for (int i = 0; i < 2 && g->s->rope; i++)
		tensor_assign(m, &part[i], turned[i]);
	if (g->s->attention != EAGER)
		out = kernel(m, g, part);
	else
		out = g->s->rope ? eager(m, g, part, x.type, weights)
				 : eager_alibi(m, g, part, x.type, kept, weights);
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, project(m, out, l->out.weight, l->out.bias));
	tensor_unref(m, &qkv);
	for (int i = 0; i < 3; i++) {
		tensor_unref(m, &part[i]);
		tensor_unref(m, &kept[i]);
	}
	return out;
}

/* FalconDecoderLayer.forward of a sequential layer */
static tensor sequential(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	struct plain *g = l->model;
	tensor x, y, part, residual, fed, out, weights = none;

	m->current_term = TERM_ATTN_NORM;
	x = plain_normed(m, g, &l->norm[0], input);
	part = attention(m, l, x, &weights);
	residual = tensor_ref(part);
	plain_dropout_add(m, &residual, input, g->s->attention_dropout);
	m->current_term = TERM_MLP_NORM;
	y = plain_normed(m, g, &l->norm[1], residual);
	fed = plain_mlp(m, l, y, project);
	out = tensor_ref(fed);
	plain_dropout_add(m, &out, residual, g->s->hidden_dropout);
	tensor_unref(m, &residual);
	tensor_unref(m, &x);
	tensor_unref(m, &part);
	tensor_unref(m, &y);
	tensor_unref(m, &fed);
	plain_give(m, g, weights);
	return out;
}

/* The same of a parallel one: (mlp + attention) + input. The norm of the feed-forward network may
 * be that of attention. */
static tensor parallel(struct machine *m, void *context, tensor input)
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

/* build_alibi_tensor of a mask of ones: in bf16, and in the type of `like` */
static tensor alibi_of_ones(struct machine *m, const struct hparams *s, tensor like)
{
	const int64_t tokens = s->batch * s->tokens;
	tensor slopes = alibi_slopes(m, s->heads), places = tensor_new(m, tokens, I64), half, out;

	for (int i = 0; i < 2; i++) /* cumsum - 1, times the mask */
		tensor_assign(m, &places, tensor_new(m, tokens, I64));
	half = tensor_new(m, s->heads, BF16);
	out = tensor_new(m, s->heads * tokens, BF16);
	tensor_unref(m, &half);
	tensor_assign(m, &out, to(m, out, like.type));
	tensor_unref(m, &slopes);
	tensor_unref(m, &places);
	return out;
}

/* The causal mask with alibi / sqrt(d) where it is open */
static void add_alibi(struct machine *m, struct plain *g, tensor like)
{
	const struct hparams *s = g->s;
	const int64_t pairs = s->batch * s->tokens * s->tokens;
	tensor divided, closed, out;

	m->current_term = TERM_ATTN_SOFTMAX;
	if (g->mask.type == BOOL)
		tensor_assign(m, &g->mask, tensor_new(m, pairs, like.type));
	divided = scale(m, g->alibi);
	closed = tensor_new(m, pairs, BOOL);
	out = tensor_new(m, s->heads * pairs, like.type);
	tensor_unref(m, &divided);
	tensor_unref(m, &closed);
	tensor_assign(m, &g->mask, out);
}

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	const struct hparams *s = g->s;
	tensor tokens, ones = none, x;

	m->current_term = TERM_EMBEDDED;
	tokens = embedding(m, g->loop.tokens, g->tokens, s->hidden);
	if (!s->rope) {
		ones = tensor_new(m, s->batch * s->tokens, I64);
		g->alibi = alibi_of_ones(m, s, tokens);
	}
	plain_place(m, g);
	g->mask = causal_mask(m, s, tokens);
	if (!s->rope)
		add_alibi(m, g, tokens);
	rotary_tables(m, s->tokens * s->head, tokens, &g->cos, &g->sin);
	x = plain_layers(m, g, is_sequential(s) ? sequential : parallel, tensor_ref(tokens));
	m->current_term = TERM_FINAL_NORM;
	tensor_assign(m, &x, plain_normed(m, g, &g->last, x));
	tensor_unref(m, &tokens);
	tensor_unref(m, &ones);
	if (s->recompute != RECOMPUTE_FULL)
		plain_release(m, g);
	tensor_unref(m, &g->held);
	return plain_output(m, g, x, logits);
}

/* FalconLinear */
static struct pair dense(struct machine *m, struct plain *g, int64_t out, int64_t in,
			 enum term_id term)
{
	return plain_pair(m, g, out, in, g->s->linear_bias ? out : 0, term);
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l)
{
	const struct hparams *s = g->s;
	const int64_t h = s->hidden, f = s->ffn;

	l->qkv = dense(m, g, h + 2 * s->groups * s->head, h, TERM_ATTENTION_WEIGHTS);
	l->out = dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->up = dense(m, g, f, h, TERM_MLP_WEIGHTS);
	l->down = dense(m, g, h, f, TERM_MLP_WEIGHTS);
	if (is_sequential(s)) /* post_attention_layernorm comes first */
		l->norm[1] = plain_norm(m, g);
	l->norm[0] = plain_norm(m, g);
	if (!is_sequential(s) && VALUE_OR(s->config, norms_per_layer, 1) == 2)
		l->norm[1] = plain_norm(m, g);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;

	g->tokens = plain_weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	plain_make_layers(m, g, make_layer);
	g->last = plain_norm(m, g);
	for (int i = 0; i < 2; i++) /* inv_freq, original_inv_freq */
		g->frequencies[i] = tensor_new_as(m, TERM_BUFFERS, s->head / 2, F32);
	g->head = s->untied ? plain_weight(m, g, s->vocab, s->hidden, TERM_HEAD) : g->tokens;
}

static void check(const struct hparams *s, struct inputs *in)
{
	const int64_t norms = VALUE_OR(s->config, norms_per_layer, 1);

	if (s->learned_positions)
		input_reject(in, CONFIG_position_embedding_type, "rope or none with Falcon");
	if (norms != 1 && norms != 2)
		input_reject(in, CONFIG_norms_per_layer, "1 or 2 with Falcon");
}

const struct plain_code plain_falcon = { make, forward, plain_release, check, 0, 1, 0, 0 };
