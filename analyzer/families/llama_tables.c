/* Tensors that transformers makes once in a forward pass for all layers: masks and rotary tables.
 */
#include "families/llama_tables.h"

#include "torch/ops.h"

/* The booleans are s x s, and expanded to the batch without memory; those of packed sequences are
 * b x s x s. Eager attention makes b x s x s numbers of the weights' type of them. */
static int64_t places(const struct hparams *s)
{
	return (s->packed ? s->batch : 1) * s->tokens * s->tokens;
}

static tensor of_attention(struct machine *m, const struct hparams *s, tensor mask, tensor like)
{
	if (s->attention == EAGER)
		tensor_assign(m, &mask, tensor_new(m, s->batch * s->tokens * s->tokens, like.type));
	return mask;
}

/* and_masks(): of two masks; both are freed. */
static tensor both_of(struct machine *m, int64_t n, tensor first, tensor second)
{
	tensor both = tensor_new(m, n, BOOL);

	tensor_unref(m, &second);
	tensor_unref(m, &first);
	return both;
}

/* create_causal_mask */
tensor causal_mask(struct machine *m, const struct hparams *s, tensor like)
{
	int64_t n = places(s);
	tensor causal = tensor_new(m, n, BOOL), all;

	if (s->packed) {
		all = tensor_new(m, n, BOOL);
		tensor_unref(m, &causal);
		causal = both_of(m, n, all, tensor_new(m, n, BOOL));
	}
	return of_attention(m, s, causal, like);
}

/* create_sliding_window_causal_mask: the and_mask of a window and the causal mask, which is one of
 * an and_mask itself if sequences are packed. */
tensor window_mask(struct machine *m, const struct hparams *s, tensor like)
{
	int64_t n = places(s);
	tensor one_sequence, all = { 0 }, part, window, mask;

	if (s->packed) {
		one_sequence = tensor_new(m, n, BOOL);
		all = tensor_new(m, n, BOOL);
		tensor_unref(m, &one_sequence);
	}
	part = tensor_new(m, n, BOOL);
	window = tensor_new(m, n, BOOL);
	tensor_unref(m, &part);
	mask = both_of(m, n, window, tensor_new(m, n, BOOL));
	if (s->packed)
		mask = both_of(m, n, all, mask);
	return of_attention(m, s, mask, like);
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
