#include "torch/grad_scaler.h"

#include "torch/autograd.h"

static void scale_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, 1, n->in[0].type);
}

tensor loss_times(struct machine *m, tensor loss)
{
	struct grad_node *n = grad_node_new(m, scale_backward, &loss, 1);

	return with_grad_fn(tensor_new(m, 1, loss.type), n, 0);
}

tensor grad_scaler_scale(struct machine *m, struct grad_scaler *g, tensor loss)
{
	if (!g->scale.storage) {
		g->scale = tensor_new_as(m, TERM_SCALER, 1, F32);
		g->growth = tensor_new_as(m, TERM_SCALER, 1, F32);
	}
	return loss_times(m, loss);
}

void grad_scaler_unscale(struct machine *m, struct grad_scaler *g)
{
	tensor inverse, copies[2];

	m->phase = OPTIMIZER;
	m->current_term = TERM_SCALER;
	g->found[0] = tensor_new(m, 1, F32);
	inverse = tensor_new(m, 1, F32);
	for (int i = 0; i < 2; i++)
		copies[i] = tensor_new(m, 1, F32);
	for (int i = 0; i < 2; i++)
		tensor_unref(m, &copies[i]);
	tensor_unref(m, &inverse);
	g->found[1] = tensor_new(m, 1, F32);
	g->found[2] = tensor_new(m, 1, F32);
}

void grad_scaler_update(struct machine *m, struct grad_scaler *g)
{
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &g->found[i]);
}
