#include "megatron/gdn.h"

#include <stdio.h>
#include <string.h>

#include "kernels/delta_rule.h"
#include "kernels/measured.h"
#include "megatron/compiled.h"
#include "megatron/declare.h"
#include "megatron/tensor_parallel.h"
#include "util/util.h"

/* The widths of a rank's part of the first projection. */
struct gdn_widths {
	int64_t keys, values, heads, convolved;
};

static struct gdn_widths widths(const struct hparams *s)
{
	const struct delta_net *d = &s->delta;
	struct gdn_widths w = { d->key_heads * d->key / s->tp, d->value_heads * d->value / s->tp,
				d->value_heads / s->tp, 0 };

	w.convolved = 2 * w.keys + w.values;
	return w;
}

/* Versions after 0.16 make the inputs by torch.compile, and have fla's convolution. A job with
 * Megatron-LM's command line has the latest version, unless it declares another one. */
static int is_later(const struct hparams *s)
{
	int major, minor;

	if (GIVEN(s->config, megatron_core_version) &&
	    sscanf(s->config->megatron_core_version, "%d.%d", &major, &minor) == 2)
		return major > 0 || minor > 16;
	return s->training_loop;
}

void gdn_declare(struct model_chunk *c, struct megatron_layer *l)
{
	const struct hparams *s = c->rank->s;
	struct gdn_widths w = widths(s);
	struct gdn_weights *g = &l->gdn;

	g->dt_bias = declare_param(c, TERM_GDN_WEIGHTS, 1, w.heads, 0);
	g->a_log = declare_param(c, TERM_GDN_WEIGHTS, 1, w.heads, 0);
	g->in = declare_param(c, TERM_GDN_WEIGHTS, w.convolved + w.values + 2 * w.heads, s->hidden,
			      0);
	g->conv = declare_param(c, TERM_GDN_WEIGHTS, w.convolved, s->delta.taps, 0);
	g->norm = declare_norm(c, s->delta.value);
	g->out = declare_param(c, TERM_GDN_WEIGHTS, s->hidden, w.values, 0);
}

/* ---- the convolution ---- */

/* sizes: elements of the input and of the weight */
static void conv_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 1; i >= 0; i--)
		n->out[i] = tensor_new(m, n->sizes[i], n->in[0].type);
}

/* nn.Conv1d with a kernel for each channel, which pads both ends: the result is longer than the
 * input. */
static tensor conv1d_of_torch(struct machine *m, tensor x, struct param *weight, int64_t n)
{
	tensor in[2] = { x, weight->value };
	struct grad_node *node = grad_node_new(m, conv_backward, in, 2);

	for (int i = 0; node && i < 2; i++) {
		node->sizes[i] = in[i].n;
		save_for_backward(m, node, in[i]);
	}
	return with_grad_fn(tensor_new(m, n, x.type), node, 0);
}

/* fla's causal_conv1d(): a gradient of the weight in fp32 for each chunk of tokens. `sizes`:
 * elements of the input and of the weight; chunks. */
static void fla_conv_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;
	tensor again = tensor_new(m, n->sizes[0], type), parts, sum;

	n->out[0] = tensor_new(m, n->sizes[0], type);
	parts = tensor_new(m, n->sizes[1] * n->sizes[2], F32);
	sum = tensor_new(m, n->sizes[1], F32);
	n->out[1] = tensor_new(m, n->sizes[1], type);
	measure_triton(m, FLA_CONV_BACKWARD);
	tensor_unref(m, &sum);
	tensor_unref(m, &parts);
	tensor_unref(m, &again);
}

static tensor conv1d_of_fla(struct machine *m, const struct hparams *s, tensor x,
			    struct param *weight)
{
	tensor in[2] = { x, weight->value }, out;
	struct grad_node *node = grad_node_new(m, fla_conv_backward, in, 2);

	for (int i = 0; node && i < 2; i++) {
		node->sizes[i] = in[i].n;
		save_for_backward(m, node, in[i]);
	}
	if (node)
		node->sizes[2] = s->batch * divide_up(s->tokens, DELTA_CHUNK);
	out = tensor_new(m, x.n, x.type);
	measure_triton(m, FLA_CONV);
	return with_grad_fn(out, node, 0);
}

/* Queries, keys and values after the convolution and silu; `x`: a view of the first projection. */
static tensor convolved(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	int64_t more = s->batch * widths(s).convolved * (s->delta.taps - 1);
	tensor by_channel, longer, part, out;

	if (is_later(s) && !s->deterministic)
		return conv1d_of_fla(m, s, x, l->gdn.conv);
	by_channel = contiguous(m, x);
	longer = conv1d_of_torch(m, by_channel, l->gdn.conv, x.n + more);
	tensor_unref(m, &by_channel);
	part = slice(m, longer, x.n);
	tensor_unref(m, &longer);
	out = silu(m, part);
	tensor_unref(m, &part);
	return out;
}

/* ---- the inputs of the rule ---- */

/* fla's l2norm() saves its result and one number for each row. */
static void l2norm_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->in[0].n, n->in[0].type);
	measure_triton(m, FLA_NORM_BACKWARD);
}

static tensor l2norm(struct machine *m, tensor x, int64_t width)
{
	struct grad_node *n = grad_node_new(m, l2norm_backward, &x, 1);
	tensor out = tensor_new(m, x.n, x.type), rstd = tensor_new(m, x.n / width, F32);

	measure_triton(m, FLA_NORM);
	save_for_backward(m, n, out);
	save_for_backward(m, n, rstd);
	tensor_unref(m, &rstd);
	return with_grad_fn(out, n, 0);
}

/* Queries and keys, normalized and repeated for the heads of values that share them. `part`: views.
 */
static void normalize(struct machine *m, const struct hparams *s, const tensor *part, tensor *out)
{
	int64_t times = s->delta.value_heads / s->delta.key_heads;

	for (int i = 0; i < 2; i++) {
		tensor copy = contiguous(m, part[i]);

		out[i] = l2norm(m, copy, s->delta.key);
		tensor_unref(m, &copy);
	}
	for (int i = 0; i < 2 && times > 1; i++)
		tensor_assign(m, &out[i], repeat(m, out[i], out[i].n * times));
}

/* -A_log.exp() * softplus(alpha.float() + dt_bias) */
static tensor decay_of(struct machine *m, struct megatron_layer *l, tensor alpha)
{
	tensor rate = sigmoid(m, l->gdn.a_log->value), out, sum;

	tensor_assign(m, &rate, scale(m, rate));
	sum = to(m, alpha, F32);
	tensor_assign(m, &sum, add(m, sum, l->gdn.dt_bias->value));
	out = silu(m, sum); /* softplus saves its input, too */
	tensor_unref(m, &sum);
	tensor_assign(m, &out, mul_row(m, out, rate));
	tensor_unref(m, &rate);
	return out;
}

/* ---- the layer ---- */

/* _apply_gated_norm(), compiled. `sizes`: elements of the weight */
static void gated_norm_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 1; i >= 0; i--)
		n->out[i] = tensor_new(m, n->in[0].n, n->in[0].type);
	for (int i = 2; i < 4; i++)
		if (n->edge[i])
			n->out[i] = tensor_new(m, n->sizes[0], n->in[0].type);
}

static tensor gated_norm(struct machine *m, struct megatron_layer *l, tensor x, tensor gate)
{
	const struct norm_weights *w = &l->gdn.norm;
	tensor in[4] = { x, gate, w->weight->value, w->bias ? w->bias->value : none };
	struct grad_node *n = grad_node_new(m, gated_norm_backward, in, 4);
	tensor rstd = tensor_new(m, x.n / in[2].n, F32), out = tensor_new(m, x.n, x.type);

	if (n)
		n->sizes[0] = in[2].n;
	for (int i = 0; i < 4; i++)
		save_for_backward(m, n, in[i]);
	save_for_backward(m, n, rstd);
	tensor_unref(m, &rstd);
	return with_grad_fn(out, n, 0);
}

/* Transformer Engine's norm is not compiled, so that its result is saved, too. */
static tensor gated(struct machine *m, struct megatron_layer *l, tensor x, tensor gate)
{
	const struct hparams *s = l->chunk->rank->s;
	const struct norm_weights *w = &l->gdn.norm;
	tensor normed, out;

	if (!s->transformer_engine)
		return gated_norm(m, l, x, gate);
	normed = s->rms_norm ? fused_rms_norm(m, x, w->weight, s->delta.value)
			     : layer_norm(m, x, w->weight, w->bias, s->delta.value);
	out = compiled_gate(m, normed, gate);
	tensor_unref(m, &normed);
	return out;
}

enum { QKV, GATE, BETA, ALPHA, PARTS };

/* The variables of the function: the first projection, its parts, and the rule's inputs. */
struct gdn_variables {
	tensor part[PARTS], projected, qkv;
	struct delta_inputs rule;
};

static void project(struct machine *m, struct megatron_layer *l, tensor x, struct gdn_variables *v)
{
	struct megatron_rank *r = l->chunk->rank;
	struct gdn_widths w = widths(r->s);
	const int64_t sizes[PARTS] = { r->rows * w.convolved, r->rows * w.values, r->rows * w.heads,
				       r->rows * w.heads };

	m->current_term = TERM_GDN_PROJECTION;
	v->projected = parallel_linear(m, r, x, l->gdn.in, NULL, 1);
	if (r->s->batch > 1 && v->projected.grad_fn)
		v->projected.grad_fn->ordered = 1;
	split(m, v->projected, v->part, sizes, PARTS);
}

/* Megatron-core 0.16.1 makes each input by PyTorch's operations. */
static void make_inputs(struct machine *m, struct megatron_layer *l, struct gdn_variables *v,
			const tensor *part)
{
	tensor normed[2];

	normalize(m, l->chunk->rank->s, part, normed);
	v->rule.q = normed[0];
	v->rule.k = normed[1];
	v->rule.v = contiguous(m, part[2]);
	for (int i = GATE; i < PARTS; i++)
		tensor_assign(m, &v->part[i], contiguous(m, v->part[i]));
	v->rule.decay = decay_of(m, l, v->part[ALPHA]);
	v->rule.beta = sigmoid(m, v->part[BETA]);
	tensor_unref(m, &v->part[BETA]);
}

/* Queries and keys out of one tensor of both. */
static void pair_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
}

/* The gradient of a view takes as much as the view spans. */
static void spanned_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
	n->out[0].n = n->in[0].n;
}

static void compiled_decay_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->type);
	for (int i = 1; i < 3; i++)
		n->out[i] = tensor_new(m, n->sizes[i], n->type);
}

static tensor compiled_decay(struct machine *m, struct megatron_layer *l, tensor alpha)
{
	tensor in[3] = { alpha, l->gdn.a_log->value, l->gdn.dt_bias->value };
	struct grad_node *n = grad_node_new(m, compiled_decay_backward, in, 3);

	for (int i = 0; n && i < 3; i++)
		n->sizes[i] = in[i].n;
	if (n)
		n->type = alpha.type;
	save_for_backward(m, n, alpha); /* a view, which keeps the first projection */
	return with_grad_fn(tensor_new(m, alpha.n, F32), n, 0);
}

/* Later versions normalize queries and keys together and compile what follows
 * (_prepare_input_for_gated_delta_rule). */
static void make_compiled_inputs(struct machine *m, struct megatron_layer *l,
				 struct gdn_variables *v, const tensor *part)
{
	const struct hparams *s = l->chunk->rank->s;
	struct gdn_widths w = widths(s);
	int64_t times = s->delta.value_heads / s->delta.key_heads;
	tensor pair = contiguous(m, part[0]), value = part[1];
	struct grad_node *n;

	tensor_assign(m, &pair, l2norm(m, pair, s->delta.key));
	n = grad_node_new(m, pair_backward, &pair, 1);
	if (n)
		n->sizes[0] = pair.n;
	v->rule.q = with_grad_fn(tensor_new(m, pair.n / 2 * times, pair.type), n, 0);
	v->rule.k = with_grad_fn(tensor_new(m, pair.n / 2 * times, pair.type), n, 1);
	tensor_unref(m, &pair);
	v->rule.beta = sigmoid(m, v->part[BETA]);
	n = grad_node_new(m, spanned_backward, &value, 1);
	if (n)
		n->sizes[0] = s->deterministic
				      ? ((s->batch - 1) * w.convolved + w.values) * s->tokens
				      : value.n;
	v->rule.v = with_grad_fn(tensor_new(m, value.n, value.type), n, 0);
	v->rule.decay = compiled_decay(m, l, v->part[ALPHA]);
	tensor_assign(m, &v->part[GATE], contiguous(m, v->part[GATE]));
	tensor_unref(m, &v->part[BETA]);
}

/* Queries and keys of later versions are one part. */
static void prepare(struct machine *m, struct megatron_layer *l, struct gdn_variables *v)
{
	const struct hparams *s = l->chunk->rank->s;
	struct gdn_widths w = widths(s);
	int64_t rows = l->chunk->rank->rows;
	const int64_t three[3] = { rows * w.keys, rows * w.keys, rows * w.values };
	const int64_t two[2] = { rows * w.keys * 2, rows * w.values };
	tensor part[3];
	int later = is_later(s), count = later ? 2 : 3;

	m->current_term = TERM_GDN_RULE;
	v->qkv = convolved(m, l, v->part[QKV]);
	tensor_unref(m, &v->part[QKV]);
	split(m, v->qkv, part, count == 2 ? two : three, count);
	if (later)
		make_compiled_inputs(m, l, v, part);
	else
		make_inputs(m, l, v, part);
	for (int i = 0; i < count; i++)
		tensor_unref(m, &part[i]);
}

static void release_variables(struct machine *m, struct gdn_variables *v)
{
	tensor *all[] = { &v->part[GATE], &v->part[ALPHA], &v->projected,  &v->qkv,      &v->rule.q,
			  &v->rule.k,     &v->rule.v,      &v->rule.decay, &v->rule.beta };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		tensor_unref(m, all[i]);
}

tensor gdn_forward(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	const struct delta_sizes z = { s->batch, s->tokens, s->delta.value_heads / s->tp,
				       s->delta.key, s->delta.value };
	struct gdn_variables v = { .projected = none };
	tensor core, normed, out;

	project(m, l, x, &v);
	prepare(m, l, &v);
	core = s->deterministic ? delta_rule_of_torch(m, &z, &v.rule)
				: delta_rule_of_fla(m, &z, &v.rule);
	normed = gated(m, l, core, v.part[GATE]);
	if (s->batch > 1) {
		tensor_assign(m, &normed, copied_back(m, normed));
		tensor_assign(m, &normed, contiguous(m, normed));
	}
	m->current_term = TERM_GDN_PROJECTION;
	out = parallel_linear(m, r, normed, l->gdn.out, NULL, 0);
	tensor_unref(m, &normed);
	tensor_unref(m, &core);
	release_variables(m, &v);
	tensor_assign(m, &out, tp_reduce(m, r, out));
	return out;
}

/* ---- which models with gated delta nets are modelled ---- */

static void check_variant(const struct hparams *s, struct inputs *in)
{
	const char *variant = in->c->experimental_attention_variant;
	const char *freq = VALUE_OR(in->c, linear_attention_freq, "");

	if (strcmp(variant, "gated_delta_net") && strcmp(variant, "gdn"))
		input_reject(in, CONFIG_experimental_attention_variant,
			     "gated_delta_net: sparse attention (dsa) and other gated delta nets "
			     "(gdn2) are not modelled yet");
	if (!*freq)
		input_reject(in, CONFIG_linear_attention_freq,
			     "the layers with gated delta nets, which Megatron-core asks for");
	if (*freq == '[' && (int64_t)strlen(freq) != 2 * s->layers + 1)
		input_reject(in, CONFIG_linear_attention_freq, "one number for each layer");
}

static void check_heads(const struct hparams *s, struct inputs *in)
{
	const struct delta_net *d = &s->delta;
	wide width = (wide)d->value_heads * largest(d->value, d->key);

	if (d->key_heads % s->tp || d->value_heads % s->tp)
		input_reject(in, CONFIG_linear_num_key_heads,
			     "heads of keys and values that tensor parallelism divides");
	if (d->value_heads % d->key_heads)
		input_reject(in, CONFIG_linear_num_value_heads,
			     "a multiple of linear_num_key_heads");
	if ((wide)s->batch * s->tokens * width > (wide)1 << 42 ||
	    (wide)s->batch * s->tokens * d->value_heads > (wide)1 << 36)
		input_reject(in, CONFIG_linear_num_value_heads, "fewer or narrower heads");
}

/* Megatron-core's own rule has about 50 operations for each chunk of tokens and 700 for a layer. */
#define MOST_CHUNKS 8192

void check_gdn(const struct hparams *s, struct inputs *in)
{
	if (s->output_gate && s->latent.kv_rank)
		input_reject(in, CONFIG_attention_output_gate,
			     "false with latent attention: Megatron-core refuses it");
	if (s->output_gate && (s->is_bert || s->encoder_layers || s->graphs.on || s->fp8))
		input_reject(
			in, CONFIG_attention_output_gate,
			"false for BERT and T5, and with fp8 or CUDA graphs: not modelled yet");
	if (!s->delta.taps)
		return;
	check_variant(s, in);
	check_heads(s, in);
	estimate_note(in->out, "the first step has flash-linear-attention's measurements of its "
			       "kernels, with a buffer of 256 MiB; a job that finds their results "
			       "in Triton's cache has none");
	if (s->deterministic &&
	    (wide)divide_up(s->tokens, DELTA_CHUNK) * s->layers > (wide)MOST_CHUNKS)
		input_reject(in, CONFIG_seq_length,
			     "less with deterministic_mode: at most 2^19 tokens over all layers, "
			     "in chunks of 64, whose operations are counted one by one");
	if (s->cp > 1)
		input_reject(in, CONFIG_context_parallel_size,
			     "1: gated delta nets split over tokens are not modelled yet");
	if (s->is_bert || s->encoder_layers || s->hybrid)
		input_reject(in, CONFIG_experimental_attention_variant, "none but for GPT");
	if (s->training_loop && !s->transformer_engine)
		input_reject(in, CONFIG_transformer_impl,
			     "transformer_engine: Megatron-core has no other layers with gated "
			     "delta nets");
	if (s->fp8 || s->graphs.on || s->optimizer == MUON || s->mtp)
		input_reject(in, CONFIG_experimental_attention_variant,
			     "none with fp8, CUDA graphs, Muon, or layers that predict further "
			     "tokens: gated delta nets are not modelled with them yet");
}
