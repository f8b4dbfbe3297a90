/* The parameters of a model chunk, in the order of model.parameters(). All are declared first, then
 * allocated together (parameters.h). */
#ifndef MEMTRACE_MEGATRON_DECLARE_H
#define MEMTRACE_MEGATRON_DECLARE_H

#include "megatron/model.h"

/* A parameter of out x in elements. `on_host`: the framework makes it in host memory, in fp32. */
struct param *declare_param(struct model_chunk *c, enum term_id term, int64_t out, int64_t in,
			    int on_host);
struct norm_weights declare_norm(struct model_chunk *c, int64_t width);
/* NULL if linear layers have no bias. */
struct param *declare_bias(struct model_chunk *c, enum term_id term, int64_t n);
/* The matrices declared since parameter number `from` are multiplied in fp8. */
void quantize_layer(struct model_chunk *c, size_t from);

#endif
