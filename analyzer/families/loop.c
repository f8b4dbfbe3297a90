#include "families/loop.h"

#include "torch/autocast.h"
#include "torch/ops.h"
#include "torch/streams.h"

#include "util/util.h"

void loop_loaded(struct machine *m, const struct hparams *s)
{
	if (s->defaults->made_on_host)
		return;
	allocator_empty_cache(m->allocator);
	machine_forget_peak(m);
}

void text_batch(struct machine *m, const struct hparams *s, struct loop *loop)
{
	const int64_t tokens = s->encoder_layers ? s->encoder_tokens : s->tokens;

	tensor_assign(m, &loop->tokens, tensor_new_as(m, TERM_INPUTS, s->batch * tokens, I64));
	host_wait(m, m->stream); /* the copy from host memory is synchronous */
}

/* The logits in fp32; the labels with one more column, b x (s + 1), of which the first is dropped,
 * by a copy unless the batch is one row. */
tensor causal_loss(struct machine *m, const struct hparams *s, tensor logits, tensor labels)
{
	tensor precise, padded, shifted, loss;

	m->phase = LOSS;
	m->current_term = TERM_LOSS;
	precise = to(m, logits, F32);
	padded = tensor_new_as(m, TERM_INPUTS, labels.n + s->batch, I64);
	shifted = s->batch > 1 ? tensor_new_as(m, TERM_INPUTS, labels.n, I64)
			       : slice(m, padded, labels.n);
	loss = cross_entropy(m, precise, shifted);
	tensor_unref(m, &precise);
	tensor_unref(m, &padded);
	tensor_unref(m, &shifted);
	return loss;
}

void loop_micro_batch(struct machine *m, const struct loop_model *parts, void *model)
{
	struct wrapper *w = parts->wrapper;
	const struct hparams *s = w->hparams;
	struct loop *loop = parts->loop;
	struct tape tape = { .last = NULL };
	tensor logits = none, loss;

	m->tape = &tape;
	m->phase = FORWARD;
	parts->batch(m, s, loop);
	wrapper_before_forward(m, w);
	if (s->autocast)
		begin_autocast(m, s->autocast);
	loss = parts->forward(m, model, &logits);
	end_autocast(m);
	if (s->precise_outputs && s->autocast)
		tensor_assign(m, &logits, to(m, logits, F32));
	wrapper_after_forward(m, w);
	if (!s->keep_logits) {
		tensor_unref(m, &logits);
		tensor_unref(m, &loop->beside);
	}
	tensor_assign(m, &loop->logits, logits);
	for (size_t i = 0; i < ARRAY_SIZE(loop->kept); i++)
		tensor_unref(m, &loop->kept[i]);
	loop->kept[0] = loop->beside;
	loop->beside = none;
	tensor_assign(m, &loop->loss, loss);
	if (s->microbatches > 1)
		loss = scale(m, loss);
	else
		tensor_ref(loss);
	tensor_assign(m, &loss, wrapper_scaled(m, w, loss));
	wrapper_before_backward(m, w);
	m->unreferenced = parts->release;
	m->referring = model;
	loss_backward(m, &tape, loss);
	m->unreferenced = NULL;
	tensor_unref(m, &loss);
	if (parts->release)
		parts->release(m, model);
	wrapper_after_backward(m, w);
	tensor_set_term(m, loop->logits, TERM_OLD_LOGITS);
}
