/* Recomputation: what a checkpointed region saves is thrown away, and made again by running the
 * region once more. */
#include "torch/machine.h"

#include <string.h>

#include "torch/ops.h"
#include "util/util.h"

/* ---- torch.utils.checkpoint, use_reentrant=False ---- */

tensor checkpointed(struct machine *m, tensor (*run_it)(struct machine *, void *, tensor),
		    void *context, tensor input)
{
	struct checkpoint *c = xcalloc(1, sizeof(*c));
	tensor out;

	*c = (struct checkpoint){
		.run = run_it, .context = context, .input = hold(input), .autocast = m->autocast
	};
	retag(m, input, TERM_CHECKPOINTS);
	m->recording = c;
	out = run_it(m, context, input);
	m->recording = NULL;
	return out;
}

void checkpoint_fill(struct machine *m, struct node *n)
{
	struct checkpoint *c = n->checkpoint;
	struct tape scrap = { 0 }, *tape = m->tape;
	enum dtype autocast = m->autocast;
	tensor input = hold(c->input), out;

	c->done = 1;
	m->tape = &scrap;
	m->replaying = c;
	m->autocast = c->autocast;
	out = c->run(m, c->context, input);
	m->stopped = 0;
	m->replaying = NULL;
	drop(m, &out);
	drop(m, &input);
	clear_autocast(m);
	m->autocast = autocast;
	tape_free(m, &scrap);
	m->tape = tape;
}

/* ---- use_reentrant=True ---- */

void drop_keeper(struct machine *m, struct keeper *k)
{
	drop(m, &k->value);
	drop(m, &k->gradient);
}

static void reentrant_backward(struct machine *m, struct node *n)
{
	struct reentrant *e = n->reentrant;
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
	tensor out;

	if (n) {
		n->reentrant = xcalloc(1, sizeof(*n->reentrant));
		n->reentrant->run = run;
		n->reentrant->count = count;
		memcpy(n->reentrant->context, context, size);
	}
	for (int i = 0; i < count; i++)
		save(m, n, in[i]);
	m->no_grad++;
	out = run(m, (void *)context, in);
	m->no_grad--;
	return result(out, n, 0);
}
