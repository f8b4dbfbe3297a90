/* The hyperparameters of Megatron-core's other layers: latent attention, Mamba, gated delta nets.
 */
#ifndef MEMTRACE_TORCH_HPARAMS_MEGATRON_H
#define MEMTRACE_TORCH_HPARAMS_MEGATRON_H

#include "torch/hparams.h"

void hparams_read_latent(struct hparams *s, struct inputs *in);
void hparams_read_llava(struct hparams *s, struct inputs *in);
void hparams_read_mimo(struct hparams *s, struct inputs *in);
void hparams_read_hybrid(struct hparams *s, struct inputs *in);
void hparams_read_delta_net(struct hparams *s, struct inputs *in);

#endif
