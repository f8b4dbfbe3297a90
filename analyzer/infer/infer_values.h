/* A candidate as a configuration: each value with the evidence for it. */
#ifndef MEMTRACE_INFER_VALUES_H
#define MEMTRACE_INFER_VALUES_H

#include "infer/infer.h"
#include "infer/infer_layers.h"

/* How far the inference has come: what the message names if it fails. */
struct infer_progress {
	size_t layers, period; /* the longest repetition */
	size_t readings;       /* of repetitions as layers of a decoder */
	size_t token_counts;   /* of these readings */
	struct err refusal;    /* of the first candidate that cannot be estimated */
};

/* All ranks of the job, and the code signatures found in any of them. */
struct infer_input {
	const struct observed_rank *w;
	size_t count;
	uint64_t signatures; /* bits: signatures[] of frames.h */
	int64_t world;
	const struct alloc_profile *profile; /* of the first rank */
	struct observed_rank
		ends[2]; /* first and last rank: candidates are compared with their peaks */
	size_t end_count;
	bytes notable, clear; /* differences of the gap that are notable, and clear */
	struct infer_progress *progress;
};
/* Did code run that matches a SIGNATURE row (frames.def) with this key and value? */
int has_signature(const struct infer_input *j, const char *key, const char *value);

/* A hypothesis of the layers with a choice for everything that the sizes leave open. */
struct candidate {
	struct layers layers;
	struct layer_hypothesis r;
	int64_t tokens, seq, heads;
	int64_t topk;                  /* experts of a token */
	int64_t ffn_most, shared_most; /* as the weights allow, before one width was chosen */
	int topk_is_clear;             /* every other number of experts leaves notably more */
	bytes gap;                     /* -1: it cannot be estimated */
	bytes notable;                 /* a difference of gaps that counts */
	bytes seq_next, heads_next;    /* gap of the best candidate with another length, or other
					  heads; -1: none */
};
/* Sets what the model_type of transformers has by default, where `c` has no value. `searched`: also
 * the fields whose values infer_search() tries. */
void infer_type_defaults(struct inferred_config *i, struct config *c, int searched);
/* Sets what the signatures and the candidate say; values that `c` has stay. */
void infer_values(struct inferred_config *i, struct config *c, const struct infer_input *j,
		  const struct candidate *t);

#endif
