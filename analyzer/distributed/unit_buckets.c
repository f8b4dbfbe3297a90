/* The buckets of Megatron-core's own FSDP: which parameters are in one, and where. */
#include "distributed/unit_buckets.h"

#include <stdlib.h>

#include "util/order.h"
#include "util/util.h"

/* ---- buckets: _get_parameter_groups() ---- */

static int64_t unit_of(const struct unit_layout *c, size_t i)
{
	size_t unit = 0;

	if (!c->units || i < c->first[0] || i >= c->first[c->units])
		return -1;
	while (i >= c->first[unit + 1])
		unit++;
	return (int64_t)unit;
}

static int64_t columns(const struct param *p)
{
	return p->value.n > p->in ? p->in : 1;
}

static struct unit_bucket *add_bucket(struct unit_buffers *b, int64_t unit, int experts)
{
	b->buckets = grow(b->buckets, b->count, &b->room, sizeof(*b->buckets));
	b->buckets[b->count] = (struct unit_bucket){ .unit = unit, .experts = experts };
	return &b->buckets[b->count++];
}

static void add_item(struct unit_bucket *g, size_t i)
{
	g->items = grow(g->items, g->count, &g->room, sizeof(*g->items));
	g->items[g->count++] = i;
}

/* The parameters of one unit and one kind. */
static void group_parameters(const struct unit_layout *c, struct unit_buffers *groups)
{
	for (size_t i = 0; i < c->module->count; i++) {
		int64_t unit = unit_of(c, i);
		int experts = c->module->params[i]->term == TERM_EXPERT_WEIGHTS;
		size_t k = 0;

		while (k < groups->count &&
		       (groups->buckets[k].unit != unit || groups->buckets[k].experts != experts))
			k++;
		add_item(k < groups->count ? &groups->buckets[k]
					   : add_bucket(groups, unit, experts),
			 i);
	}
}

/* Parameters of no unit are divided by the size of a bucket. Megatron-LM gives it if gradients are
 * reduced during the backward pass. */
static int64_t bucket_limit(const struct hparams *s)
{
	int64_t ranks = s->dp * s->cp;

	if (s->training_loop && !s->overlap_grad_reduce)
		return INT64_MAX;
	if (s->bucket_size)
		return s->bucket_size;
	return !s->training_loop ? INT64_MAX : ranks > 40 ? ranks * 1000000 : 40000000;
}

static void split_group(const struct unit_layout *c, struct unit_buffers *b,
			const struct unit_bucket *group)
{
	int64_t limit = group->unit < 0 ? bucket_limit(c->hparams) : INT64_MAX, sum = limit;

	for (size_t k = 0; k < group->count; k++) {
		if (sum >= limit || !k) {
			add_bucket(b, group->unit, group->experts);
			sum = 0;
		}
		add_item(&b->buckets[b->count - 1], group->items[k]);
		sum += c->module->params[group->items[k]]->value.n;
	}
}

struct wide_item {
	int64_t columns;
	size_t item;
};

static int by_width(const void *a, const void *b)
{
	const struct wide_item *x = a, *y = b;
	int by = ORDER(y->columns, x->columns);

	return by ? by : ORDER(x->item, y->item);
}

/* The widest parameters first; of one width, in their order. */
static void order_items(const struct unit_layout *c, struct unit_bucket *g)
{
	struct wide_item *list = xcalloc(g->count, sizeof(*list));

	for (size_t k = 0; k < g->count; k++)
		list[k] =
			(struct wide_item){ columns(c->module->params[g->items[k]]), g->items[k] };
	qsort(list, g->count, sizeof(*list), by_width);
	for (size_t k = 0; k < g->count; k++)
		g->items[k] = list[k].item;
	free(list);
}

/* Larger than the common multiple of any model's widths; times ranks it fits 64 bits. */
#define MAX_FACTOR ((int64_t)1 << 40)

/* chunk_size_factor: a common multiple of the widths of parameters that are not smaller. */
static int64_t factor_of(const struct unit_layout *c, const struct unit_bucket *g)
{
	int64_t factor = columns(c->module->params[g->items[0]]);

	for (size_t k = 0; k < g->count; k++) {
		const struct param *p = c->module->params[g->items[k]];
		int64_t width = columns(p), others;

		if (width == factor || p->value.n < factor ||
		    (factor % width == 0 && p->value.n % factor == 0))
			continue;
		others = factor / greatest_divisor(factor, width);
		if (others <= MAX_FACTOR / width)
			factor = others * width;
	}
	return factor;
}

/* ---- places in a bucket: build_data_parallel_buffer_index() ---- */

struct placing {
	const struct unit_layout *layout;
	struct unit_bucket *bucket;
	unsigned char *placed;
	int64_t factor, end;
};

static int64_t item_size(const struct placing *p, size_t k)
{
	return p->layout->module->params[p->bucket->items[k]]->value.n;
}

static void put(struct placing *p, size_t k, int64_t at)
{
	p->bucket->at[k] = at;
	p->placed[k] = 1;
}

/* Fills the gap behind a parameter that ends within a grid: the rest of another one, then
 * parameters that are smaller than the grid. */
static void fill_gap(struct placing *p, size_t k, int64_t gap)
{
	int64_t rest = item_size(p, k) % p->factor, space = p->factor - rest, other;

	for (size_t j = k + 1; j < p->bucket->count; j++) {
		other = item_size(p, j) % p->factor;
		if (p->placed[j] || item_size(p, j) < p->factor || !other || other > space)
			continue;
		put(p, j, p->end - other);
		space -= other;
		p->end += item_size(p, j) / p->factor * p->factor;
		break;
	}
	for (size_t j = 0; j < p->bucket->count; j++) {
		int64_t n = item_size(p, j);

		if (p->placed[j] || n >= p->factor || n > space)
			continue;
		put(p, j, gap);
		space -= n;
		gap += n;
	}
}

static void place_items(const struct unit_layout *c, struct unit_bucket *g)
{
	struct placing p = { .layout = c, .bucket = g, .factor = factor_of(c, g) };

	g->at = xcalloc(g->count, sizeof(*g->at));
	p.placed = xcalloc(g->count, 1);
	for (size_t k = 0; k < g->count; k++) {
		int64_t n = item_size(&p, k), at = p.end;

		if (p.placed[k] || n < p.factor)
			continue;
		put(&p, k, at);
		p.end += round_up(n, p.factor);
		if (n % p.factor)
			fill_gap(&p, k, at + n);
	}
	for (size_t k = 0; k < g->count; k++)
		if (!p.placed[k]) {
			put(&p, k, p.end);
			p.end += item_size(&p, k);
		}
	g->size = c->hparams->zero ? round_up(p.end, g->ranks * p.factor) : p.end;
	free(p.placed);
}

static int64_t ranks_of(const struct hparams *s, const struct unit_bucket *g)
{
	int64_t ranks = s->dp * s->cp;

	return g->experts ? ranks * s->tp / (s->etp * s->ep) : ranks;
}

void unit_buckets_make(const struct unit_layout *c, struct unit_buffers *b)
{
	struct unit_buffers groups = { .count = 0 };

	group_parameters(c, &groups);
	for (size_t k = 0; k < groups.count; k++) {
		split_group(c, b, &groups.buckets[k]);
		free(groups.buckets[k].items);
	}
	free(groups.buckets);
	for (size_t k = 0; k < b->count; k++) {
		b->buckets[k].ranks = ranks_of(c->hparams, &b->buckets[k]);
		order_items(c, &b->buckets[k]);
		place_items(c, &b->buckets[k]);
		for (size_t i = 0; i < b->buckets[k].count; i++)
			c->module->params[b->buckets[k].items[i]]->bucket = (int64_t)k;
	}
}
