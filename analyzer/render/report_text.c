#include "render/report_text.h"

#include "render/categories_text.h"
#include "render/findings.h"
#include "render/owners_text.h"
#include "render/ranks_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OOMS_SHOWN 3
#define OTHERS_SHOWN 20

static void add_who(struct buf *b, const struct rank *r)
{
	if (r->rank == NO_RANK)
		buf_addf(b, "process %u", r->pid);
	else if (r->world_size > 0)
		buf_addf(b, "rank %d of %d", r->rank, r->world_size);
	else
		buf_addf(b, "rank %d", r->rank);
	if (r->coordinates)
		buf_addf(b, " (%s)", r->coordinates);
	if (r->device)
		buf_addf(b, " gpu %d", r->device);
}

/* "12 × 288.0 MiB", or "12 blocks" if sizes differ. */
/* A block of the backward pass has no line of its own. */
static void add_label(struct buf *b, const struct stack_row *row)
{
	if (row->backward_of)
		buf_puts(b, "backward of ");
	buf_puts(b, row->backward_of ? row->backward_of : row->label);
}

static void add_blocks(struct page *p, struct buf *b, const struct stack_row *row)
{
	if (row->smallest != row->largest) {
		buf_addf(b, "%llu blocks", (unsigned long long)row->blocks);
		return;
	}
	buf_addf(b, "%llu %s ", (unsigned long long)row->blocks, page_times(p));
	page_size(p, b, row->largest);
}

/* The used memory of a device, as parts that add up. */
struct shares {
	bytes tensors, cached, outside, used;
};

static struct shares shares_of(const struct point *when, bytes total, bytes free_bytes)
{
	struct shares s = { .tensors = when->allocated, .outside = when->other + when->untracked };

	s.cached = when->reserved > when->allocated ? when->reserved - when->allocated : 0;
	if (total != UNKNOWN_BYTES && free_bytes != UNKNOWN_BYTES) {
		bytes outside = total - free_bytes - s.tensors - s.cached;

		s.outside = outside > 0 ? outside : 0;
	}
	s.used = s.tensors + s.cached + s.outside;
	return s;
}

/* A line that adds up: " + activations 37.7", without terms that would show as zero. */
struct sum {
	struct buf text;
	struct unit unit;
	size_t terms;
};

static void add_term(struct sum *s, const char *title, bytes size)
{
	if (size < s->unit.bytes / 20 || !size)
		return;
	buf_puts(&s->text, s->terms++ ? " +" PAGE_HARD_SPACE : " ");
	for (; *title; title++)
		buf_add(&s->text, *title == ' ' ? PAGE_HARD_SPACE : title, 1);
	buf_puts(&s->text, PAGE_HARD_SPACE);
	size_add_in(&s->text, size, s->unit);
}

/* Do the owners' bytes add up to the memory in use? */
static int owners_add_up(const struct oom *o, const struct shares *s)
{
	bytes sum = 0;

	for (enum owner k = 0; k < OWNERS; k++) {
		if (o->by_owner[k] < 0)
			return 0;
		sum = bytes_add(sum, o->by_owner[k]);
	}
	return o->by_owner[OWNER_PYTORCH] >= s->tensors + s->cached && sum == s->used;
}

static void put_breakdown(struct page *p, const struct rank *r, const struct oom *o)
{
	struct shares s = shares_of(&o->when, r->total, o->free);
	struct sum sum = { .unit = size_unit(s.used, p->style->raw_bytes) };
	bytes rest = s.tensors;

	size_add_in(&sum.text, s.used, sum.unit);
	buf_addf(&sum.text, " %s =", sum.unit.name);
	for (enum category c = 0; c < CATEGORIES; c++) {
		add_term(&sum, category_title(c), o->when.by_category[c]);
		rest -= o->when.by_category[c];
	}
	add_term(&sum, "other tensors", rest);
	add_term(&sum, "cached and free", s.cached);
	if (owners_add_up(o, &s)) {
		add_term(&sum, "PyTorch beside it",
			 o->by_owner[OWNER_PYTORCH] - s.tensors - s.cached);
		for (enum owner k = OWNER_PYTORCH + 1; k < OWNERS; k++)
			add_term(&sum, owner_title(k), o->by_owner[k]);
	} else {
		add_term(&sum, "outside PyTorch", s.outside);
	}
	page_field(p, "breakdown", sum.text.text, 0);
	buf_release(&sum.text);
}

static void add_step(struct buf *b, unsigned step)
{
	if (step)
		buf_addf(b, "step %u", step);
	else
		buf_puts(b, "step unknown");
}

/* "step 1, forward: loss", or the part of it that is known; "decode" of a job that only infers. */
static void add_moment(struct buf *b, const struct rank *r, const struct point *when)
{
	if (findings_stage(r)) {
		buf_puts(b, findings_stage(r));
		return;
	}
	if (strcmp(when->phase, "setup")) {
		add_step(b, when->step);
		buf_puts(b, ", ");
	}
	buf_puts(b, when->phase);
	if (when->part)
		buf_addf(b, ": %s", when->part);
	if (when->named) {
		buf_puts(b, ", in \"");
		named_add_path(when->named, b);
		buf_puts(b, "\"");
	}
}

/* `report`: given for the failure that was diagnosed, else NULL. */
static void put_oom(struct page *p, const struct rank *r, const struct oom *o,
		    const struct report *report)
{
	struct buf left = { 0 }, right = { 0 }, top = { 0 };

	buf_puts(&left, "  ");
	add_who(&left, r);
	buf_puts(&left, "  ");
	add_moment(&left, r, &o->when);
	buf_puts(&left, r->simulated ? "  simulated" : "");
	buf_puts(&right, "asked ");
	page_size(p, &right, o->requested);
	if (o->by)
		buf_addf(&right, " by %s", *o->by ? o->by : "an unknown module");
	buf_puts(&right, ", free ");
	page_size(p, &right, o->free);
	buf_puts(&right, ", largest cached free block ");
	page_size(p, &right, o->largest_free);
	if (o->free != UNKNOWN_BYTES && o->requested > o->free) {
		buf_puts(&right, ", short by ");
		page_size(p, &right, o->requested - o->free);
	}
	page_pair(p, PAINT_ALARM,
		  o->survived == SURVIVED_YES || r->end == END_EXIT ? "OUT OF MEMORY, survived"
								    : "OUT OF MEMORY",
		  left.text, right.text);
	if (report)
		findings_verdict(p, report);
	if (report)
		findings_need(p, report, r);
	put_breakdown(p, r, o);
	if (o->stacks.count) {
		const struct stack_row *row = &o->stacks.rows[0];

		page_size(p, &top, row->bytes);
		buf_puts(&top, "  ");
		add_blocks(p, &top, row);
		buf_puts(&top, "  ");
		add_label(&top, row);
		page_field(p, "top", top.text, 0);
	}
	if (report)
		findings_rest(p, report);
	buf_release(&left);
	buf_release(&right);
	buf_release(&top);
}

/* The last failures of a rank, newest first. */
static void put_ooms(struct page *p, const struct rank *r, const struct report *report)
{
	size_t shown = r->oom_count < OOMS_SHOWN ? r->oom_count : OOMS_SHOWN;

	for (size_t i = 0; i < shown; i++)
		put_oom(p, r, &r->ooms[r->oom_count - 1 - i],
			!i && report->diagnosis ? report : NULL);
	if (r->ooms_seen > shown)
		buf_addf(p->out, "and %llu earlier\n", (unsigned long long)(r->ooms_seen - shown));
	if (r->ooms_seen)
		buf_puts(p->out, "\n");
}

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

static void put_peak(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	page_size(p, &b, r->peak_allocated);
	buf_puts(&b, " in tensors");
	if (r->peak_of != PEAK_OF_JOB)
		buf_addf(&b, " %s,", peak_scope_title(r->peak_of));
	if (r->asked_phase)
		buf_addf(&b, " while phase \"%s\" was open", r->asked_phase);
	if (r->peak.unrecorded) {
		buf_puts(&b, ", at a moment that is not in the trace");
	} else {
		buf_addf(&b, " at %.2f s, ", r->peak.time_s);
		add_moment(&b, r, &r->peak);
		if (r->peak.thread)
			buf_addf(&b, ", thread %s", r->peak.thread);
	}
	buf_puts(&b, "; PyTorch held up to ");
	page_size(p, &b, r->peak_reserved);
	if (r->peak_device == UNKNOWN_BYTES) {
		buf_puts(&b, ", the device's peak is unknown");
	} else {
		buf_puts(&b, ", the device up to ");
		page_size(p, &b, r->peak_device);
	}
	if (r->lost_events)
		buf_addf(&b, "; not exact: %llu events are missing",
			 (unsigned long long)r->lost_events);
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

	/* What is outside PyTorch, or free, is unknown of another tool's file. */
	page_bar(p, "memory", parts, r->imported ? 2 : known);
}

/* " (in function file:line)", or without the file, or nothing, so that it fits into `room` columns.
 */
static void put_inner(struct page *p, const char *inner, size_t room)
{
	size_t function = strcspn(inner, " ");

	if (*inner && utf8_width(inner) + 6 <= room)
		buf_addf(p->out, " (in %s)", inner);
	else if (*inner && function + 6 <= room)
		buf_addf(p->out, " (in %.*s)", (int)function, inner);
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
	add_blocks(p, &blocks, row);
	add_label(&name, row);
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
		put_inner(p, row->inner, room - width - label);
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

static void put_rank(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	add_who(&b, r);
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
	buf_release(&b);
}

/* The other ranks that ran out of memory, beside the one that is shown. */
static void put_other_failures(struct page *p, const struct report *report,
			       const struct rank *worst)
{
	struct buf lists[2] = { { 0 } };
	size_t n[2] = { 0 };

	for (size_t i = 0; i < report->count; i++) {
		const struct rank *r = &report->ranks[i];
		int list = r->rank == NO_RANK;

		if (r != worst && r->oom_count && n[list]++ < OTHERS_SHOWN)
			buf_addf(&lists[list], "%s%d", n[list] > 1 ? ", " : "",
				 list ? (int)r->pid : r->rank);
	}
	for (int list = 0; list < 2; list++) {
		const char *one = list ? "process" : "rank", *more = list ? "processes" : "ranks";

		if (!n[list])
			continue;
		buf_addf(p->out, "also out of memory: %s %s", n[list] > 1 ? more : one,
			 lists[list].text);
		if (n[list] > OTHERS_SHOWN)
			buf_addf(p->out, " and %zu more", n[list] - OTHERS_SHOWN);
		buf_puts(p->out, "\n\n");
		buf_release(&lists[list]);
	}
}

void report_text(const struct report *report, const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	const struct rank *worst = report_worst(report);

	if (!worst)
		return;
	put_ooms(&p, worst, report);
	if (report->diagnosis && !worst->ooms_seen && findings_verdict(&p, report)) {
		findings_rest(&p, report);
		buf_puts(out, "\n");
	}
	put_other_failures(&p, report, worst);
	ranks_text(&p, report);
	put_rank(&p, worst);
	ranks_text_warnings(&p, report, worst);
	put_next(&p, report, worst);
}
