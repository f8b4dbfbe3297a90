/* T5ForConditionalGeneration, whose batch has no padding. Variables live as long as those of its
 * functions. */
#include "families/plain_codes.h"

#include "families/llama_tables.h"
#include "families/plain_modules.h"
#include "families/t5_attention.h"
#include "families/train.h"
#include "torch/checkpoint.h"

#include "util/util.h"

/* ---- a layer ---- */

/* T5LayerNorm.forward: x * rsqrt(mean(x.float()^2) + eps), as 16-bit weights are, times the weight.
 * The mean lives as long as the function. */
static tensor normed(struct machine *m, struct plain *g, const struct pair *norm, tensor x)
{
	struct param *weight = norm->weight;
	tensor in = module_enter(m, weight, NULL, x), precise = to(m, in, F32), h, mean_of, out;

	h = square(m, precise);
	tensor_unref(m, &precise);
	mean_of = mean(m, h, x.n / g->s->hidden);
	tensor_unref(m, &h);
	h = shift(m, mean_of);
	tensor_assign(m, &h, rsqrt(m, h));
	tensor_assign(m, &h, mul(m, in, h));
	tensor_unref(m, &in);
	if (weight->value.type != F32)
		tensor_assign(m, &h, to(m, h, weight->value.type));
	out = mul(m, weight->value, h);
	tensor_unref(m, &h);
	tensor_unref(m, &mean_of);
	module_leave(m, weight, &out);
	return out;
}

/* x + dropout(part) */
static tensor joined(struct machine *m, struct plain *g, tensor x, tensor part)
{
	tensor dropped = dropout(m, part, g->s->hidden_dropout), out = add(m, x, dropped);

	tensor_unref(m, &dropped);
	return out;
}

/* T5LayerSelfAttention.forward; T5LayerCrossAttention.forward attends to `source`. */
static tensor attended(struct machine *m, struct plain_layer *l, const struct pair *norm, tensor x,
		       struct t5_call *call)
{
	const int is_cross = call->source.storage != NULL;
	tensor in, part, out;

	m->current_term = TERM_ATTN_NORM;
	in = normed(m, l->model, norm, x);
	if (!is_cross)
		call->source = in;
	part = t5_attention(m, l, in, call);
	out = joined(m, l->model, x, part);
	if (is_cross)
		tensor_unref(m, &in);
	tensor_unref(m, &part);
	tensor_unref(m, &in);
	return out;
}

/* T5DenseActDense and T5DenseGatedActDense, whose last product gets its input in the weight's type
 * even under autocast. */
static tensor dense(struct machine *m, struct plain_layer *l, tensor x)
{
	struct plain *g = l->model;
	const struct pair *first = g->s->gated ? &l->gate : &l->up;
	tensor active, straight = none, h, out;

	m->current_term = TERM_MLP_HIDDEN;
	h = linear(m, x, first->weight, NULL);
	active = plain_activated(m, g, h);
	tensor_unref(m, &h);
	if (g->s->gated) {
		straight = linear(m, x, l->up.weight, NULL);
		h = mul(m, active, straight);
	} else {
		h = active;
		active = none;
	}
	tensor_assign(m, &h, dropout(m, h, g->s->hidden_dropout));
	tensor_assign(m, &h, to(m, h, l->down.weight->value.type));
	m->current_term = TERM_MLP_OUT;
	out = linear(m, h, l->down.weight, NULL);
	tensor_unref(m, &h);
	tensor_unref(m, &active);
	tensor_unref(m, &straight);
	return out;
}

/* T5LayerFF.forward */
static tensor fed(struct machine *m, struct plain_layer *l, const struct pair *norm, tensor x)
{
	tensor h, out;

	m->current_term = TERM_MLP_NORM;
	h = normed(m, l->model, norm, x);
	tensor_assign(m, &h, dense(m, l, h));
	out = joined(m, l->model, x, h);
	tensor_unref(m, &h);
	return out;
}

/* The arguments of a layer beside its input. */
static void refer(struct machine *m, const struct plain_stack *k)
{
	checkpoint_refers(m, k->bias);
	checkpoint_refers(m, k->mask);
	checkpoint_refers(m, k->encoded);
	checkpoint_refers(m, k->cross);
}

/* A bias that the first layer made is the stack's. In its second run it goes. */
static void give(struct machine *m, tensor *stack_s, tensor made)
{
	if (m->replaying)
		tensor_unref(m, &made);
	else
		*stack_s = made;
}

/* T5Block.forward */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	struct plain *g = l->model;
	struct plain_stack *k = &g->stacks[l - g->layers >= g->s->encoder_layers];
	const int is_first = l->buckets != NULL;
	struct t5_call self = { .parts = l->parts,
				.out = &l->out,
				.mask = k->mask,
				.causal = k->is_decoder,
				.bias = is_first ? none : k->bias },
		       cross = { .parts = l->cross,
				 .out = &l->cross[3],
				 .source = k->encoded,
				 .bias = is_first ? none : k->cross };
	tensor x, out;

	refer(m, k);
	x = attended(m, l, &l->norm[0], input, &self);
	if (k->is_decoder) {
		tensor_assign(m, &x, attended(m, l, &l->norm[1], x, &cross));
		tensor_unref(m, &self.weights); /* the variable "_" */
	}
	out = fed(m, l, &l->norm[k->is_decoder ? 2 : 1], x);
	tensor_unref(m, &x);
	if (is_first) {
		give(m, &k->bias, self.bias);
		if (k->is_decoder)
			give(m, &k->cross, cross.bias);
	}
	tensor_unref(m, &self.weights);
	tensor_unref(m, &cross.weights);
	return out;
}

/* ---- the model ---- */

/* T5Stack.forward of the tokens */
static tensor stack(struct machine *m, struct plain *g, int which, tensor tokens, tensor encoded)
{
	const struct hparams *s = g->s;
	const int64_t first = which ? s->encoder_layers : 0;
	const int64_t end = which ? s->layers : s->encoder_layers;
	struct plain_stack *k = &g->stacks[which];
	tensor embeds, x;

	*k = (struct plain_stack){ .is_decoder = which, .encoded = encoded };
	m->current_term = TERM_EMBEDDED;
	embeds = embedding(m, tokens, g->tokens, s->hidden);
	if (which && s->attention == EAGER)
		k->mask = causal_mask(m, s, embeds);
	x = dropout(m, embeds, s->hidden_dropout);
	for (int64_t i = first; i < end; i++)
		tensor_assign(m, &x, train_layer(m, &g->w, i, block, &g->layers[i], x));
	m->current_term = TERM_FINAL_NORM;
	tensor_assign(m, &x, normed(m, g, which ? &g->last : &g->middle, x));
	tensor_assign(m, &x, dropout(m, x, s->hidden_dropout));
	tensor_unref(m, &embeds);
	/* the layers' second runs still refer to these */
	for (int i = 0; i < 3; i++) {
		tensor t = i == 0 ? k->mask : i == 1 ? k->bias : k->cross;

		tensor_unref(m, &t);
	}
	return x;
}

/* _shift_right: a copy of all but the last label, and where a label is ignored */
static tensor shifted(struct machine *m, const struct hparams *s)
{
	const int64_t n = s->batch * s->tokens;
	tensor out = tensor_new_as(m, TERM_INPUTS, n, I64);

	scratch(m, (n - s->batch) * dtype_width(I64));
	scratch(m, n);
	return out;
}

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	tensor encoded, tokens, x, scaled, loss;

	encoded = stack(m, g, 0, g->loop.tokens, none);
	tokens = shifted(m, g->s);
	x = stack(m, g, 1, tokens, encoded);
	m->current_term = TERM_LOGITS;
	scaled = VALUE_OR(g->s->config, scale_decoder_outputs, 1) ? scale(m, x) : tensor_ref(x);
	*logits = linear(m, scaled, g->head, NULL);
	loss = plain_loss(m, *logits, g->loop.labels);
	tensor_unref(m, &x);
	tensor_unref(m, &scaled);
	tensor_unref(m, &tokens);
	g->loop.beside = encoded;
	return loss;
}

/* The leaf and its gradient live as long as the graph. */
static void release(struct machine *m, void *model)
{
	struct plain *g = model;

	if (m->unreferenced)
		return;
	if (g->s->keep_logits) { /* the logits refer to the graph */
		g->loop.kept[1] = g->zeros.value;
		g->loop.kept[2] = g->zeros.grad;
		g->zeros.value = g->zeros.grad = none;
	}
	tensor_unref(m, &g->zeros.value);
	tensor_unref(m, &g->zeros.grad);
}

/* ---- parameters ---- */

static struct pair matrix(struct machine *m, struct plain *g, int64_t out, int64_t in,
			  enum term_id term)
{
	return plain_pair(m, g, out, in, 0, term);
}

static void make_attention(struct machine *m, struct plain *g, struct pair *parts, struct pair *out)
{
	const int64_t inner = g->s->heads * g->s->head, h = g->s->hidden;

	for (int i = 0; i < 3; i++)
		parts[i] = matrix(m, g, inner, h, TERM_ATTENTION_WEIGHTS);
	*out = matrix(m, g, h, inner, TERM_ATTENTION_WEIGHTS);
}

static struct pair make_norm(struct machine *m, struct plain *g)
{
	return matrix(m, g, 1, g->s->hidden, TERM_NORM_WEIGHTS);
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l, int is_decoder,
		       int is_first)
{
	const struct hparams *s = g->s;

	make_attention(m, g, l->parts, &l->out);
	if (is_first)
		l->buckets =
			plain_weight(m, g, VALUE_OR(s->config, relative_attention_num_buckets, 32),
				     s->heads, TERM_POSITIONS);
	l->norm[0] = make_norm(m, g);
	if (is_decoder) {
		make_attention(m, g, l->cross, &l->cross[3]);
		l->norm[1] = make_norm(m, g);
	}
	if (s->gated)
		l->gate = matrix(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
	l->up = matrix(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
	l->down = matrix(m, g, s->hidden, s->ffn, TERM_MLP_WEIGHTS);
	l->norm[is_decoder ? 2 : 1] = make_norm(m, g);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;

	g->tokens = plain_weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	for (int64_t i = 0; i < s->layers; i++) {
		const int is_decoder = i >= s->encoder_layers;

		if (i == s->encoder_layers)
			g->middle = make_norm(m, g);
		make_layer(m, g, &g->layers[i], is_decoder, !i || i == s->encoder_layers);
	}
	g->last = make_norm(m, g);
	g->head = g->tokens;
}

static void check(const struct hparams *s, struct inputs *in)
{
	estimate_note(in->out, "no token is padded: with padding, attention has a mask");
	if (is_fsdp(s))
		input_reject(in, CONFIG_zero_stage, "at most 2: FSDP is not modelled yet with T5");
	if (s->encoder_layers < 1 || s->encoder_layers >= s->layers)
		input_reject(in, CONFIG_encoder_num_layers, "at least 1, as the decoder's");
	if (!s->rms_norm || s->linear_bias)
		input_reject(in, CONFIG_normalization, "RMSNorm, and no biases, with T5");
	if (s->untied)
		input_reject(in, CONFIG_untie_embeddings_and_output_weights, "false with T5");
	if (s->weights == F16)
		input_reject(in, CONFIG_precision,
			     "no fp16 weights: T5's clamps are not modelled yet");
}

const struct plain_code plain_t5 = { make, forward, release, check, 0, 0, 0, 1 };
