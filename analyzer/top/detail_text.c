#include "top/detail_text.h"

#include <stdlib.h>
#include <string.h>

#include "render/categories_text.h"
#include "render/owners_text.h"
#include "render/table.h"
#include "top/frame_words.h"

#define STACKS 12

static void put_process(struct page *p, const struct live_process *process,
			const struct live_device *d)
{
	struct buf b = { 0 };

	frame_name(&b, process);
	page_paint(p, PAINT_BOLD, b.text);
	b.length = 0;
	if (process->rank >= 0)
		buf_addf(&b, "  pid %u", process->pid);
	buf_addf(&b, " on %s  %s%s", process->host, live_state_key(process->state),
		 process->simulated ? ", simulated" : "");
	if (process->exit_status > 0)
		buf_addf(&b, " with status %d", process->exit_status);
	if (process->age_s >= 0) {
		buf_puts(&b, ", last event ");
		frame_time(&b, process->age_s);
		buf_puts(&b, " ago");
	}
	if (d && d->tail.step)
		buf_addf(&b, ", step %u", d->tail.step);
	buf_puts(&b, "\n");
	buf_puts(p->out, b.text);
	buf_release(&b);
}

static void put_job(struct page *p, const struct rank *r)
{
	if (r->gpu)
		page_field(p, "GPU", r->gpu, 1);
	if (r->command)
		page_field(p, "command", r->command, 4);
}

static void put_memory(struct page *p, const struct live_device *d)
{
	const struct bar_part parts[] = {
		{ "tensors", d->allocated, PAINT_TENSORS },
		{ "cached", larger_of(d->reserved - d->allocated, 0), PAINT_CACHED },
		{ "other", d->other + d->untracked, PAINT_OUTSIDE },
		{ "free", larger_of(d->total - live_device_bytes(d), 0), PAINT_FREE },
	};
	struct buf b = { 0 };

	page_bar(p, "now", parts, ARRAY_SIZE(parts));
	buf_puts(&b, "allocated ");
	size_add(&b, d->allocated_peak, 0);
	buf_puts(&b, ", reserved ");
	size_add(&b, d->reserved_peak, 0);
	buf_puts(&b, ", device ");
	size_add(&b, d->device_peak, 0);
	if (d->ooms + d->refused)
		buf_addf(&b, "; %llu failed allocations", (unsigned long long)d->ooms + d->refused);
	page_field(p, "peaks", b.text, 0);
	buf_release(&b);
}

static void put_trend(struct page *p, const struct live_device *d)
{
	const struct trend *t = &d->tail.trend;
	int64_t left = live_steps_until_full(d);
	struct buf b = { 0 };

	if (t->steps < TREND_LEAST) {
		buf_puts(&b, "not known: too few steps were seen");
	} else {
		buf_puts(&b, t->is_growing ? "grows by " : "");
		size_add(&b, t->growth, 0);
		buf_addf(&b, " a step over the last %zu steps of %.2f s", t->steps, t->step_s);
		if (left >= 0)
			buf_addf(&b, "; the GPU is full in %lld steps at most", (long long)left);
		else
			buf_puts(&b, "; no trend");
	}
	page_field(p, "trend", b.text, 0);
	buf_release(&b);
}

static void put_stacks(struct page *p, const struct rank *r)
{
	static const struct column columns[] = {
		{ "size", ALIGN_RIGHT, 0, 0 },        { "share", ALIGN_RIGHT, 0, 0 },
		{ "blocks", ALIGN_RIGHT, 1, 0 },      { "category", ALIGN_LEFT, 0, 0 },
		{ "allocated by", ALIGN_LEFT, 0, 1 },
	};
	struct table t = { .columns = columns, .column_count = ARRAY_SIZE(columns) };

	if (!r->stacks.count)
		return;
	page_field(p, "stacks", "the largest at that moment", 0);
	for (size_t i = 0; i < r->stacks.count && i < STACKS; i++) {
		const struct stack_row *row = &r->stacks.rows[i];
		struct buf size = { 0 }, share = { 0 }, blocks = { 0 };

		size_add(&size, row->bytes, 0);
		buf_addf(&share, "%.0f %%",
			 r->stacks.bytes > 0 ? 100.0 * (double)row->bytes / (double)r->stacks.bytes
					     : 0);
		buf_addf(&blocks, "%llu", (unsigned long long)row->blocks);
		table_cell(&t, PAINT_NONE, size.text);
		table_cell(&t, PAINT_NONE, share.text);
		table_cell(&t, PAINT_NONE, blocks.text);
		table_cell(&t, PAINT_NONE, category_title(row->category));
		table_cell(&t, PAINT_NONE, row->label);
		buf_release(&size);
		buf_release(&share);
		buf_release(&blocks);
	}
	table_put(p, &t);
}

static const struct rank *find(const struct report *tail, const struct live_device *d)
{
	for (size_t i = 0; d && i < tail->count; i++)
		if (tail->ranks[i].device == (int)d->ordinal)
			return &tail->ranks[i];
	return NULL;
}

void detail_text(struct page *p, const struct process_row *row, const struct report *tail,
		 const char *why)
{
	const struct rank *r = find(tail, row->device);
	struct buf b = { 0 };

	put_process(p, row->process, row->device);
	if (row->device) {
		put_memory(p, row->device);
		put_trend(p, row->device);
	}
	if (!r) {
		page_field(p, "records", *why ? why : "no GPU memory was recorded", 0);
		return;
	}
	buf_addf(&b, "the highest moment of the last steps that were read, %.1f s after the start",
		 r->peak.time_s);
	page_field(p, "recent", b.text, 0);
	put_stacks(p, r);
	put_categories(p, r);
	put_owners(p, r);
	put_job(p, r);
	buf_release(&b);
}
