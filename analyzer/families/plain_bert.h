/* BERT and RoBERTa of transformers. */
#ifndef MEMTRACE_FAMILIES_PLAIN_BERT_H
#define MEMTRACE_FAMILIES_PLAIN_BERT_H

#include "families/plain_model.h"

extern const struct plain_code plain_bert, plain_roberta;

#endif
