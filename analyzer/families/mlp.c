/* A stack of feed-forward blocks, x + down(gelu(up(norm(x)))), in plain PyTorch: under
 * DistributedDataParallel or fully_shard. */
#include "families/families.h"
#include "torch/ops.h"
#include "distributed/wrapper.h"

#include <stdlib.h>

#include "util/util.h"

struct block {
	struct param *norm, *norm_bias, *up, *up_bias, *down, *down_bias;
};

struct mlp {
	const struct shape *s;
	struct wrapped w;
	struct block *blocks;
	tensor input, loss;
};

static void sum_backward(struct machine *m, struct node *n)
{
	(void)m;
	n->out[0] = hold(n->in[0]);
	n->out[0].n = n->sizes[0];
}

/* x.float().sum(): its gradient is a view of one number. */
static tensor sum(struct machine *m, tensor x)
{
	struct node *n = record(m, sum_backward, &x, 1);

	if (n)
		n->sizes[0] = x.n;
	return result(make(m, 1, F32), n, 0);
}

static tensor block(struct machine *m, struct mlp *g, int64_t i, tensor x)
{
	struct block *b = &g->blocks[i];
	tensor h, out;

	x = module_enter(m, NULL, NULL, x);
	m->as = TERM_MLP_NORM;
	h = layer_norm(m, x, b->norm, b->norm_bias, g->s->hidden);
	m->as = TERM_MLP_HIDDEN;
	let(m, &h, linear(m, h, b->up, b->up_bias));
	let(m, &h, gelu(m, h));
	m->as = TERM_MLP_OUT;
	let(m, &h, linear(m, h, b->down, b->down_bias));
	out = add(m, x, h);
	drop(m, &h);
	drop(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

static tensor forward(struct machine *m, struct mlp *g, tensor input)
{
	tensor x, now;

	wrapped_before_forward(m, &g->w);
	x = module_enter(m, NULL, NULL, input);
	for (int64_t i = 0; i < g->s->layers; i++) {
		let(m, &x, wrapped_before_block(m, &g->w, i, x));
		let(m, &x, block(m, g, i, x));
		wrapped_after_block(m, &g->w, i, &x);
	}
	module_leave(m, NULL, &x);
	wrapped_after_forward(m, &g->w);
	m->phase = LOSS;
	m->as = TERM_LOSS;
	let(m, &x, to(m, x, F32));
	now = sum(m, x);
	drop(m, &x);
	return now;
}

static struct param *weight(struct machine *m, struct mlp *g, int64_t out, int64_t in,
			    enum role role)
{
	return module_add(m, &g->w.module, out, in, g->s->weights, role);
}

static void make_model(struct machine *m, struct mlp *g)
{
	const struct shape *s = g->s;

	g->blocks = xcalloc((size_t)s->layers, sizeof(*g->blocks));
	for (int64_t i = 0; i < s->layers; i++) {
		struct block *b = &g->blocks[i];

		g->w.first[i] = g->w.module.count;
		b->norm = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
		b->norm_bias = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
		b->up = weight(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
		b->up_bias = weight(m, g, 1, s->ffn, TERM_MLP_WEIGHTS);
		b->down = weight(m, g, s->hidden, s->ffn, TERM_MLP_WEIGHTS);
		b->down_bias = weight(m, g, 1, s->hidden, TERM_MLP_WEIGHTS);
	}
	g->w.first[s->layers] = g->w.module.count;
}

static void micro_batch(struct machine *m, void *model)
{
	struct mlp *g = model;
	const struct shape *s = g->s;
	struct tape tape = { .last = NULL };
	tensor loss;

	m->tape = &tape;
	m->phase = FORWARD;
	let(m, &g->input,
	    make_as(m, TERM_INPUTS, s->batch * s->tokens * s->hidden, s->sharded_compute));
	loss = forward(m, g, g->input);
	let(m, &g->loss, loss);
	loss = wrapped_scaled(m, &g->w, loss);
	backward_from(m, &tape, loss);
	drop(m, &loss);
	wrapped_after_backward(m, &g->w);
}

static void run(struct machine *m, const struct shape *s, int64_t stage)
{
	struct mlp g = { .s = s, .input = none, .loss = none };

	(void)stage;
	m->phase = INIT;
	wrapped_init(&g.w, s);
	make_model(m, &g);
	wrapped_start(m, &g.w);
	wrapped_train(m, &g.w, micro_batch, &g);
	wrapped_release(&g.w);
	free(g.blocks);
}

static int check(const struct shape *s, struct inputs *in)
{
	if (GIVEN(in->c, num_attention_heads))
		input_reject(in, CONFIG_framework,
		       "nanogpt, transformers or megatron-core: of plain torch "
		       "only stacks of feed-forward blocks are modelled");
	wrapped_check(s, in);
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: the blocks are not split");
	return in->failed ? -1 : 0;
}

const struct family_model mlp_model = { check, run };
