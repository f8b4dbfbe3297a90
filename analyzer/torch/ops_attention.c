/* Scaled dot product attention: the fused kernels, and which of them PyTorch takes. In backward
 * functions sizes are those of q, k, v and of the kernel's own space. */
#include "torch/ops.h"

#include "util/util.h"

/* From these versions on Hopper and Blackwell cuDNN comes first (check_prefer_cudnn_attention);
 * later it has no dropout any more. */
enum { CUDNN_SINCE = 211, CUDNN_WITHOUT_DROPOUT_SINCE = 215 };

enum kernel { CUDNN, FLASH_KERNEL, EFFICIENT };

static enum kernel choose(const struct machine *m, enum dtype type, const struct flash_shape *s,
			  int masked)
{
	const struct constants *k = &m->constants;
	int too_wide = s->width > 128 && s->width != 256;

	if (type == F32)
		return EFFICIENT;
	if (k->torch >= CUDNN_SINCE && k->sm >= 90 && k->sm < 110 && !too_wide &&
	    s->width % 8 == 0 && (s->dropout <= 0 || k->torch < CUDNN_WITHOUT_DROPOUT_SINCE))
		return CUDNN;
	return masked ? EFFICIENT : FLASH_KERNEL;
}

/* ---- backward ---- */

static void make_gradients(struct machine *m, struct node *n)
{
	for (int i = 0; i < 3; i++)
		n->out[i] = make(m, n->sizes[i], n->in[0].type);
}

/* Shared heads' dk and dv for each head of the queries, before they are summed. */
static void make_each(struct machine *m, struct node *n, tensor *each)
{
	for (int i = 0; i < 2 && n->sizes[1] < n->sizes[0]; i++)
		each[i] = make(m, n->sizes[0], n->in[0].type);
}

/* Its workspace: dq in fp32 and a row's sum. */
static void cudnn_backward(struct machine *m, struct node *n)
{
	make_gradients(m, n);
	scratch(m, n->sizes[3] * dtype_width(F32));
}

/* mha_bwd: row sums, and dq in fp32 */
static void flash_backward(struct machine *m, struct node *n)
{
	tensor each[2] = { { .at = NULL }, { .at = NULL } }, sums, precise;

	make_gradients(m, n);
	sums = make(m, n->sizes[3], F32);
	precise = make(m, n->sizes[4], F32);
	make_each(m, n, each);
	for (int i = 0; i < 2; i++)
		drop(m, &each[i]);
	drop(m, &precise);
	drop(m, &sums);
}

/* _efficient_attention_backward: a row's sum of out * gradient, of fp32 by PyTorch's own
 * operations, and the workspace. */
static void efficient_backward(struct machine *m, struct node *n)
{
	tensor each[2] = { { .at = NULL }, { .at = NULL } }, delta;

	make_gradients(m, n);
	make_each(m, n, each);
	if (n->in[0].type == F32) {
		tensor product = make(m, n->sizes[0], F32), sum = make(m, n->sizes[3], F32);

		drop(m, &product);
		delta = make(m, n->sizes[3], F32);
		drop(m, &sum);
	} else {
		delta = make(m, n->sizes[3], F32);
	}
	scratch(m, n->sizes[4] * dtype_width(F32));
	for (int i = 0; i < 2; i++)
		drop(m, &each[i]);
	drop(m, &delta);
}

static void (*const backward_of[])(struct machine *m, struct node *n) = {
	[CUDNN] = cudnn_backward,
	[FLASH_KERNEL] = flash_backward,
	[EFFICIENT] = efficient_backward,
};

static void note_space(struct node *n, enum kernel kernel, const struct flash_shape *s)
{
	const int64_t heads = s->batch * s->heads, rows = heads * s->queries;
	/* queries and columns of a block of the memory-efficient kernel */
	const int64_t block = s->width <= 64 ? 64 : 128;
	const int64_t rounded = round_up(s->queries, 128);

	switch (kernel) {
	case CUDNN:
		n->sizes[3] = rows * (s->width + 1);
		break;
	case FLASH_KERNEL:
		n->sizes[3] = heads * rounded;
		n->sizes[4] = heads * rounded * round_up(s->width, s->width <= 128 ? 32 : 64);
		break;
	case EFFICIENT:
		n->sizes[3] = rows;
		n->sizes[4] = heads * (round_up(s->queries, block) * round_up(s->width, block) +
				       round_up(s->queries, block) / block * 4);
	}
}

/* ---- forward ---- */

/* The mask in the queries' type; for the memory-efficient kernel its rows are padded to 16 numbers
 * (preprocess_mask). */
static tensor mask_bias(struct machine *m, enum dtype type, const struct flash_shape *s,
			enum kernel kernel)
{
	const int64_t rows = s->batch * s->queries, padded = round_up(s->queries, 16);
	tensor bias = make_as(m, TERM_ATTN_SOFTMAX, rows * s->queries, type);

	if (kernel == EFFICIENT && padded != s->queries)
		let(m, &bias, make_as(m, TERM_ATTN_SOFTMAX, rows * padded, type));
	return bias;
}

/* `bias` is taken. */
static tensor attend(struct machine *m, const tensor *in, const struct flash_shape *s,
		     enum kernel kernel, tensor bias)
{
	struct node *n = record(m, backward_of[kernel], in, 3);
	const int64_t heads = s->batch * s->heads;
	tensor out, lse, seed[2];

	for (int i = 0; n && i < 3; i++)
		n->sizes[i] = in[i].n;
	if (n)
		note_space(n, kernel, s);
	save(m, n, bias);
	save(m, n, in[1]); /* by name: key, query, value */
	save(m, n, in[0]);
	save(m, n, in[2]);
	seed[0] = make_as(m, TERM_ATTN_FLASH, s->dropout > 0 ? 2 : 1, I64);
	seed[1] = make_as(m, TERM_ATTN_FLASH, 1, I64);
	out = result(make(m, in[0].n, in[0].type), n, 0);
	lse = make_as(m, TERM_ATTN_FLASH,
		      heads * (kernel == EFFICIENT ? round_up(s->queries, 32) : s->queries), F32);
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

tensor flash_attention(struct machine *m, tensor q, tensor k, tensor v,
		       const struct flash_shape *shape)
{
	const tensor in[3] = { q, k, v };

	return attend(m, in, shape, choose(m, q.type, shape, 0), (tensor){ .at = NULL });
}

tensor masked_attention(struct machine *m, tensor q, tensor k, tensor v,
			const struct flash_shape *shape)
{
	const tensor in[3] = { q, k, v };
	const enum kernel kernel = choose(m, q.type, shape, 1);

	return attend(m, in, shape, kernel, mask_bias(m, q.type, shape, kernel));
}
