#include "render/report_parts.h"

#include "diagnose/advice.h"
#include "render/findings.h"

#include <string.h>

#define EARLIER_SHOWN 3 /* places of earlier failures */
#define OTHERS_SHOWN 20

void words_add_rank(struct buf *b, const struct rank *r)
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

void words_add_label(struct buf *b, const struct stack_row *row)
{
	if (row->backward_of)
		buf_puts(b, "backward of ");
	buf_puts(b, row->backward_of ? row->backward_of : row->label);
}

void words_add_inner(struct buf *b, const struct stack_row *row, size_t room)
{
	const char *inner = row->inner;
	size_t function = strcspn(inner, " ");

	if (*inner && utf8_width(inner) + 6 <= room)
		buf_addf(b, " (in %s)", inner);
	else if (*inner && function + 6 <= room)
		buf_addf(b, " (in %.*s)", (int)function, inner);
}

void words_add_blocks(struct page *p, struct buf *b, const struct stack_row *row)
{
	if (row->smallest != row->largest) {
		buf_addf(b, "%llu blocks", (unsigned long long)row->blocks);
		return;
	}
	buf_addf(b, "%llu %s ", (unsigned long long)row->blocks, page_times(p));
	page_size(p, b, row->largest);
}

struct shares shares_of(const struct point *when, bytes total, bytes free_bytes)
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

static void add_step(struct buf *b, unsigned step)
{
	if (step)
		buf_addf(b, "step %u", step);
	else
		buf_puts(b, "step unknown");
}

void words_add_moment(struct buf *b, const struct rank *r, const struct point *when)
{
	if (inference_stage(r)) {
		buf_puts(b, inference_stage(r));
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

static const char *alarm_of(const struct rank *r, const struct oom *o)
{
	return o->survived == SURVIVED_YES || r->end == END_EXIT ? "OUT OF MEMORY, survived"
								 : "OUT OF MEMORY";
}

/* The rank that failed, and the moment. */
static void add_failed(struct buf *b, const struct rank *r, const struct oom *o,
		       const char *between)
{
	words_add_rank(b, r);
	buf_puts(b, between);
	words_add_moment(b, r, &o->when);
	if (r->simulated)
		buf_addf(b, "%ssimulated", between);
}

/* The request, what PyTorch takes from the device for it, and the free memory. */
static void add_asked(struct page *p, struct buf *b, const struct oom *o)
{
	int rounds = o->segment != UNKNOWN_BYTES && o->segment > o->requested;
	bytes taken = rounds ? o->segment : o->requested;

	buf_puts(b, "asked ");
	page_size(p, b, o->requested);
	if (rounds) {
		buf_puts(b, ", for which PyTorch takes a segment of ");
		page_size(p, b, o->segment);
	}
	if (o->by)
		buf_addf(b, " by %s", *o->by ? o->by : "an unknown module");
	buf_puts(b, ", free ");
	page_size(p, b, o->free);
	buf_puts(b, ", largest cached free block ");
	page_size(p, b, o->largest_free);
	if (o->free != UNKNOWN_BYTES && taken > o->free) {
		buf_puts(b, ", short by ");
		page_size(p, b, taken - o->free);
	}
}

void oom_text_line(const struct rank *r, struct buf *b)
{
	const struct oom *o = rank_oom(r);

	buf_addf(b, "%s, ", alarm_of(r, o));
	add_failed(b, r, o, ", ");
}

/* The last failure. `report`: NULL if it was not diagnosed. */
static void put_oom(struct page *p, const struct rank *r, const struct oom *o,
		    const struct report *report)
{
	struct buf left = { 0 }, right = { 0 }, top = { 0 };

	buf_puts(&left, "  ");
	add_failed(&left, r, o, "  ");
	add_asked(p, &right, o);
	page_pair(p, PAINT_ALARM, alarm_of(r, o), left.text, right.text);
	if (report)
		findings_verdict(p, report);
	if (report)
		findings_need(p, report, r);
	put_breakdown(p, r, o);
	if (o->place)
		page_field(p, "request", o->place, 0);
	if (o->stacks.count) {
		const struct stack_row *row = &o->stacks.rows[0];

		page_size(p, &top, row->bytes);
		buf_puts(&top, "  ");
		words_add_blocks(p, &top, row);
		buf_puts(&top, "  ");
		words_add_label(&top, row);
		page_field(p, "top", top.text, 0);
	}
	if (report)
		findings_rest(p, report);
	buf_release(&left);
	buf_release(&right);
	buf_release(&top);
}

static int is_of_place(const struct oom *a, const struct oom *b)
{
	return a->in_convolution == b->in_convolution &&
	       (a->place && b->place ? !strcmp(a->place, b->place) : a->place == b->place);
}

/* Was the place of the failure listed before, with a later one? */
static int is_listed_before(const struct rank *r, size_t i, size_t end)
{
	for (size_t k = i + 1; k < end; k++)
		if (is_of_place(&r->ooms[i], &r->ooms[k]))
			return 1;
	return 0;
}

/* The failures before the last one at the place of the failure `i`, of which the job went on. */
static void put_earlier(struct page *p, const struct rank *r, size_t i, const char *label)
{
	const struct oom *last = &r->ooms[i], *first = last;
	struct buf b = { 0 };
	size_t count = 0;
	bytes most = 0;

	for (size_t k = i + 1; k-- > 0;)
		if (is_of_place(&r->ooms[k], last)) {
			first = &r->ooms[k];
			count++;
			most = first->requested > most ? first->requested : most;
		}
	buf_addf(&b, "%zu %s failed before that one, and the job went on: ", count,
		 count > 1 ? "requests" : "request");
	words_add_moment(&b, r, &first->when);
	if (first->when.step != last->when.step || strcmp(first->when.phase, last->when.phase)) {
		buf_puts(&b, ", to ");
		words_add_moment(&b, r, &last->when);
	}
	buf_puts(&b, count > 1 ? ", of up to " : ", of ");
	page_size(p, &b, most);
	if (last->place)
		buf_addf(&b, ", %s", last->place);
	if (last->in_convolution)
		buf_puts(
			&b,
			" (in a convolution cuDNN tries algorithms with large workspaces, and PyTorch takes one for which there is room)");
	page_field(p, label, b.text, 0);
	buf_release(&b);
}

void oom_text(struct page *p, const struct rank *r, const struct report *report)
{
	size_t earlier = r->oom_count ? r->oom_count - 1 : 0, shown = 0;

	if (r->oom_count)
		put_oom(p, r, &r->ooms[earlier], report->diagnosis ? report : NULL);
	for (size_t i = earlier; i-- > 0;) {
		if (is_listed_before(r, i, earlier))
			continue;
		if (shown++ < EARLIER_SHOWN)
			put_earlier(p, r, i, shown > 1 ? "" : "earlier");
	}
	if (shown > EARLIER_SHOWN)
		buf_addf(p->out, "%*sand at %zu more places\n", PAGE_INDENT, "",
			 shown - EARLIER_SHOWN);
	if (r->ooms_seen > r->oom_count)
		buf_addf(p->out, "%*sand %llu more between these and the last one\n", PAGE_INDENT,
			 "", (unsigned long long)(r->ooms_seen - r->oom_count));
	if (r->ooms_seen)
		buf_puts(p->out, "\n");
}

void oom_text_others(struct page *p, const struct report *report, const struct rank *worst)
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
