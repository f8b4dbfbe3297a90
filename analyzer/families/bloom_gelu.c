#include "families/bloom_gelu.h"

#include "torch/ops.h"

/* tanh(0.79788456 * x * (1 + 0.044715 * x * x)); x has no gradient */
static tensor tangent(struct machine *m, tensor x)
{
	tensor first = scale(m, x), second = scale(m, x);

	tensor_assign(m, &second, mul(m, second, x));
	tensor_assign(m, &second, shift(m, second));
	tensor_assign(m, &second, mul(m, first, second));
	tensor_unref(m, &first);
	tensor_assign(m, &second, sigmoid(m, second));
	return second;
}

/* bloom_gelu_back: (0.5 * x * ((1 - t * t) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + t))
 * * gradient */
static void gelu_backward(struct machine *m, struct grad_node *n)
{
	tensor x = n->saved[0], t, half, slope, other;

	m->no_grad++;
	t = tangent(m, x);
	half = scale(m, x);
	slope = mul(m, t, t);
	tensor_assign(m, &slope, shift(m, slope));
	other = scale(m, x);
	tensor_assign(m, &other, mul(m, other, x));
	tensor_assign(m, &other, shift(m, other));
	tensor_assign(m, &slope, mul(m, slope, other));
	tensor_unref(m, &other);
	tensor_assign(m, &half, mul(m, half, slope));
	tensor_unref(m, &slope);
	other = shift(m, t);
	tensor_assign(m, &other, scale(m, other));
	tensor_assign(m, &half, add(m, half, other));
	tensor_unref(m, &other);
	n->out[0] = mul(m, half, n->in[0]);
	tensor_unref(m, &half);
	tensor_unref(m, &t);
	m->no_grad--;
}

/* bloom_gelu_forward, which autograd does not see: x * 0.5 * (1 + tanh(...)) */
tensor bloom_gelu(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, gelu_backward, &x, 1);
	tensor half, t, out;

	save_for_backward(m, n, x);
	m->no_grad++;
	half = scale(m, x);
	t = tangent(m, x);
	tensor_assign(m, &t, shift(m, t));
	out = mul(m, half, t);
	tensor_unref(m, &half);
	tensor_unref(m, &t);
	m->no_grad--;
	return with_grad_fn(out, n, 0);
}
