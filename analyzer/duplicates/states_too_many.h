/* The states of a second optimizer. */
#ifndef MEMTRACE_STATES_TOO_MANY_H
#define MEMTRACE_STATES_TOO_MANY_H

#include "attribution/spans.h"
#include "duplicates/trained.h"

/* Bytes of states beyond those that one optimizer has. Of a model and its deep copy, gradients show
 * which one is trained. */
bytes states_too_many(const struct trained *n, int has_deep_copy);
/* Bytes of the states that the step of `now` makes though the parameters have states of earlier
 * steps; `now` may be NULL. `l` is classified. */
bytes states_again(const struct trained *n, const struct lifetimes *l, const struct spans *spans,
		   const struct span *now);

#endif
