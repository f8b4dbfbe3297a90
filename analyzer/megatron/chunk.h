/* The forward pass of a model chunk. */
#ifndef MEMTRACE_MEGATRON_CHUNK_H
#define MEMTRACE_MEGATRON_CHUNK_H

#include "megatron/model.h"

/* The chunk's output, which the caller owns: hidden states, or the loss on the last stage. b->input
 * holds the input; none on the first stage. */
tensor chunk_forward(struct machine *m, struct model_chunk *c, struct microbatch *b);

#endif
