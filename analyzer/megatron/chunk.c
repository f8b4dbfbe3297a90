/* A model chunk's forward pass (GPTModel.forward). */
#include "megatron/chunk.h"

#include "megatron/embedding_loss.h"
#include "megatron/layers.h"
#include "megatron/llava.h"
#include "megatron/mtp.h"
#include "megatron/sharded.h"
#include "megatron/t5.h"
#include "megatron/tensor_parallel.h"

/* Layers that run one after another, as one region if they are recomputed. */
struct layers_call {
	struct megatron_layer *first;
	int64_t count;
	struct microbatch *batch;
};

static tensor layer_unit(struct machine *m, struct megatron_layer *l, struct microbatch *b,
			 tensor x)
{
	tensor in = sharded_before_layer(m, l, x), out = layer_forward(m, l, b, in);

	tensor_unref(m, &in);
	sharded_after_layer(m, l, &out);
	return out;
}

static tensor embedding_unit(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	tensor x = sharded_before(m, c, SHARDED_EMBEDDING, none);

	tensor_assign(m, &x, c->vision.patches ? llava_embed(m, c, b) : chunk_embed(m, c, b));
	sharded_after(m, c, SHARDED_EMBEDDING, &x);
	return x;
}

static tensor layers(struct machine *m, void *context, const tensor *in)
{
	struct layers_call *c = context;
	tensor x = tensor_ref(in[0]);

	for (int64_t i = 0; i < c->count; i++)
		tensor_assign(m, &x, layer_unit(m, &c->first[i], c->batch, x));
	return x;
}

/* TransformerBlock._checkpointed_forward(): --recompute-method uniform recomputes groups of layers,
 * block the first ones, one by one. `x` is taken. */
static tensor run_layers(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor x)
{
	const struct hparams *s = c->rank->s;
	int full = s->recompute == RECOMPUTE_FULL;
	struct layers_call call = { .count = full && !s->recompute_block ? s->recompute_layers : 1,
				    .batch = b };
	struct layer_run part = { .run = layers, .context = &call, .size = sizeof(call) };

	for (int64_t i = 0; i < c->layer_count; i += call.count) {
		int again = full && (!s->recompute_block || i < s->recompute_layers);

		call.first = &c->layers[i];
		part.first = call.first;
		tensor_assign(m, &x, maybe_recomputed(m, again, &part, &x, 1));
	}
	return x;
}

tensor chunk_forward(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	tensor x, out;

	sharded_begin(m, c);
	if (c->encoder.count)
		b->encoder.output = t5_encode(m, c, b);
	x = c->first ? embedding_unit(m, c, b) : tensor_ref(b->input.value);
	if (c->last && c->rank->s->vision.patch && !c->rank->s->vision.by_transformers)
		llava_label(m, c, b);
	x = run_layers(m, c, b, x);
	m->current_term = TERM_FINAL_NORM;
	if (c->has_norm) {
		tensor_assign(m, &x, sharded_before(m, c, SHARDED_NORM, x));
		tensor_assign(m, &x, hidden_norm(m, c->rank, &c->norm, x));
	}
	if (!c->last)
		return x;
	if (c->mtp_count)
		tensor_assign(m, &x, mtp_forward(m, c, b, x));
	out = chunk_loss(m, c, x);
	tensor_unref(m, &b->logits);
	tensor_unref(m, &b->encoder.output);
	tensor_unref(m, &x);
	return out;
}
