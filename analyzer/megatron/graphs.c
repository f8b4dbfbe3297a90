/* megatron/core/transformer/cuda_graphs.py (TECudaGraphHelper) and
 * transformer_engine/pytorch/graph.py (make_graphed_callables): all passes of a step are captured
 * in the schedule's order, into one pool. Tensors that a graph saves for its backward pass are
 * allocated during the capture; afterwards only the pool holds them. These stay allocated: one
 * input for each layer that waits for its backward pass, and the gradients of one output. */
#include "megatron/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "megatron/layers.h"
#include "megatron/moe.h"
#include "megatron/mtp.h"
#include "megatron/schedule.h"
#include "megatron/tensor_parallel.h"
#include "torch/ops.h"

#include "util/util.h"

#define GRAPH_STREAM 4
#define MAX_GRAPH_RESULTS 4
#define MAX_GRAPHS 1000000

/* The pass of one layer for one micro-batch. */
struct capture {
	struct tape tape;
	struct param input;
	tensor out;
};

struct capturing {
	struct megatron_rank *rank;
	struct microbatch batch; /* has the rotary positions, which layers read */
	struct capture *captures;
	tensor *inputs; /* inputs that no pass uses at present */
	size_t input_count, input_room;
	tensor gradient;      /* the gradient of the outputs, one for all graphs */
	tensor last_gradient; /* the gradient of the input of the last backward pass */
};

static int64_t graphable(const struct model_chunk *c)
{
	int64_t n = 0;

	for (int64_t i = 0; i < c->layer_count + c->mtp_count; i++) {
		const struct megatron_layer *l = chunk_layer(c, i);

		n += graph_has(l, GRAPH_ATTENTION) || graph_has(l, GRAPH_MLP);
	}
	return n;
}

/* Hidden states, and for attention a mask. */
static tensor take_input(struct machine *m, struct capturing *c)
{
	const struct hparams *s = c->rank->s;
	tensor in;

	if (c->input_count)
		return c->inputs[--c->input_count];
	in = tensor_new_on(m, 0, TERM_GRAPHS, c->rank->local_rows * s->hidden, s->weights);
	if (s->graphs.attention)
		tensor_new_on(m, 0, TERM_GRAPHS, c->rank->rows * s->tokens, BOOL);
	return in;
}

static void give_input(struct capturing *c, tensor in)
{
	c->inputs = grow(c->inputs, c->input_count, &c->input_room, sizeof(*c->inputs));
	c->inputs[c->input_count++] = in;
}

static void joined_backward(struct machine *m, struct grad_node *n)
{
	(void)m;
	for (int i = 0; i < MAX_GRAPH_RESULTS; i++)
		n->out[i] = n->edge[i] ? tensor_ref(n->in[0]) : (tensor){ .storage = NULL };
}

/* Joins several results into one, so that one backward pass runs for all. */
static tensor joined(struct machine *m, tensor *parts, int count)
{
	tensor out;
	int64_t n = 0;

	for (int i = 0; i < count; i++)
		n += parts[i].n;
	out = with_grad_fn(tensor_ref(parts[0]), grad_node_new(m, joined_backward, parts, count),
			   0);
	out.n = n;
	for (int i = 0; i < count; i++)
		save_for_backward(m, out.grad_fn, parts[i]);
	for (int i = 0; i < count; i++)
		tensor_unref(m, &parts[i]);
	return out;
}

static tensor captured_router(struct machine *m, struct megatron_layer *l, tensor x)
{
	tensor parts[MAX_GRAPH_RESULTS];

	m->current_term = TERM_MLP_NORM;
	parts[0] = hidden_norm(m, l->chunk->rank, &l->before_mlp, x);
	parts[1] = tensor_ref(x);
	return joined(m, parts, 2 + moe_captured(m, l, parts[0], parts + 2));
}

static void capture_forward(struct machine *m, struct capturing *c, struct megatron_layer *l,
			    struct capture *to)
{
	tensor x;

	m->phase = FORWARD;
	m->tape = &to->tape;
	to->input.value = take_input(m, c);
	param_init(&to->input);
	x = tensor_ref(to->input.value);
	if (graph_has(l, GRAPH_ATTENTION))
		tensor_assign(m, &x, layer_attention(m, l, &c->batch, x));
	if (graph_has(l, GRAPH_MLP))
		tensor_assign(m, &x, l->router ? captured_router(m, l, x) : layer_mlp(m, l, x));
	to->out = x;
}

static void capture_backward(struct machine *m, struct capturing *c, struct capture *from)
{
	m->phase = BACKWARD;
	if (!c->gradient.storage)
		c->gradient = tensor_new_on(m, 0, TERM_GRAPHS, from->out.n, c->rank->s->weights);
	backward(m, &from->tape, from->out, tensor_ref(c->gradient));
	tensor_unref(m, &from->out);
	tensor_assign(m, &c->last_gradient, from->input.grad);
	tensor_set_term(m, c->last_gradient, TERM_GRAPHS);
	from->input.grad.storage = NULL;
	give_input(c, from->input.value);
}

static void capture_step(struct machine *m, struct capturing *c, struct pipeline_step at,
			 int forward)
{
	struct model_chunk *chunk = &c->rank->chunks[at.chunk];
	int64_t layers = chunk->layer_count + chunk->mtp_count;
	struct capture *first = c->captures;

	for (int64_t i = 0; i < at.chunk; i++)
		first += (c->rank->chunks[i].layer_count + c->rank->chunks[i].mtp_count) *
			 c->rank->microbatches;
	first += at.batch * layers;
	for (int64_t i = 0; i < layers; i++) {
		int64_t which = forward ? i : layers - 1 - i;
		struct megatron_layer *l = chunk_layer(chunk, which);

		if (!graph_has(l, GRAPH_ATTENTION) && !graph_has(l, GRAPH_MLP))
			continue;
		if (forward)
			capture_forward(m, c, l, &first[which]);
		else
			capture_backward(m, c, &first[which]);
	}
}

static void all_steps(struct machine *m, struct capturing *c)
{
	int64_t total = c->rank->microbatches * c->rank->s->vpp, ahead = schedule_ahead(c->rank);

	if (c->rank->s->pp == 1)
		total = 1;
	for (int64_t i = 0; i < total + ahead; i++) {
		if (i < total)
			capture_step(m, c, schedule_step(c->rank, i, 1), 1);
		if (i >= ahead)
			capture_step(m, c, schedule_step(c->rank, i - ahead, 0), 0);
	}
}

static void warm_up(struct machine *m, struct capturing *c)
{
	for (int64_t i = 0; i < c->rank->s->vpp; i++)
		if (graphable(&c->rank->chunks[i])) {
			capture_step(m, c, (struct pipeline_step){ i, 0 }, 1);
			capture_step(m, c, (struct pipeline_step){ i, 0 }, 0);
			return;
		}
}

void check_graphs(const struct hparams *s, struct inputs *in)
{
	if (s->graphs.on && (wide)(s->layers + s->mtp) * batches_run(s, 0) > MAX_GRAPHS)
		input_reject(in, CONFIG_cuda_graph_impl, "none, or fewer layers and micro-batches");
}

void graphs_capture(struct machine *m, struct megatron_rank *r)
{
	struct capturing c = { .rank = r };
	tensor workspaces[2];
	int64_t layers = 0;

	if (!r->s->graphs.on || r->graphed || m->step < (r->s->graphs.warmup > 0))
		return;
	for (int64_t i = 0; i < r->s->vpp; i++)
		layers += r->chunks[i].layer_count + r->chunks[i].mtp_count;
	c.captures = xcalloc((size_t)(layers * r->microbatches), sizeof(*c.captures));
	memcpy(workspaces, m->workspace, sizeof(workspaces));
	m->stream = GRAPH_STREAM;
	if (r->s->rope && !r->s->latent.kv_rank)
		load_rotary(m, &r->chunks[0], &c.batch);
	/* each stream has its own cuBLAS workspaces: first that of the warm-up, then the captured
	 * one */
	for (int pass = 0; pass < 2; pass++) {
		memset(m->workspace, 0, sizeof(m->workspace));
		if (pass)
			all_steps(m, &c);
		else
			warm_up(m, &c);
	}
	m->stream = 0;
	memcpy(m->workspace, workspaces, sizeof(workspaces));
	r->graphed = 1;
	m->tape = NULL;
	free(c.captures);
	free(c.inputs);
}
