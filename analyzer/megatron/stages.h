/* The layers of each model chunk. */
#ifndef MEMTRACE_MEGATRON_STAGES_H
#define MEMTRACE_MEGATRON_STAGES_H

#include "torch/hparams.h"

/* `stage`: of the pipeline; `chunk`: of the stage, by virtual pipeline parallelism. */
int64_t chunk_first_layer(const struct hparams *s, int64_t stage, int64_t chunk);
int64_t chunk_layers(const struct hparams *s, int64_t stage, int64_t chunk);
/* Layers of multi-token prediction. */
int64_t chunk_mtp(const struct hparams *s, int64_t stage, int64_t chunk);
/* Rejects a layout that does not place each layer once, or multi-token prediction away from the
 * loss. */
void check_stages(const struct hparams *s, struct inputs *in);

#endif
