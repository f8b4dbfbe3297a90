#include "megatron/graph_input.h"

#include "torch/ops.h"

int graph_has(const struct megatron_layer *l, enum graph_part part)
{
	const struct hparams *s = l->chunk->rank->s;

	if (part == GRAPH_ATTENTION)
		return s->graphs.attention;
	return l->router ? s->graphs.router : s->graphs.mlp;
}

tensor graph_enter(struct machine *m, struct megatron_layer *l, enum graph_part part, tensor x)
{
	int wanted = l->chunk->rank->graphed && graph_has(l, part);

	if (!wanted || m->in_graph) {
		m->in_graph = wanted;
		return tensor_ref(x);
	}
	m->in_graph = 1;
	return contiguous(m, x);
}
