#include "families/alibi.h"

#include "torch/ops.h"

/* torch.pow(base, powers): a base without dimensions and n integers */
static tensor powers_of(struct machine *m, int64_t n, tensor *base, tensor *powers)
{
	tensor_assign(m, base, tensor_new(m, 1, F32));
	tensor_assign(m, powers, tensor_new(m, n, I32));
	return tensor_new(m, n, F32);
}

tensor alibi_slopes(struct machine *m, int64_t heads)
{
	tensor base = none, powers = none, more_base = none, more_powers = none, slopes, more, all;
	int64_t two = 1;

	m->current_term = TERM_ATTN_SCORES;
	while (2 * two <= heads)
		two *= 2;
	slopes = powers_of(m, two, &base, &powers);
	if (two != heads) {
		more = powers_of(m, heads - two, &more_base, &more_powers);
		all = tensor_new(m, heads, F32);
		tensor_unref(m, &more);
		tensor_assign(m, &slopes, all);
	}
	tensor_unref(m, &base);
	tensor_unref(m, &powers);
	tensor_unref(m, &more_base);
	tensor_unref(m, &more_powers);
	return slopes;
}

tensor alibi_of(struct machine *m, const struct hparams *s, tensor slopes, enum dtype type)
{
	tensor places = tensor_new(m, s->tokens, I64), one, out;

	one = tensor_new(m, slopes.n * s->tokens, F32);
	tensor_unref(m, &places);
	out = tensor_new(m, s->batch * one.n, F32);
	tensor_assign(m, &out, to(m, out, type));
	tensor_unref(m, &one);
	return out;
}
