#include "timing/layer.h"

#include "timing/expert_groups.h"
#include "timing/kernels.h"

#include <math.h>

/* Kernels of a layer beside products, attention and communication, forward and backward, with
 * Transformer Engine: norms, rotary positions, activation function, residual additions. */
#define KERNELS_FORWARD 20
#define KERNELS_BACKWARD 30
/* FlashAttention's backward pass computes five products for the forward pass's two. */
#define BACKWARD_OF_FORWARD 2.5
#define SINGLE 4 /* bytes */

struct place {
	const struct gpu_speed *g;
	const struct model_sizes *m;
	double tp, cp, ep;
	double tokens; /* of the micro-batch on this rank */
	double split;  /* tokens of the parts that sequence parallelism divides */
	double width;  /* bytes of an activation */
	struct group tensor, context;
	struct expert_groups expert;
};

static struct place place_of(const struct step_job *job, const struct step_layout *l)
{
	const double *size = l->size;
	double tokens = job->model.tokens * size[DIM_MBS] / size[DIM_CP];

	return (struct place){
		.g = &job->gpu,
		.m = &job->model,
		.tp = size[DIM_TP],
		.cp = size[DIM_CP],
		.ep = size[DIM_EP],
		.tokens = tokens,
		.split = l->sequence_parallel ? tokens / size[DIM_TP] : tokens,
		.width = job->model.product_rate == job->gpu.single ? SINGLE : 2,
		.tensor = { size[DIM_TP], 1 },
		.context = { size[DIM_CP], size[DIM_TP] },
		.expert = expert_groups(&job->model, size[DIM_TP], size[DIM_CP] * size[DIM_DP],
					size[DIM_EP]),
	};
}

/* Adds a linear layer: `batch` products of `rows` x `in` and `in` x `out`. Backward: the gradient
 * of the input, and that of the weights, which is added to a gradient that is there. */
static void add_linear(struct passes *to, const struct place *at, double rows, double in,
		       double out, double batch)
{
	const struct gpu_speed *g = at->g;
	struct product p = { rows, out, in, batch, at->m->product_rate, at->width, at->width };
	struct product input = p, weights = p;

	input.n = in, input.k = out;
	weights.m = out, weights.n = in, weights.k = rows;
	weights.out_width = 2 * at->m->grad;
	to->forward += product_time(g, &p);
	to->backward += product_time(g, &input) + product_time(g, &weights);
}

static void add_feed_forward(struct passes *to, const struct place *at, double width)
{
	const struct model_sizes *m = at->m;
	double inside = at->tokens * width / at->tp * at->width;

	if (width <= 0)
		return;
	add_linear(to, at, at->tokens, m->hidden, m->gates * width / at->tp, 1);
	add_linear(to, at, at->tokens, width / at->tp, m->hidden, 1);
	to->forward += stream_time(at->g, (m->gates + 1) * inside, 0);
	to->backward += stream_time(at->g, (2 * m->gates + 1) * inside, 0);
}

/* Each rank sends its tokens' copies to the ranks of their experts and gets as many back; the same
 * again in the backward pass. The load is even. */
static void add_experts(struct passes *to, const struct place *at)
{
	const struct model_sizes *m = at->m;
	double tp = at->expert.tensor;
	double copies = at->tokens * m->chosen;
	double experts = m->experts / at->ep, rows = copies / experts * tp / at->tp;
	double moved = copies / at->tp * m->hidden * at->width;
	double both = 2 * exchange_time(at->g, moved, at->expert.other);
	double inside = rows * experts * m->expert_ffn / tp * at->width;

	add_linear(to, at, at->split, m->hidden, m->experts, 1);
	add_linear(to, at, rows, m->hidden, m->gates * m->expert_ffn / tp, experts);
	add_linear(to, at, rows, m->expert_ffn / tp, m->hidden, experts);
	/* Sorting tokens by expert, and back: a read and a write each. */
	to->forward += stream_time(at->g, (m->gates + 1) * inside + 4 * moved, 8) + both;
	to->backward += stream_time(at->g, (2 * m->gates + 1) * inside + 4 * moved, 8) + both;
	to->experts += 2 * both;
	add_feed_forward(to, at, m->shared_ffn);
}

struct attention_times {
	double forward, backward;
};

/* Causal attention computes half of the products. Without a fused kernel it computes all of them,
 * and the weights go through memory for the mask, the softmax and the dropout. */
static struct attention_times attention_time(const struct place *at)
{
	const struct model_sizes *m = at->m;
	double heads = m->heads / at->tp;
	double reach = m->window < m->tokens ? m->window : m->tokens / 2;
	double pairs = at->tokens * reach * heads;
	double all = at->tokens * m->tokens * heads;

	if (!m->stores_attention)
		return (struct attention_times){ 4 * pairs * m->head / at->g->attention_forward,
						 BACKWARD_OF_FORWARD * 4 * pairs * m->head /
							 at->g->attention_backward };
	return (struct attention_times){
		4 * all * m->head / m->product_rate + stream_time(at->g, 8 * all * at->width, 4),
		8 * all * m->head / m->product_rate + stream_time(at->g, 8 * all * at->width, 4),
	};
}

/* Keys and values go around the ring while the part that has come is computed; the backward pass
 * sends their gradients as well. Each further part's output is added in single precision. */
static void add_ring(struct passes *to, const struct place *at, struct attention_times a)
{
	const struct model_sizes *m = at->m;
	double steps = at->cp - 1, forward, backward, merge;
	double sent = 2 * at->tokens * m->groups * m->head / at->tp * at->width;

	if (steps <= 0)
		return;
	merge = stream_time(at->g,
			    at->tokens * m->heads * m->head / at->tp * (2 * SINGLE + at->width), 6);
	forward = fmax(0, ring_time(at->g, sent, at->context) - a.forward / at->cp) + merge;
	backward = fmax(0, ring_time(at->g, 2 * sent, at->context) - a.backward / at->cp) + merge;
	to->forward += steps * forward;
	to->backward += steps * backward;
	to->context += steps * (forward + backward);
}

static void add_attention(struct passes *to, const struct place *at, struct attention_times a)
{
	const struct model_sizes *m = at->m;
	double queries = m->heads * m->head, keys = m->groups * m->head;

	add_linear(to, at, at->tokens, m->hidden, (queries + 2 * keys) / at->tp, 1);
	add_linear(to, at, at->tokens, queries / at->tp, m->hidden, 1);
	/* Rotary positions: queries and keys are read and written. */
	to->forward +=
		stream_time(at->g, 4 * at->tokens * (queries + keys) / at->tp * at->width, 0);
	to->backward +=
		stream_time(at->g, 4 * at->tokens * (queries + keys) / at->tp * at->width, 0);
	to->forward += a.forward;
	to->backward += a.backward;
	add_ring(to, at, a);
}

/* Two gathers and two scatters in a forward pass (sequence parallelism divides an all-reduce into
 * them). In a backward pass those of the first linear layers run while their products do. */
static void add_tensor(struct passes *to, const struct place *at)
{
	double one = gather_time(at->g, at->tokens * at->m->hidden * at->width, at->tensor);

	to->forward += 4 * one;
	to->backward += 2 * one;
	to->tensor += 6 * one;
}

/* Full recomputation runs the forward pass again, selective recomputation the attention. */
static void add_recomputation(struct passes *to, const struct step_layout *l,
			      struct attention_times a)
{
	int how = (int)l->size[DIM_RECOMPUTE];

	to->recomputed = how == RECOMPUTE_FULL        ? to->forward
			 : how == RECOMPUTE_SELECTIVE ? a.forward
						      : 0;
	to->backward += to->recomputed;
}

struct passes layer_passes(const struct step_job *job, const struct step_layout *l, int has_experts)
{
	struct place at = place_of(job, l);
	struct attention_times a = attention_time(&at);
	double state = at.split * at.m->hidden * at.width;
	struct passes to = { 0 };

	add_attention(&to, &at, a);
	if (has_experts)
		add_experts(&to, &at);
	else
		add_feed_forward(&to, &at, at.m->ffn);
	/* Two norms and two residual additions: two reads and writes, three and more backward. */
	to.forward += stream_time(at.g, (2 * 2 + 2 * 3) * state, KERNELS_FORWARD);
	to.backward += stream_time(at.g, (2 * 3 + 2 * 4) * state, KERNELS_BACKWARD);
	add_tensor(&to, &at);
	add_recomputation(&to, l, a);
	return to;
}

/* The loss reads and writes the logits in single precision: the conversion, the maximum, the
 * exponentials and their sum; the gradient once more. */
struct passes head_passes(const struct step_job *job, const struct step_layout *l)
{
	struct place at = place_of(job, l);
	double logits = at.tokens * at.m->vocab / at.tp * SINGLE;
	double one = gather_time(at.g, at.tokens * at.m->hidden * at.width, at.tensor);
	struct passes to = { 0 };

	add_linear(&to, &at, at.tokens, at.m->hidden, at.m->vocab / at.tp, 1);
	to.forward += stream_time(at.g, 6 * logits, 0) + one;
	to.backward += stream_time(at.g, 3 * logits, 0) + one;
	to.tensor = 2 * one;
	return to;
}
