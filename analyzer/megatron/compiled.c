/* Functions that Megatron-core compiles with torch.compile (jit_fuser): one kernel forward and one
 * backward, without intermediate results. The sequences are those of PyTorch 2.15 on the simulated
 * device. */
#include "megatron/compiled.h"

#include "kernels/measured.h"

#include "util/util.h"

static void measure(struct machine *m, enum measured_kernel kernel)
{
	measure_kernel(m, kernel, m->constants.flush_buffer);
}

/* ---- activation functions ---- */

/* sizes: of the input, and of the bias */
static void activation_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
	measure(m, ACTIVATION_BACKWARD);
	if (n->edge[1]) /* the same tensor; autograd sums it for the bias */
		n->out[1] = sum_rows(m, n->sizes[1], n->sizes[0] / n->sizes[1], n->in[0].type);
}

tensor compiled_activation(struct machine *m, tensor x, struct param *bias, int gated)
{
	tensor in[2] = { x, bias ? bias->value : none }, out;
	struct grad_node *n = grad_node_new(m, activation_backward, in, 2);

	if (n) {
		n->sizes[0] = x.n;
		n->sizes[1] = bias ? bias->value.n : 0;
	}
	save_for_backward(m, n, x);
	out = with_grad_fn(tensor_new(m, gated ? x.n / 2 : x.n, x.type), n, 0);
	measure(m, ACTIVATION);
	return out;
}

/* ---- bias, dropout and residual ---- */

/* `sizes`: elements of the bias; dropout (0 or 1). */
static void dropout_add_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = n->sizes[1] ? tensor_new(m, n->in[0].n, n->in[0].type) : tensor_ref(n->in[0]);
	if (n->edge[1])
		n->out[1] = tensor_new(m, n->sizes[0], n->in[0].type);
	measure(m, DROPOUT_BACKWARD);
	n->out[2] = tensor_ref(n->in[0]);
}

/* Did Megatron-LM's _warmup_jit_function() run this kernel before the model was made? It runs it
 * with a bias and with this dropout. It runs no backward kernels and no activation function. */
static int is_warm(const struct hparams *s, const struct param *bias)
{
	return bias && s->hidden_dropout == 0.1;
}

/* This function runs with gradients in the forward pass of a checkpointed layer, too
 * (TransformerLayer's bias_dropout_add_exec_handler), so that the layer's results have a graph
 * until the checkpoint returns. */
tensor compiled_dropout_add(struct machine *m, struct megatron_rank *r, tensor x,
			    struct param *bias, tensor residual)
{
	tensor in[3] = { x, bias ? bias->value : none, residual }, mask = none, out;
	struct grad_node *n = grad_node_new(m, dropout_add_backward, in, 3);
	int drops = r->s->hidden_dropout > 0;

	if (n) {
		n->sizes[0] = bias ? bias->value.n : 0;
		n->sizes[1] = drops;
	}
	if (drops)
		mask = tensor_new(m, x.n, BOOL);
	save_for_backward(m, n, mask);
	out = with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
	if (!is_warm(r->s, bias))
		measure(m, DROPOUT);
	if (m->no_grad && r->mask_count < ARRAY_SIZE(r->masks))
		r->masks[r->mask_count++] = mask;
	else
		tensor_unref(m, &mask);
	return out;
}

/* ---- attention's output gate ---- */

static void gate_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 0; i < 2; i++)
		n->out[i] = tensor_new(m, n->in[0].n, n->in[0].type);
	measure(m, OUTPUT_GATE_BACKWARD);
}

tensor compiled_gate(struct machine *m, tensor x, tensor gate)
{
	tensor in[2] = { x, gate }, out;
	struct grad_node *n = grad_node_new(m, gate_backward, in, 2);

	save_for_backward(m, n, x);
	save_for_backward(m, n, gate);
	out = with_grad_fn(tensor_new(m, x.n, x.type), n, 0);
	measure(m, OUTPUT_GATE);
	return out;
}

void release_masks(struct machine *m, struct megatron_rank *r)
{
	while (r->mask_count)
		tensor_unref(m, &r->masks[--r->mask_count]);
}
