/* Scaled dot product attention: the fused kernels. */
#include "model/memtrace/ops.h"

/* dq, dk, dv and, for the kernel, dq in fp32 with the row sums; shared heads' dk and dv for each
 * head of the queries before they are summed. */
static void flash_backward(struct machine *m, struct node *n)
{
	tensor each[2] = { { .at = NULL }, { .at = NULL } }, space;

	for (int i = 0; i < 3; i++)
		n->out[i] = make(m, n->sizes[i], n->in[0].type);
	space = make(m, n->sizes[3], F32);
	for (int i = 0; i < 2 && n->sizes[1] < n->sizes[0]; i++)
		each[i] = make(m, n->sizes[0], n->in[0].type);
	for (int i = 0; i < 2; i++)
		drop(m, &each[i]);
	drop(m, &space);
}

/* By name: key, query, value. */
static void save_inputs(struct machine *m, struct node *n, const tensor *in)
{
	save(m, n, in[1]);
	save(m, n, in[0]);
	save(m, n, in[2]);
}

tensor flash_attention(struct machine *m, tensor q, tensor k, tensor v,
		       const struct flash_shape *shape)
{
	tensor in[3] = { q, k, v }, out, lse, seed, offset;
	struct node *n = record(m, flash_backward, in, 3);
	int64_t rows = shape->batch * shape->heads;
	int64_t rounded = (shape->queries + 127) / 128 * 128;
	int64_t width =
		shape->width <= 128 ? (shape->width + 31) / 32 * 32 : (shape->width + 63) / 64 * 64;

	for (int i = 0; n && i < 3; i++)
		n->sizes[i] = in[i].n;
	if (n)
		n->sizes[3] = rows * rounded * (width + 1);
	save_inputs(m, n, in);
	seed = make_as(m, TERM_ATTN_FLASH, shape->dropout > 0 ? 2 : 1, I64);
	offset = make_as(m, TERM_ATTN_FLASH, 1, I64);
	out = result(make(m, q.n, q.type), n, 0);
	lse = make_as(m, TERM_ATTN_FLASH, rows * shape->queries, F32);
	save(m, n, lse);
	save(m, n, out);
	save(m, n, seed);
	save(m, n, offset);
	drop(m, &lse);
	drop(m, &seed);
	drop(m, &offset);
	return out;
}

/* The mask in the queries' type, its rows padded to 16 numbers (preprocess_mask). */
static tensor mask_bias(struct machine *m, enum dtype type, const struct flash_shape *shape)
{
	int64_t rows = shape->batch * shape->queries, padded = (shape->queries + 15) / 16 * 16;
	tensor bias = make_as(m, TERM_ATTN_SOFTMAX, rows * shape->queries, type);

	if (padded != shape->queries)
		let(m, &bias, make_as(m, TERM_ATTN_SOFTMAX, rows * padded, type));
	return bias;
}

/* With a mask the memory-efficient kernel runs: it keeps the mask. */
tensor masked_attention(struct machine *m, tensor q, tensor k, tensor v,
			const struct flash_shape *shape)
{
	tensor in[3] = { q, k, v }, out, lse, seed[2], bias;
	struct node *n = record(m, flash_backward, in, 3);
	int64_t rows = shape->batch * shape->heads;
	int64_t rounded = (shape->queries + 31) / 32 * 32;

	if (n)
		n->sizes[3] = rows * (shape->queries * shape->width + rounded);
	bias = mask_bias(m, q.type, shape);
	save(m, n, bias);
	for (int i = 0; n && i < 3; i++)
		n->sizes[i] = in[i].n;
	save_inputs(m, n, in);
	seed[0] = make_as(m, TERM_ATTN_FLASH, 1, I64);
	seed[1] = make_as(m, TERM_ATTN_FLASH, 1, I64);
	out = result(make(m, q.n, q.type), n, 0);
	lse = make_as(m, TERM_ATTN_FLASH, rows * rounded, F32);
	save(m, n, lse);
	save(m, n, out);
	for (int i = 0; i < 2; i++) {
		save(m, n, seed[i]);
		drop(m, &seed[i]);
	}
	drop(m, &lse);
	drop(m, &bias);
	return out;
}
