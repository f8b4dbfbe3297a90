/* Document 003: Llama under tensor, pipeline, context and data parallelism. */
#ifndef SYSTEMS_LLAMA_4D_H
#define SYSTEMS_LLAMA_4D_H

#include "estimate/estimate.h"

extern const struct system llama_4d;

#endif
