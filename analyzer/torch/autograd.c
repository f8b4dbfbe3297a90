/* The graph: recorded by the forward pass, run in the reverse order of recording, as PyTorch's
 * engine does. */
#include "torch/autograd.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

static struct node *new_node(struct machine *m)
{
	struct node *n = m->spare_nodes;

	if (n)
		m->spare_nodes = n->before;
	else
		n = xcalloc(1, sizeof(*n));
	memset(n, 0, sizeof(*n));
	n->before = m->tape->last;
	m->tape->last = n;
	return n;
}

struct node *record(struct machine *m, void (*gradient)(struct machine *, struct node *),
		    const tensor *inputs, int count)
{
	struct node *n;
	int wanted = 0;

	if (m->no_grad || m->stopped)
		return NULL;
	for (int i = 0; i < count; i++)
		wanted |= inputs[i].from != NULL;
	if (!wanted)
		return NULL;
	n = new_node(m);
	n->backward = gradient;
	n->term = m->as;
	n->in_graph = (unsigned char)m->in_graph;
	for (int i = 0; i < count; i++) {
		n->edge[i] = inputs[i].from;
		n->edge_output[i] = inputs[i].output;
	}
	return n;
}

void node_keep(struct node *n, tensor t)
{
	if (n->kept == NODE_SAVED)
		BUG("a node saves too many tensors");
	n->saved[n->kept++] = t;
}

void save(struct machine *m, struct node *n, tensor t)
{
	if (!n || !t.at || m->stopped)
		return;
	if (m->pack)
		m->pack(m, n, t);
	else
		node_keep(n, hold(t));
}

tensor result(tensor t, struct node *n, int output)
{
	t.from = n;
	t.output = output;
	return t;
}

tensor hooked(struct machine *m, tensor x, void (*gradient)(struct machine *, struct node *),
	      void *hook)
{
	struct node *n = record(m, gradient, &x, 1);

	if (n)
		n->hook = hook;
	return n ? result(hold(x), n, 0) : hold(x);
}

/* ---- backward ---- */

/* `g` is taken. PyTorch adds in place where nobody else has the first of them. */
static void add_gradient(struct machine *m, tensor *into, tensor g)
{
	tensor sum;

	if (!into->at) {
		*into = g;
		return;
	}
	if (into->at->refs > 1 || into->view) {
		sum = make(m, into->n, into->type);
		drop(m, into);
		*into = sum;
	}
	drop(m, &g);
}

static void accumulate(struct machine *m, struct param *p)
{
	tensor g = p->accumulate.in[0];

	p->accumulate.in[0] = (tensor){ .at = NULL };
	p->arrived = 0;
	if (p->grad.at) {
		drop(m, &g);
	} else if (g.at && g.at->refs > 1) {
		p->grad = make_as(m, TERM_GRADIENTS, g.n, g.type);
		drop(m, &g);
	} else {
		p->grad = g;
		retag(m, g, TERM_GRADIENTS);
	}
	if (m->on_gradient && p->in)
		m->on_gradient(m, p);
}

static void deliver(struct machine *m, struct node *n)
{
	int in_graph = m->in_graph;

	for (int i = 0; i < NODE_EDGES; i++) {
		struct node *to = n->edge[i];

		if (!to) {
			drop(m, &n->out[i]);
			continue;
		}
		m->in_graph = to->in_graph;
		if (n->out[i].at)
			add_gradient(m, &to->in[n->edge_output[i]], n->out[i]);
		m->in_graph = in_graph;
		n->out[i].at = NULL;
		if (to->param && ++to->param->arrived == to->param->expected)
			accumulate(m, to->param);
	}
}

void drop_saved(struct machine *m, struct node *n)
{
	for (int i = 0; i < n->kept; i++)
		drop(m, &n->saved[i]);
	n->kept = 0;
}

static void release_saved(struct machine *m, struct node *n)
{
	drop_saved(m, n);
	if (n->saved_hooks)
		n->saved_hooks->release(m, n);
	n->saved_hooks = NULL;
	free(n->ctx);
	n->ctx = NULL;
}

static void run(struct machine *m, struct node *n)
{
	int in_graph = m->in_graph;

	if (n->saved_hooks)
		n->saved_hooks->unpack(m, n);
	m->as = n->term == TERM_LOSS ? TERM_LOGITS_GRADIENT : TERM_GRADIENT_FLOW;
	m->in_graph = n->in_graph;
	n->backward(m, n);
	m->in_graph = in_graph;
	/* What a hook unpacked ends with the function, before its arguments do. */
	if (n->saved_hooks)
		drop_saved(m, n);
	for (int i = 0; i < NODE_EDGES; i++)
		drop(m, &n->in[i]);
	release_saved(m, n);
	deliver(m, n);
}

static void count_uses(struct tape *tape)
{
	for (struct node *n = tape->last; n; n = n->before)
		for (int i = 0; i < NODE_EDGES; i++)
			if (n->edge[i] && n->edge[i]->param)
				n->edge[i]->param->expected = 0;
	for (struct node *n = tape->last; n; n = n->before)
		for (int i = 0; i < NODE_EDGES; i++)
			if (n->edge[i] && n->edge[i]->param)
				n->edge[i]->param->expected++;
}

static void recycle(struct machine *m, struct tape *tape)
{
	struct node *n = tape->last;

	tape->last = n->before;
	n->before = m->spare_nodes;
	m->spare_nodes = n;
}

void backward(struct machine *m, struct tape *tape, tensor loss, tensor gradient)
{
	enum role as = m->as;
	int before = m->backward;

	m->backward = 1;
	count_uses(tape);
	loss.from->in[loss.output] = gradient;
	while (tape->last) {
		struct node *n = tape->last;
		int wanted = 0;

		for (int i = 0; i < NODE_EDGES; i++)
			wanted |= n->in[i].at != NULL;
		if (wanted)
			run(m, n);
		release_saved(m, n);
		recycle(m, tape);
	}
	m->backward = before;
	m->as = as;
}

void tape_free(struct machine *m, struct tape *tape)
{
	while (tape->last) {
		release_saved(m, tape->last);
		recycle(m, tape);
	}
}

void backward_from(struct machine *m, struct tape *tape, tensor loss)
{
	tensor one;

	m->phase = BACKWARD;
	m->as = TERM_GRADIENT_FLOW;
	one = make(m, 1, loss.type);
	backward(m, tape, loss, hold(one));
	drop(m, &one);
}

/* ---- parameters ---- */

void param_init(struct param *p)
{
	memset(&p->accumulate, 0, sizeof(p->accumulate));
	p->accumulate.param = p;
	p->value.from = &p->accumulate;
	p->value.output = 0;
}

void param_make(struct machine *m, struct param *p, int64_t out, int64_t in, enum dtype type,
		enum role term)
{
	memset(p, 0, sizeof(*p));
	p->in = in;
	p->role = term;
	p->value = make_as(m, term, out * in, type);
	param_init(p);
}
