/* Recomputation: what a checkpointed region saves is thrown away, and made again by running the
 * region once more. */
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
	tensor input;
	struct node **saves; /* whose tensor each save is, in order */
	size_t count, room, seen;
	int done, refs;
	enum dtype autocast;
};

/* The second run of the region: its tensors go to the nodes of the first. What is made again is
 * kept detached: it holds what a parameter was then. */
static void pack_again(struct machine *m, struct node *n, tensor t)
{
	struct checkpoint *c = m->checkpoint;

	n = c->saves[c->seen++];
	m->stopped = c->seen == c->count;
	node_keep(n, t.from && t.from->param ? param_view(m, t.from->param) : hold(t));
}

static void unpack(struct machine *m, struct node *n)
{
	struct checkpoint *c = n->packed;
	struct tape scrap = { 0 }, *tape = m->tape;
	enum dtype autocast = m->autocast;
	tensor input, out;

	if (c->done)
		return;
	c->done = 1;
	input = hold(c->input);
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
	drop(m, &out);
	drop(m, &input);
	clear_autocast(m);
	m->autocast = autocast;
	tape_free(m, &scrap);
	m->tape = tape;
}

static void release(struct machine *m, struct node *n)
{
	struct checkpoint *c = n->packed;

	if (--c->refs)
		return;
	drop(m, &c->input);
	free(c->saves);
	free(c);
}

/* The first run: nothing is kept but the order. */
static void pack(struct machine *m, struct node *n, tensor t)
{
	static const struct saved_hooks hooks = { unpack, release };
	struct checkpoint *c = m->checkpoint;

	(void)t;
	c->saves = grow(c->saves, c->count, &c->room, sizeof(struct node *));
	c->saves[c->count++] = n;
	c->refs += !n->saved_hooks;
	n->saved_hooks = &hooks;
	n->packed = c;
}

tensor checkpointed(struct machine *m, tensor (*run)(struct machine *, void *, tensor),
		    void *context, tensor input)
{
	struct checkpoint *c = xcalloc(1, sizeof(*c));
	tensor out;

	*c = (struct checkpoint){
		.run = run, .context = context, .input = hold(input), .autocast = m->autocast
	};
	retag(m, input, TERM_CHECKPOINTS);
	m->checkpoint = c;
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
	struct keeper *keepers; /* of each input; NULL: nobody */
};

void drop_keeper(struct machine *m, struct keeper *k)
{
	drop(m, &k->value);
	drop(m, &k->gradient);
}

static void reentrant_backward(struct machine *m, struct node *n)
{
	struct reentrant *e = n->ctx;
	struct tape nested = { .last = NULL }, *tape = m->tape;
	tensor in[REENTRANT_INPUTS], out;

	for (int i = 0; i < e->count; i++) {
		e->leaf[i].value = n->saved[i];
		if (n->edge[i])
			param_init(&e->leaf[i]);
		else
			e->leaf[i].value.from = NULL;
		in[i] = e->leaf[i].value;
	}
	m->tape = &nested;
	out = e->run(m, e->context, in);
	backward(m, &nested, out, hold(n->in[0]));
	drop(m, &out);
	m->tape = tape;
	for (int i = 0; i < e->count; i++) {
		if (e->keepers) {
			let(m, &e->keepers[i].value, hold(n->saved[i]));
			let(m, &e->keepers[i].gradient, hold(e->leaf[i].grad));
		}
		n->out[i] = e->leaf[i].grad;
		e->leaf[i].grad.at = NULL;
	}
}

tensor checkpoint_reentrant(struct machine *m,
			    tensor (*run)(struct machine *, void *, const tensor *),
			    const void *context, size_t size, const tensor *in, int count)
{
	struct node *n = record(m, reentrant_backward, in, count);
	struct reentrant *e;
	tensor out;

	if (n) {
		e = n->ctx = xcalloc(1, sizeof(*e));
		e->run = run;
		e->count = count;
		memcpy(e->context, context, size);
	}
	for (int i = 0; i < count; i++)
		save(m, n, in[i]);
	m->no_grad++;
	out = run(m, (void *)context, in);
	m->no_grad--;
	return result(out, n, 0);
}

void checkpoint_keepers(tensor out, struct keeper *keepers)
{
	struct reentrant *e = out.from->ctx;

	e->keepers = keepers;
}
