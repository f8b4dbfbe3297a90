#include "megatron/transformer_engine.h"

#include "util/util.h"

/* ---- fp8 ---- */

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

/* ---- products ---- */

void te_workspaces(struct machine *m, struct megatron_rank *r, int count)
{
	/* the first workspace is that of single products; grouped products have others */
	for (int i = count > 1; i < (count > 1 ? count + 1 : 1); i++)
		if (!r->te_workspace[i].storage)
			r->te_workspace[i] =
				tensor_new_as(m, TERM_TE_WORKSPACE, m->constants.te_workspace, U8);
}

/* cpp_extensions/gemm.py: _NUM_MAX_UB_STREAMS */
#define UB_STREAMS 3

static void ub_workspace(struct machine *m, struct megatron_rank *r)
{
	if (r->s->tp_overlap && !r->ub_workspace.storage)
		r->ub_workspace = tensor_new_as(m, TERM_TE_WORKSPACE,
						UB_STREAMS * m->constants.te_workspace, U8);
}

/* general_gemm(A, B, get_workspace(), …) allocates the result last. */
static tensor product(struct machine *m, struct megatron_rank *r, int64_t n, enum dtype type)
{
	te_workspaces(m, r, 1);
	ub_workspace(m, r);
	return tensor_new(m, n, type);
}

tensor weight_gradient(struct machine *m, struct megatron_rank *r, int64_t n, int64_t in,
		       enum dtype type)
{
	size_t i;

	if (!r->s->fused_gradient)
		return tensor_new(m, n, type);
	for (i = 0; i < r->dummy_count; i++)
		if (r->dummies[i].n == n && r->dummies[i].in == in)
			return tensor_ref(r->dummies[i].gradient);
	if (i == ARRAY_SIZE(r->dummies))
		return tensor_new(m, n, type);
	r->dummies[i].n = n;
	r->dummies[i].in = in;
	r->dummies[i].gradient = tensor_new_as(m, TERM_DUMMY_GRADIENTS, n, type);
	r->dummy_count++;
	return tensor_ref(r->dummies[i].gradient);
}

/* `sizes`: elements of x, weight, bias; ranks that the input was gathered from; columns; fp8 (0 or
 * 1). */
static void linear_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;
	struct megatron_rank *r = m->family;
	int64_t t = n->sizes[3];
	tensor gathered = none, whole, gradient = none, transposed = none, copy = none;

	if (n->ordered)
		copy = tensor_new(m, n->in[0].n, type);
	if (n->sizes[5])
		gradient = fp8_gradient(m, r, n->in[0], &transposed);
	if (t > 1)
		gathered =
			tensor_new_as(m, TERM_COLLECTIVE, n->sizes[0] * t, n->sizes[5] ? U8 : type);
	if (n->edge[0] || t > 1)
		n->out[0] = product(m, r, n->sizes[0] * t, type);
	if (t > 1) {
		whole = n->out[0];
		n->out[0] = tensor_new_as(m, TERM_COLLECTIVE, n->sizes[0], type);
		if (n->edge[1])
			n->out[1] = weight_gradient(m, r, n->sizes[1], n->sizes[4], type);
		tensor_unref(m, &whole);
		tensor_unref(m, &gathered);
	} else if (n->edge[1]) {
		n->out[1] = weight_gradient(m, r, n->sizes[1], n->sizes[4], type);
	}
	tensor_unref(m, &gradient);
	tensor_unref(m, &transposed);
	tensor_unref(m, &copy);
	if (n->edge[2])
		n->out[2] = tensor_new(m, n->sizes[2], type);
}

tensor te_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		 struct param *bias, int gathers)
{
	tensor in[3] = { x, weight->value, bias ? bias->value : none }, out, gathered = none;
	int64_t t = gathers && r->s->sequence_parallel ? r->s->tp : 1;
	struct grad_node *n = grad_node_new(m, linear_backward, in, 3);
	tensor kept = none, rows = none;

	if (n) {
		n->sizes[0] = x.n;
		n->sizes[1] = weight->value.n;
		n->sizes[2] = bias ? bias->value.n : 0;
		n->sizes[3] = t;
		n->sizes[4] = weight->in;
		n->sizes[5] = weight->quantized;
	}
	if (weight->quantized) {
		fp8_weight(m, r, weight);
		rows = fp8_input(m, r, x, &kept);
	}
	if (!weight->frozen)
		save_for_backward(m, n, weight->quantized ? kept : x);
	save_for_backward(m, n, weight->value);
	if (t > 1)
		gathered =
			tensor_new_as(m, TERM_COLLECTIVE, x.n * t, weight->quantized ? U8 : x.type);
	out = product(m, r, x.n * t / weight->in * (weight->value.n / weight->in), x.type);
	tensor_unref(m, &gathered);
	tensor_unref(m, &rows);
	tensor_unref(m, &kept);
	return with_grad_fn(out, n, 0);
}

/* ---- attention ---- */

/* FusedAttention (cuDNN): the gradients of q, k and v are views of one buffer. */
static void fused_backward(struct machine *m, struct grad_node *n)
{
	tensor all = tensor_new(m, n->sizes[0] + n->sizes[1] + n->sizes[2], n->in[0].type);

	for (int i = 0; i < 3; i++) {
		n->out[i] = tensor_ref(all);
		n->out[i].n = n->sizes[i];
	}
	scratch(m, n->sizes[3] * 4);
	scratch(m, n->sizes[0] * 4);
	tensor_unref(m, &all);
}

static tensor fused(struct machine *m, struct megatron_rank *r, const tensor *in)
{
	const struct hparams *s = r->s;
	struct grad_node *n = grad_node_new(m, fused_backward, in, 3);
	int64_t rows = in[0].n / s->head; /* of all heads */
	tensor out, lse, seeds;

	for (int i = 0; n && i < 3; i++) {
		n->sizes[i] = in[i].n;
		save_for_backward(m, n, in[i]);
	}
	if (n)
		n->sizes[3] = rows;
	seeds = tensor_new_as(m, TERM_ATTN_FLASH, 2, I64);
	out = with_grad_fn(tensor_new(m, in[0].n / s->head * s->value_head, in[0].type), n, 0);
	lse = tensor_new_as(m, TERM_ATTN_FLASH, rows, F32);
	save_for_backward(m, n, out);
	save_for_backward(m, n, lse);
	save_for_backward(m, n, seeds);
	tensor_unref(m, &seeds);
	tensor_unref(m, &lse);
	return out;
}

/* mha_bwd() of the flash-attn package: row sums, and the queries' gradient in fp32, for every split
 * if it is deterministic. If query heads share keys and values, their gradients for every query
 * head. `sizes`: elements of q, k, v; rows; rounded queries; splits. */
static void flash_backward(struct machine *m, struct grad_node *n)
{
	tensor sums, sum, repeated[2] = { none, none };

	for (int i = 0; i < 3; i++)
		n->out[i] = tensor_new(m, n->sizes[i], n->in[0].type);
	sums = tensor_new(m, n->sizes[3], F32);
	sum = tensor_new(m, n->sizes[4] * n->sizes[5], F32);
	for (int i = 0; i < 2 && n->sizes[1] != n->sizes[0]; i++)
		repeated[i] = tensor_new(m, n->sizes[0], n->in[0].type);
	for (int i = 1; i >= 0; i--)
		tensor_unref(m, &repeated[i]);
	tensor_unref(m, &sum);
	tensor_unref(m, &sums);
}

static tensor flash_attn_func(struct machine *m, struct megatron_rank *r, const tensor *in)
{
	const struct hparams *s = r->s;
	int64_t heads = s->batch * r->heads, queries = in[0].n / s->head / heads;
	int64_t rounded = round_up(queries, 128), width = round_up(s->head, 32);
	struct grad_node *n = grad_node_new(m, flash_backward, in, 3);
	tensor out = with_grad_fn(tensor_new(m, in[0].n, in[0].type), n, 0);
	tensor sums = tensor_new_as(m, TERM_ATTN_FLASH, heads * queries, F32);
	tensor seeds = tensor_new_as(m, TERM_ATTN_FLASH, 2, I64);

	for (int i = 0; n && i < 3; i++) {
		n->sizes[i] = in[i].n;
		save_for_backward(m, n, in[i]);
	}
	if (n) {
		n->sizes[3] = heads * rounded;
		n->sizes[4] = heads * rounded * width;
		n->sizes[5] = m->constants.nondeterministic
				      ? 1
				      : divide_up(m->constants.multiprocessors, heads);
	}
	save_for_backward(m, n, out);
	save_for_backward(m, n, sums);
	save_for_backward(m, n, seeds);
	tensor_unref(m, &seeds);
	tensor_unref(m, &sums);
	return out;
}

/* FlashAttention needs the batch dimension before the sequence: q, k, v and its output are copied.
 */
static tensor flash(struct machine *m, struct megatron_rank *r, const tensor *in)
{
	tensor copy[3], out;

	for (int i = 0; i < 3; i++)
		copy[i] = contiguous(m, in[i]);
	out = flash_attn_func(m, r, copy);
	tensor_assign(m, &out, contiguous(m, out));
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &copy[i]);
	return out;
}

/* The gradients of baddbmm. */
static void scores_backward(struct machine *m, struct grad_node *n)
{
	for (int i = 1; i >= 0; i--)
		n->out[i] = gemm(m, n->sizes[i], n->in[0].type);
}

int64_t score_count(const struct megatron_rank *r, tensor q, tensor k)
{
	return q.n / r->s->head * (k.n / (r->s->batch * r->heads * r->s->head));
}

static tensor scores(struct machine *m, struct megatron_rank *r, tensor q, tensor k)
{
	tensor in[2] = { q, k }, buffer, out;
	int64_t n = score_count(r, q, k);
	struct grad_node *node = grad_node_new(m, scores_backward, in, 2);

	if (node) {
		node->sizes[0] = q.n;
		node->sizes[1] = k.n;
	}
	save_for_backward(m, node, q);
	save_for_backward(m, node, k);
	buffer = tensor_new(m, n, q.type);
	out = gemm(m, n, q.type);
	tensor_unref(m, &buffer);
	return with_grad_fn(out, node, 0);
}

/* scaled_upper_triang_masked_softmax: the gradient is computed in place. */
static void softmax_backward(struct machine *m, struct grad_node *n)
{
	(void)m;
	n->out[0] = tensor_ref(n->in[0]);
}

tensor masked_softmax(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, softmax_backward, &x, 1);
	tensor out = tensor_new(m, x.n, x.type);

	save_for_backward(m, n, out);
	return with_grad_fn(out, n, 0);
}

int softmax_is_fused(const struct megatron_rank *r, int64_t queries, int64_t keys)
{
	const struct hparams *s = r->s;
	int te = s->transformer_engine, each = te ? 8 : 4;

	if (s->weights == F32 || !(te || s->fused_softmax))
		return 0;
	return queries % 4 == 0 && keys % each == 0 && keys > 16 && keys <= (te ? 16383 : 4096) &&
	       s->batch * r->heads % 4 == 0;
}

tensor softmax_of_torch(struct machine *m, tensor precise, tensor mask, enum dtype type)
{
	tensor a = mask.storage ? masked_in_place(m, precise, mask) : tensor_ref(precise), b;

	b = softmax(m, a, F32);
	tensor_assign(m, &a, to(m, b, type));
	tensor_unref(m, &b);
	return a;
}

/* get_full_mask(), since Transformer Engine 2.0: a mask for each pair of tokens, for each call. */
static tensor full_mask(struct machine *m, int64_t pairs)
{
	tensor distance, left, right, out;

	if (!m->constants.te_full_masks)
		return none;
	distance = tensor_new(m, pairs, I32);
	left = tensor_new(m, pairs, I32);
	right = tensor_new(m, pairs, I32);
	out = tensor_new(m, pairs, BOOL);
	tensor_unref(m, &right);
	tensor_unref(m, &left);
	tensor_unref(m, &distance);
	return out;
}

/* _get_default_causal_mask() keeps one mask. With one of the call a third mask combines both. */
static tensor causal_mask(struct machine *m, struct megatron_rank *r, tensor full, int64_t pairs)
{
	tensor ones;

	if (!r->causal.storage) {
		ones = tensor_new_as(m, TERM_BUFFERS, pairs, BOOL);
		r->causal = tensor_new_as(m, TERM_BUFFERS, pairs, BOOL);
		tensor_unref(m, &ones);
	}
	return full.storage ? tensor_new(m, pairs, BOOL) : tensor_ref(r->causal);
}

/* forward_torch_softmax(), with a mask for each sequence if they are padded */
static tensor masked_by_torch(struct machine *m, const struct megatron_layer *l, tensor scores,
			      tensor full, int padded)
{
	struct megatron_rank *r = l->chunk->rank;
	int64_t pairs = scores.n / r->heads;
	tensor precise = to(m, scores, F32), out, mask = none;

	if (padded)
		mask = tensor_new(m, pairs, BOOL);
	else if (!l->of_images)
		mask = causal_mask(m, r, full, pairs / r->s->batch);
	out = softmax_of_torch(m, precise, mask, scores.type);
	tensor_unref(m, &precise);
	tensor_unref(m, &mask);
	return out;
}

/* BERT's sequences are padded, and those of T5's encoder; its decoder's own attention is causal and
 * has no mask. */
static int is_padded(const struct hparams *s, tensor mask)
{
	return s->is_bert || (s->encoder_layers && mask.storage);
}

/* UnfusedDotProductAttention: with a padding mask, get_full_mask() has one for each pair of tokens,
 * with which the rows of padding are set to 0 behind the softmax. */
static tensor unfused(struct machine *m, struct megatron_layer *l, const tensor *in)
{
	struct megatron_rank *r = l->chunk->rank;
	const int64_t width = r->s->batch * r->s->head, queries = in[0].n / r->heads / width;
	const int64_t keys = in[1].n / r->groups / width;
	int fits = softmax_is_fused(r, queries, keys), padded = is_padded(r->s, in[3]);
	tensor full = fits || padded ? none : full_mask(m, queries * keys);
	tensor a, k = tensor_ref(in[1]), v = tensor_ref(in[2]), out;

	if (r->heads != r->groups) {
		tensor_assign(m, &k, repeat(m, k, in[0].n));
		tensor_assign(m, &v, repeat(m, v, in[0].n));
	}
	m->current_term = TERM_ATTN_SCORES;
	a = scores(m, r, in[0], k);
	m->current_term = TERM_ATTN_SOFTMAX;
	tensor_assign(m, &a, fits ? masked_softmax(m, a) : masked_by_torch(m, l, a, full, padded));
	if (padded)
		tensor_assign(m, &a, masked_fill(m, a, a.n / r->heads));
	tensor_assign(m, &a, dropout(m, a, r->s->attention_dropout));
	m->current_term = TERM_ATTN_CONTEXT;
	out = matmul(m, a, v, in[0].n / r->s->head * r->s->value_head);
	tensor_assign(m, &out, contiguous(m, out));
	tensor_unref(m, &a);
	tensor_unref(m, &k);
	tensor_unref(m, &v);
	tensor_unref(m, &full);
	return out;
}

tensor te_attention(struct machine *m, struct megatron_layer *l, const tensor *in)
{
	struct megatron_rank *r = l->chunk->rank;

	/* The other kernels have 16-bit values, and heads of a multiple of 8. */
	if (r->s->attention == EAGER || r->s->weights == F32 || r->s->head % 8)
		return unfused(m, l, in);
	/* FlashAttention does not support values of another width than keys. */
	if (r->s->value_head != r->s->head)
		return fused(m, r, in);
	/* Before Hopper Transformer Engine prefers FlashAttention; for Blackwell cuDNN has no
	 * deterministic backward pass. */
	if (r->s->attention == FUSED_ATTENTION &&
	    (m->constants.sm == 90 || (m->constants.sm > 90 && m->constants.nondeterministic)))
		return fused(m, r, in);
	return flash(m, r, in);
}

static void same_size_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->type);
}

static struct grad_node *kernel(struct machine *m, tensor x)
{
	struct grad_node *n = grad_node_new(m, same_size_backward, &x, 1);

	if (n) {
		n->sizes[0] = x.n;
		n->type = x.type;
	}
	return n;
}

tensor fused_swiglu(struct machine *m, tensor x)
{
	struct grad_node *n = kernel(m, x);

	save_for_backward(m, n, x);
	return with_grad_fn(tensor_new(m, x.n / 2, x.type), n, 0);
}

tensor fused_rotary(struct machine *m, tensor x)
{
	return with_grad_fn(tensor_new(m, x.n, x.type), kernel(m, x), 0);
}
