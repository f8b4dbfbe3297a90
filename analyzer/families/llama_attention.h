/* The attention of transformers' decoders. */
#ifndef MEMTRACE_FAMILIES_LLAMA_ATTENTION_H
#define MEMTRACE_FAMILIES_LLAMA_ATTENTION_H

#include "families/llama_model.h"
#include "torch/machine.h"

/* self_attn of a layer. *weights: the attention's weights, if it is eager; the caller's. */
tensor llama_attention(struct machine *m, struct llama_layer *l, tensor x, tensor *weights);

#endif
