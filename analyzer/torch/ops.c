/* PyTorch's elementwise operations, sums and copies. In a backward function in[0] is the gradient
 * of the result, and out[i] the gradient for edge i. */
#include "torch/ops.h"

#include "util/util.h"

static enum dtype wider(tensor a, tensor b)
{
	return dtype_width(a.type) >= dtype_width(b.type) ? a.type : b.type;
}

/* The largest power of two that is at most n, which is at most `most`. */
static int64_t power_of_two(int64_t n, int64_t most)
{
	int64_t p = 1;

	while (2 * p <= n && 2 * p <= most)
		p *= 2;
	return p;
}

static int64_t at_most(int64_t n, int64_t most)
{
	return n < most ? n : most;
}

/* Reduce.cuh: with_32bit_indexing() halves a tensor until a byte's offset has 31 bits. */
static int64_t rows_at_once(int64_t columns, int64_t rows, enum dtype type)
{
	while (rows > 1 && rows * columns * dtype_width(type) > INT32_MAX)
		rows -= rows / 2;
	return rows;
}

/* Reduce.cuh, setReduceConfig(): a sum of `rows` rows of `columns` numbers, of which a thread adds
 * up to four. If a column is long, several thread blocks share it, and their partial sums need a
 * buffer.
 */
tensor sum_rows(struct machine *m, int64_t columns, int64_t rows, enum dtype type)
{
	const int64_t vector = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
	const int64_t most = 512 / vector, wide = power_of_two(columns / vector, most);
	const int64_t part = rows_at_once(columns, rows, type);
	const int64_t high = at_most(power_of_two(part, most), most / at_most(wide, 32));
	const int64_t width = at_most(wide, most / high), each = divide_up(part, high);
	const int64_t grid = divide_up(columns / vector, width);
	const int64_t target = m->constants.threads / (width * high);
	tensor out = tensor_new(m, columns, type), partial;
	int64_t blocks;

	if (columns == 1 || each < 256 || grid > target)
		return out;
	blocks = at_most(divide_up(target, grid), divide_up(each, 16));
	if (blocks < divide_up(each, 256))
		blocks = divide_up(each, 256);
	if (blocks > 1) {
		partial = tensor_new(m, 4 * columns * blocks * width * vector, U8);
		scratch(m, 4 * grid);
		tensor_unref(m, &partial);
	}
	return out;
}

/* The gradient of an operand of `n` elements: the incoming gradient, summed if the operand was
 * broadcast (a row over rows, or a column over columns), and converted if it was promoted. */
static tensor as_operand(struct machine *m, tensor gradient, int64_t n, enum dtype type, int column)
{
	tensor summed, out;

	if (gradient.n == n)
		summed = tensor_ref(gradient);
	else if (column)
		summed = tensor_new(m, n, gradient.type);
	else
		summed = sum_rows(m, n, gradient.n / n, gradient.type);
	if (summed.type == type)
		return summed;
	out = tensor_new(m, n, type);
	tensor_unref(m, &summed);
	return out;
}

/* sizes: elements and types of both */
static void add_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 0; i < 2; i++)
		if (n->edge[i])
			n->out[i] = as_operand(m, n->in[0], n->sizes[2 * i],
					       (enum dtype)n->sizes[2 * i + 1], 0);
}

static struct grad_node *sum_node(struct machine *m, tensor a, tensor b)
{
	tensor in[2] = { a, b };
	struct grad_node *n = grad_node_new(m, add_backward, in, 2);

	for (int i = 0; n && i < 2; i++) {
		n->sizes[2 * i] = in[i].n;
		n->sizes[2 * i + 1] = in[i].type;
	}
	return n;
}

tensor add(struct machine *m, tensor a, tensor b)
{
	struct grad_node *n = sum_node(m, a, b);

	return with_grad_fn(tensor_new(m, a.n > b.n ? a.n : b.n, wider(a, b)), n, 0);
}

tensor add_in_place(struct machine *m, tensor a, tensor b)
{
	return with_grad_fn(tensor_ref(a), sum_node(m, a, b), 0);
}

/* Both products, the second operand's first, then the sums over the broadcast dimension: weights
 * are rows, other operands columns. sizes[4]: the second operand is a row. */
static void mul_backward(struct machine *m, struct grad_node *n)
{
	tensor product[2] = { none, none };

	for (int i = 1; i >= 0; i--)
		if (n->edge[i])
			product[i] = tensor_new(m, n->in[0].n, n->in[0].type);
	if (n->saved_hooks)
		node_clear_saved(m, n);
	for (int i = 0; i < 2; i++) {
		if (n->edge[i])
			n->out[i] = as_operand(m, product[i], n->sizes[2 * i],
					       (enum dtype)n->sizes[2 * i + 1],
					       !n->edge[i]->param && !(i && n->sizes[4]));
		tensor_unref(m, &product[i]);
	}
}

static tensor product(struct machine *m, tensor a, tensor b, int row)
{
	tensor in[2] = { a, b };
	struct grad_node *n = grad_node_new(m, mul_backward, in, 2);

	for (int i = 1; n && i >= 0; i--) { /* in the order of PyTorch's names: other, self */
		n->sizes[2 * i] = in[i].n;
		n->sizes[2 * i + 1] = in[i].type;
		if (in[1 - i].grad_fn)
			save_for_backward(m, n, in[i]);
	}
	if (n)
		n->sizes[4] = row;
	return with_grad_fn(tensor_new(m, a.n > b.n ? a.n : b.n, wider(a, b)), n, 0);
}

tensor mul(struct machine *m, tensor a, tensor b)
{
	return product(m, a, b, 0);
}

tensor mul_row(struct machine *m, tensor a, tensor row)
{
	return product(m, a, row, 1);
}

static void like_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->in[0].n, n->in[0].type);
}

static tensor elementwise(struct machine *m, tensor x, int keeps)
{
	struct grad_node *n = grad_node_new(m, like_backward, &x, 1);

	if (keeps)
		save_for_backward(m, n, x);
	return with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
}

tensor scale(struct machine *m, tensor x)
{
	return elementwise(m, x, 0);
}

tensor gelu(struct machine *m, tensor x)
{
	return elementwise(m, x, 1);
}

tensor silu(struct machine *m, tensor x)
{
	return elementwise(m, x, 1);
}

/* the result is saved */
static tensor kept_result(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, like_backward, &x, 1);
	tensor out = tensor_new(m, x.n, x.type);

	save_for_backward(m, n, out);
	return with_grad_fn(out, n, 0);
}

tensor relu(struct machine *m, tensor x)
{
	return kept_result(m, x);
}

tensor sigmoid(struct machine *m, tensor x)
{
	return kept_result(m, x);
}

tensor capped(struct machine *m, tensor x)
{
	tensor part = scale(m, x), tangent, out;

	/* tanh saves its result, as sigmoid does */
	tangent = sigmoid(m, part);
	tensor_unref(m, &part);
	out = scale(m, tangent);
	tensor_unref(m, &tangent);
	return out;
}

static void same_backward(struct machine *m, struct grad_node *n)
{
	(void)m;
	n->out[0] = tensor_ref(n->in[0]);
}

static void pow_backward(struct machine *m, struct grad_node *n)
{
	tensor power = tensor_new(m, n->in[0].n, n->in[0].type),
	       twice = tensor_new(m, power.n, power.type);

	n->out[0] = tensor_new(m, power.n, power.type);
	tensor_unref(m, &twice);
	tensor_unref(m, &power);
}

tensor square(struct machine *m, tensor x)
{
	return power(m, x);
}

/* The gradient is gradient * (exponent * x.pow(exponent - 1)). */
tensor power(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, pow_backward, &x, 1);

	save_for_backward(m, n, x);
	return with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
}

static void resized_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
}

static tensor resized(struct machine *m, tensor x, int64_t n, int copy)
{
	struct grad_node *node = grad_node_new(m, resized_backward, &x, 1);
	tensor out;

	if (node)
		node->sizes[0] = x.n;
	out = copy ? tensor_new(m, n, x.type) : tensor_ref(x);
	out.n = n;
	return with_grad_fn(out, node, 0);
}

tensor mean(struct machine *m, tensor x, int64_t n)
{
	return resized(m, x, n, 1);
}

tensor repeat(struct machine *m, tensor x, int64_t n)
{
	return resized(m, x, n, 1);
}

tensor slice(struct machine *m, tensor x, int64_t n)
{
	return resized(m, x, n, 0);
}

/* -0.5 * gradient * result^3 */
static void rsqrt_backward(struct machine *m, struct grad_node *n)
{
	tensor cube = tensor_new(m, n->in[0].n, n->in[0].type),
	       half = tensor_new(m, cube.n, cube.type);

	n->out[0] = tensor_new(m, cube.n, cube.type);
	tensor_unref(m, &half);
	tensor_unref(m, &cube);
}

tensor rsqrt(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, rsqrt_backward, &x, 1);
	tensor out = tensor_new(m, x.n, x.type);

	save_for_backward(m, n, out);
	return with_grad_fn(out, n, 0);
}

tensor shift(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, same_backward, &x, 1);

	return with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
}

/* sizes: elements and types of both. The gradients are views, or copies in the operand's type. */
static void cat_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 0; i < 2; i++) {
		enum dtype type = (enum dtype)n->sizes[2 + i];

		n->out[i] = type == n->in[0].type || !n->edge[i] ? tensor_ref(n->in[0])
								 : tensor_new(m, n->sizes[i], type);
		n->out[i].n = n->sizes[i];
	}
}

tensor cat(struct machine *m, tensor a, tensor b)
{
	tensor in[2] = { a, b };
	struct grad_node *n = grad_node_new(m, cat_backward, in, 2);

	for (int i = 0; n && i < 2; i++) {
		n->sizes[i] = in[i].n;
		n->sizes[2 + i] = in[i].type;
	}
	return with_grad_fn(tensor_new(m, a.n + b.n, wider(a, b)), n, 0);
}

tensor contiguous(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, same_backward, &x, 1);

	return with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
}

tensor copied_back(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, like_backward, &x, 1);

	return with_grad_fn(tensor_ref(x), n, 0);
}

tensor masked_fill(struct machine *m, tensor x, int64_t n_mask)
{
	tensor mask = tensor_new(m, n_mask, BOOL), out;
	struct grad_node *n = grad_node_new(m, like_backward, &x, 1);

	save_for_backward(m, n, mask);
	out = with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
	tensor_unref(m, &mask);
	return out;
}

/* The number is a tensor of one element. */
static void where_backward(struct machine *m, struct grad_node *n)
{
	tensor zero = tensor_new(m, 1, n->in[0].type);

	n->out[0] = tensor_new(m, n->in[0].n, n->in[0].type);
	tensor_unref(m, &zero);
}

tensor where(struct machine *m, tensor mask, tensor x)
{
	struct grad_node *n = grad_node_new(m, where_backward, &x, 1);
	tensor number = tensor_new(m, 1, x.type), out;

	save_for_backward(m, n, mask);
	out = with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
	tensor_unref(m, &number);
	return out;
}

tensor masked_in_place(struct machine *m, tensor x, tensor mask)
{
	struct grad_node *n = grad_node_new(m, like_backward, &x, 1);

	save_for_backward(m, n, mask);
	return with_grad_fn(tensor_ref(x), n, 0);
}

tensor dropout(struct machine *m, tensor x, double p)
{
	struct grad_node *n;
	tensor mask, out;

	if (p <= 0)
		return tensor_ref(x);
	n = grad_node_new(m, like_backward, &x, 1);
	mask = tensor_new(m, x.n, BOOL);
	out = with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
	save_for_backward(m, n, mask);
	tensor_unref(m, &mask);
	if (m->stopped) /* the mask was the last tensor that a recomputation saves: no result */
		tensor_unref(m, &out);
	return out;
}

/* ---- split ---- */

static void split_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->type);
}

void split(struct machine *m, tensor x, tensor *parts, const int64_t *sizes, int count)
{
	struct grad_node *n = grad_node_new(m, split_backward, &x, 1);

	if (n) {
		n->sizes[0] = x.n;
		n->type = x.type;
	}
	for (int i = 0; i < count; i++) {
		parts[i] = with_grad_fn(tensor_ref(x), n, i);
		parts[i].n = sizes[i];
	}
}

/* ---- types ---- */

static void to_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->in[0].n, n->type);
}

tensor to(struct machine *m, tensor x, enum dtype type)
{
	struct grad_node *n;
	tensor out;

	if (x.type == type)
		return tensor_ref(x);
	n = grad_node_new(m, to_backward, &x, 1);
	if (n)
		n->type = x.type;
	out = tensor_new(m, x.n, type);
	return with_grad_fn(out, n, 0);
}
