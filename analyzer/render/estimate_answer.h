/* The answer of `memtrace estimate`: the estimates of one or several systems. */
#ifndef RENDER_ESTIMATE_ANSWER_H
#define RENDER_ESTIMATE_ANSWER_H

#include "estimate/estimate.h"
#include "render/page.h"

/* A system that cannot estimate the job, and the reason. */
struct refusal {
	const struct system *system;
	char reason[512];
};

/* How far runs of the job were from their estimate; it changes no number of the answer. */
struct answer_history {
	int is_asked, is_same_model, is_simulated; /* is_same_model: not of this configuration */
	size_t runs;
	double ratio,
		deviation;    /* observed over estimated: the median, and that of the distances */
	const char *sentence; /* the same in words */
};

struct answer {
	const struct config *config;
	struct estimate *estimates;
	size_t count;
	struct refusal *refusals;
	size_t refusal_count;
	wide memory;         /* of one GPU, or 0 */
	const char *assumed; /* values that nothing declared, as words; NULL: none */
	struct answer_history history;
	int verbose; /* whole notes, sources, constants */
};

/* The first lines: what the job needs, on which rank, and whether the GPU has it. */
void estimate_headline(struct page *p, const struct answer *a, const struct estimate *e);

#endif
