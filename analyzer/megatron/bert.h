/* What Megatron-core's BERT has beside a GPT's parts: token types, a head before the output layer,
 * and the order of two sentences. Tensors that are returned are the caller's to unref. */
#ifndef MEMTRACE_MEGATRON_BERT_H
#define MEMTRACE_MEGATRON_BERT_H

#include "megatron/model.h"

/* The parameters, in the order of BertModel.__init__; nothing for another model. */
void bert_declare_types(struct model_chunk *c);
void bert_declare_head(struct model_chunk *c);
void bert_declare_order(struct model_chunk *c);

/* BertLMHead.forward; for another model `x` itself. */
tensor bert_head(struct machine *m, struct model_chunk *c, tensor x);
/* The scores of the order of two sentences, from each sample's first token; none if it is not
 * predicted. */
tensor bert_order(struct machine *m, struct model_chunk *c, tensor x);
/* get_batch() of pretrain_bert.py, on each stage. */
void bert_batch(struct machine *m, struct model_chunk *c, struct microbatch *b);

#endif
