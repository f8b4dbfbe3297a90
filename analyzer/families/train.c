#include "families/train.h"

#include "torch/checkpoint.h"

tensor train_layer(struct machine *m, struct wrapper *w, int64_t i,
		   tensor (*block)(struct machine *m, void *layer, tensor x), void *layer, tensor x)
{
	tensor in = wrapper_before_block(m, w, i, x), out;

	out = w->hparams->recompute == RECOMPUTE_FULL ? checkpointed(m, block, layer, in)
						      : block(m, layer, in);
	tensor_unref(m, &in);
	wrapper_after_block(m, w, i, &out);
	return out;
}

void train(struct machine *m, const struct hparams *s, const struct trained_model *t, void *model)
{
	m->phase = INIT;
	wrapper_init(t->wrapper, s);
	t->make(m, model);
	wrapper_start(m, t->wrapper);
	if (t->loaded)
		t->loaded(m, model);
	wrapper_train(m, t->wrapper, t->micro_batch, model);
	wrapper_release(t->wrapper);
}
