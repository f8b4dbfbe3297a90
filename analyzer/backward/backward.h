/*
 * Names for the blocks of a backward pass, which runs on PyTorch's autograd threads without a
 * Python stack: the position in the forward pass whose autograd node allocated them.
 *
 * The job records which node runs and the stack that made it, if that stack allocated a block that
 * is large enough (node_runs.h). Otherwise, and in traces without such records, the order of
 * frees tells; if it does not, the node's own name is the name.
 *
 * What is known of PyTorch's engine: of the nodes that are ready it runs the one that the forward
 * pass made last, so nodes run in the reverse order of the forward pass. A node allocates what it
 * needs; then the gradient that came in is freed, if no other node needs it; then the tensors that
 * the node saved. Hence
 *  - a gradient that is freed ends the run of a node. It was the gradient of that node's output, so
 * a block of its size in the forward pass was made by the node's operation;
 *  - a block of the forward pass that is freed was saved by the node that has just run: by the
 *    operation that made it, or by a later one.
 * Both bound the position of each run from two sides, since positions only go back. A position is
 * named if the bounds leave one; otherwise what the possible positions have in common (origin.h).
 *
 * Names cost more than all else that is done for a block, and few are asked for: most blocks of a
 * pass are freed before the next one begins. So a pass is named when the next one begins, if one of
 * its blocks is live then or if names were wanted meanwhile.
 *
 * With retain_graph=True nothing is freed, and this order tells nothing. Recomputed blocks have
 * stacks of their own, and count as the forward pass of the nodes that use them.
 */
#ifndef MEMTRACE_BACKWARD_H
#define MEMTRACE_BACKWARD_H

#include "backward/forward_blocks.h"
#include "backward/node_runs.h"
#include "backward/origin.h"
#include "util/util.h"

struct origin_entry;

/* The blocks of a device, as a replay meets them. */
struct backward {
	const struct tables *tables;
	bytes smallest; /* no smaller block has a name: none of the forward pass has a stack */

	uint8_t names_all;
	uint8_t is_wanted; /* a block that is live now is asked for */
	int64_t live;      /* blocks of the last pass, if they can have a name */

	struct forward_blocks forward;

	struct node_run *runs; /* of the last pass, whose positions are not known yet */
	size_t run_count, run_room;
	size_t finished; /* of the runs: they wait until their names are wanted */
	uint64_t needed; /* the first position that they need; NO_POSITION: none */
	struct node_run now;
	uint64_t least_saved;    /* least `saved` of the runs that are not finished, and of `now` */
	uint64_t counted_ns;     /* when the last pass began, whose live blocks are counted */
	uint64_t pass_ns;        /* the same while it goes on; 0: there is no pass now */
	uint64_t own_ns;         /* when the last run began whose beginning is certain */
	uint64_t last_address;   /* of the last block that the pass allocated */
	uint8_t is_doubtful;     /* an earlier block of the run was freed: maybe its gradient */
	uint8_t has_begun_nodes; /* `nodes` has nodes of the next pass */
	uint8_t is_behind_gap;   /* events are missing before the next one */
	uint8_t has_failed;      /* out of memory: a free is then no sign of a gradient */

	struct running_nodes nodes; /* as the job noted them */
	struct named *named;        /* names by time, as the order of frees tells them */
	size_t named_count, named_room;
	struct origin *origins; /* the first one: not known */
	size_t origin_count, origin_room;
	struct origin_entry *known;
};

/* `names_all`: the name of every block is asked for, and not only of those that are live when
 * backward_want() is called. */
void backward_init(struct backward *b, const struct tables *t, bytes smallest, int names_all);
void backward_release(struct backward *b);

/* Events of the tensor layer, in order. `was`: the record that allocated what is freed.
 * backward_alloc() returns whether a backward pass is going on. */
int backward_alloc(struct backward *b, const struct mt_record *r);
void backward_free(struct backward *b, const struct mt_record *r, const struct mt_record *was);
/* Can the free of a block matter? If not, backward_free() need not be called. */
static inline int backward_notes(const struct backward *b, const struct mt_record *was)
{
	return b->pass_ns || was->time_ns >= b->counted_ns;
}
/* A thread of the device runs another node (MT_NODE). */
void backward_node(struct backward *b, const struct mt_record *r);
/* The device ran out of memory. */
void backward_failed(struct backward *b);
/* The names of the blocks that are live now are asked for. */
void backward_want(struct backward *b);
/* Events are missing here. */
void backward_gap(struct backward *b);
/* No event follows; or no later block is asked for, and no pass is going on. */
void backward_end(struct backward *b);

/* Does a stack of the backward pass say nothing of the position? */
int backward_has_no_place(const struct tables *t, uint32_t stack);

/*
 * The number of a block's origin, 0 if it has none: it has a stack of its own, is small, or its
 * position is not known. After backward_end().
 */
uint32_t backward_origin(const struct backward *b, const struct mt_record *alloc);

/* The origin with that number. */
static inline struct origin backward_origin_at(const struct backward *b, uint32_t number)
{
	return number < b->origin_count ? b->origins[number] : (struct origin){ 0 };
}

/*
 * The forward stack to which a block of the backward pass belongs, MT_NO_STACK if not known. Of a
 * position that is known in part, it is the stack of one of the possible positions.
 */
uint32_t backward_forward_stack(const struct backward *b, const struct mt_record *alloc);

#endif
