/* What `memtrace estimate` prints of one or several estimates. */
#ifndef MODEL_OUTPUT_H
#define MODEL_OUTPUT_H

#include "estimate/estimate.h"
#include "util/terminal.h"

/* A system that cannot say it, and why. */
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

void estimate_json(const struct answer *a, struct buf *out);
void estimate_text(const struct answer *a, const struct style *style, struct buf *out);
/* Every term called `id` (or `system.id`): formula, letters, source, number. 0 if no system has
 * one. */
int estimate_explain(const struct answer *a, const char *id, const struct style *style,
		     struct buf *out);
/* Document 002's table as its tool prints it. */
void estimate_deepspeed(const struct estimate *e, struct buf *out);

#endif
