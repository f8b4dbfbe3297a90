/* The ends of a Megatron-core model: its embedding, its output layer and the loss. */
#include "families/megatron.h"

/* weight[tokens]: index_put_with_sort_kernel() adds up a copy of the gradient in sorted order. */
static void indexed_backward(struct machine *m, struct node *n)
{
	tensor linear = make(m, n->sizes[1], I64), sorted, origin, copy;

	n->out[0] = make(m, n->sizes[0], n->in[0].type);
	sorted = make(m, n->sizes[1], I64);
	origin = make(m, n->sizes[1], I64);
	copy = make(m, n->in[0].n, n->in[0].type);
	drop(m, &copy);
	drop(m, &linear);
	drop(m, &sorted);
	drop(m, &origin);
}

static tensor indexed(struct machine *m, tensor tokens, struct param *weight, int64_t width)
{
	struct node *n = record(m, indexed_backward, &weight->value, 1);

	if (n) {
		n->sizes[0] = weight->value.n;
		n->sizes[1] = tokens.n;
		save(m, n, tokens);
	}
	return result(make(m, tokens.n * width, weight->value.type), n, 0);
}

/* VocabParallelEmbedding */
static tensor embedded(struct machine *m, struct rank *r, tensor tokens, struct param *weight)
{
	tensor mask = none, mine = hold(tokens), x;

	if (r->s->tp > 1) {
		mask = make(m, tokens.n, BOOL);
		let(m, &mine, make(m, tokens.n, I64));
	}
	x = r->s->deterministic ? indexed(m, mine, weight, r->s->hidden)
				: embedding(m, mine, weight, r->s->hidden);
	drop(m, &mine);
	/* output_parallel[input_mask, :] = 0, in place; its gradient is not */
	if (r->s->tp > 1)
		let(m, &x, copied_back(m, x));
	drop(m, &mask);
	return x;
}

tensor chunk_embed(struct machine *m, struct chunk *c, struct microbatch *b)
{
	struct rank *r = c->rank;
	const struct shape *s = r->s;
	tensor words, positions = none, x;

	m->as = TERM_EMBEDDED;
	words = embedded(m, r, b->tokens, c->tokens);
	x = hold(words);
	if (c->positions) {
		positions = embedding(m, b->positions, c->positions, s->hidden);
		let(m, &x, add(m, words, positions));
	}
	if (s->batch > 1)
		let(m, &x, contiguous(m, x));
	if (s->sequence_parallel)
		let(m, &x, scattered(m, x, s->tp));
	let(m, &x, dropout(m, x, s->hidden_dropout));
	/* variables of LanguageModelEmbedding.forward() */
	drop(m, &words);
	drop(m, &positions);
	return x;
}

/* vocab_parallel_cross_entropy: fp32 logits, whose exponentials in place are kept and become the
 * gradient. */
static void cross_entropy_backward(struct machine *m, struct node *n)
{
	(void)m;
	n->out[0] = hold(n->saved[0]);
}

/* What is computed of each token, until the gradient needs no more than mask and target. */
static tensor losses_of(struct machine *m, int64_t rows, tensor *mask, tensor *target)
{
	tensor most = make(m, rows, F32), some = make(m, rows, I64), positions, sum, logits, out;

	drop(m, &some);
	some = make(m, rows, BOOL);
	out = make(m, rows, BOOL);
	*mask = make(m, rows, BOOL);
	drop(m, &some);
	drop(m, &out);
	some = make(m, rows, I64);
	*target = make(m, rows, I64);
	drop(m, &some);
	positions = make(m, rows, I64);
	some = make(m, rows, F32);
	logits = make(m, rows, F32);
	drop(m, &some);
	sum = make(m, rows, F32);
	drop(m, &positions);
	some = make(m, rows, F32);
	out = make(m, rows, F32);
	drop(m, &some);
	drop(m, &sum);
	drop(m, &logits);
	drop(m, &most);
	return out;
}

static tensor parallel_cross_entropy(struct machine *m, struct rank *r, tensor logits)
{
	tensor precise = to(m, logits, F32), mask, target, out, exponentials;
	struct node *n = record(m, cross_entropy_backward, &precise, 1);

	if (r->s->fused_loss) {
		/* compiled: nothing is done in place */
		exponentials = result(make(m, precise.n, F32), n, 0);
		drop(m, &precise);
		precise = exponentials;
		precise.from = NULL;
	}
	out = losses_of(m, r->rows, &mask, &target);
	save(m, n, precise);
	save(m, n, mask);
	save(m, n, target);
	drop(m, &mask);
	drop(m, &target);
	drop(m, &precise);
	return result(out, n, 0);
}

static void mean_backward(struct machine *m, struct node *n)
{
	n->out[0] = make(m, n->sizes[0], n->in[0].type);
}

tensor token_losses(struct machine *m, struct chunk *c, tensor x, tensor *logits)
{
	struct rank *r = c->rank;
	tensor labels = none, out;

	m->as = TERM_LOGITS;
	let(m, logits, own_linear(m, r, x, c->output, NULL, 1, r->s->defers));
	m->phase = LOSS;
	m->as = TERM_LOSS;
	if (r->s->batch > 1) /* [b, s] to [s, b] */
		labels = make(m, r->rows, I64);
	out = parallel_cross_entropy(m, r, *logits);
	drop(m, &labels);
	return out;
}

tensor chunk_loss(struct machine *m, struct chunk *c, tensor x)
{
	tensor logits = none, out, all = token_losses(m, c, x, &logits);
	struct node *n;

	drop(m, &logits);
	n = record(m, mean_backward, &all, 1);
	if (n)
		n->sizes[0] = all.n;
	out = result(make(m, 1, F32), n, 0);
	drop(m, &all);
	return out;
}
