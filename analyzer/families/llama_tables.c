/* What transformers makes once a forward pass for all layers: masks and rotary tables. */
#include "families/llama_tables.h"

#include "torch/ops.h"

/* create_causal_mask: booleans of b x s x s, for eager attention as numbers of the weights' type.
 */
tensor causal_mask(struct machine *m, const struct shape *s, tensor like)
{
	int64_t n = s->batch * s->tokens * s->tokens;
	tensor causal, both, mask;

	causal = make(m, n, BOOL);
	both = make(m, n, BOOL);
	drop(m, &causal);
	causal = make(m, n, BOOL);
	mask = make(m, n, BOOL);
	drop(m, &causal);
	drop(m, &both);
	if (s->attention == EAGER)
		let(m, &mask, make(m, n, like.type));
	return mask;
}

/* and_mask of the causal mask with one of a window, which is an and_mask itself. */
tensor window_mask(struct machine *m, const struct shape *s, tensor like)
{
	int64_t n = s->batch * s->tokens * s->tokens;
	tensor packed = make(m, n, BOOL), all = make(m, n, BOOL), part, window, causal, mask;

	drop(m, &packed);
	part = make(m, n, BOOL);
	window = make(m, n, BOOL);
	drop(m, &part);
	causal = make(m, n, BOOL);
	part = make(m, n, BOOL);
	drop(m, &causal);
	drop(m, &window);
	mask = make(m, n, BOOL);
	drop(m, &part);
	drop(m, &all);
	if (s->attention == EAGER)
		let(m, &mask, make(m, n, like.type));
	return mask;
}

/* LlamaRotaryEmbedding.forward, in fp32, without gradients. */
void rotary_tables(struct machine *m, const struct shape *s, tensor like, tensor *cos, tensor *sin)
{
	int64_t n = s->tokens * s->head;
	tensor frequencies, both, table, *out[2] = { cos, sin }, precise[2];

	m->as = TERM_ROPE;
	frequencies = make(m, n / 2, F32);
	both = make(m, n, F32);
	for (int i = 0; i < 2; i++) {
		table = make(m, n, F32);
		precise[i] = make(m, n, F32);
		drop(m, &table);
	}
	for (int i = 0; i < 2; i++)
		let(m, out[i], like.type == F32 ? hold(precise[i]) : make(m, n, like.type));
	drop(m, &frequencies);
	drop(m, &both);
	drop(m, &precise[0]);
	drop(m, &precise[1]);
}
