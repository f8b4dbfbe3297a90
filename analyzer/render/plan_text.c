#include "render/plan_text.h"

#include <stdio.h>
#include <string.h>

#include "plan/plan_reasons.h"
#include "render/page.h"

#define GIB ((double)(INT64_C(1) << 30))

/* Is there a column for the dimension? The system must distinguish its values and the job have it.
 */
static int has_column(const struct plan *plan, enum dimension dim)
{
	const struct space *space = &plan->system->space;

	switch (dim) {
	case DIM_RECOMPUTE:
		return space->recompute != BIT(RECOMPUTE_NONE);
	case DIM_ZERO:
		return (space->zero & (space->zero - 1)) != 0;
	case DIM_EP:
		return config_has(plan->config, CONFIG_num_experts) &&
		       plan->config->num_experts > 1 && space->sizes & BIT(DIM_EP);
	default:
		return (space->sizes & BIT(dim)) != 0;
	}
}

static const struct {
	const char *title;
	int width;
} columns[DIMENSIONS] = {
	[DIM_TP] = { "TP", 4 },
	[DIM_PP] = { "PP", 4 },
	[DIM_CP] = { "CP", 4 },
	[DIM_DP] = { "DP", 6 },
	[DIM_VPP] = { "VPP", 4 },
	[DIM_EP] = { "EP", 4 },
	[DIM_MBS] = { "micro-batch", 12 },
	[DIM_RECOMPUTE] = { "recompute", 10 },
	[DIM_ZERO] = { "ZeRO", 5 },
};

/* Three significant digits, at least one decimal: 0.213, 12.3, 140.0. */
static void put_seconds(struct buf *out, int width, double seconds)
{
	buf_addf(out, "%*.*f", width, seconds < 1 ? 3 : seconds < 10 ? 2 : 1, seconds);
}

static void put_row(struct page *p, const struct plan *plan, const struct plan_layout *l)
{
	for (size_t i = 0; i < DIMENSIONS; i++) {
		if (!has_column(plan, (enum dimension)i))
			continue;
		if (i == DIM_RECOMPUTE)
			buf_addf(p->out, "%*s", columns[i].width, recompute_names[l->size[i]]);
		else
			buf_addf(p->out, "%*lld", columns[i].width, (long long)l->size[i]);
		if (i == DIM_MBS)
			buf_addf(p->out, " x %-6lld", (long long)l->micro_batches);
	}
	buf_addf(p->out, "%8.1f%%%9.2f", 100 * l->bubble, (double)l->total / GIB);
	if (l->time.seconds > 0) {
		put_seconds(p->out, 10, l->time.seconds);
		buf_addf(p->out, "%11.0f%6.1f%%", l->time.tokens, 100 * l->time.mfu);
	}
	buf_puts(p->out, "  ");
	page_paint(p, l->fit == FIT_GREEN ? PAINT_CACHED : PAINT_WARNING, fit_word(l->fit));
	buf_puts(p->out, "\n");
}

static void put_rows(struct page *p, const struct plan *plan, enum plan_launcher launcher,
		     size_t top)
{
	for (size_t i = 0; i < DIMENSIONS; i++) {
		if (has_column(plan, (enum dimension)i))
			buf_addf(p->out, "%*s", columns[i].width, columns[i].title);
		if (i == DIM_MBS && has_column(plan, DIM_MBS))
			buf_addf(p->out, "%9s", "");
	}
	buf_addf(p->out, "%9s%9s", "bubble", "GiB");
	if (plan->fitting.at[0].time.seconds > 0)
		buf_addf(p->out, "%10s%11s%7s", "s a step", "tok/s/GPU", "MFU");
	buf_puts(p->out, "\n");
	for (size_t i = 0; i < plan->fitting.count && i < top; i++) {
		const struct plan_layout *l = &plan->fitting.at[i];

		put_row(p, plan, l);
		if (launcher == LAUNCHER_NONE)
			continue;
		buf_puts(p->out, "     ");
		plan_flags(plan, l, launcher, p->out);
		buf_puts(p->out, "\n");
	}
}

static void put_discarded(struct buf *out, const struct plan_layout *l)
{
	const char *space = "  ";

	for (size_t i = 0; i < DIMENSIONS; i++) {
		if (l->size[i] == UNSET)
			continue;
		if (i == DIM_RECOMPUTE)
			buf_addf(out, "%s%s %s", space, columns[i].title,
				 recompute_names[l->size[i]]);
		else
			buf_addf(out, "%s%s %lld", space, columns[i].title, (long long)l->size[i]);
		space = " ";
	}
	buf_addf(out, ": %s", l->reason);
	if (l->count > 1)
		buf_addf(out, ", %lld layouts", (long long)l->count);
	buf_puts(out, "\n");
}

/* The number of layouts without a formula, by dimension. */
static void put_inexpressible(const struct plan *plan, struct buf *out)
{
	const char *before = "         no formula for ";

	for (size_t dim = 0; dim < DIMENSIONS; dim++) {
		int64_t count = 0;

		for (size_t i = 0; i < plan->discarded.count; i++) {
			const struct plan_layout *l = &plan->discarded.at[i];

			if (l->why == DISCARD_INEXPRESSIBLE && l->size[dim] != UNSET)
				count += l->count;
		}
		if (!count)
			continue;
		buf_addf(out, "%s%s (%lld)", before, dimensions[dim].what, (long long)count);
		before = ", ";
	}
	buf_puts(out, "\n");
}

static void put_counts(const struct plan *plan, struct buf *out)
{
	static const char *const kinds[DISCARDS] = {
		[DISCARD_MEMORY] = "need more than a GPU has",
		[DISCARD_DIVIDES] = "do not divide evenly",
		[DISCARD_LIMIT] = "are beyond a limit (--max-tp and so on)",
		[DISCARD_REFUSED] = "are refused by",
		[DISCARD_INEXPRESSIBLE] = "are not in",
	};

	for (int why = DISCARD_MEMORY; why < DISCARDS; why++) {
		if (!plan->discarded_counts[why])
			continue;
		buf_addf(out, "%8lld %s%s%s\n", (long long)plan->discarded_counts[why], kinds[why],
			 why >= DISCARD_REFUSED ? " " : "",
			 why >= DISCARD_REFUSED ? plan->system->name : "");
		if (why == DISCARD_INEXPRESSIBLE)
			put_inexpressible(plan, out);
	}
}

/* The answer: the best layout, its memory and its time. */
static void put_best(struct page *p, const struct plan *plan)
{
	const struct plan_layout *l = &plan->fitting.at[0];
	const char *before = "best: ";

	for (size_t i = 0; i < DIMENSIONS; i++) {
		if (!has_column(plan, (enum dimension)i) ||
		    ((i == DIM_VPP || i == DIM_EP || i == DIM_CP) && l->size[i] == 1))
			continue;
		if (i == DIM_RECOMPUTE)
			buf_addf(p->out, "%s%s %s", before, columns[i].title,
				 recompute_names[l->size[i]]);
		else
			buf_addf(p->out, "%s%s %lld", before, columns[i].title,
				 (long long)l->size[i]);
		before = ", ";
	}
	buf_addf(p->out, ": %.2f GiB of %.0f", (double)l->total / GIB, (double)plan->memory / GIB);
	if (l->time.seconds > 0) {
		buf_puts(p->out, ", predicted ");
		put_seconds(p->out, 0, l->time.seconds);
		buf_addf(p->out, " s a step (%.0f tokens/s a GPU, MFU %.1f %%)", l->time.tokens,
			 100 * l->time.mfu);
	}
	buf_puts(p->out, "\n");
}

static void put_reasons(const struct plan *plan, struct buf *out)
{
	struct plan_reason top[PLAN_REASONS];
	size_t count = plan_reasons(plan, top);

	if (count)
		buf_puts(out, "most frequent reasons\n");
	for (size_t i = 0; i < count; i++)
		buf_addf(out, "%8lld such as: %s\n", (long long)top[i].count, top[i].text);
}

static void put_answer(struct page *p, const struct plan *plan)
{
	if (plan->fitting.count)
		put_best(p, plan);
	else
		buf_puts(p->out, "no layout fits\n");
	buf_addf(p->out, "%s%zu layouts fit on %lld GPUs of %.0f GiB, by %s%s\n\n",
		 plan->not_judged ? "at least " : "", plan->fitting.count, (long long)plan->gpus,
		 (double)plan->memory / GIB, plan->system->name,
		 plan->order == ORDER_TIME ? ", the fastest first" : ", in document 003's order");
}

void plan_text(const struct plan *plan, enum plan_launcher launcher, size_t top,
	       const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	int64_t discarded = 0;

	for (int why = DISCARD_MEMORY; why < DISCARDS; why++)
		discarded += plan->discarded_counts[why];
	put_answer(&p, plan);
	if (plan->fitting.count)
		put_rows(&p, plan, launcher, top);
	if (plan->fitting.count > top)
		buf_addf(out, "and %zu more: --all\n", plan->fitting.count - top);
	if (plan->not_judged)
		buf_addf(out, "%lld come later in this order and were not estimated: --all\n",
			 (long long)plan->not_judged);
	buf_addf(out, "\n%lld discarded\n", (long long)discarded);
	put_counts(plan, out);
	put_reasons(plan, out);
	for (size_t i = 0; top == SIZE_MAX && i < plan->discarded.count; i++)
		put_discarded(out, &plan->discarded.at[i]);
	buf_puts(out, "\n");
	if (plan->order == ORDER_TIME)
		page_field(&p, "time",
			   "predicted from data sheets, published rates of kernels and the traffic "
			   "between GPUs: docs/planner.md says how far it was off",
			   0);
	if (plan->assumed)
		page_field(&p, "assumed", plan->assumed, 0);
	if (plan->order == ORDER_TIME && plan->assumes_masks)
		page_field(&p, "assumed",
			   "the data loader builds an attention mask for each sample, as in the "
			   "jobs that document 003 measured; --set "
			   "create_attention_mask_in_dataloader=false: it builds none",
			   0);
	page_field(&p, "without", plan->system->leaves_out, 0);
}
