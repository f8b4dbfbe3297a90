/* Transformer Engine's fp8 products: copies of the weights, and what is kept of the inputs. */
#include "megatron/fp8.h"

/* is_non_tn_fp8_gemm_supported(): from Blackwell products need no transposed operands. Where blocks
 * have scales, rows' and columns' are of other values. */
static int transposes(const struct machine *m, const struct megatron_rank *r)
{
	return m->constants.sm < 100 || r->s->fp8_blocks;
}

/* Which layers are quantized: --first-last-layers-bf16 leaves one at each end unless it says how
 * many. */
int fp8_layer(const struct hparams *s, int64_t layer)
{
	return s->fp8 && layer >= s->bf16_first && layer < s->layers - s->bf16_last;
}

/* Scales: of 1 x 128 values 4 bytes, of 1 x 32 (mxfp8) one. A weight's are of 128 x 128, which is
 * nothing beside it, but for mxfp8. */
#define SCALED 32

static tensor quantized(struct machine *m, struct megatron_rank *r, int64_t n)
{
	return tensor_new(m, r->s->fp8_blocks ? n + n / SCALED : n, U8);
}

/* A weight's copy in fp8, made by the first micro-batch and written over from then on, and its
 * transpose. Weights that are fp8 themselves have the transpose alone. */
void fp8_weight(struct machine *m, struct megatron_rank *r, struct param *weight)
{
	if (!r->s->fp8_weights && !weight->copy.storage)
		weight->copy = tensor_new_as(m, TERM_FP8_COPIES, weight->value.n, U8);
	if (transposes(m, r) && !weight->transposed.storage)
		weight->transposed = tensor_new_as(m, TERM_FP8_COPIES, weight->value.n, U8);
}

tensor fp8_input(struct machine *m, struct megatron_rank *r, tensor x, tensor *kept)
{
	tensor rows = quantized(m, r, x.n);

	*kept = transposes(m, r) ? quantized(m, r, x.n) : tensor_ref(rows);
	return rows;
}

tensor fp8_gradient(struct machine *m, struct megatron_rank *r, tensor x, tensor *transposed)
{
	*transposed = transposes(m, r) ? quantized(m, r, x.n) : none;
	return quantized(m, r, x.n);
}
