/* The embedding, the output layer and the loss of a Megatron-core model. */
#include "megatron/embedding_loss.h"
#include "megatron/bert.h"
#include "megatron/sharded.h"
#include "megatron/tensor_parallel.h"

/* The gradient of weight[tokens]: index_put_with_sort_kernel() adds up a sorted copy of the
 * gradient. */
static void indexed_backward(struct machine *m, struct grad_node *n)
{
	tensor linear = tensor_new(m, n->sizes[1], I64), sorted, origin, copy;

	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
	sorted = tensor_new(m, n->sizes[1], I64);
	origin = tensor_new(m, n->sizes[1], I64);
	copy = tensor_new(m, n->in[0].n, n->in[0].type);
	tensor_unref(m, &copy);
	tensor_unref(m, &linear);
	tensor_unref(m, &sorted);
	tensor_unref(m, &origin);
}

static tensor indexed(struct machine *m, tensor tokens, struct param *weight, int64_t width)
{
	struct grad_node *n = grad_node_new(m, indexed_backward, &weight->value, 1);

	if (n) {
		n->sizes[0] = weight->value.n;
		n->sizes[1] = tokens.n;
		save_for_backward(m, n, tokens);
	}
	return with_grad_fn(tensor_new(m, tokens.n * width, weight->value.type), n, 0);
}

/* VocabParallelEmbedding */
static tensor embedded(struct machine *m, struct megatron_rank *r, tensor tokens,
		       struct param *weight)
{
	tensor mask = none, mine = tensor_ref(tokens), x;

	if (r->s->tp > 1) {
		mask = tensor_new(m, tokens.n, BOOL);
		tensor_assign(m, &mine, tensor_new(m, tokens.n, I64));
	}
	x = r->s->deterministic ? indexed(m, mine, weight, r->s->hidden)
				: embedding(m, mine, weight, r->s->hidden);
	tensor_unref(m, &mine);
	/* output_parallel[input_mask, :] = 0 is in place; its gradient is a copy */
	if (r->s->tp > 1)
		tensor_assign(m, &x, copied_back(m, x));
	tensor_unref(m, &mask);
	return x;
}

tensor chunk_embed(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;
	tensor words, positions = none, types, x;

	m->current_term = TERM_EMBEDDED;
	words = embedded(m, r, b->tokens, c->tokens);
	x = tensor_ref(words);
	if (c->positions) {
		/* BERT and T5 expand the positions to the batch */
		positions =
			embedding_of(m, b->positions,
				     s->is_bert || s->encoder_layers ? b->tokens.n : b->positions.n,
				     c->positions, s->hidden);
		tensor_assign(m, &x, add(m, words, positions));
	}
	if (s->batch > 1)
		tensor_assign(m, &x, contiguous(m, x));
	if (c->token_types) {
		types = embedding(m, b->token_types, c->token_types, s->hidden);
		tensor_assign(m, &x, add(m, x, types));
		tensor_unref(m, &types);
	}
	if (s->sequence_parallel)
		tensor_assign(m, &x, tp_scatter(m, x, s->tp));
	tensor_assign(m, &x, dropout(m, x, s->hidden_dropout));
	/* variables of LanguageModelEmbedding.forward() */
	tensor_unref(m, &words);
	tensor_unref(m, &positions);
	return x;
}

/* vocab_parallel_cross_entropy: the logits in fp32 are replaced by their exponentials, which are
 * saved and become the gradient. */
static void cross_entropy_backward(struct machine *m, struct grad_node *n)
{
	(void)m;
	n->out[0] = tensor_ref(n->saved[0]);
}

/* The temporaries of each token; *mask and *target remain for the gradient. */
static tensor losses_of(struct machine *m, int64_t rows, tensor *mask, tensor *target)
{
	tensor most = tensor_new(m, rows, F32), some = tensor_new(m, rows, I64), positions, sum,
	       logits, out;

	tensor_unref(m, &some);
	some = tensor_new(m, rows, BOOL);
	out = tensor_new(m, rows, BOOL);
	*mask = tensor_new(m, rows, BOOL);
	tensor_unref(m, &some);
	tensor_unref(m, &out);
	some = tensor_new(m, rows, I64);
	*target = tensor_new(m, rows, I64);
	tensor_unref(m, &some);
	positions = tensor_new(m, rows, I64);
	some = tensor_new(m, rows, F32);
	logits = tensor_new(m, rows, F32);
	tensor_unref(m, &some);
	sum = tensor_new(m, rows, F32);
	tensor_unref(m, &positions);
	some = tensor_new(m, rows, F32);
	out = tensor_new(m, rows, F32);
	tensor_unref(m, &some);
	tensor_unref(m, &sum);
	tensor_unref(m, &logits);
	tensor_unref(m, &most);
	return out;
}

static tensor parallel_cross_entropy(struct machine *m, struct megatron_rank *r, tensor logits)
{
	tensor precise = to(m, logits, F32), mask, target, out, exponentials;
	struct grad_node *n = grad_node_new(m, cross_entropy_backward, &precise, 1);

	if (r->s->fused_loss) {
		/* the compiled function does nothing in place */
		exponentials = with_grad_fn(tensor_new(m, precise.n, F32), n, 0);
		tensor_unref(m, &precise);
		precise = exponentials;
		precise.grad_fn = NULL;
	}
	out = losses_of(m, r->rows, &mask, &target);
	save_for_backward(m, n, precise);
	save_for_backward(m, n, mask);
	save_for_backward(m, n, target);
	tensor_unref(m, &mask);
	tensor_unref(m, &target);
	tensor_unref(m, &precise);
	return with_grad_fn(out, n, 0);
}

/* The gradients of the tokens' losses, and of the scores of BERT's order of sentences. */
static void mean_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->sizes[0], n->in[0].type);
	if (n->edge[1])
		n->out[1] = tensor_new(m, n->sizes[1], n->type);
}

tensor token_losses(struct machine *m, struct model_chunk *c, tensor x, tensor *logits)
{
	struct megatron_rank *r = c->rank;
	tensor labels = none, out, in = sharded_before(m, c, SHARDED_OUTPUT, x);

	m->current_term = TERM_LOGITS;
	tensor_assign(m, logits,
		      mcore_linear(m, r, in, c->output, c->output_bias, 1, r->s->defers));
	tensor_unref(m, &in);
	sharded_after(m, c, SHARDED_OUTPUT, logits);
	m->phase = LOSS;
	m->current_term = TERM_LOSS;
	if (r->s->batch > 1) /* [b, s] to [s, b] */
		labels = tensor_new(m, r->rows, I64);
	out = parallel_cross_entropy(m, r, *logits);
	tensor_unref(m, &labels);
	return out;
}

tensor chunk_loss(struct machine *m, struct model_chunk *c, tensor x)
{
	tensor logits = none, out, in[2] = { none, none }, words;
	struct grad_node *n;

	m->current_term = TERM_LOGITS;
	in[1] = bert_order(m, c, x);
	words = bert_head(m, c, x);
	in[0] = token_losses(m, c, words, &logits);
	tensor_unref(m, &words);
	tensor_unref(m, &logits);
	sharded_end(m, c, &in[0]);
	n = grad_node_new(m, mean_backward, in, 2);
	if (n) {
		n->sizes[0] = in[0].n;
		n->sizes[1] = in[1].n;
		n->type = in[1].type;
	}
	out = with_grad_fn(tensor_new(m, 1, F32), n, 0);
	tensor_unref(m, &in[0]);
	tensor_unref(m, &in[1]);
	return out;
}

/* ---- rope_utils.py ---- */

/* Cosine or sine of the positions in fp32, then in the heads' type. */
static tensor table(struct machine *m, int64_t frequencies, enum dtype type)
{
	tensor first = tensor_new(m, frequencies, F32), scaled = tensor_new(m, frequencies, F32),
	       out;

	tensor_unref(m, &first);
	out = type == F32 ? tensor_ref(scaled) : tensor_new(m, frequencies, type);
	tensor_unref(m, &scaled);
	return out;
}

tensor apply_rotary(struct machine *m, tensor x, int64_t frequencies)
{
	const int64_t halves[2] = { x.n / 2, x.n / 2 };
	tensor cosine = table(m, frequencies, x.type), sine = table(m, frequencies, x.type);
	tensor a = mul(m, x, cosine), b, half[2];

	split(m, x, half, halves, 2);
	tensor_assign(m, &half[1], scale(m, half[1]));
	b = cat(m, half[1], half[0]);
	tensor_unref(m, &half[1]);
	tensor_unref(m, &half[0]);
	tensor_assign(m, &b, mul(m, b, sine));
	half[0] = add(m, a, b);
	tensor_unref(m, &b);
	tensor_unref(m, &a);
	a = contiguous(m, half[0]);
	tensor_unref(m, &half[0]);
	tensor_unref(m, &sine);
	tensor_unref(m, &cosine);
	return a;
}
