/* Megatron-core's mixture of experts: router, dispatcher, experts. Tokens are assumed to be spread
 * evenly over the experts. */
#include "megatron/moe.h"
#include "megatron/transformer_engine.h"
#include "megatron/declare.h"
#include "megatron/sharded.h"
#include "megatron/tensor_parallel.h"
#include "torch/checkpoint.h"

#include "util/util.h"

/* transformer_engine/pytorch/module/base.py: the streams of a grouped product; each has a workspace
 */
#define GROUPED_STREAMS 4
#define MAX_AT_ONCE 64

static int64_t local_experts(const struct hparams *s)
{
	return s->experts / s->ep;
}

/* The width of the tokens that are sent to experts. */
static int64_t expert_width(const struct hparams *s)
{
	return s->expert_width ? s->expert_width : s->hidden;
}

static struct expert declare_expert(struct model_chunk *c, enum term_id term, int64_t width,
				    int64_t ffn)
{
	const struct hparams *s = c->rank->s;
	int64_t up = ffn * (s->gated ? 2 : 1);
	struct expert e = { .up = NULL };

	e.up = declare_param(c, term, up, width, 0);
	e.up_bias = declare_bias(c, term, up);
	e.down = declare_param(c, term, width, ffn, 0);
	e.down_bias = declare_bias(c, term, width);
	return e;
}

/* --moe-latent-size; the shared expert has the layer's width */
static void declare_latent(struct model_chunk *c, struct megatron_layer *l)
{
	const struct hparams *s = c->rank->s;

	if (!s->expert_width)
		return;
	l->narrow = declare_param(c, TERM_OTHER_WEIGHTS, s->expert_width, s->hidden, 0);
	l->narrow_bias = declare_bias(c, TERM_OTHER_WEIGHTS, s->expert_width);
	l->widen = declare_param(c, TERM_OTHER_WEIGHTS, s->hidden, s->expert_width, 0);
	l->widen_bias = declare_bias(c, TERM_OTHER_WEIGHTS, s->hidden);
}

void moe_declare(struct model_chunk *c, struct megatron_layer *l)
{
	const struct hparams *s = c->rank->s;
	int64_t count = local_experts(s);

	l->router = declare_param(c, TERM_OTHER_WEIGHTS, s->experts, s->hidden, 0);
	declare_latent(c, l);
	l->experts = xcalloc((size_t)count, sizeof(*l->experts));
	for (int64_t i = 0; i < count; i++)
		l->experts[i] = declare_expert(c, TERM_EXPERT_WEIGHTS, expert_width(s),
					       s->expert_ffn / s->etp);
	if (s->shared_ffn && s->shared_gate)
		l->shared_gate = declare_param(c, TERM_MLP_WEIGHTS, 1, s->hidden, 0);
	if (s->shared_ffn)
		l->shared = declare_expert(c, TERM_MLP_WEIGHTS, s->hidden, s->shared_ffn / s->tp);
}

/* x times one factor for each token: x is saved for the gradient of the factors. */
static void scale_kept_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->type);
}

static tensor scale_kept(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, scale_kept_backward, &x, 1);

	if (n) {
		n->sizes[0] = x.n;
		n->type = x.type;
	}
	save_for_backward(m, n, x);
	return with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
}

/* A kernel that saves nothing but the size of its input: gathers, scatters, permutations. */
static void moved_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->type);
}

static tensor moved(struct machine *m, tensor x, int64_t n)
{
	struct grad_node *node = grad_node_new(m, moved_backward, &x, 1);

	if (node) {
		node->sizes[0] = x.n;
		node->type = x.type;
	}
	return with_grad_fn(tensor_new(m, n, x.type), node, 0);
}

/* RouterGatingLinearFunction uses te_general_gemm for all implementations of layers. `sizes`:
 * elements of x, weight. */
static void gating_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 0; i < 2; i++)
		n->out[i] = tensor_new(m, n->sizes[i], n->type);
}

static tensor gating(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight)
{
	tensor in[2] = { x, weight->value }, out;
	struct grad_node *n;

	if (!r->s->training_loop)
		return linear(m, x, weight, NULL);
	te_workspaces(m, r, 1);
	n = grad_node_new(m, gating_backward, in, 2);
	for (int i = 0; n && i < 2; i++) {
		n->sizes[i] = in[i].n;
		n->type = x.type;
		save_for_backward(m, n, in[i]);
	}
	out = tensor_new(m, x.n / weight->in * (weight->value.n / weight->in), x.type);
	return with_grad_fn(out, n, 0);
}

/* Logits in fp32, the scores of the selected experts, and the map of tokens to experts. */
static tensor route(struct machine *m, struct megatron_rank *r, struct megatron_layer *l, tensor x)
{
	tensor logits, scores, probabilities, map;

	m->current_term = TERM_MOE_ROUTER;
	logits = gating(m, r, x, l->router);
	tensor_assign(m, &logits, to(m, logits, F32));
	scores = softmax(m, logits, F32);
	tensor_unref(m, &logits);
	probabilities = moved(m, scores, scores.n);
	map = tensor_new(m, scores.n, BOOL);
	tensor_unref(m, &map);
	tensor_unref(m, &scores);
	return probabilities;
}

static tensor activated(struct machine *m, struct megatron_rank *r, tensor h)
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
	h = activated(m, r, x);
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

/* `e`: all local experts. For fp8 the rows are padded by copies. */
static tensor run_experts(struct machine *m, struct megatron_rank *r, struct expert *e, tensor x)
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
	h = fp8 ? moved(m, x, x.n) : tensor_ref(x);
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
		tensor_assign(m, &out, moved(m, out, out.n));
	return out;
}

/* --moe-shared-expert-gate: one number for each token, of PyTorch's own product. */
static tensor gated_expert(struct machine *m, struct param *weight, tensor x, tensor out)
{
	tensor gate = linear(m, x, weight, NULL), gated;

	tensor_assign(m, &gate, sigmoid(m, gate));
	gated = mul(m, out, gate);
	tensor_unref(m, &gate);
	return gated;
}

static tensor shared_expert(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct expert *e = &l->shared;
	tensor h, out;

	m->current_term = TERM_MLP_HIDDEN;
	h = parallel_linear(m, r, x, e->up, NULL, 1);
	tensor_assign(m, &h, activated(m, r, h));
	out = parallel_linear(m, r, h, e->down, NULL, 0);
	tensor_unref(m, &h);
	tensor_assign(m, &out, tp_reduce(m, r, out));
	if (l->shared_gate)
		tensor_assign(m, &out, gated_expert(m, l->shared_gate, x, out));
	return out;
}

/* Tokens of the local experts if tokens are spread evenly; get_capacity() drops or pads some. */
static int64_t dispatched(const struct hparams *s, int64_t tokens)
{
	int64_t rows = tokens * s->topk * s->etp;

	if (s->pads_experts || (s->capacity > 0 && s->capacity < 1))
		rows = (int64_t)((double)rows * s->capacity);
	return rows;
}

/* Sends tokens to the experts and back, without fused permutation: the dispatcher exchanges the
 * tokens (alltoall) or gathers those of all ranks (allgather), and sorts them by expert if a rank
 * has several. */
static tensor routed(struct machine *m, struct megatron_layer *l, tensor x, int64_t rows)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	int several = local_experts(s) > 1, split_up = s->ep * s->etp > 1;
	tensor permuted, sent, sorted, out;

	permuted = moved(m, x, rows * expert_width(s));
	sent = !s->allgather && split_up ? moved(m, permuted, permuted.n) : tensor_ref(permuted);
	sorted = !s->allgather && several ? moved(m, sent, sent.n) : tensor_ref(sent);
	out = run_experts(m, r, &l->experts[0], sorted);
	tensor_unref(m, &sorted);
	m->current_term = TERM_MOE_TOKENS;
	if (several)
		tensor_assign(m, &out, contiguous(m, out));
	if (!s->allgather && several)
		tensor_assign(m, &out, moved(m, out, out.n));
	if (split_up)
		tensor_assign(m, &out, moved(m, out, s->allgather ? x.n * s->ep * s->etp : out.n));
	tensor_assign(m, &out, moved(m, out, x.n));
	tensor_unref(m, &permuted);
	tensor_unref(m, &sent);
	return out;
}

static tensor run_shared(struct machine *m, void *context, const tensor *in)
{
	struct megatron_layer **l = context;

	return shared_expert(m, *l, in[0]);
}

/* --recompute-modules shared_experts: a checkpoint of its own */
static tensor maybe_shared_again(struct machine *m, struct megatron_layer *l, tensor x)
{
	return l->chunk->rank->s->recompute_shared
		       ? checkpoint_reentrant(m, run_shared, &l, sizeof(struct megatron_layer *),
					      &x, 1)
		       : shared_expert(m, l, x);
}

int moe_captured(struct machine *m, struct megatron_layer *l, tensor x, tensor *out)
{
	struct megatron_rank *r = l->chunk->rank;

	out[0] = route(m, r, l, x);
	if (!r->s->shared_ffn)
		return 1;
	out[1] = shared_expert(m, l, x);
	return 2;
}

static tensor sent_to_experts(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	int64_t rows = dispatched(s, x.n / expert_width(s));
	tensor tokens, out;

	if (s->allgather && s->ep * s->etp > 1)
		global_buffer(m, r, x.n * s->ep * s->etp, x.type);
	if (!s->training_loop)
		return routed(m, l, x, rows);
	tokens = moved(m, x, rows * expert_width(s));
	out = run_experts(m, r, &l->experts[0], tokens);
	tensor_unref(m, &tokens);
	m->current_term = TERM_MOE_TOKENS;
	tensor_assign(m, &out, moved(m, out, x.n));
	return out;
}

tensor moe_forward(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	/* the shared expert runs first, unless it overlaps with the exchange of tokens */
	int begins =
		s->shared_ffn && !m->in_graph && !VALUE_OR(s->config, moe_shared_expert_overlap, 0);
	tensor shared = begins ? maybe_shared_again(m, l, x) : none;
	tensor probabilities = route(m, r, l, x), out, sent;

	for (size_t i = 0; i < ARRAY_SIZE(l->graph); i++)
		input_ref_clear(m, &l->graph[i]);
	/* the CUDA graph ends before tokens are dispatched */
	if (s->shared_ffn && m->in_graph)
		shared = shared_expert(m, l, x);
	m->in_graph = 0;
	m->current_term = TERM_MOE_TOKENS;
	sent = l->narrow ? parallel_linear(m, r, x, l->narrow, l->narrow_bias, 0) : tensor_ref(x);
	out = sent_to_experts(m, l, sent);
	tensor_unref(m, &sent);
	if (l->widen)
		tensor_assign(m, &out, parallel_linear(m, r, out, l->widen, l->widen_bias, 0));
	tensor_unref(m, &probabilities);
	if (!s->shared_ffn)
		return out;
	if (!shared.storage)
		shared = shared_expert(m, l, x);
	tensor_assign(m, &out, add(m, out, shared));
	tensor_unref(m, &shared);
	return out;
}
