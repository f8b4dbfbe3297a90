/* Activation recomputation: a checkpointed region saves nothing in its first run, and runs again in
 * the backward pass to save its tensors. */
#include "torch/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/module.h"
#include "util/util.h"

/* ---- torch.utils.checkpoint, use_reentrant=False ---- */

struct checkpoint {
	tensor (*run)(struct machine *m, void *context, tensor input);
	void *context;
	tensor input, others[CHECKPOINT_ARGUMENTS];
	size_t other_count;
	struct grad_node **saves; /* the node of each saved tensor, in order */
	size_t count, room, seen;
	int done, refs;
	enum dtype autocast;
};

/* The second run of the region: its tensors go to the nodes of the first run. They are detached: a
 * parameter is saved as it is now. */
static void pack_again(struct machine *m, struct grad_node *n, tensor t)
{
	struct checkpoint *c = m->checkpoint;

	n = c->saves[c->seen++];
	m->stopped = c->seen == c->count;
	node_keep(n,
		  t.grad_fn && t.grad_fn->param ? param_view(m, t.grad_fn->param) : tensor_ref(t));
}

static void unpack(struct machine *m, struct grad_node *n)
{
	struct checkpoint *c = n->packed;
	struct tape scrap = { 0 }, *tape = m->tape;
	enum dtype autocast = m->autocast;
	tensor input, out;

	if (c->done)
		return;
	c->done = 1;
	input = tensor_ref(c->input);
	m->tape = &scrap;
	m->checkpoint = c;
	m->pack = pack_again;
	m->replaying = 1;
	m->autocast = c->autocast;
	out = c->run(m, c->context, input);
	m->stopped = 0;
	m->checkpoint = NULL;
	m->pack = NULL;
	m->replaying = 0;
	tensor_unref(m, &out);
	tensor_unref(m, &input);
	clear_autocast(m);
	m->autocast = autocast;
	tape_free(m, &scrap);
	m->tape = tape;
}

static void release(struct machine *m, struct grad_node *n)
{
	struct checkpoint *c = n->packed;

	if (--c->refs)
		return;
	tensor_unref(m, &c->input);
	for (size_t i = 0; i < c->other_count; i++)
		tensor_unref(m, &c->others[i]);
	free(c->saves);
	free(c);
	if (!--m->checkpoints && m->unreferenced)
		m->unreferenced(m, m->referring);
}

/* The first run: only the order of the saves is kept. */
static void pack(struct machine *m, struct grad_node *n, tensor t)
{
	static const struct saved_hooks hooks = { unpack, release };
	struct checkpoint *c = m->checkpoint;

	(void)t;
	c->saves = grow(c->saves, c->count, &c->room, sizeof(struct grad_node *));
	c->saves[c->count++] = n;
	c->refs += !n->saved_hooks;
	n->saved_hooks = &hooks;
	n->packed = c;
}

void checkpoint_refers(struct machine *m, tensor t)
{
	struct checkpoint *c = m->checkpoint;

	if (!c || m->replaying || !t.storage)
		return;
	if (c->other_count == CHECKPOINT_ARGUMENTS)
		BUG("a checkpointed region has too many arguments");
	c->others[c->other_count++] = tensor_ref(t);
}

tensor checkpointed(struct machine *m, tensor (*run)(struct machine *, void *, tensor),
		    void *context, tensor input)
{
	struct checkpoint *c = xcalloc(1, sizeof(*c));
	tensor out;

	*c = (struct checkpoint){
		.run = run, .context = context, .input = tensor_ref(input), .autocast = m->autocast
	};
	tensor_set_term(m, input, TERM_CHECKPOINTS);
	m->checkpoint = c;
	m->checkpoints++;
	m->pack = pack;
	out = run(m, context, input);
	m->checkpoint = NULL;
	m->pack = NULL;
	return out;
}

/* ---- use_reentrant=True ---- */

#define REENTRANT_CONTEXT 64

struct reentrant {
	tensor (*run)(struct machine *m, void *context, const tensor *in);
	int count;
	_Alignas(16) unsigned char context[REENTRANT_CONTEXT];
	struct param leaf[REENTRANT_INPUTS];
	struct input_ref *input_refs; /* one for each input; NULL: none */
};

void input_ref_clear(struct machine *m, struct input_ref *k)
{
	tensor_unref(m, &k->value);
	tensor_unref(m, &k->gradient);
}

static void reentrant_backward(struct machine *m, struct grad_node *n)
{
	struct reentrant *e = n->ctx;
	struct tape nested = { .last = NULL }, *tape = m->tape;
	tensor in[REENTRANT_INPUTS], out;

	for (int i = 0; i < e->count; i++) {
		e->leaf[i].value = n->saved[i];
		if (n->edge[i])
			param_init(&e->leaf[i]);
		else
			e->leaf[i].value.grad_fn = NULL;
		in[i] = e->leaf[i].value;
	}
	m->tape = &nested;
	out = e->run(m, e->context, in);
	backward(m, &nested, out, tensor_ref(n->in[0]));
	tensor_unref(m, &out);
	m->tape = tape;
	for (int i = 0; i < e->count; i++) {
		if (e->input_refs) {
			tensor_assign(m, &e->input_refs[i].value, tensor_ref(n->saved[i]));
			tensor_assign(m, &e->input_refs[i].gradient, tensor_ref(e->leaf[i].grad));
		}
		n->out[i] = e->leaf[i].grad;
		e->leaf[i].grad.storage = NULL;
	}
}

tensor checkpoint_reentrant(struct machine *m,
			    tensor (*run)(struct machine *, void *, const tensor *),
			    const void *context, size_t size, const tensor *in, int count)
{
	struct grad_node *n = grad_node_new(m, reentrant_backward, in, count);
	struct reentrant *e;
	tensor out;

	if (n) {
		e = n->ctx = xcalloc(1, sizeof(*e));
		e->run = run;
		e->count = count;
		memcpy(e->context, context, size);
	}
	for (int i = 0; i < count; i++)
		save_for_backward(m, n, in[i]);
	m->no_grad++;
	out = run(m, (void *)context, in);
	m->no_grad--;
	return with_grad_fn(out, n, 0);
}

void checkpoint_input_refs(tensor out, struct input_ref *input_refs)
{
	struct reentrant *e = out.grad_fn->ctx;

	e->input_refs = input_refs;
}

/* ---- outputs that are discarded ---- */

#define DISCARD_CONTEXT 32

struct discarded {
	struct discarded_region region;
	_Alignas(16) unsigned char context[DISCARD_CONTEXT];
	struct grad_node *node; /* the region's in the graph; NULL: there is no graph */
	struct tape tape;       /* the graph of the second run */
	struct param leaf[DISCARD_INPUTS];
	tensor out[DISCARD_OUTPUTS], again[DISCARD_OUTPUTS];
	enum term_id term;
};

static void discarded_backward(struct machine *m, struct grad_node *n)
{
	struct discarded *d = n->ctx;
	struct tape *tape = m->tape;
	int first = -1;

	m->tape = &d->tape;
	for (int i = d->region.outputs - 1; i >= 0; i--) {
		if (!n->in[i].storage)
			continue;
		if (first >= 0)
			node_receive(d->again[first].grad_fn, d->again[first].output_nr,
				     tensor_ref(n->in[first]));
		first = i;
	}
	if (first >= 0)
		backward(m, &d->tape, d->again[first], tensor_ref(n->in[first]));
	m->tape = tape;
	for (int i = 0; i < d->region.outputs; i++)
		tensor_unref(m, &d->again[i]);
	for (int i = 0; i < d->region.inputs; i++) {
		n->out[i] = d->leaf[i].grad;
		d->leaf[i].grad.storage = NULL;
	}
}

struct discarded *discardable(struct machine *m, const struct discarded_region *region,
			      const tensor *in, tensor *out)
{
	struct grad_node *n = grad_node_new(m, discarded_backward, in, region->inputs);
	struct discarded *d = xcalloc(1, sizeof(*d));

	if (region->size > sizeof(d->context))
		BUG("the context of a region is too large");
	d->region = *region;
	memcpy(d->context, region->context, region->size);
	d->node = n;
	d->term = m->current_term;
	for (int i = 0; i < region->inputs; i++)
		save_for_backward(m, n, in[i]);
	m->no_grad++;
	region->run(m, d->context, in, out);
	m->no_grad--;
	for (int i = 0; i < region->outputs; i++) {
		d->out[i] = tensor_ref(out[i]);
		out[i] = with_grad_fn(out[i], n, i);
	}
	if (n)
		n->ctx = d;
	return d;
}

/* CheckpointWithoutOutput._recompute(), the hook of a gradient */
static void compute_again(struct machine *m, struct grad_node *n)
{
	struct discarded *d = n->hook;
	struct tape *tape = m->tape;
	tensor in[DISCARD_INPUTS];

	n->out[0] = tensor_ref(n->in[0]);
	if (d->node->saved_hooks)
		d->node->saved_hooks->unpack(m, d->node);
	for (int i = 0; i < d->region.inputs; i++) {
		in[i] = d->leaf[i].value = d->node->saved[i];
		param_init(&d->leaf[i]);
		in[i].grad_fn = d->node->edge[i] ? &d->leaf[i].accumulate : NULL;
		in[i].output_nr = 0;
	}
	m->tape = &d->tape;
	m->current_term = d->term;
	d->region.run(m, d->context, in, d->again);
	m->tape = tape;
	for (int i = 0; i < d->region.outputs; i++) {
		if (d->out[i].storage)
			storage_fill(m, d->out[i], d->out[i].type);
		tensor_unref(m, &d->out[i]);
	}
}

void discard_outputs(struct machine *m, struct discarded *d, tensor *behind)
{
	struct grad_node *n;

	if (!d)
		return;
	for (int i = 0; i < d->region.outputs; i++)
		storage_empty(m, d->out[i]);
	n = d->node ? grad_node_new(m, compute_again, behind, 1) : NULL;
	if (n) {
		n->hook = d;
		*behind = with_grad_fn(*behind, n, 0);
		return;
	}
	for (int i = 0; i < d->region.outputs; i++)
		tensor_unref(m, &d->out[i]);
	if (!d->node)
		free(d);
}
