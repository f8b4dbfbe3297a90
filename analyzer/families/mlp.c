/* A stack of feed-forward blocks, x + down(gelu(up(norm(x)))), in plain PyTorch: under
 * DistributedDataParallel or fully_shard. */
#include "families/mlp.h"

#include "families/train.h"
#include "torch/ops.h"
#include "distributed/wrapper.h"

#include <stdlib.h>

#include "util/util.h"

struct mlp_block {
	struct param *norm, *norm_bias, *up, *up_bias, *down, *down_bias;
};

struct mlp {
	const struct hparams *s;
	struct wrapper w;
	struct mlp_block *blocks;
	tensor input, loss;
};

static void sum_backward(struct machine *m, struct grad_node *n)
{
	(void)m;
	n->out[0] = tensor_ref(n->in[0]);
	n->out[0].n = n->sizes[0];
}

/* x.float().sum(): its gradient is a view of one element. */
static tensor sum(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, sum_backward, &x, 1);

	if (n)
		n->sizes[0] = x.n;
	return with_grad_fn(tensor_new(m, 1, F32), n, 0);
}

static tensor block(struct machine *m, struct mlp *g, int64_t i, tensor x)
{
	struct mlp_block *b = &g->blocks[i];
	tensor h, out;

	x = module_enter(m, NULL, NULL, x);
	m->current_term = TERM_MLP_NORM;
	h = layer_norm(m, x, b->norm, b->norm_bias, g->s->hidden);
	m->current_term = TERM_MLP_HIDDEN;
	tensor_assign(m, &h, linear(m, h, b->up, b->up_bias));
	tensor_assign(m, &h, gelu(m, h));
	m->current_term = TERM_MLP_OUT;
	tensor_assign(m, &h, linear(m, h, b->down, b->down_bias));
	out = add(m, x, h);
	tensor_unref(m, &h);
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

static tensor forward(struct machine *m, struct mlp *g, tensor input)
{
	tensor x, now;

	wrapper_before_forward(m, &g->w);
	x = module_enter(m, NULL, NULL, input);
	for (int64_t i = 0; i < g->s->layers; i++) {
		tensor_assign(m, &x, wrapper_before_block(m, &g->w, i, x));
		tensor_assign(m, &x, block(m, g, i, x));
		wrapper_after_block(m, &g->w, i, &x);
	}
	module_leave(m, NULL, &x);
	wrapper_after_forward(m, &g->w);
	m->phase = LOSS;
	m->current_term = TERM_LOSS;
	tensor_assign(m, &x, to(m, x, F32));
	now = sum(m, x);
	tensor_unref(m, &x);
	return now;
}

static struct param *weight(struct machine *m, struct mlp *g, int64_t out, int64_t in,
			    enum term_id term)
{
	return module_add(m, &g->w.module, out, in, g->s->weights, term);
}

static void make_model(struct machine *m, void *model)
{
	struct mlp *g = model;
	const struct hparams *s = g->s;

	g->blocks = xcalloc((size_t)s->layers, sizeof(*g->blocks));
	for (int64_t i = 0; i < s->layers; i++) {
		struct mlp_block *b = &g->blocks[i];

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
	const struct hparams *s = g->s;
	struct tape tape = { .last = NULL };
	tensor loss;

	m->tape = &tape;
	m->phase = FORWARD;
	tensor_assign(m, &g->input,
		      tensor_new_as(m, TERM_INPUTS, s->batch * s->tokens * s->hidden,
				    s->sharded_compute));
	loss = forward(m, g, g->input);
	tensor_assign(m, &g->loss, loss);
	loss = wrapper_scaled(m, &g->w, loss);
	loss_backward(m, &tape, loss);
	tensor_unref(m, &loss);
	wrapper_after_backward(m, &g->w);
}

static void run(struct machine *m, const struct hparams *s, int64_t stage)
{
	struct mlp g = { .s = s };

	(void)stage;
	train(m, s, &(struct trained_model){ &g.w, make_model, NULL, micro_batch }, &g);
	free(g.blocks);
}

static int check(const struct hparams *s, struct inputs *in)
{
	if (GIVEN(in->c, num_attention_heads))
		input_reject(in, CONFIG_framework,
			     "nanogpt, transformers or megatron-core: of plain torch "
			     "only stacks of feed-forward blocks are modelled");
	wrapper_check(s, in);
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: the blocks are not split");
	return in->failed ? -1 : 0;
}

const struct family_model mlp_model = { check, run };
