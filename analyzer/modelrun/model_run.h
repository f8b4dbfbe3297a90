/* Runs the model of a configuration for two steps on the simulated device, by transformers' own
 * code, and keeps the result for the next time. */
#ifndef MODELRUN_MODEL_RUN_H
#define MODELRUN_MODEL_RUN_H

#include "attribution/category.h"
#include "config/config.h"
#include "simulate/messages.h"
#include "util/util.h"

struct model_result {
	char *model, *versions;   /* the class; the packages */
	char *phase;              /* of the peak */
	int text_alone;           /* it takes images, sounds or videos, and got none */
	int takes_images;         /* images_per_sequence adds them to its text */
	int64_t parameters;       /* of the whole model */
	int64_t peak, steady;     /* allocated bytes */
	int64_t reserved, device; /* their own maxima */
	int64_t context, nccl;    /* at the device's maximum */
	int64_t by_category[CATEGORIES];
};

struct run_options {
	const char *python;              /* the value of --python, or NULL */
	const struct messages *messages; /* NULL: none are reported */
};

/* -1: the message says why. */
int model_run(struct model_result *r, const struct config *c, const struct run_options *o,
	      struct err *e);
void model_result_release(struct model_result *r);

#endif
