/* Tensors that are live more often than training needs them, at one moment, by the sizes of live
 * blocks. A parameter, its gradient and its optimizer states have the same size. */
#ifndef MEMTRACE_DUPLICATES_H
#define MEMTRACE_DUPLICATES_H

#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "duplicates/data_set.h"
#include "trace/tables.h"

struct duplicates {
	bytes states; /* beyond those of an optimizer: of a second one */
	bytes copies; /* blocks of parameters' sizes beyond one of each, not of the model */
	uint32_t copies_count;
	bytes remade;      /* parameters of models before the newest one (remade.h) */
	bytes late;        /* parameters of a model that came between steps (remade.h) */
	uint32_t replicas; /* deep copies of a model that different steps made (remade.h) */
	bytes twin;        /* parameters of a second model like the first, trained or not */
	int has_deep_copy; /* a deep copy of a model is there */
	uint32_t float64_layers, float32_layers; /* float64.h */
	bytes extra_gradients;                   /* beyond one of each parameter */
	bytes unstepped; /* gradients of parameters that no optimizer has a state for */
	struct data_set data;
	int request_is_own; /* the job's own code asked for it, between two steps, in no parameter's
			       size */
	/* Bytes that the job's own code allocated between a backward pass and the optimizer's
	 * step, in the sizes of parameters or of all gradients together; with the failed
	 * request. */
	bytes gradient_copies;
	int copies_stay; /* some are of an earlier step, or the optimizer has allocated since */
};

/* The request that failed at the moment; `bytes` is 0 if none did. */
struct failed_request {
	uint32_t stack;
	bytes bytes;
};

/* `l` is classified. `at_ns`: the moment. */
struct duplicates duplicates_live(const struct lifetimes *l, const struct spans *spans,
				  const struct tables *t, const struct failed_request *request,
				  uint64_t at_ns);

#endif
