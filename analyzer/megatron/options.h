/* Options of Megatron-LM that this family does not count, and those of recomputation. */
#ifndef MEMTRACE_MEGATRON_OPTIONS_H
#define MEMTRACE_MEGATRON_OPTIONS_H

#include "torch/hparams.h"

/* Rejects options that change many bytes (in->failed), and notes the others. */
void check_megatron_options(struct inputs *in);

/* Rejects recomputation that Megatron-core refuses or that is not modelled. */
void check_recompute(const struct hparams *s, struct inputs *in);
/* Rejects what LLaVA is not modelled with. */
void check_llava(const struct hparams *s, struct inputs *in);

#endif
