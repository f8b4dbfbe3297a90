/* The time of one layer and of the head, for one micro-batch on one rank. */
#ifndef TIMING_LAYER_H
#define TIMING_LAYER_H

#include "timing/step.h"

/* Seconds of a forward pass and of a backward pass, by what they go for. */
struct passes {
	double forward, backward; /* all of it */
	double recomputed;        /* part of the backward pass */
	/* Parts of both passes. */
	double tensor, context, experts;
};

struct passes layer_passes(const struct step_job *job, const struct step_layout *l,
			   int has_experts);
/* The output layer and the loss. */
struct passes head_passes(const struct step_job *job, const struct step_layout *l);

#endif
