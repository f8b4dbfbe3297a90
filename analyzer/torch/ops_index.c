/* Rows selected by indices, and matrix products of groups of rows with different weights. */
#include "torch/ops.h"

/* cub's radix sort of pairs of 8 bytes: for more than one tile it needs copies of keys and values,
 * and counters. */
static int64_t sort_space(int64_t rows)
{
	return rows > 3072 ? 16 * rows + rows / 4 + 4607 : 1;
}

/* index_put_with_sort_kernel sorts the indices, so that equal ones are added one after the other.
 */
static void sort_indices(struct machine *m, int64_t rows)
{
	tensor kept[4];

	kept[0] = tensor_new(m, rows, I64);
	scratch(m, rows * 8);
	for (int i = 1; i < 4; i++)
		kept[i] = tensor_new(m, rows, I64);
	scratch(m, sort_space(rows));
	for (int i = 3; i >= 0; i--)
		tensor_unref(m, &kept[i]);
}

/* sizes: elements of x, indices */
static void gather_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
	sort_indices(m, n->sizes[1]);
}

tensor gather(struct machine *m, tensor x, tensor indices, int64_t n)
{
	struct grad_node *node = grad_node_new(m, gather_backward, &x, 1);

	if (node) {
		node->sizes[0] = x.n;
		node->sizes[1] = indices.n;
	}
	save_for_backward(m, node, indices);
	return with_grad_fn(tensor_new(m, n, x.type), node, 0);
}

/* sizes: elements of x */
static void index_add_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_ref(n->in[0]);
	n->out[1] = tensor_new(m, n->sizes[0], n->in[0].type);
}

tensor index_add(struct machine *m, tensor into, tensor x, tensor indices)
{
	tensor in[2] = { into, x };
	struct grad_node *n = grad_node_new(m, index_add_backward, in, 2);

	if (n)
		n->sizes[0] = x.n;
	save_for_backward(m, n, indices);
	save_for_backward(m, n, x); /* saved for its shape */
	return with_grad_fn(tensor_ref(into), n, 0);
}

static void sum_to_backward(struct machine *m, struct grad_node *n)
{
	(void)m;
	n->out[0] = tensor_ref(n->in[0]);
	n->out[0].n = n->sizes[0];
	n->out[0].view = 1;
}

tensor sum_to(struct machine *m, tensor x, int64_t n)
{
	struct grad_node *node = grad_node_new(m, sum_to_backward, &x, 1);

	if (node)
		node->sizes[0] = x.n;
	return with_grad_fn(tensor_new(m, n, x.type), node, 0);
}

/* grad / by, and -grad * (x / by) / by summed over the broadcast dimension */
static void divide_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;
	int64_t rows = n->saved[0].n;
	tensor negative, quotient, twice;

	n->out[0] = tensor_new(m, rows, type);
	quotient = tensor_new(m, rows, type);
	twice = tensor_new(m, rows, type);
	negative = tensor_new(m, rows, type);
	tensor_unref(m, &quotient);
	quotient = tensor_new(m, rows, type);
	tensor_unref(m, &negative);
	tensor_unref(m, &twice);
	n->out[1] = tensor_new(m, n->sizes[0], type);
	tensor_unref(m, &quotient);
}

/* The dividend is copied for the divisor's gradient. */
tensor divide_in_place(struct machine *m, tensor x, tensor by)
{
	tensor in[2] = { x, by }, before;
	struct grad_node *n = grad_node_new(m, divide_backward, in, 2);

	if (n)
		n->sizes[0] = by.n;
	before = n ? tensor_new(m, x.n, x.type) : tensor_ref(x);
	save_for_backward(m, n, before);
	save_for_backward(m, n, by);
	tensor_unref(m, &before);
	return with_grad_fn(tensor_ref(x), n, 0);
}

static void topk_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
}

tensor topk(struct machine *m, tensor x, int64_t n, tensor *indices)
{
	struct grad_node *node = grad_node_new(m, topk_backward, &x, 1);
	tensor out = with_grad_fn(tensor_new(m, n, x.type), node, 0);

	if (node)
		node->sizes[0] = x.n;
	*indices = tensor_new(m, n, I64);
	save_for_backward(m, node, *indices);
	return out;
}

/* CUTLASS's grouped kernel needs the shapes, strides and pointers of every group, and a workspace.
 * It supports bf16 only; with other types each group is a separate product. */
static void grouped_call(struct machine *m, int64_t groups, enum dtype type)
{
	tensor arguments, space;

	if (type != BF16) {
		for (int64_t i = 0; i < groups; i++)
			gemm_workspace(m);
		return;
	}
	arguments = tensor_new_as(m, TERM_WORKSPACE, groups * 60, U8);
	space = tensor_new_as(m, TERM_WORKSPACE, m->constants.multiprocessors * 512, U8);
	tensor_unref(m, &space);
	tensor_unref(m, &arguments);
}

/* sizes: elements of x, weights, groups */
static void grouped_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;

	if (n->edge[1]) {
		n->out[1] = tensor_new(m, n->sizes[1], type);
		grouped_call(m, n->sizes[2], type);
	}
	if (n->edge[0]) {
		n->out[0] = tensor_new(m, n->sizes[0], type);
		grouped_call(m, n->sizes[2], type);
	}
}

tensor grouped_mm(struct machine *m, tensor x, tensor weight, tensor offsets, int64_t n)
{
	tensor in[2] = { x, weight }, out;
	struct grad_node *node = grad_node_new(m, grouped_backward, in, 2);

	if (node) {
		node->sizes[0] = x.n;
		node->sizes[1] = weight.n;
		node->sizes[2] = offsets.n;
	}
	save_for_backward(m, node, x);
	save_for_backward(m, node, weight);
	save_for_backward(m, node, offsets);
	out = with_grad_fn(tensor_new(m, n, x.type), node, 0);
	grouped_call(m, offsets.n, x.type);
	return out;
}
