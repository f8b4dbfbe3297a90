#include "backward/node_runs.h"

#include "attribution/attribution.h"
#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>

/* A run that leaves one block and frees no saved tensor may be of a view, which has no output of
 * its own. */
static int need_no_output(const struct node_run *r)
{
	return r->is_part || r->is_sum || !r->gradients ||
	       (r->saved == NO_POSITION && r->allocs <= r->frees + 1);
}

/* No run lies before a saved block that it or a later run frees. */
static void bound_by_saved(const struct forward_blocks *f, const struct run_group *g)
{
	uint64_t least = NO_POSITION;

	for (size_t i = g->count; i-- > 0;) {
		struct node_run *r = &g->runs[i];

		if (r->saved != NO_POSITION) {
			uint64_t from = forward_blocks_beginning(f, r->saved);

			least = least == NO_POSITION || from > least ? from : least;
		}
		r->least = least;
		r->is_free = (uint8_t)need_no_output(r);
	}
}

/* The latest possible output of each run, from the first run on. */
static void bound_from_above(const struct forward_blocks *f, const struct run_group *g)
{
	uint64_t end = g->end;

	for (size_t i = 0; i < g->count; i++) {
		struct node_run *r = &g->runs[i];

		r->most = end;
		r->highest = NO_POSITION;
		if (r->is_free || r->least == NO_POSITION || r->least >= end ||
		    end - r->least > REACH)
			continue;
		for (uint64_t position = end; position-- > r->least;)
			if (sizes_are_alike(forward_block_at(f, position)->bytes, r->gradient)) {
				r->highest = end = position;
				break;
			}
	}
}

/* The earliest possible output of each run, from the last run back. */
static void bound_from_below(const struct forward_blocks *f, const struct run_group *g)
{
	uint64_t begin = forward_blocks_oldest(f); /* the first possible position */

	for (size_t i = g->count; i-- > 0;) {
		struct node_run *r = &g->runs[i];

		if (r->least != NO_POSITION && r->least > begin)
			begin = r->least;
		r->lowest = NO_POSITION;
		if (r->highest != NO_POSITION) {
			for (uint64_t position = begin; position <= r->highest; position++)
				if (sizes_are_alike(forward_block_at(f, position)->bytes,
						    r->gradient)) {
					r->lowest = position;
					break;
				}
			if (r->lowest == NO_POSITION)
				r->highest = NO_POSITION;
		}
		if (r->least != NO_POSITION)
			r->least = begin;
		if (r->lowest != NO_POSITION)
			begin = r->lowest + 1;
	}
}

void node_runs_bound(const struct forward_blocks *f, const struct run_group *g)
{
	bound_by_saved(f, g);
	bound_from_above(f, g);
	bound_from_below(f, g);
}

/* As the job records them. */

/* Nodes back to which the one of a thread is looked for: two threads seldom allocate on one device
 * at a time. */
#define NODES_BACK 64
#define CLOCKS_DIFFER 1000000000u /* ns, of two threads, at most */

/* Drops the innermost line of the job's own from the certain frames: what called its function is
 * left. */
static void drop_line(struct origin *o, const struct tables *t)
{
	const struct stack *s = tables_stack(t, o->stack);

	o->first_line = o->last_line = 0;
	while (o->frames && frame_is(t, s->frames[s->frame_count - o->frames], FRAME_LIBRARY))
		o->frames--;
	o->frames -= o->frames > 0;
}

/*
 * The lines between two nodes, of one function, in the order in which they were made. Where both
 * are of one line, or a loop began anew, other lines of the function ran in between: then only its
 * caller is certain.
 */
static int add_between(struct origin *o, const struct tables *t, const struct mt_record *r)
{
	uint32_t after = (uint32_t)r->bytes;

	origin_add(o, t, r->stack);
	if (!r->bytes)
		return 1;
	if (r->bytes < 0 || (uint64_t)r->bytes >= t->stack_count)
		return 0;
	origin_add(o, t, after);
	if (!o->first_line || origin_next_line(o, t, after) <= origin_next_line(o, t, r->stack))
		drop_line(o, t);
	return origin_is_useful(o, t);
}

struct origin running_node_origin(const struct tables *t, const struct mt_record *r)
{
	struct origin o = { 0 };

	if (r->stack && tables_stack(t, r->stack)->frame_count && add_between(&o, t, r))
		return o;
	o = (struct origin){ .is_unclear = r->stack != MT_NO_STACK };
	if (r->address < t->string_count)
		o.node = (uint32_t)r->address;
	return o;
}

void running_nodes_add(struct running_nodes *n, uint64_t start_ns, uint16_t thread, uint32_t origin)
{
	/* The time of a damaged record. */
	while (n->count > n->pass && n->list[n->count - 1].start_ns > start_ns &&
	       n->list[n->count - 1].start_ns - start_ns > CLOCKS_DIFFER)
		n->count--;
	/* The clocks of two threads may differ a little. */
	if (n->count && n->list[n->count - 1].start_ns > start_ns)
		start_ns = n->list[n->count - 1].start_ns;
	n->list = grow(n->list, n->count, &n->room, sizeof(*n->list));
	n->list[n->count++] = (struct running_node){ start_ns, origin, thread };
}

void running_nodes_begin_pass(struct running_nodes *n, int is_wanted)
{
	struct running_node last;

	if (is_wanted || n->count <= n->pass) {
		n->pass = n->count;
		return;
	}
	/* The thread may go on with its last node. The nodes of other threads are not known. */
	last = n->list[n->count - 1];
	n->count = n->pass;
	running_nodes_add(n, last.start_ns, MT_NO_THREAD, 0);
	running_nodes_add(n, last.start_ns, last.thread, last.origin);
}

uint32_t running_nodes_origin(const struct running_nodes *n, const struct mt_record *alloc)
{
	size_t count = COUNT_UNTIL(n->list, n->count, start_ns, alloc->time_ns);

	for (size_t i = count; i-- > 0 && i + NODES_BACK >= count;)
		if (n->list[i].thread == MT_NO_THREAD)
			return 0;
		else if (n->list[i].thread == alloc->thread)
			return n->list[i].origin;
	return 0;
}

void running_nodes_release(struct running_nodes *n)
{
	free(n->list);
	*n = (struct running_nodes){ 0 };
}
