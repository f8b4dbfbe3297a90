#include "metrics/metrics_sizes.h"

#include "metrics/metrics_head.h"
#include "util/size_counts.h"

#define MAX_LABELS 2 /* of one line: more may be layers' */

/*
 * Blocks of half or twice the logits' size are logits in another precision if the model has one or
 * two of them; the job's own code may have more. If the model has many, it is the size of a
 * layer's activations.
 */
static void find_kin(struct device_pass *d, const struct metrics_pass *p, const struct snapshot *s)
{
	uint64_t half = 0, twice = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct block_group *g = &s->groups[i];

		if (g->origin || g->smallest != g->largest ||
		    (g->stack < p->tables->stack_count && g->stack &&
		     !(p->tags[g->stack] & TAGGED(MODEL))))
			continue;
		half += same_size(g->largest, d->logits / 2) ? g->blocks : 0;
		twice += same_size(g->largest, d->logits * 2) ? g->blocks : 0;
	}
	d->logits_half = half <= 3;
	d->logits_twice = twice <= 3;
}

/* Did a loss of the job's own make it, and no layer in that? */
static int is_of_own_loss(const struct metrics_pass *p, uint32_t stack)
{
	stack_tags tags = stack && stack < p->tables->stack_count ? p->tags[stack] : 0;

	return !(tags & (TAGGED(LOSS) | TAGGED(LINEAR) | TAGGED(LAYER))) &&
	       (tags & TAGGED(LOSS_NETWORK) ||
		(tags & TAGGED(OWN_LOSS) && !(tags & TAGGED(MODEL))));
}

/* The sizes of what a pass has made: by layers, by a loss of the job's own, and all. */
struct pass_sizes {
	struct size_counts layers, loss, all;
};

static void count_sizes(const struct metrics_pass *p, const struct failure *f,
			const struct snapshot *s, struct pass_sizes *n)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct block_group *g = &s->groups[i];

		if (!g->stack || g->stack >= p->tables->stack_count ||
		    !category_is_of_pass(g->category))
			continue;
		for (uint64_t k = 0; k < g->blocks && k < 2; k++)
			size_counts_add(&n->all, g->largest);
		if (p->tags[g->stack] & (TAGGED(LINEAR) | TAGGED(LAYER)))
			size_counts_add(&n->layers, g->largest);
		if (is_of_own_loss(p, g->stack))
			size_counts_add(&n->loss, g->largest);
	}
	if (f)
		size_counts_add(&n->all, f->requested);
	if (f && is_of_own_loss(p, f->stack))
		size_counts_add(&n->loss, f->requested);
	size_counts_sort(&n->layers);
	size_counts_sort(&n->loss);
	size_counts_sort(&n->all);
}

/* The size of what a model returns, if a loss of the job's own has made another tensor of it, and
 * one alone of twice the size; 0: none. A loss that computes in fp32 on 16 bits has several. */
static bytes judged_size(const struct metrics_pass *p, const struct failure *f,
			 const struct snapshot *s)
{
	struct pass_sizes n = { 0 };
	bytes found = 0;

	count_sizes(p, f, s, &n);
	for (size_t i = 0; i < n.loss.count; i++) {
		bytes size = n.loss.list[i].size / 2;

		if (size > found && size_counts_near(&n.layers, size) &&
		    size_counts_near(&n.loss, size) &&
		    size_counts_count_near(&n.all, 2 * size) == 1)
			found = size;
	}
	size_counts_release(&n.layers);
	size_counts_release(&n.loss);
	size_counts_release(&n.all);
	return found;
}

/*
 * Tensors that lie beside the logits and have twice as many bytes as the loss makes of them in
 * fp32: one_hot() gives labels 8 bytes for each class. `loss`: the largest block of a loss; layers
 * make none of these.
 */
static bytes wide_labels(const struct metrics_pass *p, const struct snapshot *s, bytes loss)
{
	const stack_tags layers = TAGGED(LOSS) | TAGGED(LINEAR) | TAGGED(LAYER) |
				  TAGGED(OPTIMIZER) | TAGGED(LOAD) | TAGGED(TRANSFORMERS);
	bytes sum = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct block_group *g = &s->groups[i];

		if (category_is_of_pass(g->category) && !g->origin && g->stack &&
		    g->stack < p->tables->stack_count && !(p->tags[g->stack] & layers) &&
		    g->smallest == g->largest && g->blocks <= MAX_LABELS &&
		    same_size(g->largest, 2 * loss))
			add(&sum, g->bytes);
	}
	return sum;
}

void metrics_find_sizes(struct device_pass *d, struct metrics_pass *p, const struct snapshot *s)
{
	bytes head;

	for (size_t i = 0; i <= s->count; i++) {
		const struct failure *request = i == s->count ? d->failure : NULL;
		uint32_t stack;
		bytes size;

		if (i == s->count && !request)
			break;
		stack = request ? request->stack : s->groups[i].stack;
		/* Some optimizers make states wherever they first need them. In a step that failed,
		 * what stays is not known, but for momenta. */
		if (!request && s->groups[i].category == CATEGORY_OPTIMIZER_STATES && stack &&
		    stack < p->tables->stack_count &&
		    (!d->failure || p->tags[stack] & TAGGED(MOMENTUM)))
			p->tags[stack] |= TAGGED(STATE);
		size = request ? request->requested : s->groups[i].largest;
		if (stack >= p->tables->stack_count || size < METRICS_MIN_BLOCK)
			continue;
		if (p->tags[stack] & TAGGED(LOSS) && size > d->logits)
			d->logits = size;
		if (!(p->tags[stack] & TAGGED(ATTENTION)) || p->tags[stack] & TAGGED(KV_CACHE))
			continue;
		if (p->tags[stack] & TAGGED(LINEAR))
			d->linear = size > d->linear ? size : d->linear;
		else
			d->scores = size > d->scores ? size : d->scores;
	}
	if (!d->logits)
		d->logits = judged_size(p, d->failure, s);
	head = metrics_head_size(p, d->failure, s);
	d->m->wide_labels = d->logits && d->logits >= head ? wide_labels(p, s, d->logits) : 0;
	d->logits = larger_of(d->logits, head);
	find_kin(d, p, s);
	d->m->logits_block = d->logits;
	d->m->attention_block = d->scores;
	d->m->attention_linear = d->linear;
}
