/* A model chunk's forward pass (GPTModel.forward). */
#include "megatron/chunk.h"

#include "megatron/embedding_loss.h"
#include "megatron/layers.h"
#include "megatron/mtp.h"
#include "megatron/tensor_parallel.h"

struct layer_call {
	struct megatron_layer *layer;
	struct microbatch *batch;
};

static tensor layer(struct machine *m, void *context, const tensor *in)
{
	struct layer_call *c = context;

	return layer_forward(m, c->layer, c->batch, in[0]);
}

tensor chunk_forward(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	struct layer_call call = { NULL, b };
	tensor x, out;

	x = c->first ? chunk_embed(m, c, b) : tensor_ref(b->input.value);
	for (int64_t i = 0; i < c->layer_count; i++) {
		call.layer = &c->layers[i];
		tensor_assign(m, &x,
			      maybe_recomputed(m, call.layer, layer, &call, sizeof(call), &x, 1));
	}
	m->current_term = TERM_FINAL_NORM;
	if (c->has_norm)
		tensor_assign(m, &x, hidden_norm(m, c->rank, &c->norm, x));
	if (!c->last)
		return x;
	if (c->mtp_count)
		tensor_assign(m, &x, mtp_forward(m, c, b, x));
	out = chunk_loss(m, c, x);
	tensor_unref(m, &b->logits);
	tensor_unref(m, &x);
	return out;
}
