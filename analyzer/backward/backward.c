#include "backward/backward.h"

#include "attribution/attribution.h"
#include "util/hash.h"
#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>
#include <string.h>

#define MOST_RUNS (1u << 17) /* that wait for their names */
struct named {
	uint64_t start_ns;
	uint32_t origin;
};

struct origin_entry {
	uint64_t key;
	uint32_t origin;
	UT_hash_handle hh;
};

void backward_init(struct backward *b, const struct tables *t, bytes smallest, int names_all)
{
	*b = (struct backward){ .tables = t,
				.smallest = smallest,
				.names_all = (uint8_t)names_all,
				.needed = NO_POSITION,
				.least_saved = NO_POSITION };
	b->origins = grow(b->origins, 0, &b->origin_room, sizeof(*b->origins));
	b->origins[b->origin_count++] = (struct origin){ 0 };
}

void backward_release(struct backward *b)
{
	HASH_RELEASE(b->known);
	forward_blocks_release(&b->forward);
	running_nodes_release(&b->nodes);
	free(b->runs);
	free(b->named);
	free(b->origins);
	*b = (struct backward){ 0 };
}

static int is_autograd(const struct backward *b, const struct mt_record *r)
{
	return b->tables->thread_flags[r->thread] & THREAD_AUTOGRAD;
}

/* Was it allocated by the backward pass itself, and not by a forward pass that it repeats? */
static int is_of_backward(const struct backward *b, const struct mt_record *r)
{
	return is_autograd(b, r) && !(tables_stack_flags(b->tables, r->stack) & STACK_RECOMPUTE);
}

/* Adds the stack that follows a block without one. Returns 0 if the positions between the two are
 * not known: nothing follows, or a loop began anew. */
static int add_next(const struct backward *b, struct origin *o, uint64_t position, uint64_t before,
		    uint64_t end)
{
	struct origin between = { 0 };
	uint32_t line, next = MT_NO_STACK;

	for (uint64_t i = position + 1; i < end && i < position + REACH && !next; i++)
		if (forward_block_at(&b->forward, i)->is_framed)
			next = forward_block_at(&b->forward, i)->stack;
	if (!next)
		return 0;
	origin_add(&between, b->tables, forward_block_at(&b->forward, before)->stack);
	origin_add(&between, b->tables, next);
	line = origin_next_line(&between, b->tables, next);
	if (line && line < origin_next_line(&between, b->tables,
					    forward_block_at(&b->forward, before)->stack))
		return 0;
	origin_add(o, b->tables, next);
	return 1;
}

/* Adds a position as a possible one. Returns 0 if it says nothing. */
static int add_position(const struct backward *b, struct origin *o, uint64_t position, uint64_t end)
{
	uint64_t with_stack = forward_blocks_framed(&b->forward, position);
	uint32_t stack;

	if (with_stack == NO_POSITION)
		return 0;
	stack = forward_block_at(&b->forward, with_stack)->stack;
	origin_add(o, b->tables, stack);
	/* The small blocks behind a loss are its results. */
	return with_stack == position || tables_stack_flags(b->tables, stack) & STACK_LOSS ||
	       add_next(b, o, position, with_stack, end);
}

/* The common part of all possible positions of a run. */
static struct origin origin_of(const struct backward *b, const struct node_run *r, uint64_t end)
{
	const struct origin none = { 0 };
	struct origin o = { 0 };
	uint64_t first = r->least, last = r->most;
	uint32_t length = 0;

	if (r->is_sum || first >= last || (r->highest == NO_POSITION && !r->is_free))
		return none;
	if (r->highest != NO_POSITION) {
		first = r->lowest;
		last = r->highest + 1;
	} else if (r->gradients || r->is_part) {
		/* A view lies beside the operations around it. */
		first -= first > forward_blocks_oldest(&b->forward);
		last += last < end;
	}
	if (last - first > REACH)
		return none;
	for (uint64_t position = first; position < last; position++) {
		if (r->highest != NO_POSITION &&
		    !sizes_are_alike(forward_block_at(&b->forward, position)->bytes, r->gradient))
			continue;
		if (!add_position(b, &o, position, end))
			return none;
		/* Further positions only shorten an origin: one that is useless remains so. */
		if (origin_length(&o) != length && !origin_is_useful(&o, b->tables))
			return none;
		length = origin_length(&o);
	}
	return origin_is_useful(&o, b->tables) ? o : none;
}

static uint32_t number_of(struct backward *b, const struct origin *o)
{
	uint64_t key;
	struct origin_entry *found;

	if (!o->stack && !o->node)
		return 0;
	key = origin_hash(o, b->tables);
	HASH_FIND(hh, b->known, &key, sizeof(key), found);
	if (found)
		return found->origin;
	b->origins = grow(b->origins, b->origin_count, &b->origin_room, sizeof(*b->origins));
	b->origins[b->origin_count] = *o;
	found = xcalloc(1, sizeof(*found));
	found->key = key;
	found->origin = (uint32_t)b->origin_count++;
	HASH_ADD(hh, b->known, key, sizeof(key), found);
	return found->origin;
}

static void name_from(struct backward *b, uint64_t start_ns, uint32_t origin)
{
	if (origin == (b->named_count ? b->named[b->named_count - 1].origin : 0))
		return;
	b->named = grow(b->named, b->named_count, &b->named_room, sizeof(*b->named));
	b->named[b->named_count++] = (struct named){ start_ns, origin };
}

static void name_group(struct backward *b, const struct run_group *g)
{
	node_runs_bound(&b->forward, g);
	for (size_t i = 0; i < g->count; i++) {
		struct origin o = origin_of(b, &g->runs[i], g->end);

		if (g->runs[i].allocs)
			name_from(b, g->runs[i].start_ns, number_of(b, &o));
	}
}

static int is_pass_wanted(const struct backward *b)
{
	return b->names_all || b->is_wanted || b->live > 0;
}

/* Names the runs of the finished groups, or forgets them if no name is wanted. */
static void settle(struct backward *b)
{
	size_t next = 0;

	if (!b->finished)
		return;
	if (is_pass_wanted(b))
		for (size_t i = 0; i < b->finished; i = next) {
			for (next = i; next < b->finished && b->runs[next].end == b->runs[i].end;)
				next++;
			name_group(b, &(struct run_group){ &b->runs[i], next - i, b->runs[i].end });
		}
	b->run_count -= b->finished;
	memmove(b->runs, b->runs + b->finished, b->run_count * sizeof(*b->runs));
	b->finished = 0;
	b->needed = NO_POSITION;
}

/* No further run belongs to the group of the last ones. Its names wait until they are wanted. */
static void finish_group(struct backward *b)
{
	uint64_t first;

	for (; b->finished < b->run_count; b->finished++)
		b->runs[b->finished].end = b->forward.count;
	if (b->least_saved == NO_POSITION)
		return;
	/* The search looks at the block before the first one, and for the stack of that. */
	first = forward_blocks_beginning(&b->forward, b->least_saved);
	first -= first > forward_blocks_oldest(&b->forward);
	if (forward_blocks_framed(&b->forward, first) != NO_POSITION)
		first = forward_blocks_framed(&b->forward, first);
	b->needed = first < b->needed ? first : b->needed;
	b->least_saved = NO_POSITION;
}

/* The events. */

static void add_run(struct backward *b)
{
	if (b->run_count == MOST_RUNS) {
		finish_group(b);
		settle(b);
	}
	b->runs = grow(b->runs, b->run_count, &b->run_room, sizeof(*b->runs));
	b->runs[b->run_count++] = b->now;
	b->now = (struct node_run){ .saved = NO_POSITION };
	b->is_doubtful = 0;
}

static int has_ended(const struct node_run *r)
{
	return r->gradients || r->saved != NO_POSITION;
}

static void end_run(struct backward *b)
{
	struct node_run *r = &b->now;

	r->is_sum = r->saved == NO_POSITION && r->gradients == 2 && r->allocs == 1 &&
		    sizes_are_alike(r->gradient, r->last) &&
		    sizes_are_alike(r->other_gradient, r->last);
	if (r->allocs || has_ended(r))
		add_run(b);
}

static void forget(struct backward *b)
{
	HASH_RELEASE(b->known);
	forward_blocks_release(&b->forward);
	free(b->runs);
	b->runs = NULL;
	b->run_count = b->finished = b->run_room = 0;
}

static void end_pass(struct backward *b)
{
	if (!b->pass_ns)
		return;
	end_run(b);
	finish_group(b);
	b->pass_ns = 0;
}

/* The nodes of the last pass are forgotten if no name is wanted. The next pass begins with a node,
 * or with a block if the job notes none. */
static void begin_nodes(struct backward *b)
{
	if (!b->has_begun_nodes)
		running_nodes_begin_pass(&b->nodes, is_pass_wanted(b));
	b->has_begun_nodes = 1;
}

static void begin_pass(struct backward *b, uint64_t time_ns)
{
	begin_nodes(b);
	b->has_begun_nodes = 0;
	settle(b);
	b->now = (struct node_run){ .saved = NO_POSITION };
	b->pass_ns = b->counted_ns = time_ns;
	b->live = 0;
	b->is_wanted = 0;
}

static void add_to_run(struct backward *b, const struct mt_record *r)
{
	int is_part = b->is_doubtful;

	if (!b->pass_ns) {
		begin_pass(b, r->time_ns);
		is_part = 0;
	}
	b->live += r->bytes >= b->smallest;
	if (has_ended(&b->now)) {
		end_run(b);
		is_part = 0;
	} else if (is_part) {
		b->now.is_part = 1;
		add_run(b);
	}
	if (!b->now.allocs++) {
		b->now.start_ns = r->time_ns;
		b->own_ns = is_part ? b->own_ns : r->time_ns;
	}
	b->now.last = r->bytes;
	b->last_address = r->address;
	b->is_doubtful = b->has_failed = 0;
}

/* Behind a gap no thread's node is known. */
static void end_gap(struct backward *b, uint64_t time_ns)
{
	if (b->is_behind_gap)
		running_nodes_add(&b->nodes, time_ns, MT_NO_THREAD, 0);
	b->is_behind_gap = 0;
}

void backward_node(struct backward *b, const struct mt_record *r)
{
	struct origin o = running_node_origin(b->tables, r);

	end_gap(b, r->time_ns);
	if (!b->pass_ns)
		begin_nodes(b);
	running_nodes_add(&b->nodes, r->time_ns, r->thread, number_of(b, &o));
}

int backward_alloc(struct backward *b, const struct mt_record *r)
{
	uint32_t flags = tables_stack_flags(b->tables, r->stack);

	end_gap(b, r->time_ns);
	if (is_autograd(b, r)) {
		if (!(flags & STACK_RECOMPUTE)) {
			add_to_run(b, r);
			return 1;
		}
		/* A forward pass is repeated: its nodes come next. */
		if (b->run_count > b->finished || b->now.allocs) {
			end_run(b);
			finish_group(b);
		}
	} else if (flags & STACK_BACKWARD || (b->pass_ns && !(flags & STACK_FRAMES))) {
		/* The thread that waits for the backward pass allocates a little, too. */
		return b->pass_ns != 0;
	} else {
		end_pass(b);
	}
	/* The block takes the place of the oldest one. */
	if (b->finished && b->forward.count >= FORWARD_BLOCKS &&
	    b->forward.count - FORWARD_BLOCKS >= b->needed)
		settle(b);
	forward_blocks_add(&b->forward, b->tables, r);
	return b->pass_ns != 0;
}

static void free_in_pass(struct backward *b, const struct mt_record *was)
{
	uint64_t position;

	if (!is_of_backward(b, was)) {
		position = forward_blocks_find(&b->forward, was);
		if (position == NO_POSITION)
			return;
		if (b->now.saved == NO_POSITION || position > b->now.saved)
			b->now.saved = position;
		b->least_saved = position < b->least_saved ? position : b->least_saved;
	} else if (was->time_ns < b->pass_ns || b->has_failed) {
		return;
	} else if (was->time_ns < b->own_ns) {
		b->now.other_gradient = b->now.gradient;
		b->now.gradient = was->bytes;
		b->now.gradients++;
	} else {
		b->now.frees++;
		b->is_doubtful |= was->address != b->last_address;
	}
}

void backward_free(struct backward *b, const struct mt_record *r, const struct mt_record *was)
{
	b->live -= was->time_ns >= b->counted_ns && was->bytes >= b->smallest &&
		   is_of_backward(b, was);
	if (b->pass_ns && is_autograd(b, r))
		free_in_pass(b, was);
}

void backward_failed(struct backward *b)
{
	b->has_failed = 1;
}

void backward_gap(struct backward *b)
{
	end_pass(b);
	settle(b);
	b->is_behind_gap = 1;
	b->forward.first = b->forward.count;
}

void backward_want(struct backward *b)
{
	settle(b);
	b->is_wanted = 1;
}

void backward_end(struct backward *b)
{
	end_pass(b);
	settle(b);
	forget(b);
}

int backward_has_no_place(const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);

	for (uint32_t i = 0; i < s->frame_count; i++)
		if (!frame_is(t, s->frames[i], FRAME_DISPATCH))
			return 0;
	return 1;
}

/* As the order of frees tells it. */
static uint32_t inferred_origin(const struct backward *b, const struct mt_record *alloc)
{
	size_t count;
	uint64_t open = b->run_count    ? b->runs[0].start_ns
			: b->now.allocs ? b->now.start_ns
					: UINT64_MAX;

	if (alloc->time_ns >= open)
		return 0;
	count = COUNT_UNTIL(b->named, b->named_count, start_ns, alloc->time_ns);
	return count ? b->named[count - 1].origin : 0;
}

uint32_t backward_origin(const struct backward *b, const struct mt_record *alloc)
{
	uint32_t noted, inferred;

	if (!b->tables || alloc->bytes < b->smallest || !is_of_backward(b, alloc) ||
	    !backward_has_no_place(b->tables, alloc->stack))
		return 0;
	noted = running_nodes_origin(&b->nodes, alloc);
	if (b->origins[noted].stack || b->origins[noted].is_unclear)
		return noted;
	inferred = inferred_origin(b, alloc);
	return inferred ? inferred : noted;
}

uint32_t backward_forward_stack(const struct backward *b, const struct mt_record *alloc)
{
	return backward_origin_at(b, backward_origin(b, alloc)).stack;
}
