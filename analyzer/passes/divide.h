/*
 * Blocks in the order in which they were allocated, divided into forward passes. A trace has no
 * mark for the begin of a pass: after code elsewhere outside of the model, a line of it runs once
 * more.
 */
#ifndef MEMTRACE_DIVIDE_H
#define MEMTRACE_DIVIDE_H

#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "trace/tables.h"

/* A block of the job's own code, or of the model that it calls. */
struct made {
	uint64_t time_ns;
	uint32_t stack;
	bytes bytes; /* 0 if it is not part of a graph */
	/* Hashes of the frames inside and outside of the model; 0: none are. */
	uint64_t model;
	uint32_t caller;
	uint32_t call; /* of a model, from 1; 0: before the first. Other code allocates between two
			*/
};

/* What shows that a pass has begun. All but BEGUN_BY_MODEL are sure. */
enum begun_by {
	BEGUN_BY_NOTHING,
	BEGUN_BY_BACKWARD, /* the first block, or the first behind a backward pass */
	BEGUN_BY_CODE,     /* code outside of the model repeats itself */
	BEGUN_BY_LOSS,     /* the model repeats itself, and the pass before has a loss */
	/* The line that calls the model makes the next batch itself, as model(batch.cuda()) does.
	 */
	BEGUN_BY_LINE,
	BEGUN_BY_CALL,  /* the model repeats itself, and other code has allocated in between */
	BEGUN_BY_MODEL, /* the model repeats its first block: it may have several such layers */
};

/* A pass: the blocks of list[first], list[first + 1]... up to the next one's. */
struct pass {
	size_t first;
	enum begun_by begun_by;
	uint32_t backwards; /* before its first block */
	uint32_t model;     /* the stack of the first block of the model; 0: none yet */
	uint32_t rounds;    /* the most blocks of one stack and size */
	uint32_t stacks;    /* different stacks of the graph's blocks */
	bytes bytes;
	struct made largest;
	int is_of_line;  /* its first block is a batch that the line of the call has made */
	int is_repeated; /* a later pass has a block of the same stack */
	int has_loss;    /* a loss function made a block of it */
	int has_module;  /* a module did */
};

/* The live blocks that passes have made, by time; the failed request, if its stack is not
 * MT_NO_STACK, is the last of them. The caller frees the list. */
struct made *passes_collect(const struct lifetimes *l, const struct spans *spans,
			    const struct tables *t, uint32_t request, uint64_t at_ns,
			    size_t *count);

/* Divides the list. The caller frees the passes. */
struct pass *passes_divide(const struct made *list, size_t count, const struct spans *spans,
			   const struct tables *t, size_t *passes);

#endif
