/*
 * The runs of autograd nodes: as the order of frees shows them, with the search for their positions
 * in the forward pass from both sides (see backward.h), and as the job itself records them.
 */
#ifndef MEMTRACE_NODE_RUNS_H
#define MEMTRACE_NODE_RUNS_H

#include "backward/forward_blocks.h"
#include "backward/origin.h"
#include "util/util.h"

#define REACH 512 /* blocks of the forward pass among which one run is looked for */

/* A run of a node: what it allocated and what was freed at its end. */
struct node_run {
	uint64_t start_ns;
	uint64_t saved;       /* the latest freed block of the forward pass; NO_POSITION: none */
	bytes gradient;       /* that was freed last */
	bytes other_gradient; /* that was freed before it */
	bytes last;           /* the last block that it allocated */
	uint32_t allocs;      /* blocks */
	uint32_t frees;       /* of its own blocks */
	uint32_t gradients;   /* that were freed */
	uint8_t is_part;      /* its end is not certain: the next run may be of the same node */
	uint8_t is_sum;       /* no node ran: two gradients of a tensor were added */
	uint8_t is_free; /* set by the search: it need not have an output in the forward pass */
	uint64_t least, most;     /* positions between which it lies, as the search goes on */
	uint64_t lowest, highest; /* positions of its output; NO_POSITION: none was found */
	uint64_t end; /* of the positions that its group of runs may have; not known of the last
			 group */
};

/* Runs whose nodes have the same part of the forward pass before them: that of the pass, or of the
 * recomputation so far. */
struct run_group {
	struct node_run *runs;
	size_t count;
	uint64_t end; /* no position lies behind it */
};

/* Sets the bounds of each run's position, and the positions of its output. */
void node_runs_bound(const struct forward_blocks *f, const struct run_group *g);

/*
 * The node of each thread, as the job recorded it (MT_NODE). Of a long job
 * only the nodes are kept whose blocks can be asked for.
 */
struct running_node {
	uint64_t start_ns;
	uint32_t origin; /* number of what its blocks are named after */
	uint16_t thread; /* MT_NO_THREAD: from here on no thread's node is known */
};

struct running_nodes {
	struct running_node *list;
	size_t count, room;
	size_t pass; /* the first one of the last backward pass */
};

/* What a record tells of its node: the place that made it, else its name. */
struct origin running_node_origin(const struct tables *t, const struct mt_record *r);

/* From START_NS on the thread runs a node of this ORIGIN. */
void running_nodes_add(struct running_nodes *n, uint64_t start_ns, uint16_t thread,
		       uint32_t origin);
/* Another backward pass begins; `is_wanted`: names of blocks of the last one are asked for. */
void running_nodes_begin_pass(struct running_nodes *n, int is_wanted);
/* The origin of a block, 0: not known. */
uint32_t running_nodes_origin(const struct running_nodes *n, const struct mt_record *alloc);
void running_nodes_release(struct running_nodes *n);

#endif
