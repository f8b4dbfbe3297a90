/* What Megatron-core's LLaVA has beside a GPT's parts: an encoder of images (CLIPViTModel), and a
 * projector, whose output takes the places of the images among the tokens. */
#ifndef MEMTRACE_MEGATRON_LLAVA_H
#define MEMTRACE_MEGATRON_LLAVA_H

#include "megatron/model.h"

/* The parameters of the first stage's encoder and projector. */
void llava_declare_images(struct model_chunk *c);
/* The same of examples/mimo, whose encoder is transformers' CLIP. */
void mimo_declare_images(struct model_chunk *c);
/* CLIPViTModel.position_ids; nothing for another model. */
void llava_number_positions(struct machine *m, struct model_chunk *c);
void llava_release(struct model_chunk *c);
/* get_batch() of pretrain_vlm.py */
void llava_batch(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* The embedded text with the images in their places, which the caller owns. */
tensor llava_embed(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* The images, and what the model's variables keep, are no longer needed. */
void llava_batch_release(struct machine *m, struct microbatch *b);
/* The labels and the loss mask of all tokens take the place of those of the text. */
void llava_label(struct machine *m, struct model_chunk *c, struct microbatch *b);

#endif
