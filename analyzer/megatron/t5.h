/* What Megatron-core's T5 has beside a GPT's parts: an encoder, to whose output each layer of the
 * decoder attends. */
#ifndef MEMTRACE_MEGATRON_T5_H
#define MEMTRACE_MEGATRON_T5_H

#include "megatron/model.h"

/* The encoder's parameters; nothing for another model. */
void t5_declare_encoder(struct model_chunk *c);
/* The encoder's output, which the caller owns. */
tensor t5_encode(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* get_batch() of pretrain_t5.py */
void t5_batch(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* The encoder's tokens and masks are no longer needed. */
void t5_batch_release(struct machine *m, struct microbatch *b);
/* Rejects what T5 is not modelled with. */
void check_t5(const struct hparams *s, struct inputs *in);

#endif
