/* The sparse blocks of transformers' modeling_mixtral.py and modeling_qwen2_moe.py, with their own
 * loop over the experts or that of integrations/moe.py. Tokens are assumed to be spread evenly over
 * the experts. */
#include "families/experts.h"
#include "torch/autocast.h"

#include "torch/ops.h"
#include "torch/module.h"

void experts_make(struct machine *m, struct module *module, const struct hparams *s, int converts,
		  struct experts *e)
{
	const enum dtype type = initial_dtype(s);
	int64_t h = s->hidden;

	*e = (struct experts){ .hparams = s, .converts = converts };
	e->router = module_add(m, module, s->experts, h, type, TERM_EXPERT_WEIGHTS);
	e->up = module_add(m, module, s->experts * 2 * s->expert_ffn, h, type, TERM_EXPERT_WEIGHTS);
	e->down = module_add(m, module, s->experts * h, s->expert_ffn, type, TERM_EXPERT_WEIGHTS);
	e->up->stack = e->down->stack = s->experts;
	if (!s->shared_ffn)
		return;
	for (int i = 0; i < 2; i++)
		e->shared[i] = module_add(m, module, s->shared_ffn, h, type, TERM_MLP_WEIGHTS);
	e->shared[2] = module_add(m, module, h, s->shared_ffn, type, TERM_MLP_WEIGHTS);
	e->gate = module_add(m, module, 1, h, type, TERM_MLP_WEIGHTS);
}

/* ---- the router ---- */

/* weights /= weights.sum(-1): the dividend is copied for the gradient of the sum. */
static tensor normalized(struct machine *m, tensor x, int64_t rows)
{
	tensor sum = sum_to(m, x, rows), out = divide_in_place(m, x, sum);

	tensor_unref(m, &sum);
	return out;
}

/* The weights of the selected experts. *chosen are the experts' numbers, *logits the router's
 * output. */
static tensor route(struct machine *m, struct experts *e, tensor x, tensor *chosen, tensor *logits)
{
	const struct hparams *s = e->hparams;
	int64_t rows = x.n / s->hidden;
	tensor out, scores, precise;

	x = module_enter(m, e->router, NULL, x);
	m->current_term = TERM_MOE_ROUTER;
	out = linear_function(m, x, e->router);
	tensor_unref(m, &x);
	precise = e->converts ? tensor_ref(out) : to(m, out, F32);
	scores = softmax(m, precise, F32);
	tensor_unref(m, &precise);
	precise = topk(m, scores, rows * s->topk, chosen);
	if (!e->converts || s->norm_topk)
		tensor_assign(m, &precise, normalized(m, precise, rows));
	if (e->converts)
		tensor_assign(m, &precise, to(m, precise, out.type));
	tensor_unref(m, &scores);
	module_leave(m, e->router, &precise);
	*logits = out;
	return precise;
}

/* ---- experts ---- */

/* nn.SiLU */
static tensor activated(struct machine *m, tensor x)
{
	tensor in = module_enter(m, NULL, NULL, x), out = silu(m, in);

	tensor_unref(m, &in);
	module_leave(m, NULL, &out);
	return out;
}

/* act_fn(gate) * up */
static tensor gated(struct machine *m, tensor both)
{
	int64_t sizes[2] = { both.n / 2, both.n / 2 };
	tensor part[2], out;

	split(m, both, part, sizes, 2);
	out = activated(m, part[0]);
	tensor_assign(m, &out, mul(m, out, part[1]));
	tensor_unref(m, &part[0]);
	tensor_unref(m, &part[1]);
	return out;
}

/* Index tensors: the tokens sorted by expert, and back in the original order. */
struct token_order {
	tensor sorted, place, source, inputs, counts, offsets;
};

static void sort_by_expert(struct machine *m, int64_t rows, struct token_order *o)
{
	o->sorted = tensor_new(m, rows, I64);
	o->place = tensor_new(m, rows, I64);
	scratch(m, rows * 8);
	if (rows > 4096) /* cub's buffers */
		scratch(m, 16 * rows + rows / 4 + 16895);
	o->source = tensor_new(m, rows, I64);
}

static void count_experts(struct machine *m, int64_t rows, int64_t experts, struct token_order *o)
{
	o->inputs = tensor_new(m, rows, I32);
	o->counts = tensor_new(m, experts, I32);
	o->offsets = tensor_new(m, experts, I32);
	scratch(m, 1023);
}

static void release_order(struct machine *m, struct token_order *o)
{
	tensor_unref(m, &o->sorted);
	tensor_unref(m, &o->place);
	tensor_unref(m, &o->source);
	tensor_unref(m, &o->inputs);
	tensor_unref(m, &o->counts);
	tensor_unref(m, &o->offsets);
}

/* The product with the experts' transposed weights, which are a view. */
static tensor grouped_linear(struct machine *m, tensor x, struct param *p, tensor offsets)
{
	tensor view = param_view(m, p), out;

	out = grouped_mm(m, x, view, offsets, x.n / p->in * (p->value.n / p->stack / p->in));
	tensor_unref(m, &view);
	return out;
}

/* grouped_mm_experts_forward. The gradient of the sum over a token's experts is copied for each
 * expert. */
static tensor grouped(struct machine *m, struct experts *e, tensor x, tensor weights)
{
	const struct hparams *s = e->hparams;
	int64_t rows = weights.n;
	struct token_order o;
	tensor tokens, scales, h, back, weighted, sum, out;

	m->current_term = TERM_MOE_TOKENS;
	sort_by_expert(m, rows, &o);
	tokens = gather(m, x, o.source, rows * s->hidden);
	tensor_unref(m, &o.source);
	scales = gather(m, weights, o.place, rows);
	count_experts(m, rows, s->experts, &o);
	m->current_term = TERM_MOE_HIDDEN;
	h = grouped_linear(m, tokens, e->up, o.offsets);
	tensor_assign(m, &h, gated(m, h));
	m->current_term = TERM_MOE_TOKENS;
	tensor_assign(m, &h, grouped_linear(m, h, e->down, o.offsets));
	weighted = mul(m, h, scales);
	back = tensor_new(m, rows, I64);
	scratch(m, rows * 8);
	tensor_assign(m, &weighted, gather(m, weighted, back, weighted.n));
	sum = mean(m, weighted, x.n);
	out = to(m, sum, x.type);
	release_order(m, &o);
	tensor_unref(m, &tokens);
	tensor_unref(m, &scales);
	tensor_unref(m, &h);
	tensor_unref(m, &weighted);
	tensor_unref(m, &back);
	tensor_unref(m, &sum);
	return out;
}

/* One row for each pair of a token and an expert, and a copy of the expert's weights for each row.
 */
static tensor batched_mm(struct machine *m, struct param *weight, tensor x, tensor experts)
{
	int64_t each = weight->value.n / weight->stack;
	tensor copies = gather(m, weight->value, experts, experts.n * each), cast, out;

	cast = autocasted(m, copies);
	tensor_unref(m, &copies);
	copies = autocasted(m, x);
	out = matvec(m, cast, copies, experts.n * (each / weight->in));
	tensor_unref(m, &copies);
	tensor_unref(m, &cast);
	return out;
}

/* batched_mm_experts_forward */
static tensor batched(struct machine *m, struct experts *e, tensor x, tensor weights,
		      tensor experts)
{
	tensor tokens, h, weighted, sum, out;

	m->current_term = TERM_MOE_TOKENS;
	tokens = repeat(m, x, weights.n * e->hparams->hidden);
	m->current_term = TERM_MOE_HIDDEN;
	h = batched_mm(m, e->up, tokens, experts);
	tensor_assign(m, &h, gated(m, h));
	tensor_assign(m, &h, batched_mm(m, e->down, h, experts));
	m->current_term = TERM_MOE_TOKENS;
	weighted = mul(m, h, weights);
	sum = mean(m, weighted, x.n);
	out = to(m, sum, x.type);
	tensor_unref(m, &tokens);
	tensor_unref(m, &h);
	tensor_unref(m, &weighted);
	tensor_unref(m, &sum);
	return out;
}

/* The variables of the loop, which keep their tensors from one expert to the next. */
struct expert_turn {
	tensor positions, tokens, both, now;
};

/* The product with one expert's part of the weights. */
static tensor matrix_of(struct machine *m, struct param *p)
{
	tensor view = param_view(m, p), out = slice(m, view, p->value.n / p->stack);

	tensor_unref(m, &view);
	return out;
}

static void one_expert(struct machine *m, struct experts *e, tensor x, tensor weights, int64_t rows,
		       struct expert_turn *v, tensor *sum)
{
	const struct hparams *s = e->hparams;
	tensor matrix, scales, h;

	m->current_term = TERM_MOE_TOKENS;
	tensor_assign(m, &v->positions, tensor_new(m, 2 * rows, I64));
	tensor_assign(m, &v->tokens, gather(m, x, v->positions, rows * s->hidden));
	m->current_term = TERM_MOE_HIDDEN;
	matrix = matrix_of(m, e->up);
	tensor_assign(m, &v->both, linear_with(m, v->tokens, matrix, s->hidden));
	tensor_unref(m, &matrix);
	tensor_assign(m, &v->now, gated(m, v->both));
	m->current_term = TERM_MOE_TOKENS;
	matrix = matrix_of(m, e->down);
	tensor_assign(m, &v->now, linear_with(m, v->now, matrix, s->expert_ffn));
	tensor_unref(m, &matrix);
	scales = gather(m, weights, v->positions, rows);
	tensor_assign(m, &v->now, mul(m, v->now, scales));
	tensor_unref(m, &scales);
	h = to(m, v->now, sum->type);
	tensor_assign(m, sum, index_add(m, *sum, h, v->positions));
	tensor_unref(m, &h);
}

/* The models' own loop over the experts. */
static tensor looped(struct machine *m, struct experts *e, tensor x, tensor weights)
{
	const struct hparams *s = e->hparams;
	struct expert_turn v = { none, none, none, none };
	tensor sum, mask, hit;

	m->current_term = TERM_MOE_TOKENS;
	sum = tensor_new(m, x.n, x.type);
	mask = tensor_new(m, weights.n * (s->experts + 1), I64);
	hit = tensor_new(m, s->experts, I64);
	for (int64_t i = 0; i < s->experts; i++) {
		int64_t rows = divide_up(weights.n - i, s->experts);

		if (rows > 0)
			one_expert(m, e, x, weights, rows, &v, &sum);
	}
	tensor_unref(m, &mask);
	tensor_unref(m, &hit);
	tensor_unref(m, &v.positions);
	tensor_unref(m, &v.tokens);
	tensor_unref(m, &v.both);
	tensor_unref(m, &v.now);
	return sum;
}

/* ---- the block ---- */

static tensor shared_expert(struct machine *m, struct experts *e, tensor x)
{
	tensor gate, up, out;

	x = module_enter(m, NULL, NULL, x);
	m->current_term = TERM_MLP_HIDDEN;
	gate = linear_rows(m, x, e->shared[0], NULL);
	tensor_assign(m, &gate, activated(m, gate));
	up = linear_rows(m, x, e->shared[1], NULL);
	tensor_assign(m, &gate, mul(m, gate, up));
	tensor_unref(m, &up);
	m->current_term = TERM_MLP_OUT;
	out = linear_rows(m, gate, e->shared[2], NULL);
	tensor_unref(m, &gate);
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

static void add_shared(struct machine *m, struct experts *e, tensor x, tensor *routed,
		       tensor *shared)
{
	tensor gate;

	m->current_term = TERM_MLP_OUT;
	gate = linear_rows(m, x, e->gate, NULL);
	tensor_assign(m, &gate, sigmoid(m, gate));
	tensor_assign(m, shared, mul(m, gate, *shared));
	tensor_unref(m, &gate);
	tensor_assign(m, routed, add(m, *routed, *shared));
}

static tensor run_experts(struct machine *m, struct experts *e, tensor x, tensor weights,
			  tensor chosen)
{
	tensor out;

	x = module_enter(m, e->up, e->down, x);
	switch (e->hparams->experts_as) {
	case EXPERTS_EAGER:
		out = looped(m, e, x, weights);
		break;
	case EXPERTS_BATCHED:
		out = batched(m, e, x, weights, chosen);
		break;
	default:
		out = grouped(m, e, x, weights);
	}
	tensor_unref(m, &x);
	module_leave(m, e->up, &out);
	return out;
}

tensor experts_forward(struct machine *m, struct experts *e, tensor x, tensor *logits)
{
	const struct hparams *s = e->hparams;
	tensor shared = none, chosen = none, scores = none, weights, out;

	x = module_enter(m, NULL, NULL, x);
	if (s->shared_ffn)
		shared = shared_expert(m, e, x);
	weights = route(m, e, x, &chosen, &scores);
	out = run_experts(m, e, x, weights, chosen);
	if (shared.storage)
		add_shared(m, e, x, &out, &shared);
	tensor_unref(m, &shared);
	tensor_assign(m, logits, s->router_logits ? tensor_ref(scores) : none);
	tensor_unref(m, &scores);
	tensor_unref(m, &weights);
	tensor_unref(m, &chosen);
	tensor_unref(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

/* ---- the auxiliary loss ---- */

tensor experts_auxiliary_loss(struct machine *m, const struct hparams *s, const tensor *logits,
			      int64_t count, tensor loss)
{
	tensor total = tensor_new(m, s->experts, F32), out;

	m->current_term = TERM_LOSS;
	for (int64_t i = 0; i < count; i++) {
		tensor scores = softmax(m, logits[i], m->autocast ? F32 : logits[i].type), chosen,
		       best, precise, sum;

		best = topk(m, scores, scores.n / s->experts * s->topk, &chosen);
		precise = to(m, scores, F32);
		sum = sum_to(m, precise, s->experts);
		tensor_assign(m, &total, add(m, total, sum));
		tensor_unref(m, &sum);
		tensor_unref(m, &precise);
		tensor_unref(m, &best);
		tensor_unref(m, &chosen);
		tensor_unref(m, &scores);
	}
	tensor_assign(m, &total, sum_to(m, total, 1));
	out = add(m, loss, total);
	tensor_unref(m, &total);
	return out;
}
