/* Scaled dot product attention: the fused kernels, and PyTorch's choice between them. In backward
 * functions `sizes` are the elements of q, k, v and of the kernel's workspace, and sizes[5] those
 * of the mask's gradient. */
#include "torch/autocast.h"
#include "torch/ops.h"

#include "util/util.h"

/* From these versions PyTorch prefers cuDNN on Hopper and Blackwell (check_prefer_cudnn_attention),
 * later only without dropout. */
enum { CUDNN_SINCE = 211, CUDNN_WITHOUT_DROPOUT_SINCE = 215 };

enum kernel { CUDNN, FLASH_KERNEL, EFFICIENT };

/* The memory-efficient kernel reads rows of a mask whose elements are a multiple of the first
 * number (preprocess_mask), and writes its gradient in rows of a multiple of the second. */
enum { MASK_ALIGNED = 8, MASK_GRADIENT_ALIGNED = 16 };

/* If each head has its own. */
static int64_t keys_of(tensor k, const struct flash_shape *s)
{
	return k.n / (s->batch * s->heads * s->width);
}

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

static void make_gradients(struct machine *m, struct grad_node *n)
{
	for (int i = 0; i < 3; i++)
		n->out[i] = tensor_new(m, n->sizes[i], n->in[0].type);
}

/* If query heads share keys and values: dk and dv for each query head, before they are summed. */
static void make_each(struct machine *m, struct grad_node *n, tensor *each)
{
	for (int i = 0; i < 2 && n->sizes[1] < n->sizes[0]; i++)
		each[i] = tensor_new(m, n->sizes[0], n->in[0].type);
}

/* cuDNN's workspace: dq in fp32 and the row sums. */
static void cudnn_backward(struct machine *m, struct grad_node *n)
{
	make_gradients(m, n);
	scratch(m, n->sizes[3] * dtype_width(F32));
}

/* mha_bwd: row sums, and dq in fp32 */
static void flash_backward(struct machine *m, struct grad_node *n)
{
	tensor each[2] = { { .storage = NULL }, { .storage = NULL } }, sums, precise;

	make_gradients(m, n);
	sums = tensor_new(m, n->sizes[3], F32);
	precise = tensor_new(m, n->sizes[4], F32);
	make_each(m, n, each);
	for (int i = 0; i < 2; i++)
		tensor_unref(m, &each[i]);
	tensor_unref(m, &precise);
	tensor_unref(m, &sums);
}

/* _efficient_attention_backward: row sums of out * gradient (in fp32 by PyTorch's own operations),
 * and the workspace. */
static void efficient_backward(struct machine *m, struct grad_node *n)
{
	tensor each[2] = { { .storage = NULL }, { .storage = NULL } }, delta, space;

	make_gradients(m, n);
	if (n->edge[3])
		n->out[3] = tensor_new(m, n->sizes[5], n->in[0].type);
	make_each(m, n, each);
	if (n->in[0].type == F32) {
		tensor product = tensor_new(m, n->sizes[0], F32),
		       sum = tensor_new(m, n->sizes[3], F32);

		delta = tensor_new(m, n->sizes[3], F32);
		tensor_unref(m, &sum);
		tensor_unref(m, &product);
	} else {
		delta = tensor_new(m, n->sizes[3], F32);
	}
	space = tensor_new(m, n->sizes[4], F32);
	tensor_unref(m, &delta);
	tensor_unref(m, &space);
	for (int i = 0; i < 2; i++)
		tensor_unref(m, &each[i]);
}

static void (*const backward_of[])(struct machine *m, struct grad_node *n) = {
	[CUDNN] = cudnn_backward,
	[FLASH_KERNEL] = flash_backward,
	[EFFICIENT] = efficient_backward,
};

static void note_space(struct grad_node *n, enum kernel kernel, const struct flash_shape *s)
{
	const int64_t heads = s->batch * s->heads, rows = heads * s->queries;
	/* queries and columns of one thread block of the memory-efficient kernel */
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

/* The mask in the queries' type. For the memory-efficient kernel its rows are padded. */
static tensor mask_bias(struct machine *m, enum dtype type, const struct flash_shape *s,
			enum kernel kernel)
{
	const int64_t rows = s->batch * s->queries, padded = round_up(s->queries, MASK_ALIGNED);
	tensor bias = tensor_new_as(m, TERM_ATTN_SOFTMAX, rows * s->queries, type);

	if (kernel == EFFICIENT && padded != s->queries)
		tensor_assign(m, &bias, tensor_new_as(m, TERM_ATTN_SOFTMAX, rows * padded, type));
	return bias;
}

/* The seed of the dropout and its offset. The memory-efficient kernel has them in host memory if
 * there is dropout. */
static tensor random_state(struct machine *m, const struct flash_shape *s, enum kernel kernel,
			   int i)
{
	if (s->dropout > 0 && kernel == EFFICIENT)
		return none;
	return tensor_new_as(m, TERM_ATTN_FLASH, s->dropout > 0 && !i ? 2 : 1, I64);
}

/* in: q, k, v, and a mask that needs a gradient, or none. `bias`, the mask, is taken. */
static tensor attend(struct machine *m, const tensor *in, const struct flash_shape *s,
		     enum kernel kernel, tensor bias)
{
	struct grad_node *n = grad_node_new(m, backward_of[kernel], in, 4);
	const int64_t heads = s->batch * s->heads;
	tensor out, lse, seed[2];

	for (int i = 0; n && i < 3; i++)
		n->sizes[i] = in[i].n;
	if (n) {
		note_space(n, kernel, s);
		n->sizes[5] =
			heads * s->queries * round_up(keys_of(in[1], s), MASK_GRADIENT_ALIGNED);
	}
	save_for_backward(m, n, bias);
	save_for_backward(m, n, in[1]); /* in the order of PyTorch's names: key, query, value */
	save_for_backward(m, n, in[0]);
	save_for_backward(m, n, in[2]);
	for (int i = 0; i < 2; i++)
		seed[i] = random_state(m, s, kernel, i);
	out = with_grad_fn(tensor_new(m, in[0].n, in[0].type), n, 0);
	lse = tensor_new_as(m, TERM_ATTN_FLASH,
			    heads * (kernel == EFFICIENT ? round_up(s->queries, 32) : s->queries),
			    F32);
	save_for_backward(m, n, lse);
	save_for_backward(m, n, out);
	for (int i = 0; i < 2; i++) {
		save_for_backward(m, n, seed[i]);
		tensor_unref(m, &seed[i]);
	}
	tensor_unref(m, &lse);
	tensor_unref(m, &bias);
	return out;
}

tensor flash_attention(struct machine *m, tensor q, tensor k, tensor v,
		       const struct flash_shape *shape)
{
	const tensor in[4] = { q, k, v };

	return attend(m, in, shape, choose(m, q.type, shape, 0), (tensor){ .storage = NULL });
}

tensor masked_attention(struct machine *m, tensor q, tensor k, tensor v,
			const struct flash_shape *shape)
{
	const tensor in[4] = { q, k, v };
	const enum kernel kernel = choose(m, q.type, shape, 1);

	return attend(m, in, shape, kernel, mask_bias(m, q.type, shape, kernel));
}

/* The mask, padded for the memory-efficient kernel, and expanded to the batch. */
static tensor expanded_bias(struct machine *m, tensor bias, int64_t keys,
			    const struct flash_shape *s, enum kernel kernel)
{
	const int64_t padded = round_up(keys, MASK_ALIGNED);
	const int64_t whole = s->batch * s->heads * s->queries * keys;
	tensor out = tensor_ref(bias);

	if (kernel == EFFICIENT && padded != keys) {
		tensor_assign(m, &out, repeat(m, out, bias.n / keys * padded));
		tensor_assign(m, &out, slice(m, out, bias.n));
	}
	if (bias.n != whole)
		tensor_assign(m, &out, slice(m, out, whole));
	return out;
}

tensor biased_attention(struct machine *m, tensor q, tensor k, tensor v, tensor bias,
			const struct flash_shape *shape)
{
	/* the other kernels compute no gradient of the mask */
	const enum kernel kernel = bias.grad_fn ? EFFICIENT : choose(m, q.type, shape, 1);
	tensor cast = autocasted(m, bias), out;
	const tensor mask = expanded_bias(m, cast, keys_of(k, shape), shape, kernel),
		     in[4] = { q, k, v, mask };

	out = attend(m, in, shape, kernel, mask);
	tensor_unref(m, &cast);
	return out;
}
