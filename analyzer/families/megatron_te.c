#include "families/megatron_te.h"

#include "util/util.h"

void te_workspaces(struct machine *m, struct rank *r, int count)
{
	/* that of plain products first, those of grouped ones beside it */
	for (int i = count > 1; i < (count > 1 ? count + 1 : 1); i++)
		if (!r->te_workspace[i].at)
			r->te_workspace[i] =
				make_as(m, TERM_TE_WORKSPACE, m->constants.te_workspace, U8);
}

/* cpp_extensions/gemm.py: _NUM_MAX_UB_STREAMS */
#define UB_STREAMS 3

static void ub_workspace(struct machine *m, struct rank *r)
{
	if (r->s->tp_overlap && !r->ub_workspace.at)
		r->ub_workspace =
			make_as(m, TERM_TE_WORKSPACE, UB_STREAMS * m->constants.te_workspace, U8);
}

/* general_gemm(A, B, get_workspace(), …): the result is made last. */
static tensor product(struct machine *m, struct rank *r, int64_t n, enum dtype type)
{
	te_workspaces(m, r, 1);
	ub_workspace(m, r);
	return make(m, n, type);
}

tensor weight_gradient(struct machine *m, struct rank *r, int64_t n, int64_t in, enum dtype type)
{
	size_t i;

	if (!r->s->fused_gradient)
		return make(m, n, type);
	for (i = 0; i < r->dummy_count; i++)
		if (r->dummies[i].n == n && r->dummies[i].in == in)
			return hold(r->dummies[i].at);
	if (i == ARRAY_SIZE(r->dummies))
		return make(m, n, type);
	r->dummies[i].n = n;
	r->dummies[i].in = in;
	r->dummies[i].at = make_as(m, TERM_DUMMY_GRADIENTS, n, type);
	r->dummy_count++;
	return hold(r->dummies[i].at);
}

/* sizes: of x, weight, bias; ranks that the input was gathered from; columns; in fp8 */
static void linear_backward(struct machine *m, struct node *n)
{
	enum dtype type = n->in[0].type;
	struct rank *r = m->family;
	int64_t t = n->sizes[3];
	tensor gathered = none, whole, gradient = none, transposed = none;

	if (n->sizes[5])
		gradient = fp8_gradient(m, r, n->in[0], &transposed);
	if (t > 1)
		gathered = make_as(m, TERM_COLLECTIVE, n->sizes[0] * t, n->sizes[5] ? U8 : type);
	n->out[0] = product(m, r, n->sizes[0] * t, type);
	if (t > 1) {
		whole = n->out[0];
		n->out[0] = make_as(m, TERM_COLLECTIVE, n->sizes[0], type);
		n->out[1] = weight_gradient(m, r, n->sizes[1], n->sizes[4], type);
		drop(m, &whole);
		drop(m, &gathered);
	} else {
		n->out[1] = weight_gradient(m, r, n->sizes[1], n->sizes[4], type);
	}
	drop(m, &gradient);
	drop(m, &transposed);
	if (n->edge[2])
		n->out[2] = make(m, n->sizes[2], type);
}

tensor te_linear(struct machine *m, struct rank *r, tensor x, struct param *weight,
		 struct param *bias, int gathers)
{
	tensor in[3] = { x, weight->value, bias ? bias->value : none }, out, gathered = none;
	int64_t t = gathers && r->s->sequence_parallel ? r->s->tp : 1;
	struct node *n = record(m, linear_backward, in, 3);
	tensor kept = none, rows = none;

	if (n) {
		n->sizes[0] = x.n;
		n->sizes[1] = weight->value.n;
		n->sizes[2] = bias ? bias->value.n : 0;
		n->sizes[3] = t;
		n->sizes[4] = weight->in;
		n->sizes[5] = weight->quantized;
	}
	if (weight->quantized) {
		fp8_weight(m, r, weight);
		rows = fp8_input(m, r, x, &kept);
	}
	save(m, n, weight->quantized ? kept : x);
	save(m, n, weight->value);
	if (t > 1)
		gathered = make_as(m, TERM_COLLECTIVE, x.n * t, weight->quantized ? U8 : x.type);
	out = product(m, r, x.n * t / weight->in * (weight->value.n / weight->in), x.type);
	drop(m, &gathered);
	drop(m, &rows);
	drop(m, &kept);
	return result(out, n, 0);
}

/* ---- attention ---- */

/* FusedAttention (cuDNN): gradients of q, k, v in one buffer, laid out as the input is. */
static void fused_backward(struct machine *m, struct node *n)
{
	tensor all = make(m, n->sizes[0] + n->sizes[1] + n->sizes[2], n->in[0].type);

	for (int i = 0; i < 3; i++) {
		n->out[i] = hold(all);
		n->out[i].n = n->sizes[i];
	}
	scratch(m, n->sizes[3] * 4);
	scratch(m, n->sizes[0] * 4);
	drop(m, &all);
}

static tensor fused(struct machine *m, struct rank *r, const tensor *in)
{
	const struct shape *s = r->s;
	struct node *n = record(m, fused_backward, in, 3);
	int64_t rows = s->batch * r->heads * (s->tokens / s->cp);
	tensor out, lse, seeds;

	for (int i = 0; n && i < 3; i++) {
		n->sizes[i] = in[i].n;
		save(m, n, in[i]);
	}
	if (n)
		n->sizes[3] = rows;
	seeds = make_as(m, TERM_ATTN_FLASH, 2, I64);
	out = result(make(m, in[0].n / s->head * s->value_head, in[0].type), n, 0);
	lse = make_as(m, TERM_ATTN_FLASH, rows, F32);
	save(m, n, out);
	save(m, n, lse);
	save(m, n, seeds);
	drop(m, &seeds);
	drop(m, &lse);
	return out;
}

/* mha_bwd() of the flash-attn package: row sums, and the queries' gradient in fp32; of every split
 * where it is deterministic; keys' and values' gradients of every head where heads share them.
 * sizes: of q, k, v; rows, rounded queries, splits */
static void flash_backward(struct machine *m, struct node *n)
{
	tensor sums, sum, repeated[2] = { none, none };

	for (int i = 0; i < 3; i++)
		n->out[i] = make(m, n->sizes[i], n->in[0].type);
	sums = make(m, n->sizes[3], F32);
	sum = make(m, n->sizes[4] * n->sizes[5], F32);
	for (int i = 0; i < 2 && n->sizes[1] != n->sizes[0]; i++)
		repeated[i] = make(m, n->sizes[0], n->in[0].type);
	for (int i = 1; i >= 0; i--)
		drop(m, &repeated[i]);
	drop(m, &sum);
	drop(m, &sums);
}

static tensor flash_attn_func(struct machine *m, struct rank *r, const tensor *in)
{
	const struct shape *s = r->s;
	int64_t queries = s->tokens / s->cp, heads = s->batch * r->heads;
	int64_t rounded = round_up(queries, 128), width = round_up(s->head, 32);
	struct node *n = record(m, flash_backward, in, 3);
	tensor out = result(make(m, in[0].n, in[0].type), n, 0);
	tensor sums = make_as(m, TERM_ATTN_FLASH, heads * queries, F32);
	tensor seeds = make_as(m, TERM_ATTN_FLASH, 2, I64);

	for (int i = 0; n && i < 3; i++) {
		n->sizes[i] = in[i].n;
		save(m, n, in[i]);
	}
	if (n) {
		n->sizes[3] = heads * rounded;
		n->sizes[4] = heads * rounded * width;
		n->sizes[5] = m->constants.nondeterministic
				      ? 1
				      : divide_up(m->constants.multiprocessors, heads);
	}
	save(m, n, out);
	save(m, n, sums);
	save(m, n, seeds);
	drop(m, &seeds);
	drop(m, &sums);
	return out;
}

/* FlashAttention wants batch before sequence: copies of q, k, v, and of its output back. */
static tensor flash(struct machine *m, struct rank *r, const tensor *in)
{
	tensor copy[3], out;

	for (int i = 0; i < 3; i++)
		copy[i] = contiguous(m, in[i]);
	out = flash_attn_func(m, r, copy);
	let(m, &out, contiguous(m, out));
	for (int i = 0; i < 3; i++)
		drop(m, &copy[i]);
	return out;
}

/* baddbmm into a buffer made for it */
static void scores_backward(struct machine *m, struct node *n)
{
	for (int i = 1; i >= 0; i--)
		n->out[i] = gemm(m, n->sizes[i], n->in[0].type);
}

static tensor scores(struct machine *m, struct rank *r, tensor q, tensor k)
{
	tensor in[2] = { q, k }, buffer, out;
	int64_t n = r->s->batch * r->heads * r->s->tokens * r->s->tokens;
	struct node *node = record(m, scores_backward, in, 2);

	if (node) {
		node->sizes[0] = q.n;
		node->sizes[1] = k.n;
	}
	save(m, node, q);
	save(m, node, k);
	buffer = make(m, n, q.type);
	out = gemm(m, n, q.type);
	drop(m, &buffer);
	return result(out, node, 0);
}

/* scaled_upper_triang_masked_softmax: the gradient takes the output gradient's place */
static void softmax_backward(struct machine *m, struct node *n)
{
	(void)m;
	n->out[0] = hold(n->in[0]);
}

tensor masked_softmax(struct machine *m, tensor x)
{
	struct node *n = record(m, softmax_backward, &x, 1);
	tensor out = make(m, x.n, x.type);

	save(m, n, out);
	return result(out, n, 0);
}

static tensor unfused(struct machine *m, struct rank *r, const tensor *in)
{
	tensor a, k = hold(in[1]), v = hold(in[2]), out;

	if (r->heads != r->groups) {
		let(m, &k, repeat(m, k, in[0].n));
		let(m, &v, repeat(m, v, in[0].n));
	}
	m->as = TERM_ATTN_SCORES;
	a = scores(m, r, in[0], k);
	m->as = TERM_ATTN_SOFTMAX;
	let(m, &a, masked_softmax(m, a));
	let(m, &a, dropout(m, a, r->s->attention_dropout));
	m->as = TERM_ATTN_CONTEXT;
	out = matmul(m, a, v, v.n);
	let(m, &out, contiguous(m, out));
	drop(m, &a);
	drop(m, &k);
	drop(m, &v);
	return out;
}

tensor te_attention(struct machine *m, void *context, const tensor *in)
{
	struct rank *r = *(struct rank **)context;

	if (r->s->attention == EAGER)
		return unfused(m, r, in);
	/* FlashAttention has no heads whose values differ in width. */
	if (r->s->value_head != r->s->head)
		return fused(m, r, in);
	/* Before Hopper FlashAttention is preferred; cuDNN has no deterministic backward pass for
	 * Blackwell. */
	if (r->s->attention == FUSED_ATTENTION &&
	    (m->constants.sm == 90 || (m->constants.sm > 90 && m->constants.nondeterministic)))
		return fused(m, r, in);
	return flash(m, r, in);
}

static void same_size_backward(struct machine *m, struct node *n)
{
	n->out[0] = make(m, n->sizes[0], n->type);
}

static struct node *kernel(struct machine *m, tensor x)
{
	struct node *n = record(m, same_size_backward, &x, 1);

	if (n) {
		n->sizes[0] = x.n;
		n->type = x.type;
	}
	return n;
}

tensor fused_swiglu(struct machine *m, tensor x)
{
	struct node *n = kernel(m, x);

	save(m, n, x);
	return result(make(m, x.n / 2, x.type), n, 0);
}

tensor fused_rotary(struct machine *m, tensor x)
{
	return result(make(m, x.n, x.type), kernel(m, x), 0);
}
