/* The first and the last operation of a model: the embedding and the loss. */
#include "torch/ops.h"
#include "torch/module.h"

/* Embedding.cu: more than 3072 indices are sorted, and their gradients are summed by segments. The
 * number of segments depends on the data; this is the most. */
static void sum_by_token(struct machine *m, struct grad_node *n)
{
	int64_t count = n->sizes[1], rows = n->sizes[0] / n->sizes[2];
	int64_t partial = count / 10 + (count < rows ? count : rows);
	tensor sorted, origin, offsets, segments;

	if (count <= 3072) {
		n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
		return;
	}
	sorted = tensor_new(m, count, I64);
	origin = tensor_new(m, count, I64);
	scratch(m, count * 8);
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
	offsets = tensor_new(m, count, I64);
	segments = tensor_new(m, partial, I64);
	scratch(m, partial * n->sizes[2] * 4);
	tensor_unref(m, &segments);
	tensor_unref(m, &offsets);
	tensor_unref(m, &origin);
	tensor_unref(m, &sorted);
}

/* Expanded indices are copied, here and in the forward pass; and a gradient in another order. */
static void embedding_backward(struct machine *m, struct grad_node *n)
{
	tensor copy = n->sizes[3] ? tensor_new(m, n->sizes[1], I64) : none, ordered = none;

	if (n->sizes[4])
		ordered = tensor_new(m, n->in[0].n, n->in[0].type);
	sum_by_token(m, n);
	tensor_unref(m, &ordered);
	tensor_unref(m, &copy);
}

tensor embedding_of(struct machine *m, tensor tokens, int64_t rows, struct param *weight,
		    int64_t width)
{
	tensor in = module_enter(m, weight, NULL, tokens), copy = none, out;
	struct grad_node *n = grad_node_new(m, embedding_backward, &weight->value, 1);

	if (n) {
		n->sizes[0] = weight->value.n;
		n->sizes[1] = rows;
		n->sizes[2] = width;
		n->sizes[3] = tokens.n != rows;
		save_for_backward(m, n, tokens);
	}
	if (tokens.n != rows)
		copy = tensor_new(m, rows, I64);
	out = with_grad_fn(tensor_new(m, rows * width, weight->value.type), n, 0);
	tensor_unref(m, &copy);
	tensor_unref(m, &in);
	module_leave(m, weight, &out);
	return out;
}

tensor embedding(struct machine *m, tensor tokens, struct param *weight, int64_t width)
{
	return embedding_of(m, tokens, tokens.n, weight, width);
}

tensor embedding_permuted(struct machine *m, tensor tokens, struct param *weight, int64_t width)
{
	tensor out = embedding(m, tokens, weight, width);

	if (out.grad_fn)
		out.grad_fn->sizes[4] = 1;
	return out;
}

/* ---- loss ---- */

static void log_softmax_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->in[0].n, n->type);
}

static void nll_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->saved[0].n, n->saved[0].type);
}

/* cross_entropy_loss: log_softmax in the logits' type; under autocast nll_loss gets its result in
 * fp32. */
tensor cross_entropy(struct machine *m, tensor logits, tensor targets)
{
	struct grad_node *n = grad_node_new(m, log_softmax_backward, &logits, 1);
	tensor log_softmax = tensor_new(m, logits.n, logits.type), in_fp32, total, out;

	if (n)
		n->type = logits.type;
	save_for_backward(m, n, log_softmax);
	log_softmax = with_grad_fn(log_softmax, n, 0);
	in_fp32 = m->autocast ? to(m, log_softmax, F32) : tensor_ref(log_softmax);
	n = grad_node_new(m, nll_backward, &in_fp32, 1);
	save_for_backward(m, n, in_fp32);
	save_for_backward(m, n, targets);
	out = with_grad_fn(tensor_new(m, 1, in_fp32.type), n, 0);
	total = tensor_new(m, 1, in_fp32.type);
	save_for_backward(m, n, total);
	tensor_unref(m, &total);
	tensor_unref(m, &in_fp32);
	tensor_unref(m, &log_softmax);
	return out;
}
