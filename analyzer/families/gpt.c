/* nanoGPT: GPT-2 as its train.py runs it. Variables live as long as the Python variables that they
 * model. */
#include "families/gpt.h"

#include "families/train.h"
#include "torch/autocast.h"
#include "torch/ops.h"
#include "torch/streams.h"
#include "distributed/wrapper.h"

#include <stdlib.h>

#include "util/util.h"

struct gpt_norm {
	struct param *weight, *bias;
};

struct gpt_layer {
	struct gpt *model;
	struct gpt_norm before_attention, before_mlp;
	struct param *qkv, *qkv_bias, *proj, *proj_bias, *up, *up_bias, *down, *down_bias;
	tensor mask;
};

struct gpt {
	const struct hparams *s;
	struct wrapper w;
	struct gpt_layer *layers;
	struct param *tokens, *positions;
	struct gpt_norm last;
	struct {
		tensor tokens, targets, logits, loss;
	} loop; /* variables of the training loop */
};

/* ---- the forward pass ---- */

static tensor normed(struct machine *m, struct gpt *g, struct gpt_norm *n, tensor x)
{
	return layer_norm(m, x, n->weight, n->bias, g->s->hidden);
}

/* nn.Dropout */
static tensor dropped(struct machine *m, tensor x, double p)
{
	tensor in = module_enter(m, NULL, NULL, x), out = dropout(m, in, p);

	tensor_unref(m, &in);
	module_leave(m, NULL, &out);
	return out;
}

/* a = softmax(mask(q k^T / sqrt(d))), y = dropout(a) v */
static tensor eager(struct machine *m, struct gpt *g, tensor q, tensor k, tensor v, tensor *weights)
{
	const struct hparams *s = g->s;
	int64_t n = s->batch * s->heads * s->tokens * s->tokens;
	tensor a, b, y;

	m->current_term = TERM_ATTN_QKV;
	a = contiguous(m, q);
	b = contiguous(m, k);
	m->current_term = TERM_ATTN_SCORES;
	y = matmul(m, a, b, n);
	tensor_unref(m, &a);
	tensor_unref(m, &b);
	a = scale(m, y);
	tensor_unref(m, &y);
	m->current_term = TERM_ATTN_SOFTMAX;
	tensor_assign(m, &a, masked_fill(m, a, s->tokens * s->tokens));
	tensor_assign(m, &a, softmax(m, a, m->autocast ? F32 : a.type));
	tensor_assign(m, &a, dropped(m, a, s->attention_dropout));
	b = m->autocast ? to(m, a, m->autocast) : tensor_ref(a);
	m->current_term = TERM_ATTN_QKV;
	k = contiguous(m, v);
	m->current_term = TERM_ATTN_CONTEXT;
	y = matmul(m, b, k, v.n);
	tensor_unref(m, &k);
	tensor_unref(m, &b);
	*weights = a;
	return y;
}

static tensor attention(struct machine *m, struct gpt_layer *l, tensor x)
{
	struct gpt *g = l->model;
	const struct hparams *s = g->s;
	const int64_t each = x.n, sizes[3] = { each, each, each };
	const struct flash_shape flash = { s->batch, s->heads, s->tokens, s->head,
					   s->attention_dropout };
	tensor qkv, part[3], y, a = none, out;

	x = module_enter(m, NULL, NULL, x);
	m->current_term = TERM_ATTN_QKV;
	qkv = linear(m, x, l->qkv, l->qkv_bias);
	split(m, qkv, part, sizes, 3);
	tensor_unref(m, &qkv);
	m->current_term = TERM_ATTN_CONTEXT;
	if (s->attention == EAGER) {
		tensor_assign(m, &part[0], copied_back(m, part[0]));
		tensor_assign(m, &part[2], copied_back(m, part[2]));
		y = eager(m, g, part[0], part[1], part[2], &a);
		tensor_assign(m, &y, copied_back(m, y));
		out = contiguous(m, y);
	} else {
		y = flash_attention(m, part[0], part[1], part[2], &flash);
		out = tensor_ref(y);
	}
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, linear(m, out, l->proj, l->proj_bias));
	tensor_assign(m, &out, dropped(m, out, s->hidden_dropout));
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	tensor_unref(m, &y);
	tensor_unref(m, &a);
	return out;
}

static tensor mlp(struct machine *m, struct gpt_layer *l, tensor x)
{
	tensor h, out;

	m->current_term = TERM_MLP_NORM;
	x = normed(m, l->model, &l->before_mlp, x);
	m->current_term = TERM_MLP_HIDDEN;
	h = linear(m, x, l->up, l->up_bias);
	tensor_unref(m, &x);
	tensor_assign(m, &h, gelu(m, h));
	m->current_term = TERM_MLP_OUT;
	out = linear(m, h, l->down, l->down_bias);
	tensor_unref(m, &h);
	tensor_assign(m, &out, dropped(m, out, l->model->s->hidden_dropout));
	return out;
}

static tensor block(struct machine *m, void *context, tensor input)
{
	struct gpt_layer *l = context;
	tensor x, part, out;

	input = module_enter(m, NULL, NULL, input);
	m->current_term = TERM_ATTN_NORM;
	x = normed(m, l->model, &l->before_attention, input);
	part = attention(m, l, x);
	tensor_unref(m, &x);
	x = add(m, input, part);
	tensor_unref(m, &part);
	tensor_unref(m, &input);
	part = mlp(m, l, x);
	out = add(m, x, part);
	tensor_unref(m, &part);
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

/* *logits are the caller's. */
static tensor forward(struct machine *m, struct gpt *g, tensor tokens, tensor targets,
		      tensor *logits)
{
	const struct hparams *s = g->s;
	tensor x, places, positions, loss;

	m->phase = FORWARD;
	tokens = module_enter(m, NULL, NULL, tokens);
	m->current_term = TERM_EMBEDDED;
	x = embedding(m, tokens, g->tokens, s->hidden);
	places = tensor_new(m, s->tokens, I64);
	positions = embedding(m, places, g->positions, s->hidden);
	tensor_unref(m, &places);
	tensor_assign(m, &x, add(m, x, positions));
	tensor_unref(m, &positions);
	tensor_assign(m, &x, dropout(m, x, s->hidden_dropout));
	for (int64_t i = 0; i < s->layers; i++)
		tensor_assign(m, &x, train_layer(m, &g->w, i, block, &g->layers[i], x));
	m->current_term = TERM_FINAL_NORM;
	places = normed(m, g, &g->last, x);
	m->current_term = TERM_LOGITS;
	*logits = linear(m, places, g->tokens, NULL);
	tensor_unref(m, &places);
	m->phase = LOSS;
	m->current_term = TERM_LOSS;
	loss = cross_entropy(m, *logits, targets);
	tensor_unref(m, &x);
	tensor_unref(m, &tokens);
	module_leave(m, NULL, &loss);
	return loss;
}

/* ---- the model ---- */

static struct param *weight(struct machine *m, struct gpt *g, int64_t out, int64_t in,
			    enum term_id term)
{
	return module_add(m, &g->w.module, out, in, initial_dtype(g->s), term);
}

static struct gpt_norm make_norm(struct machine *m, struct gpt *g)
{
	struct gpt_norm n = { weight(m, g, 1, g->s->hidden, TERM_NORM_WEIGHTS), NULL };

	if (g->s->norm_bias)
		n.bias = weight(m, g, 1, g->s->hidden, TERM_NORM_WEIGHTS);
	return n;
}

static struct param *bias(struct machine *m, struct gpt *g, int64_t n, enum term_id term)
{
	return g->s->linear_bias ? weight(m, g, 1, n, term) : NULL;
}

/* torch.tril(torch.ones(...)), with zero.Init in the weights' type. DeepSpeed moves the model from
 * host memory, and converts no buffers. */
static tensor make_mask(struct machine *m, const struct hparams *s)
{
	enum dtype type = s->zero_init ? s->weights : F32;
	tensor ones = { .storage = NULL }, mask;

	if (!s->defaults->made_on_host || s->zero_init)
		ones = tensor_new_as(m, TERM_BUFFERS, s->positions * s->positions, type);
	mask = tensor_new_as(m, TERM_BUFFERS, s->positions * s->positions, type);
	tensor_unref(m, &ones);
	return mask;
}

static void make_layer(struct machine *m, struct gpt *g, struct gpt_layer *l)
{
	const struct hparams *s = g->s;
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

/* The embedding's weight is replaced by that of the output layer (weight tying). */
static void make_model(struct machine *m, void *model)
{
	struct gpt *g = model;
	const struct hparams *s = g->s;
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
	head = tensor_new_as(m, TERM_EMBEDDING, s->vocab * s->hidden, F32);
	tensor_assign(m, &g->tokens->value, head);
	param_init(g->tokens);
	if (s->weights == F32)
		return;
	module_convert(m, &g->w.module, s->weights);
	for (int64_t i = 0; i < s->layers && s->mask_buffers; i++)
		tensor_assign(m, &g->layers[i].mask,
			      tensor_new_as(m, TERM_BUFFERS, g->layers[i].mask.n, s->weights));
}

/* ---- the training loop ---- */

static void micro_batch(struct machine *m, void *model)
{
	struct gpt *g = model;
	const struct hparams *s = g->s;
	struct tape tape = { .last = NULL };
	tensor logits = none, loss;

	m->tape = &tape;
	m->phase = FORWARD;
	tensor_assign(m, &g->loop.tokens, tensor_new_as(m, TERM_INPUTS, s->batch * s->tokens, I64));
	tensor_assign(m, &g->loop.targets,
		      tensor_new_as(m, TERM_INPUTS, s->batch * s->tokens, I64));
	host_wait(m, m->stream); /* the copy from host memory is synchronous */
	wrapper_before_forward(m, &g->w);
	if (s->autocast)
		begin_autocast(m, s->autocast);
	loss = forward(m, g, g->loop.tokens, g->loop.targets, &logits);
	if (s->microbatches > 1)
		tensor_assign(m, &loss, scale(m, loss));
	end_autocast(m);
	wrapper_after_forward(m, &g->w);
	if (!s->keep_logits)
		tensor_unref(m, &logits);
	tensor_assign(m, &g->loop.logits, logits);
	tensor_assign(m, &g->loop.loss, loss);
	loss = wrapper_scaled(m, &g->w, loss);
	wrapper_before_backward(m, &g->w);
	loss_backward(m, &tape, loss);
	tensor_unref(m, &loss);
	wrapper_after_backward(m, &g->w);
	tensor_set_term(m, g->loop.logits, TERM_OLD_LOGITS);
}

static void run(struct machine *m, const struct hparams *s, int64_t stage)
{
	struct gpt g = { .s = s };

	(void)stage;
	train(m, s, &(struct trained_model){ &g.w, make_model, NULL, micro_batch }, &g);
	free(g.layers);
}

static int check(const struct hparams *s, struct inputs *in)
{
	wrapper_check(s, in);
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: nanoGPT is not split");
	return in->failed ? -1 : 0;
}

const struct family_model gpt_model = { check, run };
