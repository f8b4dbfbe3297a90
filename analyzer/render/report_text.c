#include "render/report_text.h"

#include "render/categories_text.h"
#include "render/findings.h"
#include "render/owners_text.h"
#include "render/ranks_text.h"
#include "render/report_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_end(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	switch (r->end) {
	case END_OOM:
		buf_puts(&b, "out of memory");
		break;
	case END_EXIT:
		buf_puts(&b, "exited");
		break;
	case END_KILLED:
		buf_puts(
			&b,
			"killed: no end record, and no process writes the trace any more (a signal, or os._exit)");
		break;
	case END_RUNNING:
		buf_puts(&b, "still running");
		break;
	case END_UNKNOWN:
		if (r->imported) {
			buf_puts(&b, "unknown");
			break;
		}
		buf_puts(&b, "unknown: there is no end record, and ");
		if (r->host && *r->host)
			buf_addf(&b, "this host cannot check processes of host %s", r->host);
		else
			buf_puts(&b, "it is not known on which host its process would be");
		break;
	}
	if (r->ended && r->exit_status >= 0)
		buf_addf(&b, ", status %d", r->exit_status);
	buf_addf(&b, ", %.1f s after its first GPU allocation", r->duration_s);
	page_field(p, "ended", b.text, 0);
	buf_release(&b);
}

static void put_gpu(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	buf_addf(&b, "%d: %s", r->device, r->gpu ? r->gpu : "unknown");
	if (r->total != UNKNOWN_BYTES) {
		buf_puts(&b, ", ");
		page_size(p, &b, r->total);
	}
	if (r->gpu_uuid && !r->simulated)
		buf_addf(&b, ", %s", r->gpu_uuid);
	if (r->simulated)
		buf_puts(&b, ", simulated: nothing here was observed on a GPU");
	page_field(p, "gpu", b.text, 0);
	buf_release(&b);
}

static void add_peak(struct page *p, const struct rank *r, struct buf *b)
{
	page_size(p, b, r->peak_allocated);
	buf_puts(b, " in tensors");
	if (r->peak_of != PEAK_OF_JOB)
		buf_addf(b, " %s,", peak_scope_title(r->peak_of));
	if (r->asked_phase)
		buf_addf(b, " while phase \"%s\" was open", r->asked_phase);
	if (r->peak.unrecorded) {
		buf_puts(b, ", at a moment that is not in the trace");
	} else {
		buf_addf(b, " at %.2f s, ", r->peak.time_s);
		words_add_moment(b, r, &r->peak);
		if (r->peak.thread)
			buf_addf(b, ", thread %s", r->peak.thread);
	}
	buf_puts(b, "; PyTorch held up to ");
	page_size(p, b, r->peak_reserved);
	if (r->peak_device == UNKNOWN_BYTES) {
		buf_puts(b, ", the device's peak is unknown");
	} else {
		buf_puts(b, ", the device up to ");
		page_size(p, b, r->peak_device);
	}
	if (r->lost_events)
		buf_addf(b, "; not exact: %llu events are missing",
			 (unsigned long long)r->lost_events);
}

static void put_peak(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	add_peak(p, r, &b);
	page_field(p, "peak", b.text, 0);
	buf_release(&b);
	if (r->counted_from_runtime)
		page_field(
			p, "note",
			"the caching allocator reported nothing: counted from cudaMallocAsync and cudaMalloc",
			0);
}

static void put_bar(struct page *p, const struct rank *r)
{
	struct shares s = shares_of(&r->peak, UNKNOWN_BYTES, UNKNOWN_BYTES);
	bytes left = r->total == UNKNOWN_BYTES || r->total < s.used ? 0 : r->total - s.used;
	struct bar_part parts[] = {
		{ "tensors", s.tensors, PAINT_TENSORS },
		{ "cached and fragmented", s.cached, PAINT_CACHED },
		{ "outside PyTorch", s.outside, PAINT_OUTSIDE },
		{ "free", left, PAINT_FREE },
	};
	size_t known = r->total == UNKNOWN_BYTES ? 3 : 4;

	/* A file of another tool lacks the memory outside PyTorch and the free memory. */
	page_bar(p, "memory", parts, r->imported ? 2 : known);
}

static void put_row(struct page *p, const struct rank *r, const struct stack_row *row)
{
	struct buf b = { 0 }, blocks = { 0 }, name = { 0 };
	double share =
		r->stacks.bytes > 0 ? 100.0 * (double)row->bytes / (double)r->stacks.bytes : 0;
	int size_width = p->style->raw_bytes ? 20 : 10;
	const char *category = category_title(row->category);
	size_t room = (size_t)p->style->width, pad, width, label;

	page_size(p, &b, row->bytes);
	words_add_blocks(p, &blocks, row);
	words_add_label(&name, row);
	label = utf8_width(name.text);
	width = utf8_width(blocks.text);
	pad = width < 14 ? 14 - width : 0;
	buf_addf(p->out, "%*s%*s %3.0f %%  %s%*s  %s", PAGE_ROW, "", size_width, b.text, share,
		 blocks.text, (int)pad, "", category);
	/* The label takes the rest of the line, or one of its own. */
	width += PAGE_ROW + (size_t)size_width + 8 + pad + 2 + CATEGORY_WIDTH + 2;
	if (width + label > room) {
		buf_addf(p->out, "\n%*s%s", PAGE_INDENT, "", name.text);
		width = PAGE_INDENT;
	} else {
		buf_addf(p->out, "%*s  %s", CATEGORY_WIDTH - (int)strlen(category), "", name.text);
	}
	if (width + label < room)
		words_add_inner(p->out, row, room - width - label);
	buf_puts(p->out, "\n");
	buf_release(&b);
	buf_release(&blocks);
	buf_release(&name);
}

static void put_stacks(struct page *p, const struct rank *r)
{
	size_t shown =
		r->stacks.count < (size_t)p->style->top ? r->stacks.count : (size_t)p->style->top;
	struct buf b = { 0 };
	bytes rest = r->stacks.bytes;

	if (!r->stacks.count)
		return;
	buf_addf(&b, "at the %s: ", r->peak.unrecorded ? MOMENT_IN_TRACE : "peak");
	page_size(p, &b, r->stacks.bytes);
	buf_addf(&b, " in %llu %s", (unsigned long long)r->stacks.blocks,
		 r->stacks.blocks == 1 ? "block" : "blocks");
	page_field(p, "largest", b.text, 0);
	buf_release(&b);
	for (size_t i = 0; i < shown; i++) {
		put_row(p, r, &r->stacks.rows[i]);
		rest -= r->stacks.rows[i].bytes;
	}
	if (shown < r->stacks.count + r->stacks.left_out) {
		buf_addf(&b, "%zu more stacks, ", r->stacks.count + r->stacks.left_out - shown);
		page_size(p, &b, rest);
		page_field(p, "", b.text, 0);
	}
	buf_release(&b);
}

static void put_timeline(struct page *p, const struct rank *r)
{
	bytes *values = xcalloc(r->timeline_count, sizeof(*values)), top = 0;
	struct buf b = { 0 };

	for (size_t i = 0; i < r->timeline_count; i++) {
		values[i] = r->timeline[i].allocated;
		top = values[i] > top ? values[i] : top;
	}
	page_sparkline(p, "timeline", values, r->timeline_count, top);
	if (r->timeline_count && top > 0) {
		buf_addf(&b, "tensors, 0 to %.1f s, highest ", r->duration_s);
		page_size(p, &b, top);
		buf_puts(&b, "; left at the end ");
		page_size(p, &b, r->final_bytes);
		buf_addf(&b, " in %llu %s", (unsigned long long)r->final_blocks,
			 r->final_blocks == 1 ? "block" : "blocks");
		page_field(p, "", b.text, 0);
	}
	buf_release(&b);
	free(values);
}

/* The rank, its end, and its highest peak. */
static void put_rank_head(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	words_add_rank(&b, r);
	page_paint(p, PAINT_BOLD, b.text);
	buf_addf(p->out, "  host %s", *r->host ? r->host : "unknown");
	if (r->rank != NO_RANK)
		buf_addf(p->out, "  pid %u", r->pid);
	buf_puts(p->out, r->simulated ? "  simulated\n" : "\n");
	put_gpu(p, r);
	if (r->command) {
		struct buf shown = { 0 };

		buf_add_clean(&shown, (struct str){ r->command, strlen(r->command) });
		page_field(p, "command", shown.text, 3);
		buf_release(&shown);
	}
	put_end(p, r);
	put_peak(p, r);
	put_bar(p, r);
	buf_release(&b);
}

static void put_rank(struct page *p, const struct rank *r)
{
	put_rank_head(p, r);
	findings_inference(p, r);
	put_categories(p, r);
	put_stacks(p, r);
	put_timeline(p, r);
	put_marks(p, r);
	put_owners(p, r);
	put_comms(p, r);
	put_host(p, r);
	for (size_t i = 0; i < r->warning_count; i++)
		page_field(p, "warning", r->warnings[i], 0);
}

/* The advice for a job that did not fail. Returns 0 if there is nothing to say. */
static int put_diagnosis(struct page *p, const struct report *report, const struct rank *worst)
{
	if (!report->diagnosis || worst->ooms_seen || !findings_verdict(p, report))
		return 0;
	findings_rest(p, report);
	buf_puts(p->out, "\n");
	return 1;
}

void report_text(const struct report *report, const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	const struct rank *worst = report_worst(report);

	if (!worst)
		return;
	oom_text(&p, worst, report);
	put_diagnosis(&p, report, worst);
	oom_text_others(&p, report, worst);
	ranks_text(&p, report);
	put_rank(&p, worst);
	ranks_text_warnings(&p, report, worst);
	put_next(&p, report, worst);
}

void report_headline(const struct report *report, const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	const struct rank *worst = report_worst(report);

	if (!worst)
		return;
	if (rank_oom(worst)) {
		oom_text_line(worst, out);
		return;
	}
	if (report->count > 1)
		buf_addf(out, "%zu ranks, highest ", report->count);
	buf_puts(out, "peak ");
	add_peak(&p, worst, out);
}

void report_answer(const struct report *report, const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	const struct rank *worst = report_worst(report);

	if (!worst)
		return;
	oom_text(&p, worst, report);
	if (out->length || put_diagnosis(&p, report, worst))
		return;
	if (report->count > 1)
		ranks_text_table(&p, report);
	else
		put_rank_head(&p, worst);
}
