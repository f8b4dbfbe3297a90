/* Which of Megatron-core's models a command line or file describes. */
#ifndef READERS_MEGATRON_MODELS_H
#define READERS_MEGATRON_MODELS_H

#include "readers/reader.h"

/* Properties of the model that the arguments tell. */
enum megatron_signs {
	GROUP_QUERY = 1,
	PRECISION = 2,
	TOKENIZER_GPT2 = 4,
	MULTI_LATENT = 8,
	BRIDGE = 16,
	PADS = 32,
	WORD_PIECES = 64,
	CASED = 128,
	HYBRID = 256,
	CHECKPOINT_SIZES = 512,
	MIMO = 1024
};

/* Does the argument say that the model is hybrid? */
int megatron_names_hybrid(const char *key, const char *value);

/* Does the argument name the model or the data of examples/mimo that has images and text? */
int megatron_names_mimo(const char *key, const char *value);

/* Sets model_type, the vocabulary and the number of layers that follow from the signs. */
int megatron_name_model(struct reader *r, unsigned signs);

#endif
