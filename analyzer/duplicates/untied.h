/* A copy of the largest parameter that is trained beside it: two weights that should be one. */
#ifndef MEMTRACE_UNTIED_H
#define MEMTRACE_UNTIED_H

#include "duplicates/duplicates.h"

struct untied {
	bytes block;    /* the size of the parameter */
	uint32_t count; /* copies of it; 0: none, or more was copied than this parameter */
	bytes bytes;    /* the copies with their gradients, states and temporaries */
};

/* `l` is classified. */
struct untied untied_live(const struct lifetimes *l, const struct spans *spans,
			  const struct tables *t, const struct failed_request *request);

#endif
