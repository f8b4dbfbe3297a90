/* Megatron-core's mixture of experts: router, dispatcher, experts. Tokens are assumed to be spread
 * evenly over the experts. */
#include "megatron/moe.h"
#include "megatron/experts.h"
#include "megatron/transformer_engine.h"
#include "megatron/declare.h"
#include "megatron/sharded.h"
#include "megatron/tensor_parallel.h"
#include "torch/checkpoint.h"

#include "util/util.h"

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
	probabilities = experts_moved(m, scores, scores.n);
	map = tensor_new(m, scores.n, BOOL);
	tensor_unref(m, &map);
	tensor_unref(m, &scores);
	return probabilities;
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
	tensor_assign(m, &h, experts_activated(m, r, h));
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

static int exchanges(const struct hparams *s)
{
	return s->ep * s->etp > 1;
}

/* permute(): before tokens of other ranks are gathered (alltoall), or behind that (allgather). */
static tensor permuted_tokens(struct machine *m, const struct hparams *s, tensor x)
{
	int64_t rows = dispatched(s, x.n / expert_width(s));

	return experts_moved(m, x, rows / (s->allgather ? 1 : s->etp) * expert_width(s));
}

/* The exchange of tokens between the ranks of expert parallelism (alltoall); allgather has none. */
tensor moe_dispatch(struct machine *m, struct megatron_layer *l, tensor x)
{
	const struct hparams *s = l->chunk->rank->s;

	m->current_term = TERM_MOE_TOKENS;
	return !s->allgather && s->ep > 1 ? experts_moved(m, x, x.n) : tensor_ref(x);
}

/* Tokens of all ranks of expert tensor parallelism, sorted by expert if a rank has several. */
static tensor dispatched_input(struct machine *m, const struct hparams *s, tensor x)
{
	tensor in = !s->allgather && s->etp > 1 ? experts_moved(m, x, x.n * s->etp) : tensor_ref(x);

	if (!s->allgather && local_experts(s) > 1)
		tensor_assign(m, &in, experts_moved(m, in, in.n));
	return in;
}

tensor moe_experts(struct machine *m, struct megatron_layer *l, tensor x)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	int several = local_experts(s) > 1;
	tensor in = dispatched_input(m, s, x), out = experts_run(m, r, &l->experts[0], in);

	tensor_unref(m, &in);
	m->current_term = TERM_MOE_TOKENS;
	if (several && !s->grouped)
		tensor_assign(m, &out, contiguous(m, out));
	if (!s->allgather && several)
		tensor_assign(m, &out, experts_moved(m, out, out.n));
	if (!s->allgather && s->etp > 1)
		tensor_assign(m, &out, experts_moved(m, out, out.n / s->etp));
	return out;
}

/* The exchange back, and the sum of what the experts made of each of `tokens` tokens. */
static tensor combined(struct machine *m, struct megatron_layer *l, tensor x, int64_t tokens)
{
	const struct hparams *s = l->chunk->rank->s;
	int64_t n = tokens * expert_width(s);
	tensor sent, out;

	if (s->allgather) {
		sent = experts_unpermuted(m, s, x, n * s->ep * s->etp);
		out = exchanges(s) ? experts_moved(m, sent, n) : tensor_ref(sent);
	} else {
		sent = s->ep > 1 ? experts_moved(m, x, x.n) : tensor_ref(x);
		out = experts_unpermuted(m, s, sent, n);
	}
	tensor_unref(m, &sent);
	return out;
}

/* Sends tokens to the experts and back, without fused permutation: the dispatcher exchanges the
 * tokens (alltoall) or gathers those of all ranks (allgather). */
static tensor routed(struct machine *m, struct megatron_layer *l, tensor x)
{
	const struct hparams *s = l->chunk->rank->s;
	tensor permuted = permuted_tokens(m, s, x);
	tensor sent = moe_dispatch(m, l, permuted);
	tensor out = moe_experts(m, l, sent);

	tensor_assign(m, &out, combined(m, l, out, x.n / expert_width(s)));
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

	if (s->allgather && exchanges(s))
		global_buffer(m, r, x.n * s->ep * s->etp, x.type);
	return routed(m, l, x);
}

/* The router's probabilities, which the dispatcher keeps, replace those of the last micro-batch. */
static tensor routed_again(struct machine *m, struct megatron_layer *l, tensor x)
{
	tensor probabilities = route(m, l->chunk->rank, l, x);

	for (size_t i = 0; i < ARRAY_SIZE(l->graph); i++)
		input_ref_clear(m, &l->graph[i]);
	return probabilities;
}

/* The input of the experts; they have a width of their own with --moe-latent-size. */
static tensor narrowed(struct machine *m, struct megatron_layer *l, tensor x)
{
	m->current_term = TERM_MOE_TOKENS;
	return l->narrow ? parallel_linear(m, l->chunk->rank, x, l->narrow, l->narrow_bias, 0)
			 : tensor_ref(x);
}

static void widen(struct machine *m, struct megatron_layer *l, tensor *x)
{
	if (l->widen)
		tensor_assign(m, x,
			      parallel_linear(m, l->chunk->rank, *x, l->widen, l->widen_bias, 0));
}

tensor moe_forward(struct machine *m, struct megatron_layer *l, tensor x)
{
	const struct hparams *s = l->chunk->rank->s;
	/* the shared expert runs first, unless it overlaps with the exchange of tokens */
	int begins =
		s->shared_ffn && !m->in_graph && !VALUE_OR(s->config, moe_shared_expert_overlap, 0);
	tensor shared = begins ? maybe_shared_again(m, l, x) : none;
	tensor probabilities = routed_again(m, l, x), out, sent;

	/* the CUDA graph ends before tokens are dispatched */
	if (s->shared_ffn && m->in_graph)
		shared = shared_expert(m, l, x);
	m->in_graph = 0;
	sent = narrowed(m, l, x);
	out = sent_to_experts(m, l, sent);
	tensor_unref(m, &sent);
	widen(m, l, &out);
	tensor_unref(m, &probabilities);
	if (!s->shared_ffn)
		return out;
	if (!shared.storage)
		shared = shared_expert(m, l, x);
	tensor_assign(m, &out, add(m, out, shared));
	tensor_unref(m, &shared);
	return out;
}

tensor moe_prepare(struct machine *m, struct megatron_layer *l, tensor x, tensor *shared)
{
	const struct hparams *s = l->chunk->rank->s;
	tensor probabilities, sent, out;

	*shared = s->shared_ffn ? maybe_shared_again(m, l, x) : none;
	probabilities = routed_again(m, l, x);
	sent = narrowed(m, l, x);
	out = permuted_tokens(m, s, sent);
	tensor_unref(m, &sent);
	tensor_unref(m, &probabilities);
	return out;
}

tensor moe_combine(struct machine *m, struct megatron_layer *l, tensor x, tensor shared)
{
	tensor out;

	m->current_term = TERM_MOE_TOKENS;
	out = combined(m, l, x, l->chunk->rank->local_rows);
	widen(m, l, &out);
	if (shared.storage)
		tensor_assign(m, &out, add(m, out, shared));
	return out;
}
