/* Tensors that transformers makes once in a forward pass for all layers. The caller owns them. */
#ifndef MEMTRACE_FAMILIES_LLAMA_TABLES_H
#define MEMTRACE_FAMILIES_LLAMA_TABLES_H

#include "torch/module.h"

/* Masks in the type that attention needs: booleans, or the type of `like` for eager attention. */
tensor causal_mask(struct machine *m, const struct hparams *s, tensor like);
tensor window_mask(struct machine *m, const struct hparams *s, tensor like);
void rotary_tables(struct machine *m, int64_t n, tensor like, tensor *cos, tensor *sin);

#endif
