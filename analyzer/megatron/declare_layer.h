/* The parameters of a transformer layer. */
#ifndef MEMTRACE_MEGATRON_DECLARE_LAYER_H
#define MEMTRACE_MEGATRON_DECLARE_LAYER_H

#include "megatron/model.h"

/* `number`: the layer's, in the whole model. `attends`: to an encoder's output, too. */
void declare_layer(struct model_chunk *c, struct megatron_layer *l, int64_t number, int attends);
/* The same for a letter of hybrid_layer_pattern. */
void declare_hybrid_layer(struct model_chunk *c, struct megatron_layer *l, char kind);

#endif
