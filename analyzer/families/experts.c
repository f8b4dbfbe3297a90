/* The sparse blocks of transformers' modeling_mixtral.py and modeling_qwen2_moe.py, with the
 * experts' loop of their own or integrations/moe.py's. Tokens are spread evenly over the experts.
 */
#include "families/experts.h"
#include "torch/autocast.h"

#include "torch/ops.h"
#include "torch/module.h"

void experts_make(struct machine *m, struct module *module, const struct shape *s,
		  struct experts *e)
{
	const enum dtype type = made_as(s);
	int64_t h = s->hidden;

	*e = (struct experts){ .shape = s };
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

/* weights /= weights.sum(-1): what was divided is copied for the sum's gradient. */
static tensor normalized(struct machine *m, tensor x, int64_t rows)
{
	tensor sum = sum_to(m, x, rows), out = divide_in_place(m, x, sum);

	drop(m, &sum);
	return out;
}

/* The chosen experts' weights; their numbers go to *chosen, the router's output to *logits. */
static tensor route(struct machine *m, struct experts *e, tensor x, tensor *chosen, tensor *logits)
{
	const struct shape *s = e->shape;
	int64_t rows = x.n / s->hidden;
	tensor out, scores, precise;

	x = module_enter(m, e->router, NULL, x);
	m->as = TERM_MOE_ROUTER;
	out = linear_function(m, x, e->router);
	drop(m, &x);
	precise = s->shared_ffn ? hold(out) : to(m, out, F32);
	scores = softmax(m, precise, F32);
	drop(m, &precise);
	precise = topk(m, scores, rows * s->topk, chosen);
	if (s->shared_ffn)
		let(m, &precise, to(m, precise, out.type));
	else
		let(m, &precise, normalized(m, precise, rows));
	drop(m, &scores);
	module_leave(m, e->router, &precise);
	*logits = out;
	return precise;
}

/* ---- experts ---- */

/* nn.SiLU */
static tensor activated(struct machine *m, tensor x)
{
	tensor in = module_enter(m, NULL, NULL, x), out = silu(m, in);

	drop(m, &in);
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
	let(m, &out, mul(m, out, part[1]));
	drop(m, &part[0]);
	drop(m, &part[1]);
	return out;
}

/* Where each token lies among those sorted by expert, and where in the original order. */
struct order {
	tensor sorted, place, source, inputs, counts, offsets;
};

static void sort_by_expert(struct machine *m, int64_t rows, struct order *o)
{
	o->sorted = make(m, rows, I64);
	o->place = make(m, rows, I64);
	scratch(m, rows * 8);
	if (rows > 4096) /* cub's */
		scratch(m, 16 * rows + rows / 4 + 16895);
	o->source = make(m, rows, I64);
}

static void count_experts(struct machine *m, int64_t rows, int64_t experts, struct order *o)
{
	o->inputs = make(m, rows, I32);
	o->counts = make(m, experts, I32);
	o->offsets = make(m, experts, I32);
	scratch(m, 1023);
}

static void drop_order(struct machine *m, struct order *o)
{
	drop(m, &o->sorted);
	drop(m, &o->place);
	drop(m, &o->source);
	drop(m, &o->inputs);
	drop(m, &o->counts);
	drop(m, &o->offsets);
}

/* The weights are transposed: a view. */
static tensor grouped_linear(struct machine *m, tensor x, struct param *p, tensor offsets)
{
	tensor view = param_view(m, p), out;

	out = grouped_mm(m, x, view, offsets, x.n / p->in * (p->value.n / p->stack / p->in));
	drop(m, &view);
	return out;
}

/* grouped_mm_experts_forward. Sums' gradients are copied for each token's experts. */
static tensor grouped(struct machine *m, struct experts *e, tensor x, tensor weights)
{
	const struct shape *s = e->shape;
	int64_t rows = weights.n;
	struct order o;
	tensor tokens, scales, h, back, weighted, sum, out;

	m->as = TERM_MOE_TOKENS;
	sort_by_expert(m, rows, &o);
	tokens = gather(m, x, o.source, rows * s->hidden);
	drop(m, &o.source);
	scales = gather(m, weights, o.place, rows);
	count_experts(m, rows, s->experts, &o);
	m->as = TERM_MOE_HIDDEN;
	h = grouped_linear(m, tokens, e->up, o.offsets);
	let(m, &h, gated(m, h));
	m->as = TERM_MOE_TOKENS;
	let(m, &h, grouped_linear(m, h, e->down, o.offsets));
	weighted = mul(m, h, scales);
	back = make(m, rows, I64);
	scratch(m, rows * 8);
	let(m, &weighted, gather(m, weighted, back, weighted.n));
	sum = mean(m, weighted, x.n);
	out = to(m, sum, x.type);
	drop_order(m, &o);
	drop(m, &tokens);
	drop(m, &scales);
	drop(m, &h);
	drop(m, &weighted);
	drop(m, &back);
	drop(m, &sum);
	return out;
}

/* A row for each pair of a token and an expert, and a copy of the expert's weights for each. */
static tensor batched_mm(struct machine *m, struct param *weight, tensor x, tensor experts)
{
	int64_t each = weight->value.n / weight->stack;
	tensor copies = gather(m, weight->value, experts, experts.n * each), cast, out;

	cast = autocasted(m, copies);
	drop(m, &copies);
	copies = autocasted(m, x);
	out = matvec(m, cast, copies, experts.n * (each / weight->in));
	drop(m, &copies);
	drop(m, &cast);
	return out;
}

/* batched_mm_experts_forward */
static tensor batched(struct machine *m, struct experts *e, tensor x, tensor weights,
		      tensor experts)
{
	tensor tokens, h, weighted, sum, out;

	m->as = TERM_MOE_TOKENS;
	tokens = repeat(m, x, weights.n * e->shape->hidden);
	m->as = TERM_MOE_HIDDEN;
	h = batched_mm(m, e->up, tokens, experts);
	let(m, &h, gated(m, h));
	let(m, &h, batched_mm(m, e->down, h, experts));
	m->as = TERM_MOE_TOKENS;
	weighted = mul(m, h, weights);
	sum = mean(m, weighted, x.n);
	out = to(m, sum, x.type);
	drop(m, &tokens);
	drop(m, &h);
	drop(m, &weighted);
	drop(m, &sum);
	return out;
}

/* What the loop's variables refer to from one expert to the next. */
struct turn {
	tensor places, tokens, both, now;
};

/* An expert's part of the weights. */
static tensor matrix_of(struct machine *m, struct param *p)
{
	tensor view = param_view(m, p), out = slice(m, view, p->value.n / p->stack);

	drop(m, &view);
	return out;
}

static void one_expert(struct machine *m, struct experts *e, tensor x, tensor weights, int64_t rows,
		       struct turn *v, tensor *sum)
{
	const struct shape *s = e->shape;
	tensor matrix, scales, h;

	m->as = TERM_MOE_TOKENS;
	let(m, &v->places, make(m, 2 * rows, I64));
	let(m, &v->tokens, gather(m, x, v->places, rows * s->hidden));
	m->as = TERM_MOE_HIDDEN;
	matrix = matrix_of(m, e->up);
	let(m, &v->both, linear_with(m, v->tokens, matrix, s->hidden));
	drop(m, &matrix);
	let(m, &v->now, gated(m, v->both));
	m->as = TERM_MOE_TOKENS;
	matrix = matrix_of(m, e->down);
	let(m, &v->now, linear_with(m, v->now, matrix, s->expert_ffn));
	drop(m, &matrix);
	scales = gather(m, weights, v->places, rows);
	let(m, &v->now, mul(m, v->now, scales));
	drop(m, &scales);
	h = to(m, v->now, sum->type);
	let(m, sum, index_add(m, *sum, h, v->places));
	drop(m, &h);
}

/* The models' own loop over the experts. */
static tensor looped(struct machine *m, struct experts *e, tensor x, tensor weights)
{
	const struct shape *s = e->shape;
	struct turn v = { none, none, none, none };
	tensor sum, mask, hit;

	m->as = TERM_MOE_TOKENS;
	sum = make(m, x.n, x.type);
	mask = make(m, weights.n * (s->experts + 1), I64);
	hit = make(m, s->experts, I64);
	for (int64_t i = 0; i < s->experts; i++) {
		int64_t rows = divide_up(weights.n - i, s->experts);

		if (rows > 0)
			one_expert(m, e, x, weights, rows, &v, &sum);
	}
	drop(m, &mask);
	drop(m, &hit);
	drop(m, &v.places);
	drop(m, &v.tokens);
	drop(m, &v.both);
	drop(m, &v.now);
	return sum;
}

/* ---- the block ---- */

static tensor shared_expert(struct machine *m, struct experts *e, tensor x)
{
	tensor gate, up, out;

	x = module_enter(m, NULL, NULL, x);
	m->as = TERM_MLP_HIDDEN;
	gate = linear_rows(m, x, e->shared[0]);
	let(m, &gate, activated(m, gate));
	up = linear_rows(m, x, e->shared[1]);
	let(m, &gate, mul(m, gate, up));
	drop(m, &up);
	m->as = TERM_MLP_OUT;
	out = linear_rows(m, gate, e->shared[2]);
	drop(m, &gate);
	drop(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

static void add_shared(struct machine *m, struct experts *e, tensor x, tensor *routed,
		       tensor *shared)
{
	tensor gate;

	m->as = TERM_MLP_OUT;
	gate = linear_rows(m, x, e->gate);
	let(m, &gate, sigmoid(m, gate));
	let(m, shared, mul(m, gate, *shared));
	drop(m, &gate);
	let(m, routed, add(m, *routed, *shared));
}

static tensor run_experts(struct machine *m, struct experts *e, tensor x, tensor weights,
			  tensor chosen)
{
	tensor out;

	x = module_enter(m, e->up, e->down, x);
	switch (e->shape->experts_as) {
	case EXPERTS_EAGER:
		out = looped(m, e, x, weights);
		break;
	case EXPERTS_BATCHED:
		out = batched(m, e, x, weights, chosen);
		break;
	default:
		out = grouped(m, e, x, weights);
	}
	drop(m, &x);
	module_leave(m, e->up, &out);
	return out;
}

tensor experts_forward(struct machine *m, struct experts *e, tensor x, tensor *logits)
{
	const struct shape *s = e->shape;
	tensor shared = none, chosen = none, scores = none, weights, out;

	x = module_enter(m, NULL, NULL, x);
	if (s->shared_ffn)
		shared = shared_expert(m, e, x);
	weights = route(m, e, x, &chosen, &scores);
	out = run_experts(m, e, x, weights, chosen);
	if (shared.at)
		add_shared(m, e, x, &out, &shared);
	drop(m, &shared);
	let(m, logits, s->router_logits ? hold(scores) : none);
	drop(m, &scores);
	drop(m, &weights);
	drop(m, &chosen);
	drop(m, &x);
	module_leave(m, NULL, &out);
	return out;
}

/* ---- the auxiliary loss ---- */

tensor experts_auxiliary_loss(struct machine *m, const struct shape *s, const tensor *logits,
			      int64_t count, tensor loss)
{
	tensor total = make(m, s->experts, F32), out;

	m->as = TERM_LOSS;
	for (int64_t i = 0; i < count; i++) {
		tensor scores = softmax(m, logits[i], m->autocast ? F32 : logits[i].type), chosen,
		       best, precise, sum;

		best = topk(m, scores, scores.n / s->experts * s->topk, &chosen);
		precise = to(m, scores, F32);
		sum = sum_to(m, precise, s->experts);
		let(m, &total, add(m, total, sum));
		drop(m, &sum);
		drop(m, &precise);
		drop(m, &best);
		drop(m, &chosen);
		drop(m, &scores);
	}
	let(m, &total, sum_to(m, total, 1));
	out = add(m, loss, total);
	drop(m, &total);
	return out;
}
