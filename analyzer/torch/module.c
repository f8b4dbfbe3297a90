#include "torch/module.h"

#include <stdlib.h>

#include "torch/autograd.h"
#include "util/util.h"

struct param *module_add(struct machine *m, struct module *module, int64_t out, int64_t in,
			 enum dtype type, enum term_id term)
{
	struct param *p = xcalloc(1, sizeof(*p));

	if (module->partitions && type != F32) /* zero.Init converts the new fp32 parameter */
		scratch(m, out * in * dtype_width(F32));
	param_make(m, p, out, in, type, term);
	if (module->partitions) {
		p->partition = tensor_new_as(m, TERM_FLAT_WEIGHTS,
					     divide_up(p->value.n, module->partitions), type);
		storage_empty(m, p->value);
	}
	module->params =
		grow(module->params, module->count, &module->room, sizeof(*module->params));
	module->params[module->count++] = p;
	return p;
}

enum dtype initial_dtype(const struct hparams *s)
{
	return s->defaults->made_on_host ? s->weights : F32;
}

void module_convert(struct machine *m, struct module *module, enum dtype type)
{
	for (size_t i = 0; i < module->count; i++) {
		struct param *p = module->params[i];
		tensor now;

		if (p->value.type == type || !p->value.storage)
			continue;
		now = tensor_new_as(m, p->value.storage->term, p->value.n, type);
		tensor_assign(m, &p->value, now);
		param_init(p);
	}
}

void module_release(struct module *module)
{
	for (size_t i = 0; i < module->count; i++)
		free(module->params[i]);
	free(module->params);
}

/* ---- hooks ---- */

tensor module_enter(struct machine *m, struct param *weight, struct param *bias, tensor x)
{
	return m->module_hooks ? m->module_hooks->enter(m, weight, bias, x) : tensor_ref(x);
}

void module_leave(struct machine *m, struct param *weight, tensor *out)
{
	if (m->module_hooks)
		m->module_hooks->leave(m, weight, out);
}

tensor param_view(struct machine *m, struct param *p)
{
	return m->module_hooks ? m->module_hooks->view(m, p) : tensor_ref(p->value);
}
