/* torch.nn.parallel.DistributedDataParallel: one bucket for all gradients at first; buckets are
 * rebuilt in the order in which the gradients arrived. */
#include "distributed/ddp.h"

#include <stdlib.h>

#include "util/util.h"

#define MIB (INT64_C(1) << 20)

/* _sync_module_states: parameters are broadcast in flat pieces of at most 250 MiB. */
static void broadcast(struct machine *m, const struct module *module)
{
	int64_t n = 0;
	enum dtype type = F32;

	m->current_term = TERM_COLLECTIVE;
	for (size_t i = 0; i < module->count; i++) {
		const tensor *t = &module->params[i]->value;

		if (n && (n + t->n) * dtype_width(type) > 250 * MIB) {
			scratch(m, n * dtype_width(type));
			n = 0;
		}
		type = t->type;
		n += t->n;
	}
	if (n)
		scratch(m, n * dtype_width(type));
}

static void add_bucket(struct machine *m, struct ddp *d, int64_t n, enum dtype type)
{
	d->buckets = grow(d->buckets, d->count, &d->room, sizeof(*d->buckets));
	d->buckets[d->count++] = tensor_new_as(m, TERM_BUCKETS, n, type);
}

static void note_arrival(struct machine *m, struct param *p)
{
	struct ddp *d = m->ddp;

	if (!d->rebuilt) {
		d->order = grow(d->order, d->arrived, &d->order_room, sizeof(*d->order));
		d->order[d->arrived++] = p->value.n;
	}
	if (d->views) { /* the gradient is copied into its bucket and replaced by a view */
		tensor_unref(m, &p->grad);
		p->in_bucket = 1;
	}
}

void ddp_wrap(struct machine *m, struct ddp *d, const struct hparams *s,
	      const struct module *module)
{
	int64_t n = 0;

	*d = (struct ddp){ .views = s->bucket_views,
			   .cap = s->bucket_cap,
			   .first = s->bucket_first };
	broadcast(m, module);
	for (size_t i = 0; i < module->count; i++)
		n += module->params[i]->value.n;
	d->type = module->params[0]->value.type;
	add_bucket(m, d, n, d->type);
	m->ddp = d;
	m->on_gradient = note_arrival;
}

/* Rebuilds the buckets before the second forward pass, which may belong to the same step. */
void ddp_forward(struct machine *m, struct ddp *d)
{
	int64_t n = 0, cap = d->first;

	if (d->rebuilt || !d->arrived)
		return;
	d->rebuilt = 1;
	tensor_unref(m, &d->buckets[0]);
	d->count = 0;
	for (size_t i = 0; i < d->arrived; i++) {
		n += d->order[i];
		if (n * dtype_width(d->type) < cap)
			continue;
		add_bucket(m, d, n, d->type);
		n = 0;
		cap = d->cap;
	}
	if (n)
		add_bucket(m, d, n, d->type);
}

void ddp_release(struct ddp *d)
{
	free(d->buckets);
	free(d->order);
}
