/* What transformers makes once a forward pass for all layers. */
#ifndef MEMTRACE_LLAMA_TABLES_H
#define MEMTRACE_LLAMA_TABLES_H

#include "torch/module.h"

/* Masks of the type that attention takes: booleans, or for eager attention numbers like `like`. */
tensor causal_mask(struct machine *m, const struct hparams *s, tensor like);
tensor window_mask(struct machine *m, const struct hparams *s, tensor like);
void rotary_tables(struct machine *m, const struct hparams *s, tensor like, tensor *cos,
		   tensor *sin);

#endif
