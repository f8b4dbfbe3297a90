/* A micro-batch of a model of transformers, as its Trainer runs it: the model makes its own loss.
 */
#ifndef MEMTRACE_FAMILIES_LOOP_H
#define MEMTRACE_FAMILIES_LOOP_H

#include "distributed/wrapper.h"

/* Variables of the training loop. */
struct loop {
	tensor tokens, labels, logits, loss;
	/* What the outputs have beside the logits, of the forward pass that has just run; and, if
	 * the loop keeps the outputs, the same and a leaf of their graph with its gradient. */
	tensor beside, kept[3];
};

struct loop_model {
	struct wrapper *wrapper;
	struct loop *loop;
	/* Replaces the batch of the loop. */
	void (*batch)(struct machine *m, const struct hparams *s, struct loop *loop);
	/* The loss, and the logits; both are the caller's. */
	tensor (*forward)(struct machine *m, void *model, tensor *logits);
	/* Releases what the functions of checkpointed layers kept; NULL: nothing. */
	void (*release)(struct machine *m, void *model);
};

/* The forward and the backward pass of a micro-batch. */
void loop_micro_batch(struct machine *m, const struct loop_model *parts, void *model);
/* The job releases its cache after loading; the peak is that of the training. DeepSpeed loads the
 * model in host memory. */
void loop_loaded(struct machine *m, const struct hparams *s);

/* Token ids, b x s numbers of 64 bits, which are the labels too. */
void text_batch(struct machine *m, const struct hparams *s, struct loop *loop);

/* ForCausalLMLoss */
tensor causal_loss(struct machine *m, const struct hparams *s, tensor logits, tensor labels);

#endif
