#include "torch/streams.h"
#include "distributed/zero3_coordinator.h"
#include "distributed/wrapper.h"

#include <stdlib.h>

#include "util/util.h"

#define MAX_MICROBATCHES_RUN 4

void wrapper_init(struct wrapper *w, const struct hparams *s)
{
	*w = (struct wrapper){ .hparams = s, .module.partitions = s->zero_init ? s->dp : 0 };
	w->first = xcalloc((size_t)s->layers + 1, sizeof(*w->first));
}

void wrapper_start(struct machine *m, struct wrapper *w)
{
	const struct hparams *s = w->hparams;

	if (s->wrapper == ZERO3)
		zero3_wrap(m, &w->zero3, s, &w->module);
	else if (s->wrapper == ZERO)
		zero_wrap(m, &w->zero, s, &w->module);
	else if (is_fsdp(s))
		fsdp_wrap(m, &w->fsdp, s, &w->module, w->first, (size_t)s->layers);
	else if (s->wrapper == DDP)
		ddp_wrap(m, &w->ddp, s, &w->module);
	optimizer_init(m, &w->optimizer, s, &w->module);
}

/* deepspeed/utils/timer.py: ThroughputTimer, start_step. */
#define TIMED_SINCE 2

/* DeepSpeed's timer waits for the device at the beginning and the end of each step after the first
 * two. */
static void time_step(struct machine *m, const struct wrapper *w)
{
	if (has_engine(w->hparams) && m->step >= TIMED_SINCE)
		host_wait_all(m);
}

void wrapper_before_forward(struct machine *m, struct wrapper *w)
{
	time_step(m, w);
	if (is_fsdp(w->hparams))
		fsdp_root_before(m, &w->fsdp);
	else if (m->zero3)
		zero3_before_forward(m, m->zero3);
	else
		ddp_forward(m, &w->ddp);
}

void wrapper_after_forward(struct machine *m, struct wrapper *w)
{
	if (is_fsdp(w->hparams))
		fsdp_root_after(m, &w->fsdp);
}

tensor wrapper_before_block(struct machine *m, struct wrapper *w, int64_t i, tensor x)
{
	return is_fsdp(w->hparams) ? fsdp_before(m, &w->fsdp.units[i], x) : tensor_ref(x);
}

void wrapper_after_block(struct machine *m, struct wrapper *w, int64_t i, tensor *out)
{
	if (is_fsdp(w->hparams))
		tensor_assign(m, out, fsdp_after(m, &w->fsdp.units[i], *out));
}

void wrapper_before_backward(struct machine *m, struct wrapper *w)
{
	if (is_fsdp(w->hparams))
		fsdp_start_backward(m, &w->fsdp);
}

void wrapper_after_backward(struct machine *m, struct wrapper *w)
{
	if (is_fsdp(w->hparams))
		fsdp_finish(m, &w->fsdp);
	tensor_unref(m, &w->mean_loss);
}

tensor wrapper_scaled(struct machine *m, struct wrapper *w, tensor loss)
{
	if (has_engine(w->hparams)) {
		/* DeepSpeedEngine.backward: / gradient_accumulation_steps, scale_if_loss */
		m->current_term = TERM_LOSS;
		w->mean_loss = loss_times(m, loss);
		return loss_times(m, w->mean_loss);
	}
	return w->hparams->grad_scaler ? grad_scaler_scale(m, &w->scaler, loss) : tensor_ref(loss);
}

static void optimizer_steps(struct machine *m, struct wrapper *w)
{
	if (w->hparams->clip > 0)
		clip_gradients(m, &w->module);
	if (w->hparams->grad_scaler)
		grad_scaler_unscale(m, &w->scaler);
	optimizer_step(m, &w->optimizer);
	grad_scaler_update(m, &w->scaler);
}

static void engine_step(struct machine *m, struct wrapper *w)
{
	if (m->zero3)
		zero3_step(m, &w->zero3);
	else
		zero_step(m, &w->zero);
	time_step(m, w);
}

static void clear_gradients(struct machine *m, struct wrapper *w)
{
	if (w->hparams->keep_gradients)
		return;
	zero_grad(m, &w->module);
	if (is_fsdp(w->hparams))
		fsdp_zero_grad(m, &w->fsdp);
}

static void step(struct machine *m, struct wrapper *w)
{
	if (has_engine(w->hparams))
		engine_step(m, w);
	else
		optimizer_steps(m, w);
	clear_gradients(m, w);
	machine_steady(m);
}

/* Runs few micro-batches of a step: the first one allocates the gradients, the others add to them
 * and do not differ. */
void wrapper_train(struct machine *m, struct wrapper *w,
		   void (*micro_batch)(struct machine *m, void *model), void *model)
{
	int64_t count = w->hparams->microbatches;

	if (count > MAX_MICROBATCHES_RUN)
		count = MAX_MICROBATCHES_RUN;
	for (m->step = 0; machine_continues(m); m->step++) {
		for (int64_t i = 0; i < count; i++)
			micro_batch(m, model);
		step(m, w);
	}
}

void wrapper_release(struct wrapper *w)
{
	optimizer_release(&w->optimizer);
	ddp_release(&w->ddp);
	fsdp_release(&w->fsdp);
	zero_release(&w->zero);
	zero3_release(&w->zero3);
	module_release(&w->module);
	free(w->first);
}

/* The other optimizers cannot update FSDP2's shards (DTensor); FSDP1's shards are plain vectors. */
static void check_sharded(const struct hparams *s, struct inputs *in)
{
	int vectors =
		s->optimizer == ADAFACTOR || s->optimizer == LION || s->optimizer == ADAM_8BIT;

	if (s->optimizer > ADAGRAD && !(s->wrapper == FSDP1 && vectors))
		input_reject(
			in, CONFIG_optimizer,
			"adam, adamw, sgd, rmsprop or adagrad, or with fsdp_version 1 adafactor, lion or "
			"adam8bit: others do not step shards, or are not modelled yet");
}

void wrapper_check(const struct hparams *s, struct inputs *in)
{
	if (has_engine(s))
		zero_check(s, in);
	else if (is_fsdp(s))
		check_sharded(s, in);
	else if (s->zero == 1 || s->zero == 2)
		input_reject(in, CONFIG_zero_stage, "0 or 3 (FSDP), or framework deepspeed");
}
