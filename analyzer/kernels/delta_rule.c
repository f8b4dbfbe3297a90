#include "kernels/delta_rule.h"

#include "kernels/measured.h"
#include "util/util.h"

/* ---- operations of torch_chunk_gated_delta_rule() that no other model has ---- */

/* An exponential saves its result, as sigmoid does. */
static tensor exponential(struct machine *m, tensor x)
{
	return sigmoid(m, x);
}

/* a - b: the gradient of b is negated by a copy. `sizes`: elements of both. */
static void difference_backward(struct machine *m, struct grad_node *n)
{
	tensor each[2] = { tensor_ref(n->in[0]), tensor_new(m, n->in[0].n, n->in[0].type) };

	for (int i = 0; i < 2; i++) {
		if (n->sizes[i] == each[i].n) {
			n->out[i] = each[i];
			continue;
		}
		n->out[i] = tensor_new(m, n->sizes[i], each[i].type);
		tensor_unref(m, &each[i]);
	}
}

static tensor difference(struct machine *m, tensor a, tensor b, int64_t n)
{
	tensor in[2] = { a, b };
	struct grad_node *node = grad_node_new(m, difference_backward, in, 2);

	if (node) {
		node->sizes[0] = a.n;
		node->sizes[1] = b.n;
	}
	return with_grad_fn(tensor_new(m, n, a.type), node, 0);
}

/* grad.flip().cumsum().flip() */
static void cumsum_backward(struct machine *m, struct grad_node *n)
{
	tensor flipped = tensor_new(m, n->in[0].n, n->in[0].type);
	tensor sums = tensor_new(m, flipped.n, flipped.type);

	n->out[0] = tensor_new(m, flipped.n, flipped.type);
	tensor_unref(m, &sums);
	tensor_unref(m, &flipped);
}

static tensor cumsum(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, cumsum_backward, &x, 1);

	return with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
}

/* into[part] = x. CopySlices: the gradient of the whole is copied, and its part again; that part is
 * the gradient of x, and zeros take its place. `sizes`: elements of the whole and of the part. */
static void assign_backward(struct machine *m, struct grad_node *n)
{
	tensor whole = tensor_new(m, n->sizes[0], n->in[0].type);

	n->out[1] = tensor_new(m, n->sizes[1], n->in[0].type);
	if (n->edge[0]) {
		scratch(m, n->sizes[1] * dtype_width(n->in[0].type));
		n->out[0] = whole;
	} else {
		tensor_unref(m, &whole);
	}
}

/* `into` is taken. */
static void assign_part(struct machine *m, tensor *into, tensor x)
{
	tensor in[2] = { *into, x };
	struct grad_node *n = grad_node_new(m, assign_backward, in, 2);

	if (n) {
		n->sizes[0] = into->n;
		n->sizes[1] = x.n;
	}
	*into = with_grad_fn(*into, n, 0);
}

/* x[…, i] of one dimension, then of another one: each is a view with a node of its own. */
static tensor part_of_part(struct machine *m, tensor x, int64_t first, int64_t second)
{
	tensor outer = slice(m, x, first), inner = slice(m, outer, second);

	tensor_unref(m, &outer);
	return inner;
}

/* x.masked_fill(mask, 0) */
static tensor masked(struct machine *m, tensor x, tensor mask)
{
	tensor out = scale(m, x);

	save_for_backward(m, out.grad_fn, mask);
	return out;
}

static tensor triangle(struct machine *m)
{
	tensor ones = tensor_new(m, DELTA_CHUNK * DELTA_CHUNK, BOOL);
	tensor mask = tensor_new(m, DELTA_CHUNK * DELTA_CHUNK, BOOL);

	tensor_unref(m, &ones);
	return mask;
}

/* x.transpose(1, 2).contiguous().to(torch.float32) */
static tensor by_head(struct machine *m, tensor x)
{
	tensor copy = contiguous(m, x), out = to(m, copy, F32);

	tensor_unref(m, &copy);
	return out;
}

/* The variables of the function. */
struct delta_rule {
	const struct delta_sizes *z;
	int64_t lanes;  /* batch times heads */
	int64_t chunks; /* of a sequence */
	int64_t steps;  /* tokens of all lanes, with padding */
	tensor q, k, v, decay, beta, v_beta, k_beta, k_decayed, decays, scores, mask, state, out;
};

/* ---- the parts of the function ---- */

static void read_inputs(struct machine *m, struct delta_rule *d, const struct delta_inputs *in)
{
	const struct delta_sizes *z = d->z;

	d->q = by_head(m, in->q);
	d->k = by_head(m, in->k);
	d->v = by_head(m, in->v);
	d->beta = by_head(m, in->beta);
	d->decay = by_head(m, in->decay);
	/* F.pad() copies also if there is nothing to pad */
	tensor_assign(m, &d->q, repeat(m, d->q, d->steps * z->key));
	tensor_assign(m, &d->k, repeat(m, d->k, d->steps * z->key));
	tensor_assign(m, &d->v, repeat(m, d->v, d->steps * z->value));
	tensor_assign(m, &d->beta, repeat(m, d->beta, d->steps));
	tensor_assign(m, &d->decay, repeat(m, d->decay, d->steps));
	tensor_assign(m, &d->q, scale(m, d->q));
	d->v_beta = mul(m, d->v, d->beta);
	d->k_beta = mul(m, d->k, d->beta);
	d->mask = triangle(m);
	tensor_assign(m, &d->decay, cumsum(m, d->decay));
}

/* The products of the keys of a chunk, and how much each token has decayed until another one. */
static void make_scores(struct machine *m, struct delta_rule *d)
{
	int64_t n = d->steps * DELTA_CHUNK;
	tensor a = difference(m, d->decay, d->decay, n);

	tensor_assign(m, &a, scale(m, a));
	tensor_assign(m, &a, exponential(m, a));
	d->decays = scale(m, a);
	tensor_unref(m, &a);
	a = matmul(m, d->k_beta, d->k, n);
	tensor_assign(m, &a, mul(m, a, d->decays));
	tensor_assign(m, &a, masked(m, a, d->mask));
	d->scores = scale(m, a);
	tensor_unref(m, &a);
}

/* Row after row of a chunk's scores is replaced; a row and the square above it are copied and
 * saved.
 */
static void solve(struct machine *m, struct delta_rule *d)
{
	int64_t each = d->lanes * d->chunks;
	tensor row = none, square = none, product, sum, eye;

	for (int64_t i = 1; i < DELTA_CHUNK; i++) {
		product = part_of_part(m, d->scores, each * DELTA_CHUNK, each * i);
		tensor_assign(m, &row, contiguous(m, product));
		tensor_unref(m, &product);
		product = part_of_part(m, d->scores, each * i * DELTA_CHUNK, each * i * i);
		tensor_assign(m, &square, contiguous(m, product));
		tensor_unref(m, &product);
		product = mul(m, row, square);
		sum = sum_to(m, product, each * i);
		tensor_unref(m, &product);
		product = add(m, row, sum);
		tensor_unref(m, &sum);
		assign_part(m, &d->scores, product);
		tensor_unref(m, &product);
	}
	eye = tensor_new(m, DELTA_CHUNK * DELTA_CHUNK, F32);
	tensor_assign(m, &d->scores, add(m, d->scores, eye));
	tensor_unref(m, &eye);
	/* variables until the end; both are saved */
	tensor_unref(m, &row);
	tensor_unref(m, &square);
}

static void apply_scores(struct machine *m, struct delta_rule *d)
{
	const struct delta_sizes *z = d->z;
	tensor decayed, keys;

	tensor_assign(m, &d->v, matmul(m, d->scores, d->v_beta, d->steps * z->value));
	decayed = exponential(m, d->decay);
	keys = mul(m, d->k_beta, decayed);
	tensor_unref(m, &decayed);
	d->k_decayed = matmul(m, d->scores, keys, d->steps * z->key);
	tensor_unref(m, &keys);
	d->state = tensor_new(m, d->lanes * z->key * z->value, F32);
	d->out = tensor_new(m, d->v.n, F32);
	tensor_assign(m, &d->mask, triangle(m));
}

/* What a chunk adds to the state. `k`: its keys, `added`: its values. */
static tensor next_state(struct machine *m, struct delta_rule *d, tensor k, tensor added)
{
	int64_t chunk = d->lanes * DELTA_CHUNK;
	tensor last = part_of_part(m, d->decay, chunk, d->lanes), a, b, kept, keys;

	tensor_assign(m, &last, exponential(m, last));
	kept = mul(m, d->state, last);
	tensor_unref(m, &last);
	a = part_of_part(m, d->decay, chunk, d->lanes);
	b = slice(m, d->decay, chunk);
	tensor_assign(m, &a, difference(m, a, b, chunk));
	tensor_unref(m, &b);
	tensor_assign(m, &a, exponential(m, a));
	keys = mul(m, k, a);
	tensor_unref(m, &a);
	a = matmul(m, keys, added, d->state.n);
	tensor_unref(m, &keys);
	b = add(m, kept, a);
	tensor_unref(m, &kept);
	tensor_unref(m, &a);
	return b;
}

/* The variables of the loop over chunks. */
struct chunk_variables {
	tensor q, k, v, scores, past, added, carried;
};

static void run_chunk(struct machine *m, struct delta_rule *d, struct chunk_variables *c, int last)
{
	const struct delta_sizes *z = d->z;
	int64_t chunk = d->lanes * DELTA_CHUNK;
	tensor a, b;

	tensor_assign(m, &c->q, slice(m, d->q, chunk * z->key));
	tensor_assign(m, &c->k, slice(m, d->k, chunk * z->key));
	tensor_assign(m, &c->v, slice(m, d->v, chunk * z->value));
	a = matmul(m, c->q, c->k, chunk * DELTA_CHUNK);
	b = slice(m, d->decays, chunk * DELTA_CHUNK);
	tensor_assign(m, &a, mul(m, a, b));
	tensor_unref(m, &b);
	tensor_assign(m, &c->scores, masked_in_place(m, a, d->mask));
	tensor_unref(m, &a);
	a = slice(m, d->k_decayed, chunk * z->key);
	tensor_assign(m, &c->past, matmul(m, a, d->state, chunk * z->value));
	tensor_unref(m, &a);
	tensor_assign(m, &c->added, difference(m, c->v, c->past, c->v.n));
	a = slice(m, d->decay, chunk);
	tensor_assign(m, &a, exponential(m, a));
	tensor_assign(m, &a, mul(m, c->q, a));
	tensor_assign(m, &c->carried, matmul(m, a, d->state, chunk * z->value));
	tensor_unref(m, &a);
	a = matmul(m, c->scores, c->added, c->v.n);
	tensor_assign(m, &a, add(m, c->carried, a));
	assign_part(m, &d->out, a);
	tensor_unref(m, &a);
	/* nothing reads the last state, so that its graph is freed with it */
	m->no_grad += last;
	tensor_assign(m, &d->state, next_state(m, d, c->k, c->added));
	m->no_grad -= last;
}

static void release_rule(struct machine *m, struct delta_rule *d, struct chunk_variables *c)
{
	tensor *variables[] = { &d->q,      &d->k,      &d->v,         &d->decay,  &d->beta,
				&d->v_beta, &d->k_beta, &d->k_decayed, &d->decays, &d->scores,
				&d->mask,   &c->q,      &c->k,         &c->v,      &c->scores,
				&c->past,   &c->added,  &c->carried };

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		tensor_unref(m, variables[i]);
}

tensor delta_rule_of_torch(struct machine *m, const struct delta_sizes *z,
			   const struct delta_inputs *in)
{
	int64_t chunks = divide_up(z->tokens, DELTA_CHUNK), lanes = z->batch * z->heads;
	struct delta_rule d = {
		.z = z, .lanes = lanes, .chunks = chunks, .steps = lanes * chunks * DELTA_CHUNK
	};
	struct chunk_variables c = { .q = none };
	tensor out;

	read_inputs(m, &d, in);
	make_scores(m, &d);
	solve(m, &d);
	apply_scores(m, &d);
	for (int64_t i = 0; i < chunks; i++)
		run_chunk(m, &d, &c, i == chunks - 1);
	tensor_unref(m, &d.state);
	if (z->tokens % DELTA_CHUNK)
		tensor_assign(m, &d.out, slice(m, d.out, lanes * z->tokens * z->value));
	tensor_assign(m, &d.out, contiguous(m, d.out));
	tensor_assign(m, &d.out, to(m, d.out, in->q.type));
	out = d.out;
	release_rule(m, &d, &c);
	return out;
}

/* ---- flash-linear-attention ---- */

/* fla/ops/common/chunk_o.py: columns of a head that a program of the kernel works on, on a GPU with
 * as much shared memory as an A100. */
#define FLA_TILE 64

/* `sizes`: those of struct delta_sizes */
enum { BATCH, TOKENS, HEADS, KEY, VALUE };

static int64_t state_count(const int64_t *z)
{
	return z[BATCH] * divide_up(z[TOKENS], DELTA_CHUNK) * z[HEADS] * z[KEY] * z[VALUE];
}

/* chunk_gated_delta_rule_bwd(): states and new values are computed again. */
static void fla_backward(struct machine *m, struct grad_node *n)
{
	const int64_t *z = n->sizes;
	enum dtype type = n->in[0].type;
	int64_t steps = z[BATCH] * z[TOKENS] * z[HEADS], keys = steps * z[KEY];
	int64_t values = steps * z[VALUE], tiles = divide_up(z[KEY], FLA_TILE);
	int64_t states = state_count(z);
	tensor w, u, h, v_new, dv, dh, again, dg, dw, dk, dg_again;

	w = tensor_new(m, keys, type);
	u = tensor_new(m, values, type);
	h = tensor_new(m, states, type);
	v_new = tensor_new(m, values, type);
	dv = tensor_new(m, values, type);
	measure_triton(m, FLA_VALUES_BACKWARD);
	dh = tensor_new(m, states, type);
	again = tensor_new(m, values, type);
	measure_triton(m, FLA_STATES_BACKWARD);
	tensor_assign(m, &dv, again);
	n->out[0] = tensor_new(m, keys, type);
	n->out[1] = tensor_new(m, keys, type);
	dg = tensor_new(m, tiles * steps, F32);
	dw = tensor_new(m, keys, type);
	measure_triton(m, FLA_KEYS_BACKWARD);
	tensor_assign(m, &dg, tensor_new(m, steps, F32));
	dk = tensor_new(m, keys, type);
	again = tensor_new(m, values, type);
	dg_again = tensor_new(m, steps, F32);
	n->out[4] = tensor_new(m, steps, type);
	measure_triton(m, FLA_PRODUCTS_BACKWARD);
	tensor_unref(m, &dv);
	n->out[2] = again;
	n->out[3] = tensor_new(m, steps, F32);
	tensor_unref(m, &dg);
	tensor_unref(m, &dg_again);
	tensor_unref(m, &dk);
	tensor_unref(m, &dw);
	tensor_unref(m, &dh);
	tensor_unref(m, &v_new);
	tensor_unref(m, &h);
	tensor_unref(m, &u);
	tensor_unref(m, &w);
}

/* chunk_gated_delta_rule_fwd(): `a` is the inverse of a chunk's scores. */
tensor delta_rule_of_fla(struct machine *m, const struct delta_sizes *z,
			 const struct delta_inputs *in)
{
	tensor from[5] = { in->q, in->k, in->v, in->decay, in->beta };
	struct grad_node *n = grad_node_new(m, fla_backward, from, 5);
	const int64_t sizes[] = { z->batch, z->tokens, z->heads, z->key, z->value };
	enum dtype type = in->q.type;
	tensor sums, a, w, u, h, v_new, out;

	sums = tensor_new(m, in->decay.n, F32);
	measure_triton(m, FLA_SUMS);
	a = tensor_new(m, in->decay.n * DELTA_CHUNK, type);
	measure_triton(m, FLA_SCORES);
	w = tensor_new(m, in->k.n, type);
	u = tensor_new(m, in->v.n, type);
	measure_triton(m, FLA_PRODUCTS);
	h = tensor_new(m, state_count(sizes), type);
	v_new = tensor_new(m, in->v.n, type);
	measure_triton(m, FLA_STATES);
	out = tensor_new(m, in->v.n, type);
	measure_triton(m, FLA_OUTPUT);
	for (size_t i = 0; n && i < ARRAY_SIZE(sizes); i++)
		n->sizes[i] = sizes[i];
	for (int i = 0; i < 5; i++)
		save_for_backward(m, n, i == 3 ? sums : from[i]);
	save_for_backward(m, n, a);
	tensor_unref(m, &v_new);
	tensor_unref(m, &h);
	tensor_unref(m, &u);
	tensor_unref(m, &w);
	tensor_unref(m, &a);
	tensor_unref(m, &sums);
	return with_grad_fn(out, n, 0);
}
