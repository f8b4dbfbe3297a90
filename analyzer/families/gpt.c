/* nanoGPT: GPT-2 as its train.py runs it, on one GPU. Variables live as long as the Python ones
 * that they stand for. */
#include "families/families.h"
#include "torch/autocast.h"
#include "torch/checkpoint.h"
#include "torch/ops.h"
#include "torch/streams.h"
#include "distributed/wrapper.h"

#include <stdlib.h>

#include "util/util.h"

struct norm {
	struct param *weight, *bias;
};

struct layer {
	struct gpt *model;
	struct norm before_attention, before_mlp;
	struct param *qkv, *qkv_bias, *proj, *proj_bias, *up, *up_bias, *down, *down_bias;
	tensor mask;
};

struct gpt {
	const struct shape *s;
	struct wrapped w;
	struct layer *layers;
	struct param *tokens, *positions;
	struct norm last;
	struct {
		tensor tokens, targets, logits, loss;
	} loop; /* its variables */
};

/* ---- the forward pass ---- */

static tensor normed(struct machine *m, struct gpt *g, struct norm *n, tensor x)
{
	return layer_norm(m, x, n->weight, n->bias, g->s->hidden);
}

/* nn.Dropout */
static tensor dropped(struct machine *m, tensor x, double p)
{
	tensor in = module_enter(m, NULL, NULL, x), out = dropout(m, in, p);

	drop(m, &in);
	module_leave(m, NULL, &out);
	return out;
}

/* a = softmax(mask(q k^T / sqrt(d))), y = dropout(a) v */
static tensor eager(struct machine *m, struct gpt *g, tensor q, tensor k, tensor v, tensor *weights)
{
	const struct shape *s = g->s;
	int64_t n = s->batch * s->heads * s->tokens * s->tokens;
	tensor a, b, y;

	m->as = TERM_ATTN_QKV;
	a = contiguous(m, q);
	b = contiguous(m, k);
	m->as = TERM_ATTN_SCORES;
	y = matmul(m, a, b, n);
	drop(m, &a);
	drop(m, &b);
	a = scale(m, y);
	drop(m, &y);
	m->as = TERM_ATTN_SOFTMAX;
	let(m, &a, masked_fill(m, a, s->tokens * s->tokens));
	let(m, &a, softmax(m, a, m->autocast ? F32 : a.type));
	let(m, &a, dropped(m, a, s->attention_dropout));
	b = m->autocast ? to(m, a, m->autocast) : hold(a);
	m->as = TERM_ATTN_QKV;
	k = contiguous(m, v);
	m->as = TERM_ATTN_CONTEXT;
	y = matmul(m, b, k, v.n);
	drop(m, &k);
	drop(m, &b);
	*weights = a;
	return y;
}

static tensor attention(struct machine *m, struct layer *l, tensor x)
{
	struct gpt *g = l->model;
	const struct shape *s = g->s;
	const int64_t each = x.n, sizes[3] = { each, each, each };
	const struct flash_shape flash = { s->batch, s->heads, s->tokens, s->head,
					   s->attention_dropout };
	tensor qkv, part[3], y, a = none, out;

	x = module_enter(m, NULL, NULL, x);
	m->as = TERM_ATTN_QKV;
	qkv = linear(m, x, l->qkv, l->qkv_bias);
	split(m, qkv, part, sizes, 3);
	drop(m, &qkv);
	m->as = TERM_ATTN_CONTEXT;
	if (s->attention == EAGER) {
		let(m, &part[0], copied_back(m, part[0]));
		let(m, &part[2], copied_back(m, part[2]));
		y = eager(m, g, part[0], part[1], part[2], &a);
		let(m, &y, copied_back(m, y));
		out = contiguous(m, y);
	} else {
		y = flash_attention(m, part[0], part[1], part[2], &flash);
		out = hold(y);
	}
	m->as = TERM_ATTN_OUT;
	let(m, &out, linear(m, out, l->proj, l->proj_bias));
	let(m, &out, dropped(m, out, s->hidden_dropout));
	drop(m, &x);
	module_leave(m, NULL, &out);
	for (int i = 0; i < 3; i++)
		drop(m, &part[i]);
	drop(m, &y);
	drop(m, &a);
	return out;
}

static tensor mlp(struct machine *m, struct layer *l, tensor x)
{
	tensor h, out;

	m->as = TERM_MLP_NORM;
	x = normed(m, l->model, &l->before_mlp, x);
	m->as = TERM_MLP_HIDDEN;
	h = linear(m, x, l->up, l->up_bias);
	drop(m, &x);
	let(m, &h, gelu(m, h));
	m->as = TERM_MLP_OUT;
	out = linear(m, h, l->down, l->down_bias);
	drop(m, &h);
	let(m, &out, dropped(m, out, l->model->s->hidden_dropout));
	return out;
}

static tensor block(struct machine *m, void *context, tensor input)
{
	struct layer *l = context;
	tensor x, part, out;

	input = module_enter(m, NULL, NULL, input);
	m->as = TERM_ATTN_NORM;
	x = normed(m, l->model, &l->before_attention, input);
	part = attention(m, l, x);
	drop(m, &x);
	x = add(m, input, part);
	drop(m, &part);
	drop(m, &input);
	part = mlp(m, l, x);
	out = add(m, x, part);
	drop(m, &part);
	drop(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

static tensor one_layer(struct machine *m, struct gpt *g, int64_t i, tensor x)
{
	tensor in = wrapped_before_block(m, &g->w, i, x), out;

	out = g->s->recompute == RECOMPUTE_FULL ? checkpointed(m, block, &g->layers[i], in)
						: block(m, &g->layers[i], in);
	drop(m, &in);
	wrapped_after_block(m, &g->w, i, &out);
	return out;
}

/* The logits go to *logits. */
static tensor forward(struct machine *m, struct gpt *g, tensor tokens, tensor targets,
		      tensor *logits)
{
	const struct shape *s = g->s;
	tensor x, places, positions, loss;

	m->phase = FORWARD;
	tokens = module_enter(m, NULL, NULL, tokens);
	m->as = TERM_EMBEDDED;
	x = embedding(m, tokens, g->tokens, s->hidden);
	places = make(m, s->tokens, I64);
	positions = embedding(m, places, g->positions, s->hidden);
	drop(m, &places);
	let(m, &x, add(m, x, positions));
	drop(m, &positions);
	let(m, &x, dropout(m, x, s->hidden_dropout));
	for (int64_t i = 0; i < s->layers; i++)
		let(m, &x, one_layer(m, g, i, x));
	m->as = TERM_FINAL_NORM;
	places = normed(m, g, &g->last, x);
	m->as = TERM_LOGITS;
	*logits = linear(m, places, g->tokens, NULL);
	drop(m, &places);
	m->phase = LOSS;
	m->as = TERM_LOSS;
	loss = cross_entropy(m, *logits, targets);
	drop(m, &x);
	drop(m, &tokens);
	module_leave(m, NULL, &loss);
	return loss;
}

/* ---- the model ---- */

static struct param *weight(struct machine *m, struct gpt *g, int64_t out, int64_t in,
			    enum role term)
{
	return module_add(m, &g->w.module, out, in, made_as(g->s), term);
}

static struct norm make_norm(struct machine *m, struct gpt *g)
{
	struct norm n = { weight(m, g, 1, g->s->hidden, TERM_NORM_WEIGHTS), NULL };

	if (g->s->norm_bias)
		n.bias = weight(m, g, 1, g->s->hidden, TERM_NORM_WEIGHTS);
	return n;
}

static struct param *bias(struct machine *m, struct gpt *g, int64_t n, enum role term)
{
	return g->s->linear_bias ? weight(m, g, 1, n, term) : NULL;
}

/* torch.tril(torch.ones(...)), with zero.Init in the weights' type. DeepSpeed moves what was made
 * in the host's memory, and converts no buffers. */
static tensor make_mask(struct machine *m, const struct shape *s)
{
	enum dtype type = s->zero_init ? s->weights : F32;
	tensor ones = { .at = NULL }, mask;

	if (!s->defaults->made_on_host || s->zero_init)
		ones = make_as(m, TERM_BUFFERS, s->positions * s->positions, type);
	mask = make_as(m, TERM_BUFFERS, s->positions * s->positions, type);
	drop(m, &ones);
	return mask;
}

static void make_layer(struct machine *m, struct gpt *g, struct layer *l)
{
	const struct shape *s = g->s;
	int64_t h = s->hidden;

	l->model = g;
	l->before_attention = make_norm(m, g);
	l->qkv = weight(m, g, 3 * h, h, TERM_ATTENTION_WEIGHTS);
	l->qkv_bias = bias(m, g, 3 * h, TERM_ATTENTION_WEIGHTS);
	l->proj = weight(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->proj_bias = bias(m, g, h, TERM_ATTENTION_WEIGHTS);
	if (s->mask_buffers)
		l->mask = make_mask(m, s);
	l->before_mlp = make_norm(m, g);
	l->up = weight(m, g, s->ffn, h, TERM_MLP_WEIGHTS);
	l->up_bias = bias(m, g, s->ffn, TERM_MLP_WEIGHTS);
	l->down = weight(m, g, h, s->ffn, TERM_MLP_WEIGHTS);
	l->down_bias = bias(m, g, h, TERM_MLP_WEIGHTS);
}

/* The head's weight takes the place of the embedding's. */
static void make_model(struct machine *m, struct gpt *g)
{
	const struct shape *s = g->s;
	tensor head;

	g->tokens = weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	g->positions = weight(m, g, s->positions, s->hidden, TERM_POSITIONS);
	g->layers = xcalloc((size_t)s->layers, sizeof(*g->layers));
	for (int64_t i = 0; i < s->layers; i++) {
		g->w.first[i] = g->w.module.count;
		make_layer(m, g, &g->layers[i]);
	}
	g->w.first[s->layers] = g->w.module.count;
	g->last = make_norm(m, g);
	if (s->defaults->made_on_host)
		return;
	head = make_as(m, TERM_EMBEDDING, s->vocab * s->hidden, F32);
	let(m, &g->tokens->value, head);
	param_init(g->tokens);
	if (s->weights == F32)
		return;
	module_convert(m, &g->w.module, s->weights);
	for (int64_t i = 0; i < s->layers && s->mask_buffers; i++)
		let(m, &g->layers[i].mask,
		    make_as(m, TERM_BUFFERS, g->layers[i].mask.n, s->weights));
}

/* ---- the training loop ---- */

static void micro_batch(struct machine *m, void *model)
{
	struct gpt *g = model;
	const struct shape *s = g->s;
	struct tape tape = { .last = NULL };
	tensor logits = none, loss;

	m->tape = &tape;
	m->phase = FORWARD;
	let(m, &g->loop.tokens, make_as(m, TERM_INPUTS, s->batch * s->tokens, I64));
	let(m, &g->loop.targets, make_as(m, TERM_INPUTS, s->batch * s->tokens, I64));
	host_wait(m, m->stream); /* they come from the host's memory */
	wrapped_before_forward(m, &g->w);
	if (s->autocast)
		begin_autocast(m, s->autocast);
	loss = forward(m, g, g->loop.tokens, g->loop.targets, &logits);
	if (s->microbatches > 1)
		let(m, &loss, scale(m, loss));
	end_autocast(m);
	wrapped_after_forward(m, &g->w);
	if (!s->keep_logits)
		drop(m, &logits);
	let(m, &g->loop.logits, logits);
	let(m, &g->loop.loss, loss);
	loss = wrapped_scaled(m, &g->w, loss);
	wrapped_before_backward(m, &g->w);
	backward_from(m, &tape, loss);
	drop(m, &loss);
	wrapped_after_backward(m, &g->w);
	retag(m, g->loop.logits, TERM_OLD_LOGITS);
}

static void run(struct machine *m, const struct shape *s, int64_t stage)
{
	struct gpt g = { .s = s };

	(void)stage;
	m->phase = INIT;
	wrapped_init(&g.w, s);
	make_model(m, &g);
	wrapped_start(m, &g.w);
	wrapped_train(m, &g.w, micro_batch, &g);
	wrapped_release(&g.w);
	free(g.layers);
}

static int check(const struct shape *s, struct inputs *in)
{
	wrapped_check(s, in);
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: nanoGPT is not split");
	return in->failed ? -1 : 0;
}

const struct family_model gpt_model = { check, run };
