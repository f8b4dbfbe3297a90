#include "families/train.h"

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
