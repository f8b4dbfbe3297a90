/* Softmax and normalizations. */
#include "torch/ops.h"
#include "torch/module.h"

/* softmax_backward_cuda allocates the result, then grad * output in the output's type. */
static void softmax_backward(struct machine *m, struct grad_node *n)
{
	tensor in = tensor_ref(n->in[0]), out;

	out = tensor_new(m, in.n, n->type);
	scratch(m, n->saved[0].n * dtype_width(n->saved[0].type));
	tensor_unref(m, &in);
	n->out[0] = out;
}

/* The kernel converts fp16 itself; bf16 is converted by a copy before it. */
tensor softmax(struct machine *m, tensor x, enum dtype type)
{
	tensor in = x.type == BF16 ? to(m, x, type) : tensor_ref(x), out;
	struct grad_node *n = grad_node_new(m, softmax_backward, &in, 1);

	if (n)
		n->type = in.type;
	out = tensor_new(m, x.n, type);
	save_for_backward(m, n, out);
	tensor_unref(m, &in);
	return with_grad_fn(out, n, 0);
}

static void layer_norm_backward(struct machine *m, struct grad_node *n)
{
	if (n->edge[0])
		n->out[0] = tensor_new(m, n->in[0].n, n->in[0].type);
	for (int i = 1; i < 3; i++)
		if (n->edge[i])
			n->out[i] = tensor_new(m, n->sizes[0], n->type);
}

tensor layer_norm(struct machine *m, tensor x, struct param *weight, struct param *bias,
		  int64_t width)
{
	tensor in[3] = { none, none, none }, out, mean, rstd;
	struct grad_node *n;

	x = module_enter(m, weight, bias, x);
	in[0] = m->autocast ? to(m, x, F32) : tensor_ref(x);
	if (weight)
		in[1] = tensor_ref(weight->value);
	if (bias)
		in[2] = tensor_ref(bias->value);
	n = grad_node_new(m, layer_norm_backward, in, 3);
	if (n) {
		n->sizes[0] = width;
		n->type = weight ? weight->value.type : in[0].type;
	}
	save_for_backward(m, n, in[0]);
	if (weight)
		save_for_backward(m, n, in[1]);
	out = with_grad_fn(tensor_new(m, x.n, in[0].type), n, 0);
	mean = tensor_new(m, x.n / width, F32);
	rstd = tensor_new(m, x.n / width, F32);
	save_for_backward(m, n, mean);
	save_for_backward(m, n, rstd);
	tensor_unref(m, &mean);
	tensor_unref(m, &rstd);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &in[i]);
	tensor_unref(m, &x);
	module_leave(m, weight, &out);
	return out;
}

/* torch.nn.RMSNorm, fused */
tensor fused_rms_norm(struct machine *m, tensor x, struct param *weight, int64_t width)
{
	tensor in[2] = { x, weight->value }, out, rstd;
	struct grad_node *n = grad_node_new(m, layer_norm_backward, in, 2);

	if (n) {
		n->sizes[0] = width;
		n->type = weight->value.type;
	}
	save_for_backward(m, n, x);
	save_for_backward(m, n, weight->value);
	out = with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
	rstd = tensor_new(m, x.n / width, F32);
	save_for_backward(m, n, rstd);
	tensor_unref(m, &rstd);
	return out;
}
