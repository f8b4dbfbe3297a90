/* Matrix products with their workspaces, and linear layers. */
#include "torch/ops.h"
#include "torch/autocast.h"
#include "torch/module.h"

#include "util/util.h"

/* cuBLAS's workspace: PyTorch before 2.15 keeps one for each thread and stream; since 2.15 each
 * call allocates its own (CUDABlas.cpp). */
void gemm_workspace(struct machine *m)
{
	int64_t size = m->constants.gemm_workspace;
	enum term_id term = m->current_term;

	if (m->in_graph) /* a captured stream keeps its own workspace */
		return;
	m->current_term = TERM_WORKSPACE;
	if (!m->constants.gemm_workspace_lasts)
		scratch(m, size);
	else if (!m->workspace[m->backward].storage)
		m->workspace[m->backward] = tensor_new(m, size, U8);
	m->current_term = term;
}

tensor gemm(struct machine *m, int64_t n, enum dtype type)
{
	tensor out = tensor_new(m, n, type);

	gemm_workspace(m);
	return out;
}

tensor biased(struct machine *m, int64_t n, enum dtype type)
{
	tensor out = tensor_new(m, n, type), space;

	space = tensor_new_as(m, TERM_WORKSPACE, m->constants.lt_workspace, U8);
	tensor_unref(m, &space);
	return out;
}

/* ---- matrix products ---- */

/* sizes: elements of x, weight, bias; whether x was folded to rows; whether the weight has a row
 * for each input. mm computes the weight's gradient first, addmm the input's. */
static void linear_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;

	for (int i = 0; i < 2; i++) {
		int which = (n->sizes[2] > 0) == i ? 2 : 1;

		if (n->edge[which])
			n->out[which] = gemm(m, n->sizes[which - 1], type);
	}
	n->out[1].view = (int)n->sizes[3];
	n->out[2].view = !n->sizes[4]; /* the gradient is transposed, as the weight is */
	/* the sum over rows is made after the function, whose unpacked tensors are freed by then */
	if (n->saved_hooks)
		node_clear_saved(m, n);
	if (n->edge[0]) /* the bias is addmm's first argument, so its gradient is computed first */
		n->out[0] = sum_rows(m, n->sizes[2], n->in[0].n / n->sizes[2], type);
}

/* `in`: bias or none, x, and weights of `width` columns; all are taken. */
static tensor product(struct machine *m, tensor *in, int64_t width, int folded, int rows)
{
	struct grad_node *n = grad_node_new(m, linear_backward, in, 3);
	int64_t count = in[1].n / width * (in[2].n / width);
	tensor out;

	if (n) {
		n->sizes[0] = in[1].n;
		n->sizes[1] = in[2].n;
		n->sizes[2] = in[0].storage ? in[0].n : 0;
		n->sizes[3] = folded;
		n->sizes[4] = rows;
		/* in the order of PyTorch's names: mat1, mat2 of addmm; mat2, self of mm */
		for (int i = 0; i < 2; i++) {
			int which = (in[0].storage != NULL) == i ? 2 : 1;

			if (in[3 - which].grad_fn)
				save_for_backward(m, n, in[which]);
		}
	}
	out = in[0].storage ? biased(m, count, in[1].type) : gemm(m, count, in[1].type);
	out = with_grad_fn(out, n, 0);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &in[i]);
	return out;
}

static tensor linear_of(struct machine *m, tensor x, struct param *weight, struct param *bias,
			int folded)
{
	tensor in[3] = { none, none, none };

	if (m->module_hooks)
		return m->module_hooks->linear(m, x, weight->value, weight->in, bias);
	if (bias)
		in[0] = autocast_weight(m, bias);
	in[2] = autocast_weight(m, weight);
	in[1] = autocasted(m, x);
	return product(m, in, weight->in, folded, 0);
}

/* nn.Linear */
static tensor linear_module(struct machine *m, tensor x, struct param *weight, struct param *bias,
			    int folded)
{
	tensor in = module_enter(m, weight, bias, x), out;

	out = linear_of(m, in, weight, bias, folded);
	tensor_unref(m, &in);
	module_leave(m, weight, &out);
	return out;
}

tensor linear(struct machine *m, tensor x, struct param *weight, struct param *bias)
{
	return linear_module(m, x, weight, bias, 1);
}

/* addmm's arguments are cast from the last to the first. */
tensor conv1d(struct machine *m, tensor x, struct param *weight, struct param *bias)
{
	tensor in[3];

	in[2] = autocast_weight(m, weight);
	in[1] = autocasted(m, x);
	in[0] = autocast_weight(m, bias);
	return product(m, in, weight->value.n / weight->in, 1, 1);
}

/* The gradient of the result is copied, if it is not in the order of cuDNN's kernel. */
static void conv_backward(struct machine *m, struct grad_node *n)
{
	tensor ordered = tensor_new(m, n->in[0].n, n->in[0].type);

	if (n->edge[2])
		n->out[2] = tensor_new(m, n->sizes[1], n->in[0].type);
	tensor_unref(m, &ordered);
	if (n->edge[0])
		n->out[0] = sum_rows(m, n->sizes[2], n->in[0].n / n->sizes[2], n->in[0].type);
}

tensor conv2d(struct machine *m, tensor x, struct param *weight, struct param *bias, int64_t n)
{
	tensor in[3], out;
	struct grad_node *node;

	in[0] = bias ? autocast_weight(m, bias) : none;
	in[2] = autocast_weight(m, weight);
	in[1] = autocasted(m, x);
	node = grad_node_new(m, conv_backward, in, 3);
	if (node) {
		node->sizes[1] = weight->value.n;
		node->sizes[2] = in[0].n;
	}
	save_for_backward(m, node, in[1]);
	save_for_backward(m, node, in[2]);
	out = with_grad_fn(tensor_new(m, n, in[1].type), node, 0);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &in[i]);
	return out;
}

tensor linear_rows(struct machine *m, tensor x, struct param *weight, struct param *bias)
{
	return linear_module(m, x, weight, bias, 0);
}

tensor linear_function(struct machine *m, tensor x, struct param *weight)
{
	return linear_of(m, x, weight, NULL, 0);
}

tensor linear_of_view(struct machine *m, tensor x, struct param *weight)
{
	tensor in[3] = { none, none, none };

	in[2] = autocasted(m, weight->value);
	in[1] = autocasted(m, x);
	return product(m, in, weight->in, 1, 0);
}

tensor linear_with(struct machine *m, tensor x, tensor matrix, int64_t width)
{
	tensor in[3] = { none, none, none };

	if (m->module_hooks)
		return m->module_hooks->linear(m, x, matrix, width, NULL);
	in[2] = autocasted(m, matrix);
	in[1] = autocasted(m, x);
	return product(m, in, width, 0, 0);
}

static void matmul_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;

	if (n->edge[1])
		n->out[1] = gemm(m, n->sizes[1], type);
	if (n->edge[0]) /* an outer product needs no workspace */
		n->out[0] =
			n->sizes[2] ? tensor_new(m, n->sizes[0], type) : gemm(m, n->sizes[0], type);
}

static tensor product_of(struct machine *m, tensor a, tensor b, int64_t n, int vectors)
{
	tensor in[2] = { a, b };
	struct grad_node *node = grad_node_new(m, matmul_backward, in, 2);

	if (node) {
		node->sizes[2] = vectors;
		node->sizes[0] = a.n;
		node->sizes[1] = b.n;
		if (a.grad_fn)
			save_for_backward(m, node, b);
		if (b.grad_fn)
			save_for_backward(m, node, a);
	}
	return with_grad_fn(gemm(m, n, a.type), node, 0);
}

tensor matmul(struct machine *m, tensor a, tensor b, int64_t n)
{
	return product_of(m, a, b, n, 0);
}

tensor matvec(struct machine *m, tensor a, tensor b, int64_t n)
{
	return product_of(m, a, b, n, 1);
}

/* The gradient of `a` first; each is a product, and then alpha times it. */
static void baddbmm_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 0; i < 2; i++) {
		tensor product;

		if (!n->edge[i])
			continue;
		product = gemm(m, n->sizes[i], n->in[0].type);
		n->out[i] = tensor_new(m, product.n, product.type);
		tensor_unref(m, &product);
	}
}

tensor baddbmm(struct machine *m, tensor bias, tensor a, tensor b, int64_t n)
{
	tensor in[2] = { a, b }, rows = autocasted(m, bias), out;
	struct grad_node *node = grad_node_new(m, baddbmm_backward, in, 2);

	for (int i = 0; node && i < 2; i++) {
		node->sizes[i] = in[i].n;
		save_for_backward(m, node, in[i]);
	}
	out = with_grad_fn(gemm(m, n, a.type), node, 0);
	tensor_unref(m, &rows);
	return out;
}
