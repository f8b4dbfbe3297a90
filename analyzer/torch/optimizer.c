/* torch.optim: the states, which the first step allocates, and the temporaries of each step. */
#include "torch/optimizer.h"
#include "torch/ops.h"

#include <stdlib.h>

#include "util/util.h"

void optimizer_release(struct optimizer *o)
{
	free(o->states);
	o->states = NULL;
}

/* _foreach_norm: one element for each gradient and one for each 65536 elements; then the total norm
 * and the factor. */
void clip_gradients(struct machine *m, struct module *module)
{
	tensor *norms = xcalloc(module->count, sizeof(*norms)), chunks;
	int64_t most = 0;

	m->current_term = TERM_CLIP;
	for (size_t i = 0; i < module->count; i++)
		if (module->params[i]->grad.n > most)
			most = module->params[i]->grad.n;
	chunks = tensor_new(m, (int64_t)module->count * ((most + 65535) / 65536), F32);
	for (size_t i = 0; i < module->count; i++)
		norms[i] = tensor_new(m, 1, module->params[i]->grad.type);
	tensor_unref(m, &chunks);
	scratch(m, (int64_t)module->count * 4);
	for (size_t i = 0; i < module->count; i++)
		tensor_unref(m, &norms[i]);
	free(norms);
}

/* Elements of parameter i that this rank updates, and their type in *type. 0: none. */
static int64_t stepped(const struct optimizer *o, size_t i, enum dtype *type)
{
	const struct param *p = o->module->params[i];

	*type = p->shard ? o->sharded : p->value.type;
	if (p->shard)
		return p->shard < 0 ? 0 : p->shard;
	return p->grad.storage || p->in_bucket || o->hparams->optimizer == ADAGRAD ? p->value.n : 0;
}

static void make_states(struct machine *m, struct optimizer *o, size_t i)
{
	const struct hparams *s = o->hparams;
	struct optimizer_state *t = &o->states[i];
	enum dtype type;
	int64_t n = stepped(o, i, &type);

	if (!n || t->first.storage || t->second.storage || s->optimizer == SGD)
		return;
	if (s->optimizer != ADAM && (s->optimizer != MUON || muon_steps(o, i))) {
		make_other_state(m, o, i, n, type);
		return;
	}
	if (s->implementation == FUSED)
		t->step = tensor_new_as(m, TERM_STEPS, 1, F32);
	t->first = tensor_new_as(m, TERM_MOMENT1, n, type);
	t->second = tensor_new_as(m, TERM_MOMENT2, n, type);
}

void optimizer_init(struct machine *m, struct optimizer *o, const struct hparams *s,
		    struct module *module)
{
	o->hparams = s;
	o->module = module;
	o->sharded = s->weights;
	o->states = xcalloc(module->count, sizeof(*o->states));
	for (size_t i = 0; i < module->count && s->optimizer == ADAGRAD; i++)
		make_states(m, o, i); /* Adagrad's constructor allocates the states */
}

/* _foreach_sqrt of all second moments; updates are in place. */
static void foreach_adam(struct machine *m, struct optimizer *o)
{
	size_t count = o->module->count;
	tensor *roots = xcalloc(count, sizeof(*roots));

	m->current_term = TERM_STEP;
	for (size_t i = 0; i < count; i++)
		if (o->states[i].second.storage)
			roots[i] = tensor_new(m, o->states[i].second.n, o->states[i].second.type);
	for (size_t i = 0; i < count; i++)
		tensor_unref(m, &roots[i]);
	free(roots);
}

/* denom = (exp_avg_sq.sqrt() / sqrt(1 - beta2^t)).add_(eps) */
static void loop_adam(struct machine *m, struct optimizer *o)
{
	tensor denominator = { .storage = NULL };

	m->current_term = TERM_STEP;
	for (size_t i = 0; i < o->module->count; i++) {
		tensor root, quotient;

		if (!o->states[i].second.storage)
			continue;
		root = tensor_new(m, o->states[i].second.n, o->states[i].second.type);
		quotient = tensor_new(m, root.n, root.type);
		tensor_unref(m, &root);
		tensor_assign(m, &denominator, quotient);
	}
	tensor_unref(m, &denominator);
}

/* The momentum buffer is a copy of the first gradient. Nesterov's gradient + momentum * buffer is a
 * temporary of each parameter in turn; foreach adds in place. */
static void sgd(struct machine *m, struct optimizer *o)
{
	tensor ahead = { .storage = NULL };

	m->current_term = TERM_STEP;
	for (size_t i = 0; i < o->module->count && o->hparams->momentum > 0; i++) {
		struct optimizer_state *t = &o->states[i];
		enum dtype type;
		int64_t n = stepped(o, i, &type);

		tensor_unref(m, &ahead);
		if (n && !t->first.storage)
			t->first = tensor_new_as(m, TERM_MOMENTUM, n, type);
		if (n && o->hparams->nesterov && o->hparams->implementation == LOOP)
			ahead = tensor_new(m, n, type);
	}
	tensor_unref(m, &ahead);
}

void optimizer_step(struct machine *m, struct optimizer *o)
{
	m->phase = OPTIMIZER;
	for (size_t i = 0; i < o->module->count; i++)
		make_states(m, o, i);
	if (o->hparams->optimizer == SGD) {
		sgd(m, o);
		return;
	}
	if (o->hparams->optimizer != ADAM)
		other_step(m, o);
	if (o->hparams->optimizer != ADAM && o->hparams->optimizer != MUON)
		return;
	if (o->hparams->implementation == FOREACH)
		foreach_adam(m, o);
	else if (o->hparams->implementation == LOOP)
		loop_adam(m, o);
}

void flat_optimizer_step(struct machine *m, struct flat_optimizer *f, const struct hparams *s,
			 int64_t n)
{
	if (!f->optimizer.hparams) {
		f->param.shard = f->param.in = n;
		f->param.value.n = n;
		f->list[0] = &f->param;
		f->module = (struct module){ .params = f->list, .count = 1 };
		optimizer_init(m, &f->optimizer, s, &f->module);
		f->optimizer.sharded = F32;
	}
	optimizer_step(m, &f->optimizer);
}

void zero_grad(struct machine *m, struct module *module)
{
	for (size_t i = 0; i < module->count; i++)
		tensor_unref(m, &module->params[i]->grad);
}
