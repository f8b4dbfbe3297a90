/* Models that stay when the job makes another one of the same sizes. */
#ifndef MEMTRACE_REMADE_H
#define MEMTRACE_REMADE_H

#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "duplicates/duplicates.h"
#include "duplicates/trained.h"
#include "trace/tables.h"

struct remade {
	bytes bytes;       /* parameters that were there before the newest model was made */
	uint32_t replicas; /* steps that made a deep copy of a model which is still there */
	/* Parameters of `bytes`, or of the copies if two steps or more made them. */
	bytes extra;
	uint32_t extra_count;
	bytes late; /* parameters of a model of other sizes, made behind an optimizer's step, that
		       nothing trains */
};

/*
 * The job has trained, and has made modules again since then, whose parameters have the sizes of
 * earlier ones that are still live: a cell that ran again, the next trial of a search, the next
 * fold. A deep copy is no such module: its original is trained on. A model of other sizes without
 * gradients and states is one that an evaluation uses. A constructor that fails at `at_ns`, and
 * whose line has made a block of an earlier model, makes such a module. In a job without training,
 * models that were made between calls are counted. Models of other sizes count if the same lines
 * made them, and gradients from before are still there, as of the trials of a search. `l`: all live
 * blocks. `held`: what is held, by the time of allocation.
 */
struct remade remade_live(const struct lifetimes *l, const struct trained *n,
			  const struct lifetime *const *held, size_t count,
			  const struct spans *spans, const struct tables *t,
			  const struct failed_request *request, uint64_t at_ns);

#endif
