/* A stack of feed-forward blocks, x + down(gelu(up(norm(x)))), in plain PyTorch: under
 * DistributedDataParallel or fully_shard. */
#include "model/memtrace/ddp.h"
#include "model/memtrace/deepspeed.h"
#include "model/memtrace/fsdp.h"
#include "model/memtrace/ops.h"
#include "model/memtrace/shape.h"

#include <stdlib.h>

#include "util.h"

struct block {
	struct param *norm, *norm_bias, *up, *up_bias, *down, *down_bias;
};

struct mlp {
	const struct shape *s;
	struct module module;
	struct block *blocks;
	size_t *first;
	struct optimizer optimizer;
	struct ddp ddp;
	struct fsdp fsdp;
	struct zero zero;
	tensor input, loss;
};

static const tensor none = { .at = NULL };

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

	m->as = TERM_MLP_NORM;
	h = layer_norm(m, x, b->norm, b->norm_bias, g->s->hidden);
	m->as = TERM_MLP_HIDDEN;
	let(m, &h, linear(m, h, b->up, b->up_bias));
	let(m, &h, gelu(m, h));
	m->as = TERM_MLP_OUT;
	let(m, &h, linear(m, h, b->down, b->down_bias));
	out = add(m, x, h);
	drop(m, &h);
	return out;
}

static tensor forward(struct machine *m, struct mlp *g, tensor input)
{
	tensor x = hold(input), now;
	int sharded = g->s->zero == 3;

	if (sharded)
		fsdp_root_before(m, &g->fsdp);
	for (int64_t i = 0; i < g->s->layers; i++) {
		if (sharded)
			let(m, &x, fsdp_before(m, &g->fsdp.units[i], x));
		now = block(m, g, i, x);
		let(m, &x, now);
		if (sharded)
			let(m, &x, fsdp_after(m, &g->fsdp.units[i], x));
	}
	if (sharded)
		fsdp_root_after(m, &g->fsdp);
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
	return module_add(m, &g->module, out, in, g->s->weights, role);
}

static void make_model(struct machine *m, struct mlp *g)
{
	const struct shape *s = g->s;

	g->blocks = xcalloc((size_t)s->layers, sizeof(*g->blocks));
	g->first = xcalloc((size_t)s->layers + 1, sizeof(*g->first));
	for (int64_t i = 0; i < s->layers; i++) {
		struct block *b = &g->blocks[i];

		g->first[i] = g->module.count;
		b->norm = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
		b->norm_bias = weight(m, g, 1, s->hidden, TERM_NORM_WEIGHTS);
		b->up = weight(m, g, s->ffn, s->hidden, TERM_MLP_WEIGHTS);
		b->up_bias = weight(m, g, 1, s->ffn, TERM_MLP_WEIGHTS);
		b->down = weight(m, g, s->hidden, s->ffn, TERM_MLP_WEIGHTS);
		b->down_bias = weight(m, g, 1, s->hidden, TERM_MLP_WEIGHTS);
	}
	g->first[s->layers] = g->module.count;
}

static void train_step(struct machine *m, struct mlp *g)
{
	const struct shape *s = g->s;
	struct tape tape = { .last = NULL };
	tensor loss;

	m->tape = &tape;
	m->phase = FORWARD;
	let(m, &g->input,
	    make_as(m, TERM_INPUTS, s->batch * s->tokens * s->hidden,
		    s->sharded_compute ? s->sharded_compute : s->weights));
	if (s->dp > 1 && !s->zero)
		ddp_forward(m, &g->ddp);
	loss = forward(m, g, g->input);
	let(m, &g->loss, loss);
	backward_from(m, &tape, g->loss);
	if (s->zero == 3)
		fsdp_finish(m, &g->fsdp);
	if (s->framework == DEEPSPEED)
		zero_step(m, &g->zero);
	else
		optimizer_step(m, &g->optimizer);
	if (s->zero == 3)
		fsdp_zero_grad(m, &g->fsdp);
	zero_grad(m, &g->module);
	machine_steady(m);
}

static void run(struct machine *m, const struct shape *s, int64_t stage)
{
	struct mlp g = { .s = s, .input = none, .loss = none };

	(void)stage;
	m->phase = INIT;
	make_model(m, &g);
	if (s->framework == DEEPSPEED)
		zero_wrap(m, &g.zero, s, &g.module);
	else if (s->zero == 3)
		fsdp_wrap(m, &g.fsdp, s, &g.module, g.first, (size_t)s->layers);
	else if (s->dp > 1)
		ddp_wrap(m, &g.ddp, s, &g.module);
	optimizer_init(&g.optimizer, s, &g.module);
	for (m->step = 0; m->step < m->steps; m->step++)
		train_step(m, &g);
	optimizer_release(&g.optimizer);
	ddp_release(&g.ddp);
	fsdp_release(&g.fsdp);
	zero_release(&g.zero);
	module_release(&g.module);
	free(g.blocks);
	free(g.first);
}

static int check(const struct shape *s, struct reader *r)
{
	if (GIVEN(r->c, num_attention_heads))
		refuse(r, CONFIG_framework,
		       "nanogpt, transformers or megatron-core: of plain torch "
		       "only stacks of feed-forward blocks are modelled");
	if (s->framework == DEEPSPEED)
		zero_check(s, r);
	else if (s->zero == 1 || s->zero == 2)
		refuse(r, CONFIG_zero_stage, "0 or 3 (FSDP), or framework deepspeed");
	if (s->tp * s->pp * s->cp > 1)
		refuse(r, CONFIG_tensor_model_parallel_size, "1: the blocks are not split");
	return r->failed ? -1 : 0;
}

const struct family mlp_family = { "mlp", "feed-forward blocks in plain PyTorch", TORCH, check,
				   run };
