/* The forward pass records the graph; the backward pass runs it in reverse order, as PyTorch's
 * engine does. */
#include "torch/autograd.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

static struct grad_node *new_node(struct machine *m)
{
	struct grad_node *n = m->spare_nodes;

	if (n)
		m->spare_nodes = n->before;
	else
		n = slabs_get(&m->nodes, sizeof(*n));
	memset(n, 0, offsetof(struct grad_node, out));
	n->before = m->tape->last;
	m->tape->last = n;
	return n;
}

struct grad_node *grad_node_new(struct machine *m,
				void (*gradient)(struct machine *, struct grad_node *),
				const tensor *inputs, int count)
{
	struct grad_node *n;
	int wanted = 0;

	if (m->no_grad || m->stopped)
		return NULL;
	for (int i = 0; i < count; i++)
		wanted |= inputs[i].grad_fn != NULL;
	if (!wanted)
		return NULL;
	n = new_node(m);
	n->backward = gradient;
	n->term = m->current_term;
	n->in_graph = (unsigned char)m->in_graph;
	for (int i = 0; i < count; i++) {
		n->edge[i] = inputs[i].grad_fn;
		n->edge_output[i] = inputs[i].output_nr;
		if (inputs[i].grad_fn && inputs[i].grad_fn->param)
			n->params |= (unsigned char)(1u << i);
	}
	return n;
}

void node_keep(struct grad_node *n, tensor t)
{
	if (n->kept == NODE_SAVED)
		BUG("a node saves too many tensors");
	n->saved[n->kept++] = t;
}

void save_for_backward(struct machine *m, struct grad_node *n, tensor t)
{
	if (!n || !t.storage || m->stopped)
		return;
	if (m->pack)
		m->pack(m, n, t);
	else
		node_keep(n, tensor_ref(t));
}

tensor with_grad_fn(tensor t, struct grad_node *n, int output)
{
	t.grad_fn = n;
	t.output_nr = (unsigned char)output;
	return t;
}

tensor with_backward_hook(struct machine *m, tensor x,
			  void (*gradient)(struct machine *, struct grad_node *), void *hook)
{
	struct grad_node *n = grad_node_new(m, gradient, &x, 1);

	if (n)
		n->hook = hook;
	return n ? with_grad_fn(tensor_ref(x), n, 0) : tensor_ref(x);
}

/* ---- backward ---- */

void node_receive(struct grad_node *n, int output, tensor gradient)
{
	n->in[output] = gradient;
	if (gradient.storage)
		n->received |= (unsigned char)(1u << output);
}

/* Adds the gradient `g` (taken) to *into. PyTorch adds in place if nothing else refers to *into. */
static void add_gradient(struct machine *m, tensor *into, tensor g)
{
	tensor sum;

	if (!into->storage) {
		*into = g;
		return;
	}
	if (into->storage->refs > 1 || into->view) {
		sum = tensor_new(m, into->n, into->type);
		tensor_unref(m, into);
		*into = sum;
	}
	tensor_unref(m, &g);
}

static void accumulate(struct machine *m, struct param *p)
{
	tensor g = p->accumulate.in[0];

	p->accumulate.in[0] = (tensor){ .storage = NULL };
	if (p->grad.storage) {
		tensor_unref(m, &g);
	} else if (g.storage && g.storage->refs > 1) {
		p->grad = tensor_new_as(m, TERM_GRADIENTS, g.n, g.type);
		tensor_unref(m, &g);
	} else {
		p->grad = g;
		tensor_set_term(m, g, TERM_GRADIENTS);
	}
	if (m->on_gradient && p->in)
		m->on_gradient(m, p);
}

/* One of the nodes that use a parameter is done; after the last one its gradient is complete. */
static void arrive(struct machine *m, struct param *p)
{
	if (++p->arrived < p->expected)
		return;
	p->arrived = 0;
	if (p->accumulate.in[0].storage)
		accumulate(m, p);
}

static int leads_to_param(const struct grad_node *n, int edge)
{
	return n->edge[edge] && n->params >> edge & 1;
}

/* A node that gets no gradient passes none on. */
static void pass_by(struct machine *m, struct grad_node *n)
{
	for (int i = 0; n->params && i < NODE_EDGES; i++)
		if (leads_to_param(n, i))
			arrive(m, n->edge[i]->param);
}

static void deliver(struct machine *m, struct grad_node *n)
{
	int in_graph = m->in_graph;

	for (int i = 0; i < NODE_EDGES; i++) {
		struct grad_node *to = n->edge[i];

		if (!to) {
			tensor_unref(m, &n->out[i]);
			continue;
		}
		m->in_graph = to->in_graph;
		if (n->out[i].storage) {
			add_gradient(m, &to->in[n->edge_output[i]], n->out[i]);
			to->received |= (unsigned char)(1u << n->edge_output[i]);
		}
		m->in_graph = in_graph;
		n->out[i].storage = NULL;
		if (leads_to_param(n, i))
			arrive(m, to->param);
	}
}

/* Unpacked tensors are variables of the function, which C++ destroys from the last to the first. */
void node_clear_saved(struct machine *m, struct grad_node *n)
{
	for (int i = 0; i < n->kept; i++)
		tensor_unref(m, &n->saved[n->saved_hooks ? n->kept - 1 - i : i]);
	n->kept = 0;
}

static void release_saved(struct machine *m, struct grad_node *n)
{
	node_clear_saved(m, n);
	if (n->saved_hooks)
		n->saved_hooks->release(m, n);
	n->saved_hooks = NULL;
	free(n->ctx);
	n->ctx = NULL;
}

static void clear_received(struct machine *m, struct grad_node *n)
{
	for (int i = 0; n->received >> i; i++)
		tensor_unref(m, &n->in[i]);
	n->received = 0;
}

static void run(struct machine *m, struct grad_node *n)
{
	int in_graph = m->in_graph;

	if (n->saved_hooks)
		n->saved_hooks->unpack(m, n);
	m->current_term = n->term == TERM_LOSS ? TERM_LOGITS_GRADIENT : TERM_GRADIENT_FLOW;
	m->in_graph = n->in_graph;
	n->backward(m, n);
	m->in_graph = in_graph;
	/* Unpacked tensors are freed with the function, before its arguments. */
	if (n->saved_hooks)
		node_clear_saved(m, n);
	clear_received(m, n);
	release_saved(m, n);
	deliver(m, n);
}

/* A node that does not run. */
static void drop(struct machine *m, struct grad_node *n)
{
	if (!m->out_of_memory)
		pass_by(m, n);
	clear_received(m, n);
	release_saved(m, n);
}

/* With many micro-batches in flight the graph of the oldest one is no longer in the processor's
 * caches. The backward pass asks for its nodes, what they saved and the blocks of that before it
 * reads them. */
static void fetch_node(const struct grad_node *n)
{
	for (size_t i = 0; i < sizeof(*n); i += CACHE_LINE)
		__builtin_prefetch((const char *)n + i);
}

static void fetch_storages(const struct grad_node *n)
{
	for (int i = 0; i < n->kept; i++)
		__builtin_prefetch(n->saved[i].storage);
}

static void fetch_blocks(const struct grad_node *n)
{
	for (int i = 0; n && i < n->kept; i++)
		if (n->saved[i].storage)
			__builtin_prefetch(n->saved[i].storage->block);
}

static void count_uses(struct tape *tape)
{
	for (struct grad_node *n = tape->last; n; n = n->before) {
		fetch_node(n);
		for (int i = 0; n->params && i < NODE_EDGES; i++)
			if (leads_to_param(n, i))
				n->edge[i]->param->expected = 0;
	}
	for (struct grad_node *n = tape->last; n; n = n->before) {
		fetch_storages(n);
		for (int i = 0; n->params && i < NODE_EDGES; i++)
			if (leads_to_param(n, i))
				n->edge[i]->param->expected++;
	}
}

static void recycle(struct machine *m, struct tape *tape)
{
	struct grad_node *n = tape->last;

	tape->last = n->before;
	n->before = m->spare_nodes;
	m->spare_nodes = n;
}

void backward(struct machine *m, struct tape *tape, tensor loss, tensor gradient)
{
	enum term_id term = m->current_term;
	int before = m->backward;

	m->backward = 1;
	count_uses(tape);
	node_receive(loss.grad_fn, loss.output_nr, gradient);
	while (tape->last) {
		struct grad_node *n = tape->last;

		fetch_blocks(n->before);
		if (n->received && !m->out_of_memory)
			run(m, n);
		else
			drop(m, n);
		recycle(m, tape);
	}
	m->backward = before;
	m->current_term = term;
}

void tape_free(struct machine *m, struct tape *tape)
{
	while (tape->last) {
		release_saved(m, tape->last);
		recycle(m, tape);
	}
}

void loss_backward(struct machine *m, struct tape *tape, tensor loss)
{
	tensor one;

	m->phase = BACKWARD;
	m->current_term = TERM_GRADIENT_FLOW;
	one = tensor_new(m, 1, loss.type);
	backward(m, tape, loss, tensor_ref(one));
	tensor_unref(m, &one);
}

/* ---- parameters ---- */

void param_init(struct param *p)
{
	memset(&p->accumulate, 0, sizeof(p->accumulate));
	p->accumulate.param = p;
	p->value.grad_fn = p->frozen ? NULL : &p->accumulate;
	p->value.output_nr = 0;
}

void param_make(struct machine *m, struct param *p, int64_t out, int64_t in, enum dtype type,
		enum term_id term)
{
	memset(p, 0, sizeof(*p));
	p->in = in;
	p->term = term;
	p->value = tensor_new_as(m, term, out * in, type);
	param_init(p);
}
