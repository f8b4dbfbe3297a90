#include "render/match_text.h"

#include <stdlib.h>
#include <string.h>

#include "report/rank_groups.h"
#include "render/inferred_text.h"
#include "render/page.h"
#include "util/size.h"

#define COLUMN 13

static void put_size(struct page *p, bytes size)
{
	struct buf b = { 0 };

	size_add(&b, size, p->style->raw_bytes);
	buf_addf(p->out, "%*s", COLUMN, b.text);
	buf_release(&b);
}

static double percent(double error)
{
	return error * 100;
}

static void put_verdict(struct page *p, const struct match *m)
{
	struct buf b = { 0 };

	page_paint(p, m->fails ? PAINT_ALARM : PAINT_BOLD, m->fails ? "mismatch" : "match");
	if (m->rank->rank != NO_RANK)
		buf_addf(&b, "  rank %d", m->rank->rank);
	buf_addf(&b, "  %s estimates ", m->system->name);
	size_add(&b, m->estimated, p->style->raw_bytes);
	buf_puts(&b, m->rank->simulated ? ", simulated " : ", observed ");
	size_add(&b, m->observed, p->style->raw_bytes);
	buf_addf(&b, ": %+.2f %%\n", percent(m->error));
	buf_puts(p->out, b.text);
	buf_release(&b);
}

static void put_causes(struct page *p, const struct match *m)
{
	int by_gap = match_has_gap(m);

	for (size_t i = 0; i < m->cause_count; i++) {
		const struct match_cause *c = &m->causes[i];
		struct buf left = { 0 }, gap = { 0 };

		size_add(&left, by_gap ? c->gap : c->error_bytes, p->style->raw_bytes);
		size_add(&gap, by_gap ? match_gap(m) : llabs(m->estimated - m->observed),
			 p->style->raw_bytes);
		buf_addf(p->out, "%s  %s, declared %s, would be %s: %s; ", i ? "or" : "why", c->key,
			 c->declared ? c->declared : "nowhere",
			 strcmp(c->value, "~") ? c->value : "not set", c->meaning);
		buf_addf(p->out,
			 by_gap ? "the gap of %s would be %s\n"
				: "the peak, missed by %s, would be missed by %s\n",
			 gap.text, left.text);
		buf_release(&left);
		buf_release(&gap);
	}
}

static void put_what_if(struct page *p, const struct match *m)
{
	if (!m->what_if.asked)
		return;
	buf_puts(p->out, "what if  ");
	size_add(p->out, m->what_if.low, p->style->raw_bytes);
	buf_puts(p->out, " to ");
	size_add(p->out, m->what_if.high, p->style->raw_bytes);
	buf_puts(p->out, "\n");
}

static void put_head(struct page *p, const char *title)
{
	buf_addf(p->out, "\n%-36s%*s%*s\n", title, COLUMN, "estimated", COLUMN, "observed");
}

static void put_components(struct page *p, const struct match *m)
{
	put_head(p, "component");
	for (size_t i = 0; i < m->component_count; i++) {
		const struct match_component *c = &m->components[i];

		buf_addf(p->out, "%-36s", c->key);
		put_size(p, c->estimated);
		put_size(p, c->observed);
		if (c->fails)
			page_paint(p, PAINT_ALARM, "  beyond its tolerance");
		buf_puts(p->out, "\n");
	}
}

static void put_terms(struct page *p, const struct match *m)
{
	size_t most = (size_t)p->style->top < m->term_count ? (size_t)p->style->top : m->term_count;

	put_head(p, "term");
	for (size_t i = 0; i < most; i++) {
		const struct match_term *t = &m->terms[i];

		buf_addf(p->out, "%-36s", t->id);
		put_size(p, t->estimated);
		put_size(p, t->observed);
		if (t->predicted)
			buf_addf(p->out, "  %llu of %llu blocks", (unsigned long long)t->blocks,
				 (unsigned long long)t->predicted);
		buf_puts(p->out, "\n");
	}
	if (most < m->term_count)
		buf_addf(p->out, "and %zu more terms: --top\n", m->term_count - most);
}

/* The innermost frame of a stack. */
static const char *innermost(const char *stack)
{
	const char *last = strrchr(stack, ';');

	return last ? last + 1 : stack;
}

static void put_unexplained(struct page *p, const struct match *m)
{
	bytes sum = 0;

	if (!m->unexplained_count)
		return;
	for (size_t i = 0; i < m->unexplained_count; i++)
		sum = bytes_add(sum, m->unexplained[i].bytes);
	buf_puts(p->out, "\nobserved, not predicted: ");
	size_add(p->out, sum, p->style->raw_bytes);
	buf_addf(p->out, ", %.2f %% of what was observed\n",
		 m->observed ? percent((double)sum / (double)m->observed) : 0);
	for (size_t i = 0; i < m->unexplained_count && i < (size_t)p->style->top; i++) {
		const struct match_stack *u = &m->unexplained[i];
		struct buf b = { 0 };

		size_add(&b, u->bytes, p->style->raw_bytes);
		buf_addf(p->out, "%*s  %s, %llu blocks  ", COLUMN, b.text,
			 category_title(u->category), (unsigned long long)u->blocks);
		buf_add_clean(p->out,
			      (struct str){ innermost(u->stack), strlen(innermost(u->stack)) });
		buf_puts(p->out, "\n");
		buf_release(&b);
	}
}

static void put_missing(struct page *p, const struct match *m)
{
	if (!m->missing_count)
		return;
	buf_puts(p->out, "\npredicted, not observed\n");
	for (size_t i = 0; i < m->missing_count && i < (size_t)p->style->top; i++) {
		const struct match_missing *x = &m->missing[i];
		struct buf b = { 0 }, each = { 0 };

		size_add(&b, x->bytes, p->style->raw_bytes);
		size_add(&each, x->size, p->style->raw_bytes);
		buf_addf(p->out, "%*s  %s, %llu x %s\n", COLUMN, b.text, x->id,
			 (unsigned long long)x->blocks, each.text);
		buf_release(&b);
		buf_release(&each);
	}
}

static int ascending(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* For each component: the ranks on which its estimate is off, and the largest error. */
static void put_differing(struct page *p, const struct matches *m)
{
	int *ranks = xcalloc(m->count, sizeof(*ranks));

	for (enum category c = 0; c < CATEGORIES; c++) {
		bytes most = 0;
		size_t count = 0;

		for (size_t i = 0; i < m->count; i++) {
			bytes off = match_category_error(&m->list[i], c);

			if (!off)
				continue;
			ranks[count++] = m->list[i].rank->rank;
			if (llabs(off) > llabs(most))
				most = off;
		}
		if (!count)
			continue;
		qsort(ranks, count, sizeof(*ranks), ascending);
		buf_addf(p->out, "%s: the estimate is off by up to %s", category_key(c),
			 most < 0 ? "-" : "+");
		size_add(p->out, llabs(most), p->style->raw_bytes);
		buf_puts(p->out, " on ranks ");
		ranks_list(p->out, ranks, count, 16);
		buf_puts(p->out, "\n");
	}
	free(ranks);
}

void match_text(const struct matches *m, const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	const struct match *worst = &m->list[0];

	if (m->inferred)
		inferred_text(m->inferred, out);
	for (size_t i = 0; i < m->count; i++)
		put_verdict(&p, &m->list[i]);
	if (!m->count)
		return;
	if (m->count > 1) {
		put_differing(&p, m);
		buf_addf(out, "\nrank %d, the worst:\n", worst->rank->rank);
	}
	put_causes(&p, worst);
	put_what_if(&p, worst);
	put_components(&p, worst);
	put_terms(&p, worst);
	put_unexplained(&p, worst);
	put_missing(&p, worst);
}
