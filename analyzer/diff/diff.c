#include "diff/diff.h"

#include "attribution/category.h"
#include "diff/diff_config.h"
#include "diff/diff_moved.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

/* A number of one run. */
struct run_value {
	enum diff_kind kind;
	int side;
	size_t run;
	const char *name, *title;
	const struct stack_row *stack; /* NULL: of another kind */
	bytes bytes;
	int order;
};

struct run_values {
	struct run_value *all;
	size_t count, room;
};

static struct run_value *take(struct run_values *v, enum diff_kind kind, const char *name,
			      const char *title, bytes n)
{
	v->all = grow(v->all, v->count, &v->room, sizeof(*v->all));
	v->all[v->count] =
		(struct run_value){ .kind = kind, .name = name, .title = title, .bytes = n };
	return &v->all[v->count++];
}

/* `with_owners`: all runs know them. */
static void take_rank(struct run_values *v, const struct rank *r, int with_owners)
{
	static const char *const titles[LEVELS] = { "tensors", "reserved", "device" };

	for (enum level m = 0; m < LEVELS; m++)
		take(v, DIFF_PEAK, level_key(m), titles[m], rank_level(r, m))->order = (int)m;
	for (enum category k = 0; k < CATEGORIES; k++)
		take(v, DIFF_CATEGORY, category_key(k), category_title(k), r->peak.by_category[k]);
	for (size_t i = 0; with_owners && i < r->owner_count; i++)
		take(v, DIFF_OWNER, r->owners[i].key, r->owners[i].title, r->owners[i].at_peak);
	for (size_t i = 0; i < r->phase_count; i++)
		take(v, DIFF_PHASE, r->phases[i].phase, r->phases[i].phase, r->phases[i].peak);
	for (size_t i = 0; i < r->stacks.count; i++)
		take(v, DIFF_STACK, r->stacks.rows[i].stack, "", r->stacks.rows[i].bytes)->stack =
			&r->stacks.rows[i];
}

/* 0: the values are of one item. */
static int by_item(const struct run_value *x, const struct run_value *y)
{
	int order = strcmp(x->name, y->name);

	if (x->kind != y->kind)
		return ORDER(x->kind, y->kind);
	if (order || !x->stack)
		return order;
	return strcmp(diff_stack_place(x->stack), diff_stack_place(y->stack));
}

static int by_item_and_run(const void *a, const void *b)
{
	const struct run_value *x = a, *y = b;
	int order = by_item(x, y);

	if (order)
		return order;
	if (x->side != y->side)
		return x->side - y->side;
	return ORDER(x->run, y->run);
}

/* A run without the item counts as 0. `values` is NULL if one of them is unknown. */
static void spread_of(struct diff_spread *s, bytes *values, size_t count)
{
	s->median = s->least = s->most = UNKNOWN_BYTES;
	if (!values)
		return;
	s->median = bytes_median(values, count);
	s->least = values[0];
	s->most = values[count - 1];
}

/* Merges the values of one item. A stack with blocks of several categories is one
 * item. */
static void merge(struct diff *d, struct run_values *v)
{
	if (v->count)
		qsort(v->all, v->count, sizeof(*v->all), by_item_and_run);
	for (size_t k = 0; k < v->count;) {
		const struct run_value *first = &v->all[k];
		bytes at[SIDES][DIFF_MAX_RUNS] = { { 0 } };
		struct diff_item *i = diff_add_item(d, first->kind, first->name, first->title);
		int is_unknown[SIDES] = { 0 };

		i->order = first->order;
		for (; k < v->count && !by_item(&v->all[k], first); k++) {
			bytes *sum = &at[v->all[k].side][v->all[k].run];

			i->stack = v->all[k].stack; /* B's values follow those of A */
			is_unknown[v->all[k].side] |= v->all[k].bytes == UNKNOWN_BYTES;
			*sum = bytes_add(*sum, v->all[k].bytes);
		}
		for (int s = 0; s < SIDES; s++)
			spread_of(&i->side[s], is_unknown[s] ? NULL : at[s], d->side[s].count);
		i->is_changed = diff_item_is_beyond(i);
	}
}

static int by_change(const void *a, const void *b)
{
	const struct diff_item *x = a, *y = b;
	bytes p = diff_item_change(x), q = diff_item_change(y);

	if (x->kind != y->kind)
		return ORDER(x->kind, y->kind);
	p = p < 0 ? -p : p;
	q = q < 0 ? -q : q;
	if (x->order != y->order)
		return ORDER(x->order, y->order);
	if (p != q)
		return ORDER(q, p);
	return strcmp(x->name, y->name);
}

/* The entry of the rank that a report would show. */
static const struct rank *find_rank(const struct report *r, int rank)
{
	const struct rank *found = NULL;

	for (size_t i = 0; i < r->count; i++)
		if (r->ranks[i].rank == rank &&
		    (!found || rank_is_shown_before(&r->ranks[i], found)))
			found = &r->ranks[i];
	return found;
}

/* Chooses the rank of each run that is compared. */
static int choose_ranks(struct diff *d, int rank, struct err *e)
{
	for (int s = 0; s < SIDES; s++)
		for (size_t run = 0; run < d->side[s].count; run++) {
			const struct report *r = &d->side[s].runs[run]->report;

			d->side[s].ranks[run] =
				rank == NO_RANK ? report_worst(r) : find_rank(r, rank);
			if (!d->side[s].ranks[run])
				return err_set(e, "there is no trace of rank %d in %s", rank,
					       s == SIDE_A ? "A" : "B");
		}
	return 0;
}

static int know_owners(const struct diff *d)
{
	for (int s = 0; s < SIDES; s++)
		for (size_t run = 0; run < d->side[s].count; run++)
			if (d->side[s].ranks[run]->peak_device == UNKNOWN_BYTES)
				return 0;
	return 1;
}

int diff_make(struct diff *d, int rank, struct err *e)
{
	struct run_values v = { 0 };

	if (choose_ranks(d, rank, e) < 0)
		return -1;
	for (int s = 0; s < SIDES; s++)
		for (size_t run = 0; run < d->side[s].count; run++) {
			size_t before = v.count;

			take_rank(&v, d->side[s].ranks[run], know_owners(d));
			for (; before < v.count; before++) {
				v.all[before].side = s;
				v.all[before].run = run;
			}
		}
	merge(d, &v);
	qsort(d->items, d->count, sizeof(*d->items), by_change);
	diff_pair_moved(d);
	diff_configs(d);
	qsort(d->items, d->count, sizeof(*d->items), by_change);
	free(v.all);
	return 0;
}

void diff_release(struct diff *d)
{
	for (size_t i = 0; i < d->count; i++)
		diff_item_release(&d->items[i]);
	free(d->items);
	d->items = NULL;
	d->count = d->room = 0;
}
