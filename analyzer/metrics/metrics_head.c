#include "metrics/metrics_head.h"

#include <limits.h>

#define MIN_LAYER_DEPTH \
	3 /* forward() of a linear layer, of a layer of the stack, and of the model */

/* How many forward() methods are on the stack? */
static unsigned depth_of(const struct tables *t, uint32_t stack)
{
	const struct stack *s = &t->stacks[stack];
	unsigned n = 0;

	for (uint32_t i = 0; i < s->frame_count; i++)
		n += frame_is(t, s->frames[i], FRAME_FORWARD);
	return n;
}

const struct mt_frame *metrics_root_of(const struct tables *t, uint32_t stack)
{
	const struct stack *s = &t->stacks[stack];

	for (uint32_t i = s->frame_count; i-- > 0;)
		if (frame_is(t, s->frames[i], FRAME_FORWARD))
			return tables_frame(t, s->frames[i]);
	return NULL;
}

int metrics_is_same_function(const struct mt_frame *a, const struct mt_frame *b)
{
	return a && b && a->file == b->file && a->function == b->function;
}

/* The place of a root in the list; MOST_ROOTS: it has none. */
static size_t place_of(const struct head_depths *d, const struct mt_frame *root)
{
	size_t i = 0;

	while (i < MOST_ROOTS && d->roots[i] && !metrics_is_same_function(d->roots[i], root))
		i++;
	return i;
}

static void add_root(struct head_depths *d, const struct mt_frame *root)
{
	const size_t i = root ? place_of(d, root) : MOST_ROOTS;

	if (i == MOST_ROOTS)
		return;
	d->roots[i] = root;
	if (++d->layers[i] > d->most)
		d->most = d->layers[i];
}

/* The nth forward() of a stack, from the innermost one on; NULL: it has fewer. */
static const struct mt_frame *forward_at(const struct tables *t, uint32_t stack, unsigned n)
{
	const struct stack *s = &t->stacks[stack];

	for (uint32_t i = 0; i < s->frame_count; i++)
		if (frame_is(t, s->frames[i], FRAME_FORWARD) && !n--)
			return tables_frame(t, s->frames[i]);
	return NULL;
}

/* Does the module that calls the linear layer call attention itself, as a layer of a decoder? The
 * pass has not got to the head then. */
static int is_in_a_layer(const struct metrics_pass *p, uint32_t stack)
{
	const struct mt_frame *caller = forward_at(p->tables, stack, 1);

	for (uint32_t i = 1; i < p->tables->stack_count; i++) {
		/* Innermost is a linear layer of the attention, or the attention itself. */
		unsigned layer = p->tags[i] & TAGGED(LINEAR) ? 2 : 1;

		if (p->tags[i] & TAGGED(ATTENTION) &&
		    metrics_is_same_function(caller, forward_at(p->tables, i, layer)))
			return 1;
	}
	return 0;
}

struct head_depths metrics_head_depths(const struct metrics_pass *p)
{
	struct head_depths d = { .least = UINT_MAX };
	uint32_t outermost = 0;

	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (p->tags[i] & TAGGED(LINEAR)) {
			unsigned depth = depth_of(p->tables, i);

			d.least = depth < d.least ? depth : d.least;
			d.greatest = depth > d.greatest ? depth : d.greatest;
			add_root(&d, metrics_root_of(p->tables, i));
			outermost = depth == d.least ? i : outermost;
		}
	if (d.least >= MIN_LAYER_DEPTH && outermost && is_in_a_layer(p, outermost))
		d.least = d.greatest;
	return d;
}

/* Does the model call the layer, that is, the outermost forward() that most linear layers have, or
 * the job's own code alone? A small net in the loss is another model. */
static int is_of_model(const struct metrics_pass *p, const struct head_depths *d, uint32_t stack)
{
	size_t i;

	if (depth_of(p->tables, stack) < 2)
		return 1;
	i = place_of(d, metrics_root_of(p->tables, stack));
	return i < MOST_ROOTS && d->roots[i] && d->layers[i] == d->most;
}

int metrics_is_head(const struct metrics_pass *p, const struct head_depths *d, uint32_t stack)
{
	return tags_at(p, stack) & TAGGED(LINEAR) && !(p->tags[stack] & TAGGED(ATTENTION)) &&
	       d->least < d->greatest && depth_of(p->tables, stack) == d->least &&
	       is_of_model(p, d, stack);
}

/* The largest of some linear layers' blocks, and the most blocks of one stack. */
struct linear_blocks {
	bytes largest;
	uint64_t most;
};

/* Notes blocks of a linear layer: of the head, or of another one. */
static void note(const struct metrics_pass *p, const struct head_depths *d, uint32_t stack,
		 bytes size, uint64_t blocks, struct linear_blocks *head,
		 struct linear_blocks *other)
{
	struct linear_blocks *to = metrics_is_head(p, d, stack) ? head : other;

	if (!(tags_at(p, stack) & TAGGED(LINEAR)))
		return;
	to->largest = larger_of(to->largest, size);
	to->most = blocks > to->most ? blocks : to->most;
}

bytes metrics_head_size(const struct metrics_pass *p, const struct failure *f,
			const struct snapshot *live)
{
	struct head_depths d = metrics_head_depths(p);
	struct linear_blocks head = { 0 }, other = { 0 };

	for (size_t i = 0; i < live->count; i++)
		if (live->groups[i].category != CATEGORY_WORKSPACES)
			note(p, &d, live->groups[i].stack, live->groups[i].largest,
			     live->groups[i].blocks, &head, &other);
	if (f)
		note(p, &d, f->stack, f->requested, 1, &head, &other);
	/* What has a block in each layer is no head: the pass has not got to that. */
	if (head.most >= 2 && head.most >= other.most)
		return 0;
	return head.largest / 2 >= other.largest ? head.largest : 0;
}

unsigned metrics_count_roots(const struct metrics_pass *p, const struct snapshot *live)
{
	struct head_depths d = { 0 };
	unsigned n = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		stack_tags tags = tags_at(p, g->stack);

		if (g->category == CATEGORY_ACTIVATIONS && tags & TAGGED(MODEL) &&
		    !(tags & TAGGED(LOSS)))
			add_root(&d, metrics_root_of(p->tables, g->stack));
	}
	while (n < MOST_ROOTS && d.roots[n])
		n++;
	return n;
}
