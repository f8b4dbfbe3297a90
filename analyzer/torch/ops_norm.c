/* Softmax and normalizations. */
#include "torch/ops.h"
#include "torch/module.h"

/* softmax_backward_cuda: the result, then grad * output in the output's type. */
static void softmax_backward(struct machine *m, struct node *n)
{
	tensor in = hold(n->in[0]), out;

	out = make(m, in.n, n->type);
	scratch(m, n->saved[0].n * dtype_width(n->saved[0].type));
	drop(m, &in);
	n->out[0] = out;
}

/* fp16 is widened by the kernel itself, bf16 by a copy before it. */
tensor softmax(struct machine *m, tensor x, enum dtype type)
{
	tensor in = x.type == BF16 ? to(m, x, type) : hold(x), out;
	struct node *n = record(m, softmax_backward, &in, 1);

	if (n)
		n->type = in.type;
	out = make(m, x.n, type);
	save(m, n, out);
	drop(m, &in);
	return result(out, n, 0);
}

static void layer_norm_backward(struct machine *m, struct node *n)
{
	if (n->edge[0])
		n->out[0] = make(m, n->in[0].n, n->in[0].type);
	for (int i = 1; i < 3; i++)
		if (n->edge[i])
			n->out[i] = make(m, n->sizes[0], n->type);
}

tensor layer_norm(struct machine *m, tensor x, struct param *weight, struct param *bias,
		  int64_t width)
{
	tensor in[3] = { none, none, none }, out, mean, rstd;
	struct node *n;

	x = module_enter(m, weight, bias, x);
	in[0] = m->autocast ? to(m, x, F32) : hold(x);
	in[1] = hold(weight->value);
	if (bias)
		in[2] = hold(bias->value);
	n = record(m, layer_norm_backward, in, 3);
	if (n) {
		n->sizes[0] = width;
		n->type = weight->value.type;
	}
	save(m, n, in[0]);
	save(m, n, in[1]);
	out = result(make(m, x.n, in[0].type), n, 0);
	mean = make(m, x.n / width, F32);
	rstd = make(m, x.n / width, F32);
	save(m, n, mean);
	save(m, n, rstd);
	drop(m, &mean);
	drop(m, &rstd);
	for (int i = 0; i < 3; i++)
		drop(m, &in[i]);
	drop(m, &x);
	module_leave(m, weight, &out);
	return out;
}

/* torch.nn.RMSNorm, fused */
tensor fused_rms_norm(struct machine *m, tensor x, struct param *weight, int64_t width)
{
	tensor in[2] = { x, weight->value }, out, rstd;
	struct node *n = record(m, layer_norm_backward, in, 2);

	if (n) {
		n->sizes[0] = width;
		n->type = weight->value.type;
	}
	save(m, n, x);
	save(m, n, weight->value);
	out = result(make(m, x.n, x.type), n, 0);
	rstd = make(m, x.n / width, F32);
	save(m, n, rstd);
	drop(m, &rstd);
	return out;
}
