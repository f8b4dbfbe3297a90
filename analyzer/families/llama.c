/* transformers' decoders like Llama (modeling_llama.py): RMSNorm in single operations, rotary
 * positions, grouped heads, gated feed-forward layers. */
#include "families/experts.h"
#include "torch/autocast.h"
#include "torch/checkpoint.h"
#include "families/llama_tables.h"
#include "families/llama.h"

#include "families/train.h"
#include "torch/ops.h"
#include "torch/streams.h"
#include "distributed/wrapper.h"

#include <stdlib.h>

#include "util/util.h"
#include "config/parameter_count.h"

struct llama_layer {
	struct llama *model;
	struct param *attention_norm, *mlp_norm, *q, *k, *v, *o, *bias[3], *gate, *up, *down;
	struct experts experts;
	int sparse;
	tensor logits; /* the router's logits, kept for the auxiliary loss */
};

struct llama {
	const struct hparams *s;
	struct wrapper w;
	struct llama_layer *layers;
	struct param *tokens, *last, *head;
	tensor mask, sliding, cos, sin, frequencies[2];
	struct {
		tensor tokens, logits, loss;
	} loop; /* variables of the training loop */
};

/* ---- the forward pass ---- */

/* LlamaRMSNorm.forward */
static tensor normed(struct machine *m, struct llama *g, struct param *weight, tensor x)
{
	int64_t rows = x.n / g->s->hidden;
	tensor in = module_enter(m, weight, NULL, x), precise = to(m, in, F32), variance, h, out;

	h = square(m, precise);
	variance = mean(m, h, rows);
	tensor_unref(m, &h);
	h = shift(m, variance);
	tensor_assign(m, &h, rsqrt(m, h));
	tensor_assign(m, &precise, mul(m, precise, h));
	tensor_unref(m, &h);
	h = to(m, precise, x.type);
	out = mul(m, weight->value, h);
	tensor_unref(m, &h);
	tensor_unref(m, &precise);
	tensor_unref(m, &variance);
	tensor_unref(m, &in);
	module_leave(m, weight, &out);
	return out;
}

/* (x * cos) + (rotate_half(x) * sin) */
static tensor rotated(struct machine *m, struct llama *g, tensor x)
{
	tensor a, b, first, second;

	a = mul(m, x, g->cos);
	first = slice(m, x, x.n / 2);
	second = slice(m, x, x.n / 2);
	tensor_assign(m, &second, scale(m, second));
	b = cat(m, second, first);
	tensor_unref(m, &second);
	tensor_unref(m, &first);
	first = mul(m, b, g->sin);
	tensor_unref(m, &b);
	b = add(m, a, first);
	tensor_unref(m, &a);
	tensor_unref(m, &first);
	return b;
}

/* repeat_kv: a single key/value head is expanded without a copy. */
static tensor repeated(struct machine *m, struct llama *g, tensor x)
{
	const struct hparams *s = g->s;
	int64_t n = x.n / s->groups * s->heads;

	if (s->groups == s->heads)
		return tensor_ref(x);
	return s->groups == 1 ? slice(m, x, n) : repeat(m, x, n);
}

/* The operand of torch.matmul: cast into *cast, and copied if its heads are not contiguous. */
static tensor operand(struct machine *m, struct llama *g, tensor x, int is_repeated, tensor *cast)
{
	*cast = autocasted(m, x);
	/* a single head and a batch of one need no copy */
	return is_repeated && g->s->groups != g->s->heads && (g->s->groups > 1 || g->s->batch == 1)
		       ? tensor_ref(*cast)
		       : contiguous(m, *cast);
}

/* eager_attention_forward. *weights are the attention's weights, the caller's. */
static tensor eager(struct machine *m, struct llama *g, tensor q, tensor k, tensor v,
		    tensor *weights)
{
	const struct hparams *s = g->s;
	tensor keys, values, a, b, out, cast[2];

	m->current_term = TERM_ATTN_QKV;
	keys = repeated(m, g, k);
	values = repeated(m, g, v);
	a = operand(m, g, q, 0, &cast[0]);
	b = operand(m, g, keys, 1, &cast[1]);
	m->current_term = TERM_ATTN_SCORES;
	out = matmul(m, a, b, s->batch * s->heads * s->tokens * s->tokens);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	tensor_unref(m, &cast[1]);
	tensor_unref(m, &cast[0]);
	a = scale(m, out);
	tensor_unref(m, &out);
	tensor_assign(m, &a, add(m, a, g->mask));
	m->current_term = TERM_ATTN_SOFTMAX;
	b = softmax(m, a, F32);
	out = to(m, b, q.type);
	tensor_unref(m, &b);
	tensor_assign(m, &a, out);
	tensor_assign(m, &a, dropout(m, a, s->attention_dropout));
	b = autocasted(m, a);
	m->current_term = TERM_ATTN_QKV;
	tensor_assign(m, weights, a);
	a = operand(m, g, values, 1, &cast[0]);
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, b, a, q.n);
	tensor_unref(m, &a);
	tensor_unref(m, &cast[0]);
	tensor_unref(m, &b);
	tensor_assign(m, &out, copied_back(m, out));
	tensor_assign(m, &out, contiguous(m, out));
	tensor_unref(m, &keys);
	tensor_unref(m, &values);
	return out;
}

static tensor sdpa(struct machine *m, struct llama *g, tensor q, tensor k, tensor v)
{
	const struct hparams *s = g->s;
	const struct flash_shape flash = { s->batch, s->heads, s->tokens, s->head,
					   s->attention_dropout };
	tensor keys, values, in[3], out;

	m->current_term = TERM_ATTN_QKV;
	/* use_gqa_in_sdpa: without a mask the kernel itself shares the heads */
	keys = g->mask.storage ? repeated(m, g, k) : tensor_ref(k);
	values = g->mask.storage ? repeated(m, g, v) : tensor_ref(v);
	in[2] = autocasted(m, values);
	in[1] = autocasted(m, keys);
	in[0] = autocasted(m, q);
	m->current_term = TERM_ATTN_CONTEXT;
	out = g->mask.storage ? masked_attention(m, in[0], in[1], in[2], &flash)
			      : flash_attention(m, in[0], in[1], in[2], &flash);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &in[i]);
	tensor_unref(m, &keys);
	tensor_unref(m, &values);
	return out;
}

static tensor attention(struct machine *m, struct llama_layer *l, tensor x, tensor *weights)
{
	struct llama *g = l->model;
	tensor q, k, v, out, now;

	x = module_enter(m, NULL, NULL, x);
	m->current_term = TERM_ATTN_QKV;
	q = linear(m, x, l->q, l->bias[0]);
	tensor_assign(m, &q, copied_back(m, q));
	k = linear(m, x, l->k, l->bias[1]);
	tensor_assign(m, &k, copied_back(m, k));
	v = linear(m, x, l->v, l->bias[2]);
	/* the gradient of the fused kernels has the layout of the projection */
	if (g->s->attention == EAGER || (g->mask.storage && g->s->groups != g->s->heads))
		tensor_assign(m, &v, copied_back(m, v));
	now = rotated(m, g, q);
	out = rotated(m, g, k);
	tensor_assign(m, &q, now);
	tensor_assign(m, &k, out);
	out = g->s->attention == EAGER ? eager(m, g, q, k, v, weights) : sdpa(m, g, q, k, v);
	m->current_term = TERM_ATTN_OUT;
	tensor_assign(m, &out, linear(m, out, l->o, NULL));
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	tensor_unref(m, &q);
	tensor_unref(m, &k);
	tensor_unref(m, &v);
	return out;
}

static tensor mlp(struct machine *m, struct llama_layer *l, tensor x)
{
	tensor gate, up, h, out;

	x = module_enter(m, NULL, NULL, x);
	m->current_term = TERM_MLP_HIDDEN;
	gate = linear(m, x, l->gate, NULL);
	tensor_assign(m, &gate, module_enter(m, NULL, NULL, gate));
	h = silu(m, gate);
	module_leave(m, NULL, &h);
	tensor_unref(m, &gate);
	up = linear(m, x, l->up, NULL);
	gate = mul(m, h, up);
	tensor_unref(m, &h);
	tensor_unref(m, &up);
	m->current_term = TERM_MLP_OUT;
	out = linear(m, gate, l->down, NULL);
	tensor_unref(m, &gate);
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

static tensor block(struct machine *m, void *context, tensor input)
{
	struct llama_layer *l = context;
	tensor x, part, out, weights = none;

	input = module_enter(m, NULL, NULL, input);
	m->current_term = TERM_ATTN_NORM;
	x = normed(m, l->model, l->attention_norm, input);
	part = attention(m, l, x, &weights);
	tensor_unref(m, &x);
	x = add(m, input, part);
	tensor_unref(m, &part);
	tensor_unref(m, &input);
	m->current_term = TERM_MLP_NORM;
	part = normed(m, l->model, l->mlp_norm, x);
	tensor_assign(m, &part,
		      l->sparse ? experts_forward(m, &l->experts, part, &l->logits)
				: mlp(m, l, part));
	out = add(m, x, part);
	tensor_unref(m, &part);
	tensor_unref(m, &x);
	tensor_unref(m, &weights);
	module_leave(m, NULL, &out);
	return out;
}

/* Qwen2-MoE also makes a mask for layers with a sliding window, even if it has none. */
static void make_mask(struct machine *m, struct llama *g, tensor like)
{
	const struct hparams *s = g->s;

	if (s->attention != EAGER && !s->full_mask)
		return;
	m->current_term = TERM_ATTN_SOFTMAX;
	g->mask = causal_mask(m, s, like);
	if (s->shared_ffn)
		g->sliding = window_mask(m, s, like);
}

static tensor one_layer(struct machine *m, struct llama *g, int64_t i, tensor x)
{
	tensor in = wrapper_before_block(m, &g->w, i, x), out;

	out = g->s->recompute == RECOMPUTE_FULL ? checkpointed(m, block, &g->layers[i], in)
						: block(m, &g->layers[i], in);
	tensor_unref(m, &in);
	wrapper_after_block(m, &g->w, i, &out);
	return out;
}

static void release_tables(struct machine *m, struct llama *g)
{
	tensor_unref(m, &g->mask);
	tensor_unref(m, &g->cos);
	tensor_unref(m, &g->sin);
}

static tensor layers(struct machine *m, struct llama *g, tensor tokens)
{
	const struct hparams *s = g->s;
	tensor embedded, x, out;

	tokens = module_enter(m, NULL, NULL, tokens);
	m->current_term = TERM_EMBEDDED;
	embedded = embedding(m, tokens, g->tokens, s->hidden);
	make_mask(m, g, embedded);
	module_enter(m, NULL, NULL, none);
	rotary_tables(m, s, embedded, &g->cos, &g->sin);
	module_leave(m, NULL, NULL);
	x = tensor_ref(embedded);
	for (int64_t i = 0; i < s->layers; i++)
		tensor_assign(m, &x, one_layer(m, g, i, x));
	m->current_term = TERM_FINAL_NORM;
	out = normed(m, g, g->last, x);
	tensor_unref(m, &x);
	tensor_unref(m, &g->sliding);
	if (s->recompute != RECOMPUTE_FULL)
		release_tables(m, g);
	tensor_unref(m, &embedded);
	tensor_unref(m, &tokens);
	module_leave(m, NULL, &out);
	return out;
}

/* ForCausalLMLoss: the logits in fp32, the labels shifted by one. */
static tensor loss_of(struct machine *m, tensor logits, tensor labels)
{
	tensor precise, padded, shifted, loss;

	m->phase = LOSS;
	m->current_term = TERM_LOSS;
	precise = to(m, logits, F32);
	padded = tensor_new_as(m, TERM_INPUTS, labels.n + 1, I64);
	shifted = tensor_new_as(m, TERM_INPUTS, labels.n, I64);
	loss = cross_entropy(m, precise, shifted);
	tensor_unref(m, &precise);
	tensor_unref(m, &padded);
	tensor_unref(m, &shifted);
	return loss;
}

/* ---- the model ---- */

static struct param *weight(struct machine *m, struct llama *g, int64_t out, int64_t in,
			    enum term_id term)
{
	return module_add(m, &g->w.module, out, in, initial_dtype(g->s), term);
}

static void make_attention(struct machine *m, struct llama *g, struct llama_layer *l)
{
	const struct hparams *s = g->s;
	int64_t sizes[3] = { s->heads * s->head, s->groups * s->head, s->groups * s->head };
	struct param **weights[3] = { &l->q, &l->k, &l->v };

	for (int i = 0; i < 3; i++) {
		*weights[i] = weight(m, g, sizes[i], s->hidden, TERM_ATTENTION_WEIGHTS);
		if (s->qkv_bias)
			l->bias[i] = weight(m, g, 1, sizes[i], TERM_ATTENTION_WEIGHTS);
	}
	l->o = weight(m, g, s->hidden, sizes[0], TERM_ATTENTION_WEIGHTS);
}

static void make_layer(struct machine *m, struct llama *g, struct llama_layer *l)
{
	const struct hparams *s = g->s;

	l->model = g;
	make_attention(m, g, l);
	if (l->sparse) {
		experts_make(m, &g->w.module, s, &l->experts);
	} else {
		l->gate = weight(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
		l->up = weight(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
		l->down = weight(m, g, s->hidden, s->ffn, TERM_MLP_WEIGHTS);
	}
	l->attention_norm = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
	l->mlp_norm = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
}

/* The model is made in fp32, then converted. */
static void make_model(struct machine *m, void *model)
{
	struct llama *g = model;
	const struct hparams *s = g->s;

	g->tokens = weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	g->layers = xcalloc((size_t)s->layers, sizeof(*g->layers));
	for (int64_t i = 0; i < s->layers; i++) {
		g->w.first[i] = g->w.module.count;
		g->layers[i].sparse = s->experts && config_moe_layer(s->config, i);
		make_layer(m, g, &g->layers[i]);
	}
	g->w.first[s->layers] = g->w.module.count;
	g->last = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
	for (int i = 0; i < 2; i++)
		g->frequencies[i] = tensor_new_as(m, TERM_BUFFERS, s->head / 2, initial_dtype(s));
	g->head = s->untied ? weight(m, g, s->vocab, s->hidden, TERM_HEAD) : g->tokens;
	if (s->weights != initial_dtype(s)) {
		module_convert(m, &g->w.module, s->weights);
		for (int i = 0; i < 2; i++)
			tensor_assign(m, &g->frequencies[i],
				      tensor_new_as(m, TERM_BUFFERS, s->head / 2, s->weights));
	}
}

/* ---- the training loop ---- */

/* Adds the auxiliary loss, which reads the router's logits of all layers. */
static tensor with_auxiliary_loss(struct machine *m, struct llama *g, tensor loss)
{
	const struct hparams *s = g->s;
	tensor *logits, out;
	int64_t count = 0;

	if (!s->router_logits)
		return loss;
	logits = xcalloc((size_t)s->layers, sizeof(*logits));
	for (int64_t i = 0; i < s->layers; i++)
		if (g->layers[i].logits.storage)
			logits[count++] = g->layers[i].logits;
	out = experts_auxiliary_loss(m, s, logits, count, loss);
	free(logits);
	tensor_unref(m, &loss);
	return out;
}

static void micro_batch(struct machine *m, void *model)
{
	struct llama *g = model;
	const struct hparams *s = g->s;
	struct tape tape = { .last = NULL };
	tensor x, logits, loss;

	m->tape = &tape;
	m->phase = FORWARD;
	tensor_assign(m, &g->loop.tokens, tensor_new_as(m, TERM_INPUTS, s->batch * s->tokens, I64));
	host_wait(m, m->stream); /* the copy from host memory is synchronous */
	wrapper_before_forward(m, &g->w);
	if (s->autocast)
		begin_autocast(m, s->autocast);
	module_enter(m, NULL, NULL, none);
	x = layers(m, g, g->loop.tokens);
	m->current_term = TERM_LOGITS;
	logits = linear(m, x, g->head, NULL);
	loss = loss_of(m, logits, g->loop.tokens);
	loss = with_auxiliary_loss(m, g, loss);
	tensor_unref(m, &x);
	module_leave(m, NULL, &loss);
	end_autocast(m);
	wrapper_after_forward(m, &g->w);
	if (!s->keep_logits)
		tensor_unref(m, &logits);
	tensor_assign(m, &g->loop.logits, logits);
	tensor_assign(m, &g->loop.loss, loss);
	if (s->microbatches > 1)
		loss = scale(m, loss);
	else
		tensor_ref(loss);
	tensor_assign(m, &loss, wrapper_scaled(m, &g->w, loss));
	wrapper_before_backward(m, &g->w);
	loss_backward(m, &tape, loss);
	tensor_unref(m, &loss);
	release_tables(m, g); /* the checkpointed layers have used them */
	wrapper_after_backward(m, &g->w);
	tensor_set_term(m, g->loop.logits, TERM_OLD_LOGITS);
}

/* transformers releases its cache after loading; the peak is that of the training. */
static void loaded(struct machine *m, void *model)
{
	const struct llama *g = model;

	if (g->s->defaults->made_on_host)
		return;
	allocator_empty_cache(m->allocator);
	machine_forget_peak(m);
}

static void run(struct machine *m, const struct hparams *s, int64_t stage)
{
	struct llama g = { .s = s };

	(void)stage;
	train(m, s, &(struct trained_model){ &g.w, make_model, loaded, micro_batch }, &g);
	free(g.layers);
}

static int check(const struct hparams *s, struct inputs *in)
{
	wrapper_check(s, in);
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: transformers is not split");
	if (s->attention != EAGER && !GIVEN(in->c, packed_sequences))
		estimate_note(
			in->out,
			"transformers looks at the positions on the device: where it cannot see "
			"that a row is one sequence (packed data, a simulated device), every "
			"layer keeps a mask of b s^2; packed_sequences=false is a job where it "
			"can");
	if (s->experts)
		estimate_note(in->out, "tokens are counted as spread evenly over the experts");
	return in->failed ? -1 : 0;
}

const struct family_model llama_model = { check, run };
