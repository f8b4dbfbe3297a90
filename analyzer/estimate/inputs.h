/*
 * The systems' way to read the configuration. A system reads all its inputs, then looks at
 * `failed`: only the first failure sets the message, and a failed read returns a harmless value.
 * The limits keep every product of the formulas below 2^127 (tests/unit/estimate/test_terms.c
 * computes the formulas at the limits).
 */
#ifndef MODEL_READ_H
#define MODEL_READ_H

#include "estimate/estimate.h"

#define MAX_TOKENS 100000000 /* tokens of a sequence */
#define MAX_WIDTH 1000000    /* hidden size */
#define MAX_FFN 10000000
#define MAX_HEADS 8192
#define MAX_LAYERS 10000
#define MAX_ROWS 100000000 /* rows of the embedding */
#define MAX_BATCH 1000000
#define MAX_RANKS 1000000 /* ranks along one dimension */
#define MAX_PARAMETERS INT64_C(1000000000000000)

#define GPUS_OF_A_NODE 8 /* if num_gpus_per_node is not given */

struct inputs {
	const struct config *c;
	struct estimate *out;
	struct err *e;
	int failed;
	int is_missing; /* failed because keys are missing; e names them all */
	/* A bit for each field. Reading a configuration begins with zeroes here: bytes instead of
	 * bits would cost a sixth of an estimate. */
	uint64_t missing[CONFIG_FIELDS / 64 + 1];
};

#define GIVEN(c, name) config_has(c, CONFIG_##name)
#define VALUE_OR(c, name, otherwise) (GIVEN(c, name) ? (c)->name : (otherwise))

/* A number from 1 to `most`, which must be given. */
wide input_required(struct inputs *in, enum config_field f, wide most);
wide input_or(struct inputs *in, enum config_field f, wide otherwise, wide most);
/* The same with 0 allowed. */
wide input_or_zero(struct inputs *in, enum config_field f, wide otherwise, wide most);
int input_flag(struct inputs *in, enum config_field f, int otherwise);
/* Index of the value in the words "a|b|c"; `otherwise` if it is not given. */
int input_word(struct inputs *in, enum config_field f, int otherwise, const char *words);
/* A real number from `least` to `most` as the fraction *n / *d, rounded to 1/1000. */
void input_ratio(struct inputs *in, enum config_field f, double otherwise, double least,
		 double most, wide *n, wide *d);

/* Rejects the value of `f`, because the source has no formula for it. `expected` names the values
 * that it has formulas for. */
void input_reject(struct inputs *in, enum config_field f, const char *expected);
/* Rejects every optimizer but Adam, the only one of the documents. */
void input_reject_other_optimizers(struct inputs *in);

/* The ZeRO stage, 0 to 3, from zero_stage, use_distributed_optimizer and fsdp. */
int input_zero_stage(struct inputs *in, int otherwise);
/* Micro-batches of a data-parallel rank in one step. */
wide input_microbatches(struct inputs *in, wide micro_batch, wide data_parallel);
/* Rows of the embedding, padded if the job says to which multiple. */
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

/* Adds a note for each option of the job that no document models. */
void input_note_unmodelled(struct inputs *in);
/* Adds a note if `n`, the value of `f`, is not a multiple of `d`, the value of `by`. */
void input_note_division(struct inputs *in, enum config_field f, wide n, enum config_field by,
			 wide d);

#endif
