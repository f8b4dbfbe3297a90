#include "metrics/metrics_counterfactual.h"

#include "metrics/metrics_head.h"
#include "metrics/metrics_models.h"

/* The counterfactuals that remove each block of a stack with these tags. */
static unsigned counterfactuals_of_tags(stack_tags tags)
{
	int is_of_call = (tags & TAGGED(MODEL)) != 0;

	return COUNTERFACTUAL(TEMPORARIES, tags & TAGGED(OPTIMIZER) && !(tags & TAGGED(STATE))) |
	       COUNTERFACTUAL(TEACHER, is_of_call && tags & TAGGED(UNTRAINED)) |
	       COUNTERFACTUAL(ROLLOUT, is_of_call && tags & TAGGED(ROLLOUT)) |
	       COUNTERFACTUAL(CLIPPING, tags & TAGGED(CLIP)) |
	       COUNTERFACTUAL(LOADED, tags & TAGGED(LOAD)) |
	       COUNTERFACTUAL(SAVING, tags & TAGGED(SAVE));
}

void counterfactuals_by_stack(struct metrics_pass *p)
{
	struct head_depths heads = metrics_head_depths(p);

	for (uint32_t i = 0; i < p->tables->stack_count; i++)
		p->removed_by[i] =
			(uint16_t)(counterfactuals_of_tags(p->tags[i]) |
				   COUNTERFACTUAL(OWN_LOGITS, metrics_is_head(p, &heads, i)));
	if (p->measures_need)
		metrics_remove_by_source(p);
}

void counterfactuals_note_top(struct device_pass *d, bytes top)
{
	/* Most tops change no peak. */
	if (top <= d->limit)
		return;
	d->limit = INT64_MAX;
	for (unsigned k = 0; k < COUNTERFACTUALS; k++) {
		bytes left = top - d->level[k];

		d->best[k] = larger_of(d->best[k], left);
		if (!d->optimizer_seen)
			d->best_first[k] = larger_of(d->best_first[k], left);
		d->limit = smaller_of(d->limit, counterfactual_limit(d, k));
	}
}
