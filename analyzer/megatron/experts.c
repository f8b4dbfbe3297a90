#include "megatron/experts.h"

#include "megatron/sharded.h"
#include "megatron/tensor_parallel.h"
#include "megatron/transformer_engine.h"
#include "torch/checkpoint.h"

#include <stdio.h>

#include "util/util.h"

/* transformer_engine/pytorch/module/base.py: the streams of a grouped product; each has a workspace
 */
#define GROUPED_STREAMS 4
#define MAX_AT_ONCE 64

static void gradient_like_input(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->type);
}

/* A node whose gradient is a new tensor of the size of x. */
static struct grad_node *node_like(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, gradient_like_input, &x, 1);

	if (n) {
		n->sizes[0] = x.n;
		n->type = x.type;
	}
	return n;
}

tensor experts_moved(struct machine *m, tensor x, int64_t n)
{
	struct grad_node *node = node_like(m, x);

	return with_grad_fn(tensor_new(m, n, x.type), node, 0);
}

/* torch.use_deterministic_algorithms(): index_add_() is index_put_() of a copy of its source, with
 * sorted indices; its gradient needs the source, which is saved. Without it scatter_add_() saves
 * nothing but indices. Megatron-core 0.14 has no other than that. */
static int adds_by_index(const struct hparams *s)
{
	int major, minor;

	if (!s->deterministic || s->fused_permutation)
		return 0;
	return !GIVEN(s->config, megatron_core_version) ||
	       sscanf(s->config->megatron_core_version, "%d.%d", &major, &minor) != 2 ||
	       major > 0 || minor > 14;
}

tensor experts_unpermuted(struct machine *m, const struct hparams *s, tensor x, int64_t n)
{
	struct grad_node *node;
	tensor out, copy;

	if (!adds_by_index(s))
		return experts_moved(m, x, n);
	node = node_like(m, x);
	save_for_backward(m, node, x);
	out = tensor_new(m, n, x.type);
	tensor_assign(m, &out, tensor_new(m, n, x.type)); /* zeros, twice */
	copy = tensor_new(m, x.n, x.type);
	tensor_unref(m, &copy);
	return with_grad_fn(out, node, 0);
}

/* x times one factor for each token: x is saved for the gradient of the factors. */
static tensor scale_kept(struct machine *m, tensor x)
{
	struct grad_node *n = node_like(m, x);

	save_for_backward(m, n, x);
	return with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
}

tensor experts_activated(struct machine *m, struct megatron_rank *r, tensor h)
{
	int64_t sizes[2] = { h.n / 2, h.n / 2 };
	tensor part[2], out;

	if (!r->s->gated)
		return gelu(m, h);
	if (r->s->fused_swiglu)
		return fused_swiglu(m, h);
	split(m, h, part, sizes, 2);
	out = silu(m, part[0]);
	tensor_assign(m, &part[1], shift(m, part[1]));
	tensor_assign(m, &out, mul(m, out, part[1]));
	tensor_unref(m, &part[0]);
	tensor_unref(m, &part[1]);
	return out;
}

/* The gradient (taken) of one of an expert's weights: contiguous buffers have it already; FSDP
 * keeps it until the layer's backward pass is done. */
static void give_gradient(struct machine *m, const struct expert *e, int down, tensor gradient)
{
	struct param *weight = !e ? NULL : down ? e->down : e->up;

	if (!weight || !is_sharded(m->family) || weight->grad.storage) {
		tensor_unref(m, &gradient);
		return;
	}
	weight->grad = gradient;
	if (m->on_gradient)
		m->on_gradient(m, weight);
}

/* The products of all local experts, whose first one is `hook`. `sizes`: elements of x, elements of
 * one weight, experts, one grouped product (0 or 1), fp8 (0 or 1), and which of the two weights it
 * is (0 or 1). */
static void experts_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;
	tensor gradients[MAX_AT_ONCE], quantized = none, transposed = none;
	const struct expert *experts = n->hook;
	int64_t at_once = n->sizes[3] ? n->sizes[2] : 1;

	if (at_once > MAX_AT_ONCE)
		at_once = MAX_AT_ONCE;
	if (n->sizes[4])
		quantized = fp8_gradient(m, m->family, n->in[0], &transposed);
	n->out[0] = tensor_new(m, n->sizes[0], type);
	for (int64_t i = 0; i < n->sizes[2]; i += at_once) {
		for (int64_t k = 0; k < at_once; k++)
			gradients[k] = tensor_new_as(m, TERM_GRADIENTS, n->sizes[1], type);
		for (int64_t k = 0; k < at_once; k++)
			give_gradient(m, i + k < n->sizes[2] ? &experts[i + k] : NULL,
				      (int)n->sizes[5], gradients[k]);
	}
	tensor_unref(m, &quantized);
	tensor_unref(m, &transposed);
}

/* `original`: with fp8, the input itself is saved. */
static tensor experts_linear(struct machine *m, struct megatron_rank *r, tensor x,
			     struct expert *first, int down, int original)
{
	struct grad_node *n = grad_node_new(m, experts_backward, &x, 1);
	const struct param *weight = down ? first->down : first->up;
	tensor out, rows = none, kept = none;

	if (n) {
		n->sizes[0] = x.n;
		n->sizes[1] = weight->value.n;
		n->sizes[2] = local_experts(r->s);
		n->sizes[3] = r->s->grouped;
		n->sizes[4] = weight->quantized;
		n->sizes[5] = down;
		n->hook = first;
	}
	if (weight->quantized)
		rows = fp8_input(m, r, x, &kept);
	save_for_backward(m, n, weight->quantized && !original ? kept : x);
	out = tensor_new(m, x.n / weight->in * (weight->value.n / weight->in), x.type);
	tensor_unref(m, &rows);
	tensor_unref(m, &kept);
	if (r->s->transformer_engine)
		te_workspaces(m, r, r->s->grouped ? GROUPED_STREAMS : 1);
	else
		gemm_workspace(m);
	return with_grad_fn(out, n, 0);
}

/* Activations times the router's probabilities. The fused kernels, weighted_bias_swiglu_impl() and
 * weighted_squared_relu_impl(), save their input alone. */
static tensor weighted(struct machine *m, struct megatron_rank *r, tensor x)
{
	const struct hparams *s = r->s;
	tensor h, out;

	if (s->gated && s->fused_swiglu)
		return fused_swiglu(m, x);
	if (!s->gated && s->fused_squared_relu)
		return scale_kept(m, x);
	h = experts_activated(m, r, x);
	out = scale_kept(m, h);
	tensor_unref(m, &h);
	return out;
}

static void run_weighted(struct machine *m, void *context, const tensor *in, tensor *out)
{
	out[0] = weighted(m, *(struct megatron_rank **)context, in[0]);
}

static void quantize_experts(struct machine *m, struct megatron_rank *r, const struct expert *e)
{
	for (int64_t i = 0; i < local_experts(r->s); i++) {
		fp8_weight(m, r, e[i].up);
		fp8_weight(m, r, e[i].down);
	}
}

tensor experts_run(struct machine *m, struct megatron_rank *r, struct expert *e, tensor x)
{
	const struct hparams *s = r->s;
	const struct discarded_region region = { run_weighted, &r, sizeof(struct megatron_rank *),
						 1, 1 };
	int fp8 = e->up->quantized;
	struct offload *up = s->grouped ? offload_of(r, OFFLOAD_EXPERT_UP) : NULL;
	struct offload *act = s->grouped ? offload_of(r, OFFLOAD_ACTIVATION) : NULL;
	struct discarded *d = NULL;
	tensor in, h, active, out;

	m->current_term = TERM_MOE_HIDDEN;
	if (fp8)
		quantize_experts(m, r, e);
	h = fp8 ? experts_moved(m, x, x.n) : tensor_ref(x);
	in = offload_enter(m, up, OFFLOAD_EXPERT_UP, h);
	tensor_assign(m, &h, experts_linear(m, r, in, e, 0, 0));
	offload_leave(m, up);
	offload_commit(m, up, OFFLOAD_EXPERT_UP, &h, &in, 1);
	tensor_assign(m, &in, offload_enter(m, act, OFFLOAD_ACTIVATION, h));
	tensor_unref(m, &h);
	if (s->recompute_activation)
		d = discardable(m, &region, &in, &active);
	else
		active = weighted(m, r, in);
	offload_leave(m, act);
	/* set_save_original_input(): what will be discarded is saved itself, not in fp8 */
	out = experts_linear(m, r, active, e, 1, d != NULL);
	discard_outputs(m, d, &out);
	tensor_unref(m, &active);
	offload_commit(m, act, OFFLOAD_ACTIVATION, &out, &in, 1);
	tensor_unref(m, &in);
	if (fp8)
		tensor_assign(m, &out, experts_moved(m, out, out.n));
	return out;
}
