/* The two ends of a model: the embedding and the loss. */
#include "torch/ops.h"
#include "torch/module.h"

/* Embedding.cu: more than 3072 indices are sorted, and summed by segments; how many there are
 * depends on the data, so the most. */
static void embedding_backward(struct machine *m, struct node *n)
{
	int64_t count = n->sizes[1], rows = n->sizes[0] / n->sizes[2];
	int64_t partial = count / 10 + (count < rows ? count : rows);
	tensor sorted, origin, offsets, segments;

	if (count <= 3072) {
		n->out[0] = make(m, n->sizes[0], n->in[0].type);
		return;
	}
	sorted = make(m, count, I64);
	origin = make(m, count, I64);
	scratch(m, count * 8);
	n->out[0] = make(m, n->sizes[0], n->in[0].type);
	offsets = make(m, count, I64);
	segments = make(m, partial, I64);
	scratch(m, partial * n->sizes[2] * 4);
	drop(m, &segments);
	drop(m, &offsets);
	drop(m, &origin);
	drop(m, &sorted);
}

tensor embedding(struct machine *m, tensor tokens, struct param *weight, int64_t width)
{
	tensor in = module_enter(m, weight, NULL, tokens), out;
	struct node *n = record(m, embedding_backward, &weight->value, 1);

	if (n) {
		n->sizes[0] = weight->value.n;
		n->sizes[1] = tokens.n;
		n->sizes[2] = width;
		save(m, n, tokens);
	}
	out = result(make(m, tokens.n * width, weight->value.type), n, 0);
	drop(m, &in);
	module_leave(m, weight, &out);
	return out;
}

/* ---- loss ---- */

static void log_softmax_backward(struct machine *m, struct node *n)
{
	n->out[0] = make(m, n->in[0].n, n->type);
}

static void nll_backward(struct machine *m, struct node *n)
{
	n->out[0] = make(m, n->saved[0].n, n->saved[0].type);
}

/* cross_entropy_loss: log_softmax in the logits' type, its result in fp32 for nll_loss under
 * autocast. */
tensor cross_entropy(struct machine *m, tensor logits, tensor targets)
{
	struct node *n = record(m, log_softmax_backward, &logits, 1);
	tensor log_softmax = make(m, logits.n, logits.type), in_fp32, total, out;

	if (n)
		n->type = logits.type;
	save(m, n, log_softmax);
	log_softmax = result(log_softmax, n, 0);
	in_fp32 = m->autocast ? to(m, log_softmax, F32) : hold(log_softmax);
	n = record(m, nll_backward, &in_fp32, 1);
	save(m, n, in_fp32);
	save(m, n, targets);
	out = result(make(m, 1, in_fp32.type), n, 0);
	total = make(m, 1, in_fp32.type);
	save(m, n, total);
	drop(m, &total);
	drop(m, &in_fp32);
	drop(m, &log_softmax);
	return out;
}
