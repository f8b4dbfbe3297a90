/* torch.nn.Module: a model's parameters, and the hooks around a module's forward pass. */
#ifndef MEMTRACE_TORCH_MODULE_H
#define MEMTRACE_TORCH_MODULE_H

#include "torch/hparams.h"
#include "torch/machine.h"

/* A model's parameters in the order of model.parameters(). */
struct module {
	struct param **params;
	size_t count, room;
	int64_t partitions; /* zero.Init: number of partitions that each parameter is cut into when
			   it is made; 0: no zero.Init */
};
/* The type in which weights are allocated on the device: fp32, or the training's type if the
 * framework converts the model on the host. */
enum dtype initial_dtype(const struct hparams *s);
/* Allocates a parameter of out x in elements and appends it. */
struct param *module_add(struct machine *m, struct module *module, int64_t out, int64_t in,
			 enum dtype type, enum term_id term);
/* module.to(dtype): converts one parameter after the other. */
void module_convert(struct machine *m, struct module *module, enum dtype type);
void module_release(struct module *module);

/* ---- hooks ---- */

/* Hooks that a wrapper of the model installs around each module (register_forward_pre_hook,
 * register_forward_hook), and its F.linear. */
struct module_hooks {
	tensor (*enter)(struct machine *m, struct param *weight, struct param *bias, tensor x);
	void (*leave)(struct machine *m, struct param *weight, tensor *out);
	tensor (*view)(struct machine *m, struct param *p);
	tensor (*linear)(struct machine *m, tensor x, tensor weight, int64_t width,
			 struct param *bias);
};

/* Before the forward pass of a module with these parameters (NULL: none) and the input x. Returns
 * the input that the module sees, which the caller owns. */
tensor module_enter(struct machine *m, struct param *weight, struct param *bias, tensor x);
/* After the forward pass. *out, the module's output, is replaced; out NULL: no output. */
void module_leave(struct machine *m, struct param *weight, tensor *out);
/* A view of a parameter that outlives the module's forward pass; the caller owns it. */
tensor param_view(struct machine *m, struct param *p);

#endif
