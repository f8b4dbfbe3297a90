#include "torch/grad_scaler.h"

#include "torch/autograd.h"

static void scale_backward(struct machine *m, struct node *n)
{
	n->out[0] = make(m, 1, n->in[0].type);
}

tensor loss_times(struct machine *m, tensor loss)
{
	struct node *n = record(m, scale_backward, &loss, 1);

	return result(make(m, 1, loss.type), n, 0);
}

tensor scaler_scale(struct machine *m, struct scaler *g, tensor loss)
{
	if (!g->scale.at) {
		g->scale = make_as(m, TERM_SCALER, 1, F32);
		g->growth = make_as(m, TERM_SCALER, 1, F32);
	}
	return loss_times(m, loss);
}

void scaler_unscale(struct machine *m, struct scaler *g)
{
	tensor inverse, copies[2];

	m->phase = OPTIMIZER;
	m->as = TERM_SCALER;
	g->found[0] = make(m, 1, F32);
	inverse = make(m, 1, F32);
	for (int i = 0; i < 2; i++)
		copies[i] = make(m, 1, F32);
	for (int i = 0; i < 2; i++)
		drop(m, &copies[i]);
	drop(m, &inverse);
	g->found[1] = make(m, 1, F32);
	g->found[2] = make(m, 1, F32);
}

void scaler_update(struct machine *m, struct scaler *g)
{
	for (int i = 0; i < 3; i++)
		drop(m, &g->found[i]);
}
