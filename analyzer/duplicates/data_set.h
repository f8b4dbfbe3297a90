/* Tensors that the job's own code made at once, and that no step needs all: data. */
#ifndef MEMTRACE_DATA_SET_H
#define MEMTRACE_DATA_SET_H

#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "duplicates/trained.h"
#include "trace/tables.h"

/* The largest set of tensors that one line of the job's own code made in a step. */
struct data_set {
	bytes bytes;
	uint32_t blocks, stack; /* the stack of that line */
	bytes beside; /* sets that other lines made, without a call of the model in between, of a
			 quarter of its size or more */
};

/* Sorts `held`, the blocks that are held, by their stacks. `now`: the span of the moment. */
struct data_set data_set_live(const struct trained *n, const struct spans *spans,
			      const struct tables *t, const struct lifetime **held, size_t count,
			      const struct span *now);

#endif
