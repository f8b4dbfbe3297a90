/* Tensors that transformers makes once in a forward pass for all layers: masks and rotary tables.
 */
#include "families/llama_tables.h"

#include "torch/ops.h"

/* create_causal_mask: b x s x s booleans, or for eager attention numbers of the weights' type. */
tensor causal_mask(struct machine *m, const struct hparams *s, tensor like)
{
	int64_t n = s->batch * s->tokens * s->tokens;
	tensor causal, both, mask;

	causal = tensor_new(m, n, BOOL);
	both = tensor_new(m, n, BOOL);
	tensor_unref(m, &causal);
	causal = tensor_new(m, n, BOOL);
	mask = tensor_new(m, n, BOOL);
	tensor_unref(m, &causal);
	tensor_unref(m, &both);
	if (s->attention == EAGER)
		tensor_assign(m, &mask, tensor_new(m, n, like.type));
	return mask;
}

/* The and_mask of the causal mask and a window's mask, which is an and_mask itself. */
tensor window_mask(struct machine *m, const struct hparams *s, tensor like)
{
	int64_t n = s->batch * s->tokens * s->tokens;
	tensor packed = tensor_new(m, n, BOOL), all = tensor_new(m, n, BOOL), part, window, causal,
	       mask;

	tensor_unref(m, &packed);
	part = tensor_new(m, n, BOOL);
	window = tensor_new(m, n, BOOL);
	tensor_unref(m, &part);
	causal = tensor_new(m, n, BOOL);
	part = tensor_new(m, n, BOOL);
	tensor_unref(m, &causal);
	tensor_unref(m, &window);
	mask = tensor_new(m, n, BOOL);
	tensor_unref(m, &part);
	tensor_unref(m, &all);
	if (s->attention == EAGER)
		tensor_assign(m, &mask, tensor_new(m, n, like.type));
	return mask;
}

/* LlamaRotaryEmbedding.forward, in fp32, without gradients. */
void rotary_tables(struct machine *m, int64_t n, tensor like, tensor *cos, tensor *sin)
{
	tensor frequencies, both, table, *out[2] = { cos, sin }, precise[2];

	m->current_term = TERM_ROPE;
	frequencies = tensor_new(m, n / 2, F32);
	both = tensor_new(m, n, F32);
	for (int i = 0; i < 2; i++) {
		table = tensor_new(m, n, F32);
		precise[i] = tensor_new(m, n, F32);
		tensor_unref(m, &table);
	}
	for (int i = 0; i < 2; i++)
		tensor_assign(m, out[i],
			      like.type == F32 ? tensor_ref(precise[i])
					       : tensor_new(m, n, like.type));
	tensor_unref(m, &frequencies);
	tensor_unref(m, &both);
	tensor_unref(m, &precise[0]);
	tensor_unref(m, &precise[1]);
}
