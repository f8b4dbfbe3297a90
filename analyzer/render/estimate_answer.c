#include "render/estimate_answer.h"

#include "config/rank_layout.h"
#include "estimate/device.h"
#include "estimate/fit.h"

#define MAX_WORLD 1000000

static size_t largest_stage(const struct estimate *e)
{
	size_t most = 0;

	for (size_t i = 1; i < e->stage_count; i++)
		if (e->stages[i].total > e->stages[most].total)
			most = i;
	return most;
}

static void put_size(struct page *p, struct buf *b, wide size)
{
	size_add(b, size > INT64_MAX ? INT64_MAX : (bytes)size, p->style->raw_bytes);
}

/* The first rank of a pipeline stage; -1: the layout does not say it. */
static int first_rank(const struct config *c, size_t stage)
{
	int64_t world = config_has(c, CONFIG_world_size) ? c->world_size : 0;
	struct rank_layout l;

	if (world < 1 || world > MAX_WORLD || !rank_layout_read(&l, c, (int)world))
		return -1;
	for (int rank = 0; rank < world; rank++)
		if (rank_coordinates(&l, rank).at[AXIS_PP] == (int)stage)
			return rank;
	return -1;
}

static void add_place(struct buf *b, const struct config *c, const struct estimate *e)
{
	size_t stage = largest_stage(e);
	int rank = first_rank(c, stage);

	if (e->stage_count > 1 && rank >= 0)
		buf_addf(b, " on rank %d (pipeline stage %zu)", rank, stage);
	else if (e->stage_count > 1)
		buf_addf(b, " on the ranks of pipeline stage %zu", stage);
	else if (config_has(c, CONFIG_world_size) && c->world_size > 1)
		buf_puts(b, " on rank 0 and each like it");
	else
		buf_puts(b, " on rank 0");
}

/* "fits H100-80GB (79.1 GiB)" */
static enum paint add_fit(struct page *p, struct buf *b, const struct answer *a,
			  const struct estimate *e)
{
	enum fit fit = estimate_fit(e, a->memory);
	wide usable = device_usable(a->config), need = estimate_device(e);

	buf_puts(b, fit == FIT_RED ? "does not fit " : "fits ");
	if (config_has(a->config, CONFIG_gpu))
		buf_addf(b, "%s (", a->config->gpu);
	put_size(p, b, usable);
	buf_puts(b, config_has(a->config, CONFIG_gpu) ? ")" : "");
	if (fit == FIT_RED)
		return PAINT_ALARM;
	if (need > usable) {
		buf_puts(b, ", if the allocator frees its cache in time");
	} else {
		buf_puts(b, ", ");
		put_size(p, b, usable - need);
		buf_puts(b, " to spare");
	}
	return fit == FIT_GREEN ? PAINT_CACHED : PAINT_WARNING;
}

void estimate_headline(struct page *p, const struct answer *a, const struct estimate *e)
{
	struct buf need = { 0 }, fit = { 0 };

	put_size(p, &need, estimate_device(e));
	add_place(&need, a->config, e);
	buf_puts(&need, ": ");
	buf_puts(p->out, "needs ");
	page_paint(p, PAINT_BOLD, need.text);
	if (a->memory) {
		enum paint paint = add_fit(p, &fit, a, e);

		page_paint(p, paint, fit.text);
	} else {
		buf_puts(p->out, "--gpu NAME says whether that fits");
	}
	buf_puts(p->out, "\n");
	if (a->assumed && *a->assumed)
		page_field(p, "assumed", a->assumed, 0);
	buf_puts(p->out, "\n");
	buf_release(&need);
	buf_release(&fit);
}
