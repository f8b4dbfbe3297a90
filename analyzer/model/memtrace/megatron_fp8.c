/* Transformer Engine's fp8 products: copies of the weights, and what is kept of the inputs. */
#include "model/memtrace/transformer_engine.h"

static const tensor none = { .at = NULL };

/* is_non_tn_fp8_gemm_supported(): from Blackwell products need no transposed operands. */
static int transposes(const struct machine *m)
{
	return m->constants.sm < 100;
}

/* Which layers are quantized: --first-last-layers-bf16 leaves one at each end unless it says how
 * many. */
int fp8_layer(const struct shape *s, int64_t layer)
{
	return s->fp8 && layer >= s->bf16_first && layer < s->layers - s->bf16_last;
}

/* A weight's copy in fp8, made by the first micro-batch and written over from then on, and its
 * transpose. Weights that are fp8 themselves have the transpose alone. */
void fp8_weight(struct machine *m, struct rank *r, struct param *weight)
{
	if (!r->s->fp8_weights && !weight->copy.at)
		weight->copy = make_as(m, TERM_FP8_COPIES, weight->value.n, U8);
	if (transposes(m) && !weight->transposed.at)
		weight->transposed = make_as(m, TERM_FP8_COPIES, weight->value.n, U8);
}

tensor fp8_input(struct machine *m, tensor x, tensor *kept)
{
	tensor rows = make(m, x.n, U8);

	*kept = transposes(m) ? make(m, x.n, U8) : hold(rows);
	return rows;
}

tensor fp8_gradient(struct machine *m, tensor x, tensor *transposed)
{
	*transposed = transposes(m) ? make(m, x.n, U8) : none;
	return make(m, x.n, U8);
}
