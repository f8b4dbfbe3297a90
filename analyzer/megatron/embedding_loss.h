/* The first and the last part of the model. Results are the caller's to unref. */
#ifndef MEMTRACE_MEGATRON_EMBEDDING_LOSS_H
#define MEMTRACE_MEGATRON_EMBEDDING_LOSS_H

#include "megatron/model.h"

/* Embedded tokens, with positions and dropout. */
tensor chunk_embed(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* The output layer and its loss, one number for each token. *logits (the caller's) are the logits.
 */
tensor token_losses(struct machine *m, struct model_chunk *c, tensor x, tensor *logits);
/* The mean of the losses. */
tensor chunk_loss(struct machine *m, struct model_chunk *c, tensor x);

/* _apply_rotary_pos_emb_bshd: (t * cos) + (rotate_half(t) * sin), then a copy. `frequencies`: the
 * number of angles, for each position and element of a head. */
tensor apply_rotary(struct machine *m, tensor x, int64_t frequencies);

#endif
