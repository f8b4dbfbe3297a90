/* Transformer Engine's fp8 products: copies of the weights, and saved inputs. */
#include "megatron/fp8.h"

/* is_non_tn_fp8_gemm_supported(): from Blackwell on products need no transposed operands. With a
 * scale for each block the transpose is always needed: its blocks hold other values. */
static int transposes(const struct machine *m, const struct megatron_rank *r)
{
	return m->constants.sm < 100 || r->s->fp8_blocks;
}

/* --first-last-layers-bf16 keeps one layer at each end in bf16, unless the numbers are given. */
int fp8_layer(const struct hparams *s, int64_t layer)
{
	return s->fp8 && layer >= s->bf16_first && layer < s->layers - s->bf16_last;
}

/* Bytes of values for each byte of scales: 4 bytes for a block of 1 x 128 values, 1 byte for 1 x 32
 * (mxfp8). The blocks of weights have 128 x 128 values, so that their scales are negligible except
 * for mxfp8. */
#define SCALED 32

static tensor quantized(struct machine *m, struct megatron_rank *r, int64_t n)
{
	return tensor_new(m, r->s->fp8_blocks ? n + n / SCALED : n, U8);
}

/* The first micro-batch allocates the fp8 copy of a weight and its transpose; later ones overwrite
 * them. Weights that are fp8 themselves have only the transpose. */
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
