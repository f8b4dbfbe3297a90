/* The answer of `memtrace estimate`: the estimates of one or several systems. */
#ifndef RENDER_ESTIMATE_ANSWER_H
#define RENDER_ESTIMATE_ANSWER_H

#include "estimate/estimate.h"

/* A system that cannot estimate the job, and the reason. */
struct refusal {
	const struct system *system;
	char reason[512];
};

struct answer {
	const struct config *config;
	struct estimate *estimates;
	size_t count;
	struct refusal *refusals;
	size_t refusal_count;
	wide memory; /* of one GPU, or 0 */
};

#endif
