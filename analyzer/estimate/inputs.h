/*
 * How systems read the configuration. The first failure wins, later reads do nothing harmful: read
 * everything, then look at `failed`. The limits keep every product of the formulas below 2^127
 * (tests/unit/estimate/test_terms.c computes them there).
 */
#ifndef MODEL_READ_H
#define MODEL_READ_H

#include "estimate/estimate.h"

#define MOST_TOKENS 100000000 /* of a sequence */
#define MOST_WIDTH 1000000    /* h */
#define MOST_FFN 10000000
#define MOST_HEADS 8192
#define MOST_LAYERS 10000
#define MOST_ROWS 100000000 /* of the embedding */
#define MOST_BATCH 1000000
#define MOST_RANKS 1000000 /* along one dimension */
#define MOST_PARAMETERS INT64_C(1000000000000000)

#define GPUS_OF_A_NODE 8 /* where num_gpus_per_node is not given */

struct inputs {
	const struct config *c;
	struct estimate *out;
	struct err *e;
	int failed;
};

#define GIVEN(c, name) config_has(c, CONFIG_##name)
#define VALUE_OR(c, name, otherwise) (GIVEN(c, name) ? (c)->name : (otherwise))

/* From 1 to `most`. */
wide input_required(struct inputs *in, enum config_field f, wide most);
wide input_or(struct inputs *in, enum config_field f, wide otherwise, wide most);
/* The same from 0. */
wide input_or_zero(struct inputs *in, enum config_field f, wide otherwise, wide most);
int input_flag(struct inputs *in, enum config_field f, int otherwise);
/* Index of the word in "a|b|c"; not given is `otherwise`. */
int input_word(struct inputs *in, enum config_field f, int otherwise, const char *words);
/* A real number from `least` to `most` as *n / *d, exact to 1/1000. */
void input_ratio(struct inputs *in, enum config_field f, double otherwise, double least, double most,
		wide *n, wide *d);

/* The value of `f` is something that the source has no formula for. `expected` says what it has one
 * for. */
void input_reject(struct inputs *in, enum config_field f, const char *expected);
/* Every system's source knows Adam alone. */
void input_reject_other_optimizers(struct inputs *in);

/* 0 to 3, from zero_stage, use_distributed_optimizer, fsdp. */
int input_zero_stage(struct inputs *in, int otherwise);
/* Micro-batches of a data-parallel rank and step. */
wide input_microbatches(struct inputs *in, wide micro_batch, wide data_parallel);
/* Rows of the embedding: padded where the job says how. */
wide input_vocabulary(struct inputs *in);

enum precision {
	PRECISION_FP32,
	PRECISION_FP16,
	PRECISION_BF16,
	PRECISION_FP8,
	PRECISION_FP16_MIXED,
	PRECISION_BF16_MIXED,
	PRECISION_FP8_MIXED,
	PRECISION_FP16_AUTOCAST,
	PRECISION_BF16_AUTOCAST,
};
enum precision input_precision(struct inputs *in);

/* Notes on what no document models, where the job has it. */
void input_note_unmodelled(struct inputs *in);
/* A note where `n` (of the field) is not a multiple of `d`. */
void input_note_division(struct inputs *in, enum config_field f, wide n, enum config_field by, wide d);

#endif
