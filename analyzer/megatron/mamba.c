#include "megatron/mamba.h"

#include <string.h>

#include "patterns/hybrid_pattern.h"
#include "megatron/declare.h"
#include "megatron/tensor_parallel.h"
#include "util/util.h"

/* MambaMixer's defaults: chunk_size, d_conv */
#define CHUNK 128
#define TAPS 4

void mamba_declare(struct model_chunk *c, struct megatron_layer *l)
{
	const struct hparams *s = c->rank->s;
	struct mamba_weights *w = &l->mamba;
	int64_t heads = s->mamba.heads / s->tp, inner = heads * s->mamba.head;
	int64_t shared = 2 * s->mamba.groups / s->tp * s->mamba.state;

	l->before_attention = declare_norm(c, s->hidden);
	w->conv = declare_param(c, TERM_MAMBA_WEIGHTS, inner + shared, TAPS, 0);
	w->conv_bias = declare_param(c, TERM_MAMBA_WEIGHTS, 1, inner + shared, 0);
	w->dt_bias = declare_param(c, TERM_MAMBA_WEIGHTS, 1, heads, 0);
	w->a_log = declare_param(c, TERM_MAMBA_WEIGHTS, 1, heads, 0);
	w->d = declare_param(c, TERM_MAMBA_WEIGHTS, 1, heads, 0);
	w->in = declare_param(c, TERM_MAMBA_WEIGHTS, 2 * inner + shared + heads, s->hidden, 0);
	w->norm = declare_param(c, TERM_NORM_WEIGHTS, 1, inner, 0);
	w->out = declare_param(c, TERM_MAMBA_WEIGHTS, s->hidden, inner, 0);
}

/* Sizes of a micro-batch in the convolution and the scan, which have all tokens and, with context
 * parallelism, a part of the heads. */
struct scan_sizes {
	int64_t rows, chunks, heads, inner, shared, groups, states;
	int64_t splits; /* parts of a group's heads that run at the same time */
};

static struct scan_sizes scan_sizes(const struct machine *m, const struct megatron_rank *r)
{
	const struct hparams *s = r->s;
	int64_t groups = s->mamba.groups / s->tp, heads, most, each;
	struct scan_sizes z;

	z.rows = r->rows * s->cp;
	z.chunks = s->batch * divide_up(s->tokens, CHUNK);
	heads = z.heads = s->mamba.heads / s->tp / s->cp;
	/* the groups of one rank are repeated if there are more ranks */
	z.groups = groups > s->cp ? groups / s->cp : 1;
	z.inner = heads * s->mamba.head;
	z.shared = z.groups * s->mamba.state;
	z.states = z.chunks * z.inner * s->mamba.state;
	most = heads / z.groups;
	each = divide_up(z.chunks * heads, m->constants.multiprocessors);
	each = each > most ? most : each;
	z.splits = divide_up(most, each);
	return z;
}

/* The gradient of B or C of every split, then their sum. */
static tensor summed(struct machine *m, int64_t n, int64_t splits)
{
	tensor parts = tensor_new(m, n * splits, F32), sum = tensor_new(m, n, F32);

	tensor_unref(m, &parts);
	return sum;
}

/* _mamba_chunk_scan_combined_bwd() of mamba_ssm */
static void chunk_scan_backward(struct machine *m, const struct scan_sizes *z, enum dtype type)
{
	int64_t steps = z->rows * z->heads, last = z->states / z->chunks, products;
	tensor t[13], states, gradients;
	size_t n = 0;

	products = z->chunks * z->groups * CHUNK * CHUNK;
	t[n++] = tensor_new(m, steps, type);   /* dt_in */
	t[n++] = tensor_new(m, steps, F32);    /* dA_cumsum */
	t[n++] = tensor_new(m, steps, F32);    /* dt */
	t[n++] = tensor_new(m, products, F32); /* CB */
	gradients = tensor_new(m, z->states, F32);
	states = tensor_new(m, z->states, F32);
	t[n++] = tensor_new(m, last, F32); /* the last state of each sequence */
	tensor_unref(m, &gradients);
	t[n++] = tensor_new(m, z->rows * z->inner, type); /* dout_x */
	gradients = tensor_new(m, z->states, F32);
	t[n++] = tensor_new(m, z->states, type);
	t[n++] = tensor_new(m, z->states, type);
	tensor_unref(m, &gradients);
	tensor_unref(m, &states);
	t[n++] = tensor_new(m, steps, F32); /* ddt */
	t[n++] = summed(m, z->rows * z->shared, z->splits);
	t[n++] = summed(m, z->rows * z->shared, z->splits);
	t[n++] = summed(m, products, z->splits);
	t[n++] = tensor_new(m, steps * (CHUNK / 32), F32); /* ddA */
	while (n)
		tensor_unref(m, &t[--n]);
}

/* MambaSplitConv1dScanCombinedFn.backward: the convolution is computed again. */
static void scan_backward(struct machine *m, struct grad_node *n)
{
	struct megatron_rank *r = m->family;
	struct scan_sizes z = scan_sizes(m, r);
	enum dtype type = n->in[0].type;
	int64_t convolved = z.rows * (z.inner + 2 * z.shared);
	tensor again = tensor_new(m, convolved, type), gradient;

	n->out[0] = tensor_new(m, n->saved[0].n, type);
	gradient = tensor_new(m, convolved, type);
	chunk_scan_backward(m, &z, type);
	for (int i = 1; i < NODE_EDGES; i++)
		if (n->edge[i])
			n->out[i] = tensor_new(m, n->sizes[i], i > 2 ? F32 : type);
	tensor_unref(m, &gradient);
	tensor_unref(m, &again);
}

/* _mamba_chunk_scan_combined_fwd(). Returns the output before the gate in *before. */
static tensor chunk_scan(struct machine *m, const struct scan_sizes *z, enum dtype type,
			 tensor *before)
{
	int64_t steps = z->rows * z->heads;
	tensor cumsum = tensor_new(m, steps, F32), dt = tensor_new(m, steps, F32), states, passed;
	tensor last, products, out;

	states = tensor_new(m, z->states, F32);
	passed = tensor_new(m, z->states, type);
	last = tensor_new(m, z->states / z->chunks, F32);
	tensor_unref(m, &states);
	products = tensor_new(m, z->chunks * z->groups * CHUNK * CHUNK, F32);
	out = tensor_new(m, z->rows * z->inner, type);
	*before = tensor_new(m, z->rows * z->inner, type);
	tensor_unref(m, &products);
	tensor_unref(m, &last);
	tensor_unref(m, &passed);
	tensor_unref(m, &dt);
	tensor_unref(m, &cumsum);
	return out;
}

/* mamba_split_conv1d_scan_combined() saves its input and the output before the gate. */
static tensor split_conv_scan(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct mamba_weights *w = &l->mamba;
	tensor in[NODE_EDGES] = {
		x,          w->conv->value, w->conv_bias->value, w->dt_bias->value, w->a_log->value,
		w->d->value
	};
	struct grad_node *n = grad_node_new(m, scan_backward, in, NODE_EDGES);
	struct scan_sizes z = scan_sizes(m, r);
	tensor convolved = tensor_new(m, z.rows * (z.inner + 2 * z.shared), x.type), before, out;

	out = chunk_scan(m, &z, x.type, &before);
	for (int i = 1; n && i < NODE_EDGES; i++)
		n->sizes[i] = in[i].n;
	save_for_backward(m, n, x);
	save_for_backward(m, n, before);
	tensor_unref(m, &before);
	tensor_unref(m, &convolved);
	return with_grad_fn(out, n, 0);
}

/* mamba_ssm's RMSNormGated: one number for each group of a row. */
static void gated_norm_backward(struct machine *m, struct grad_node *n)
{
	const struct hparams *s = ((struct megatron_rank *)m->family)->s;
	int64_t width = n->sizes[0], groups = s->mamba.groups / s->tp;

	n->out[0] = tensor_new(m, n->in[0].n, n->in[0].type);
	scratch(m, 4 * width * divide_up((int64_t)m->constants.multiprocessors * 4, groups));
	n->out[1] = tensor_new(m, width, n->in[0].type);
}

static tensor gated_norm(struct machine *m, struct megatron_rank *r, struct param *weight, tensor x)
{
	tensor in[2] = { x, weight->value }, out, rstd;
	struct grad_node *n = grad_node_new(m, gated_norm_backward, in, 2);
	int64_t width = weight->value.n, groups = r->s->mamba.groups / r->s->tp;

	if (n)
		n->sizes[0] = width;
	out = tensor_new(m, x.n, x.type);
	rstd = tensor_new(m, x.n / width * groups, F32);
	save_for_backward(m, n, x);
	save_for_backward(m, n, weight->value);
	save_for_backward(m, n, rstd);
	tensor_unref(m, &rstd);
	return with_grad_fn(out, n, 0);
}

/* An exchange of tokens against heads over context parallelism, and the other order of the tokens:
 * the parts are sent from one copy, received into another, and put in order in a third. */
static void exchange_backward(struct machine *m, struct grad_node *n)
{
	tensor sent = tensor_new_as(m, TERM_COLLECTIVE, n->in[0].n, n->in[0].type);

	n->out[0] = tensor_new_as(m, TERM_COLLECTIVE, n->sizes[0], n->in[0].type);
	tensor_unref(m, &sent);
}

static tensor exchanged(struct machine *m, tensor x, int64_t width)
{
	struct grad_node *n = grad_node_new(m, exchange_backward, &x, 1);
	tensor sent = tensor_new_as(m, TERM_COLLECTIVE, x.n, x.type), received, out;

	if (n)
		n->sizes[0] = x.n;
	received = tensor_new_as(m, TERM_COLLECTIVE, width, x.type);
	tensor_unref(m, &sent);
	out = tensor_new(m, width, x.type);
	tensor_unref(m, &received);
	return with_grad_fn(out, n, 0);
}

/* MambaMixer.forward: `x` is normalized. The result of the first projection is a variable until the
 * end. */
tensor mamba_mix(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	struct scan_sizes z = scan_sizes(m, r);
	tensor projected, y, out;

	m->current_term = TERM_MAMBA_PROJECTION;
	projected = parallel_linear(m, r, x, l->mamba.in, NULL, 1);
	if (s->cp > 1)
		tensor_assign(
			m, &projected,
			exchanged(m, projected, z.rows * (2 * z.inner + 2 * z.shared + z.heads)));
	y = s->batch > 1 ? contiguous(m, projected) : tensor_ref(projected);
	m->current_term = TERM_MAMBA_SCAN;
	tensor_assign(m, &y, split_conv_scan(m, l, y));
	if (s->batch > 1)
		tensor_assign(m, &y, contiguous(m, y));
	if (s->cp > 1)
		tensor_assign(m, &y, exchanged(m, y, y.n));
	tensor_assign(m, &y, gated_norm(m, r, l->mamba.norm, y));
	m->current_term = TERM_MAMBA_PROJECTION;
	out = parallel_linear(m, r, y, l->mamba.out, NULL, 0);
	tensor_assign(m, &out, tp_reduce(m, r, out));
	tensor_unref(m, &y);
	tensor_unref(m, &projected);
	return out;
}

/* ---- which hybrid models are modelled ---- */

/* Names the field, or the pattern if nothing declares it. */
static void reject(struct inputs *in, enum config_field field, const char *expected)
{
	input_reject(in, config_has(in->c, field) ? field : CONFIG_hybrid_layer_pattern, expected);
}

static void check_mamba(const struct hparams *s, struct inputs *in)
{
	int64_t ranks = s->tp * s->cp;

	if (s->mamba.heads % ranks || s->mamba.heads % s->mamba.groups)
		reject(in, CONFIG_mamba_num_heads,
		       "Mamba heads (mamba_num_heads) that the groups and tensor x context parallelism divide");
	if (s->mamba.groups % s->tp ||
	    (s->mamba.groups / s->tp % s->cp && s->cp % (s->mamba.groups / s->tp)))
		reject(in, CONFIG_mamba_num_groups,
		       "a multiple of the tensor-parallel size, of which context parallelism "
		       "takes equal parts");
	if ((wide)s->batch * s->tokens * s->mamba.heads * s->mamba.head > (wide)1 << 45 ||
	    (wide)s->mamba.state * s->mamba.groups > (wide)1 << 20)
		reject(in, CONFIG_mamba_num_heads, "Mamba layers of at most 2^45 elements");
}

void check_hybrid(const struct hparams *s, struct inputs *in)
{
	const char *pattern = s->pattern;

	if (!s->hybrid)
		return;
	if (!pattern) {
		input_reject(
			in, CONFIG_model_type,
			"gpt, bert or t5 without hybrid_layer_pattern, which names the layers");
		return;
	}
	if (strpbrk(pattern, "GD+"))
		input_reject(in, CONFIG_hybrid_layer_pattern,
			     "layers M, *, - and E: others are not modelled yet");
	if (strchr(pattern, 'E') && !s->experts)
		reject(in, CONFIG_num_experts, "layers E with num_experts, and no others");
	if (!s->transformer_engine || !s->training_loop)
		reject(in, CONFIG_transformer_impl,
		       "transformer_engine, with Megatron-LM's command line: hybrid models "
		       "have no other layers");
	if (s->mtp && !*hybrid_predictions(pattern))
		input_reject(in, CONFIG_hybrid_layer_pattern,
			     "the layers of the further predictions, behind a slash");
	if (s->fp8 || s->graphs.on || s->optimizer == MUON)
		input_reject(in, CONFIG_model_type,
			     "gpt with fp8, CUDA graphs or Muon: hybrid models are not modelled "
			     "with them yet");
	check_mamba(s, in);
}
