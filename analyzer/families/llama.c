/* transformers' decoders like Llama (modeling_llama.py): RMSNorm in single operations, rotary
 * positions, grouped heads, gated feed-forward layers. */
#include "families/llama_attention.h"
#include "families/norms.h"
#include "torch/autocast.h"
#include "families/llama_tables.h"
#include "families/loop.h"
#include "families/llama.h"

#include "families/train.h"
#include "torch/ops.h"
#include "torch/streams.h"

#include <stdlib.h>

#include "util/util.h"
#include "config/parameter_count.h"

/* ---- the forward pass ---- */

/* up * act(gate) of one projection */
static tensor fused_mlp(struct machine *m, struct llama_layer *l, tensor x)
{
	tensor both, part[2], gate, out;

	x = module_enter(m, NULL, NULL, x);
	m->current_term = TERM_MLP_HIDDEN;
	both = linear(m, x, l->gate, NULL);
	split(m, both, part, (int64_t[]){ both.n / 2, both.n / 2 }, 2);
	tensor_unref(m, &both);
	gate = module_enter(m, NULL, NULL, part[0]);
	out = silu(m, gate);
	module_leave(m, NULL, &out);
	tensor_unref(m, &gate);
	gate = mul(m, part[1], out);
	tensor_unref(m, &out);
	tensor_unref(m, &part[0]);
	tensor_unref(m, &part[1]);
	m->current_term = TERM_MLP_OUT;
	out = linear(m, gate, l->down, NULL);
	tensor_unref(m, &gate);
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

static tensor mlp(struct machine *m, struct llama_layer *l, tensor x)
{
	tensor gate, up, h, out;

	if (l->model->row->fused_mlp)
		return fused_mlp(m, l, x);
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

/* residual + part, after a norm and dropout of the part; both are taken. */
static tensor added(struct machine *m, struct llama *g, tensor residual, struct param *norm,
		    tensor part)
{
	tensor out;

	if (g->row->norms != NORMS_BEFORE)
		tensor_assign(m, &part, normed(m, g->row, norm, part, g->s->hidden));
	tensor_assign(m, &part, dropout(m, part, g->row->dropout ? g->s->hidden_dropout : 0));
	if (g->row->scaled)
		tensor_assign(m, &part, scale(m, part));
	out = add(m, residual, part);
	tensor_unref(m, &part);
	tensor_unref(m, &residual);
	return out;
}

/* The input of attention or feed-forward. */
static tensor prepared(struct machine *m, struct llama *g, struct param *norm, tensor x)
{
	return g->row->norms == NORMS_AFTER ? tensor_ref(x)
					    : normed(m, g->row, norm, x, g->s->hidden);
}

static tensor block(struct machine *m, void *context, tensor input)
{
	struct llama_layer *l = context;
	struct llama *g = l->model;
	tensor x, part, out, weights = none;

	input = module_enter(m, NULL, NULL, input);
	m->current_term = TERM_ATTN_NORM;
	x = prepared(m, g, l->attention_norm, input);
	part = llama_attention(m, l, x, &weights);
	tensor_unref(m, &x);
	x = added(m, g, input, l->after_attention, part);
	m->current_term = TERM_MLP_NORM;
	part = prepared(m, g, l->mlp_norm, x);
	tensor_assign(m, &part,
		      l->sparse ? experts_forward(m, &l->experts, part, &l->logits)
				: mlp(m, l, part));
	out = added(m, g, x, l->after_mlp, part);
	tensor_unref(m, &weights);
	module_leave(m, NULL, &out);
	return out;
}

/* transformers.masking_utils: for sdpa, the kernel's own causal mask replaces a mask that neither
 * packed sequences nor a window changes. Qwen2-MoE always makes a mask for layers with a window. */
static void make_mask(struct machine *m, struct llama *g, tensor like)
{
	const struct hparams *s = g->s;
	const int64_t window = VALUE_OR(s->config, window_size, 0);
	const int any = s->attention == EAGER || s->packed;
	const int shorter = g->row->window == WINDOW_MASK || (window > 0 && s->tokens >= window);
	const int windowed = any || (s->attention == SDPA && shorter);
	const int in_file = g->row->window == WINDOW_OF_FILE && window > 0;

	m->current_term = TERM_ATTN_SOFTMAX;
	if (in_file ? windowed : any)
		g->mask = in_file ? window_mask(m, s, like) : causal_mask(m, s, like);
	if (windowed && (g->row->window == WINDOW_MASK || g->row->window == WINDOW_OF_LAYERS))
		g->sliding = window_mask(m, s, like);
}

/* Rotary tables, of each kind of layer. */
static void make_tables(struct machine *m, struct llama *g, tensor like)
{
	int kinds[2] = { 0, 0 };

	for (int64_t i = 0; i < g->s->layers; i++)
		kinds[g->layers[i].sliding] = 1;
	for (int i = 0; i < 2; i++) {
		if (!kinds[i])
			continue;
		module_enter(m, NULL, NULL, none);
		rotary_tables(m, g->s->tokens * g->rotary, like, &g->rope[i].cos, &g->rope[i].sin);
		module_leave(m, NULL, NULL);
	}
}

/* torch.arange(s) + 0; packed sequences come with theirs. */
static void make_places(struct machine *m, struct llama *g)
{
	tensor first;

	if (g->s->packed)
		return;
	first = tensor_new(m, g->s->tokens, I64);
	tensor_assign(m, &g->places, tensor_new(m, g->s->tokens, I64));
	tensor_unref(m, &first);
}

static void release_tables(struct machine *m, struct llama *g)
{
	tensor_unref(m, &g->places);
	tensor_unref(m, &g->sliding);
	tensor_unref(m, &g->mask);
	for (int i = 0; i < 2; i++) {
		tensor_unref(m, &g->rope[i].cos);
		tensor_unref(m, &g->rope[i].sin);
	}
}

static tensor layers(struct machine *m, struct llama *g, tensor tokens)
{
	const struct hparams *s = g->s;
	tensor embedded, x, out;

	tokens = module_enter(m, NULL, NULL, tokens);
	m->current_term = TERM_EMBEDDED;
	embedded = embedding(m, tokens, g->tokens, s->hidden);
	if (g->row->scaled_embedding || g->row->scaled)
		tensor_assign(m, &embedded, scale(m, embedded));
	make_places(m, g);
	make_mask(m, g, embedded);
	make_tables(m, g, embedded);
	x = tensor_ref(embedded);
	for (int64_t i = 0; i < s->layers; i++)
		tensor_assign(m, &x, train_layer(m, &g->w, i, block, &g->layers[i], x));
	m->current_term = TERM_FINAL_NORM;
	out = normed(m, g->row, g->last, x, s->hidden);
	tensor_unref(m, &x);
	/* a mask that no layer was given is no longer needed */
	if (g->row->window == WINDOW_MASK && !g->row->capped)
		tensor_unref(m, &g->sliding);
	if (s->recompute != RECOMPUTE_FULL)
		release_tables(m, g);
	tensor_unref(m, &embedded);
	tensor_unref(m, &tokens);
	module_leave(m, NULL, &out);
	return out;
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
	int64_t out = sizes[0];

	if (g->row->fused_qkv) { /* qkv_proj comes after o_proj */
		l->o = weight(m, g, s->hidden, out, TERM_ATTENTION_WEIGHTS);
		sizes[0] += 2 * sizes[1];
	}
	for (int i = 0; i < (g->row->fused_qkv ? 1 : 3); i++) {
		*weights[i] = weight(m, g, sizes[i], s->hidden, TERM_ATTENTION_WEIGHTS);
		if (s->qkv_bias)
			l->bias[i] = weight(m, g, 1, sizes[i], TERM_ATTENTION_WEIGHTS);
	}
	if (!g->row->fused_qkv)
		l->o = weight(m, g, s->hidden, out, TERM_ATTENTION_WEIGHTS);
	if (g->row->qk_norm == QK_NONE)
		return;
	l->q_norm = weight(m, g, 1, g->row->qk_norm == QK_WHOLE ? sizes[0] : s->head,
			   TERM_NORM_WEIGHTS);
	l->k_norm = weight(m, g, 1, g->row->qk_norm == QK_WHOLE ? sizes[1] : s->head,
			   TERM_NORM_WEIGHTS);
}

static void make_norms(struct machine *m, struct llama *g, struct llama_layer *l)
{
	struct param **before[2] = { &l->attention_norm, &l->mlp_norm },
		     **after[2] = { &l->after_attention, &l->after_mlp };

	if (g->row->norm == NORM_WITHOUT_WEIGHT)
		return;
	for (int i = 0; i < 2; i++) {
		if (g->row->norms != NORMS_AFTER)
			*before[i] = weight(m, g, 1, g->s->hidden, TERM_NORM_WEIGHTS);
		if (g->row->norms != NORMS_BEFORE)
			*after[i] = weight(m, g, 1, g->s->hidden, TERM_NORM_WEIGHTS);
	}
}

static void make_layer(struct machine *m, struct llama *g, struct llama_layer *l)
{
	const struct hparams *s = g->s;

	l->model = g;
	make_attention(m, g, l);
	if (l->sparse) {
		experts_make(m, &g->w.module, s, g->row->router == ROUTER_CONVERTS, &l->experts);
	} else {
		l->gate = weight(m, g, g->row->fused_mlp ? 2 * s->ffn : s->ffn, s->hidden,
				 TERM_MLP_WEIGHTS);
		if (!g->row->fused_mlp)
			l->up = weight(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
		l->down = weight(m, g, s->hidden, s->ffn, TERM_MLP_WEIGHTS);
	}
	make_norms(m, g, l);
}

/* Every sixth layer of Gemma 3 sees all tokens. */
#define GLOBAL_EVERY 6

/* inv_freq and original_inv_freq, of each kind of layer; the factor of Gemma's embedding */
static int frequencies(const struct llama *g)
{
	int kinds = g->row->window == WINDOW_OF_LAYERS && g->s->layers >= GLOBAL_EVERY ? 2 : 1;

	return 2 * kinds + g->row->scaled_embedding;
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
		g->layers[i].sliding =
			g->row->window == WINDOW_OF_LAYERS && (i + 1) % GLOBAL_EVERY != 0;
		make_layer(m, g, &g->layers[i]);
	}
	g->w.first[s->layers] = g->w.module.count;
	if (g->row->norm != NORM_WITHOUT_WEIGHT)
		g->last = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
	for (int i = 0; i < frequencies(g); i++)
		g->frequencies[i] = tensor_new_as(m, TERM_BUFFERS, g->rotary / 2, initial_dtype(s));
	g->head = s->untied ? weight(m, g, s->vocab, s->hidden, TERM_HEAD) : g->tokens;
	if (s->weights != initial_dtype(s)) {
		module_convert(m, &g->w.module, s->weights);
		for (int i = 0; i < frequencies(g); i++)
			tensor_assign(m, &g->frequencies[i],
				      tensor_new_as(m, TERM_BUFFERS, g->rotary / 2, s->weights));
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

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct llama *g = model;
	tensor x, loss;

	module_enter(m, NULL, NULL, none);
	x = layers(m, g, g->loop.tokens);
	m->current_term = TERM_LOGITS;
	*logits = linear(m, x, g->head, NULL);
	if (g->row->capped)
		tensor_assign(m, logits, capped(m, *logits));
	if (g->row->scaled)
		tensor_assign(m, logits, scale(m, *logits));
	loss = causal_loss(m, g->s, *logits, g->loop.tokens);
	loss = with_auxiliary_loss(m, g, loss);
	tensor_unref(m, &x);
	module_leave(m, NULL, &loss);
	return loss;
}

/* The checkpointed layers have used them. */
static void release(struct machine *m, void *model)
{
	release_tables(m, model);
}

static void micro_batch(struct machine *m, void *model)
{
	struct llama *g = model;
	const struct loop_model parts = { &g->w, &g->loop, text_batch, forward, release };

	loop_micro_batch(m, &parts, g);
}

static void loaded(struct machine *m, void *model)
{
	const struct llama *g = model;

	loop_loaded(m, g->s);
}

/* A job without a model_type is Llama; Mixtral and Qwen2-MoE are told by their experts. */
static const struct decoder *row_of(const struct hparams *s)
{
	const char *type = s->shared_ffn ? "qwen2_moe" : s->experts ? "mixtral" : "llama";

	return decoder_find(VALUE_OR(s->config, model_type, type));
}

static int64_t rotary_of(const struct hparams *s)
{
	return (int64_t)((double)s->head * VALUE_OR(s->config, rotary_percent, 1));
}

static void run(struct machine *m, const struct hparams *s, int64_t stage)
{
	struct llama g = { .s = s, .row = row_of(s), .rotary = rotary_of(s) };

	(void)stage;
	train(m, s, &(struct trained_model){ &g.w, make_model, loaded, micro_batch }, &g);
	free(g.layers);
}

static int check(const struct hparams *s, struct inputs *in)
{
	const struct decoder *row = row_of(s);

	wrapper_check(s, in);
	if (s->qk_norm != (row->qk_norm != QK_NONE))
		input_reject(in, CONFIG_qk_layernorm, "as in the code of the model_type");
	if (row->capped && s->attention != EAGER)
		input_reject(in, CONFIG_attention, "eager: kernels with caps are not modelled");
	if (rotary_of(s) != s->head && !row->partial)
		input_reject(in, CONFIG_rotary_percent, "1: whole heads turn");
	if (s->hidden_dropout > 0 && !row->dropout)
		input_reject(in, CONFIG_hidden_dropout, "0: the dropout is the attention's");
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: transformers is not split");
	if (s->experts)
		estimate_note(in->out, "tokens are counted as spread evenly over the experts");
	return in->failed ? -1 : 0;
}

const struct family_model llama_model = { check, run };
