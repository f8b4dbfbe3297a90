/* The parameters of a model chunk, in the order of model.parameters(). All are declared first, then
 * allocated together (parameters.h). */
#ifndef MEMTRACE_MEGATRON_DECLARE_H
#define MEMTRACE_MEGATRON_DECLARE_H

#include "megatron/model.h"

/* A parameter of out x in elements. `on_host`: enum made_on */
struct param *declare_param(struct model_chunk *c, enum term_id term, int64_t out, int64_t in,
			    int on_host);
struct norm_weights declare_norm(struct model_chunk *c, int64_t width);
/* NULL if linear layers have no bias. */
struct param *declare_bias(struct model_chunk *c, enum term_id term, int64_t n);
/* The matrices declared since parameter number `from` are multiplied in fp8. */
void quantize_layer(struct model_chunk *c, size_t from);

/* ---- declare_layer.c ---- */

/* `number`: the layer's, in the whole model. `attends`: to an encoder's output, too. */
void declare_layer(struct model_chunk *c, struct megatron_layer *l, int64_t number, int attends);
/* The same for a letter of hybrid_layer_pattern. */
void declare_hybrid_layer(struct model_chunk *c, struct megatron_layer *l, char kind);
/* A dense feed-forward network without a layer; Transformer Engine's first product has a
 * normalization before it. */
void declare_feed_forward(struct model_chunk *c, struct megatron_layer *l);

#endif
