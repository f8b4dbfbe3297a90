/* The hooks that ZeRO-3 installs around each module (parameter_offload.py), and its F.linear. */
#include "distributed/zero3_modules.h"

#include "distributed/zero3_coordinator.h"
#include "torch/autograd.h"
#include "torch/module.h"
#include "torch/ops.h"

/* ---- nn.Linear ---- */

/* LinearFunctionForZeroStage3. sizes: elements of x, weight, bias */
static void linear_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;

	if (n->edge[0])
		n->out[0] = gemm(m, n->sizes[0], type);
	if (n->edge[1])
		n->out[1] = gemm(m, n->sizes[1], type);
	if (n->edge[2])
		n->out[2] = sum_rows(m, n->sizes[2], n->in[0].n / n->sizes[2], type);
}

static tensor zero3_linear(struct machine *m, tensor x, tensor weight, int64_t width,
			   struct param *bias)
{
	tensor in[3] = { x, weight, bias ? bias->value : none }, out;
	int64_t elements = x.n / width * (weight.n / width);
	struct grad_node *n = grad_node_new(m, linear_backward, in, 3);

	if (bias && !config_has(m->zero3->hparams->config,
				CONFIG_num_attention_heads)) { /* a matrix input: addmm */
		out = biased(m, elements, x.type);
	} else {
		out = gemm(m, elements, x.type);
	}
	if (n) {
		n->sizes[0] = x.n;
		n->sizes[1] = weight.n;
		n->sizes[2] = bias ? bias->value.n : 0;
	}
	save_for_backward(m, n, x); /* setup_context runs after the product */
	save_for_backward(m, n, weight);
	return with_grad_fn(out, n, 0);
}

/* ---- modules ---- */

static void before_backward(struct machine *m, struct grad_node *n)
{
	zero3_fetch(m, m->zero3, n->hook);
	n->out[0] = tensor_ref(n->in[0]);
}

static void after_backward(struct machine *m, struct grad_node *n)
{
	zero3_release_params(m, m->zero3, n->hook);
	n->out[0] = tensor_ref(n->in[0]);
}

static tensor enter(struct machine *m, struct param *weight, struct param *bias, tensor x)
{
	if (m->stopped)
		return tensor_ref(x);
	if (weight && bias)
		weight->sharded->bias = bias;
	zero3_fetch(m, m->zero3, weight);
	return with_backward_hook(m, x, after_backward, weight);
}

static void leave(struct machine *m, struct param *weight, tensor *out)
{
	if (m->stopped)
		return;
	zero3_release_params(m, m->zero3, weight);
	if (out)
		tensor_assign(m, out, with_backward_hook(m, *out, before_backward, weight));
}

/* A view keeps the gathered weights after the module releases them: the parameter gets another
 * storage then (zero3_coordinator.c: release). */
static tensor view(struct machine *m, struct param *p)
{
	struct sharded_param *s = p->sharded;
	tensor t;

	if (!s || m->stopped || !p->value.storage)
		return tensor_ref(p->value);
	if (!s->views.storage)
		s->views = storage_like(m, p->value);
	t = p->value;
	t.storage = s->views.storage;
	return tensor_ref(t);
}

void zero3_hook_modules(struct machine *m)
{
	static const struct module_hooks hooks = { enter, leave, view, zero3_linear };

	m->module_hooks = &hooks;
}
