/* The number of tokens of a micro-batch, and what the activations say about widths that the
 * weights' unsplit tails leave open. */
#ifndef MEMTRACE_INFER_TOKENS_H
#define MEMTRACE_INFER_TOKENS_H

#include "infer/alloc_profile.h"
#include "infer/infer_layers.h"

struct token_count {
	int64_t tokens;
	uint64_t score; /* blocks of the forward pass that this count explains */
};
#define MAX_TOKEN_COUNTS 6
/* b s: possible numbers of tokens of a micro-batch, the likeliest first; returns how many. */
size_t tokens_find(const struct alloc_profile *c, const struct layer_hypothesis *r,
		   struct token_count *best);
/* Lowers r->vocab_most to the smallest block that can be the logits of so many tokens. */
void narrow_vocabulary(const struct alloc_profile *c, struct layer_hypothesis *r, int64_t tokens);
#define MAX_WIDTHS 4
/* Widths from `least` to `most` to try; returns how many. */
size_t widths_find(const struct alloc_profile *c, const struct layer_hypothesis *r, int64_t tokens,
		   int64_t least, int64_t most, int64_t found[MAX_WIDTHS]);
/* A vocabulary size that models use, between the two; else the roundest number. */
int64_t usual_vocabulary(int64_t least, int64_t most);
/* The roundest number (a multiple of the largest power of two) from `least` to `most`. */
int64_t round_number(int64_t least, int64_t most);

#endif
