#include "match/match.h"

#include "match/match_blocks.h"
#include "systems/memtrace.h"
#include "report/rank_groups.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

/* The state of match_make(). */
struct making {
	struct match *m;
	const struct config *c;
	struct predicted *predicted;
	struct observed *observed;
	size_t predicted_count, observed_count;
	bytes by_category[CATEGORIES]; /* estimated */
};

static bytes bytes_of(wide n)
{
	return n > BYTES_LIMIT ? BYTES_LIMIT : n < 0 ? 0 : (bytes)n;
}

/* CATEGORIES: the component is outside what the allocator counts (context, nccl,
 * reserved_overhead). */
static enum category category_of(const char *component)
{
	enum category c = 0;

	while (c < CATEGORIES && strcmp(category_key(c), component))
		c++;
	return c;
}

static struct match_term *add_term(struct making *k, const char *id, const char *component,
				   const char *title, bytes estimated)
{
	struct match_term *t = &k->m->terms[k->m->term_count++];
	enum category c = category_of(component);

	*t = (struct match_term){ .id = xstrdup(id),
				  .component = xstrdup(component),
				  .title = xstrdup(title),
				  .estimated = estimated };
	if (c < CATEGORIES)
		k->by_category[c] = bytes_add(k->by_category[c], estimated);
	k->m->estimated = bytes_add(k->m->estimated, estimated);
	return t;
}

/* ---- memtrace's own system: block by block ---- */

/* The smallest block that the allocator gives for the request. roundup_power2_divisions rounds
 * further: then the block's own size. */
static bytes rounded(const struct machine_block *h)
{
	bytes least = round_up(h->requested, SMALLEST_BLOCK);

	return h->size - least > MAX_UNSPLIT_TAIL ? h->size : least;
}

static void record_machine(const struct machine *machine, void *context)
{
	struct making *k = context;

	k->m->terms = xcalloc(TERMS, sizeof(*k->m->terms));
	for (int t = 0; t < TERMS; t++)
		add_term(k, term_rows[t].id, term_rows[t].component, term_rows[t].title,
			 machine->peak.bytes[t]);
	k->predicted = xcalloc(machine->peak_count, sizeof(*k->predicted));
	k->predicted_count = machine->peak_count;
	for (size_t i = 0; i < machine->peak_count; i++) {
		const struct machine_block *h = &machine->peak_blocks[i];

		k->predicted[i] = (struct predicted){
			.term = (int)h->term,
			.category = category_of(term_rows[h->term].component),
			.least = rounded(h),
			.size = h->size,
		};
		k->m->terms[h->term].predicted++;
	}
}

static int missing_order(const void *a, const void *b)
{
	const struct match_missing *x = a, *y = b;

	if (x->bytes != y->bytes)
		return ORDER(y->bytes, x->bytes);
	return strcmp(x->id, y->id);
}

/* The pairing has sorted the blocks, so that blocks of one size and term mostly follow each other.
 */
static void list_missing(struct making *k)
{
	struct match *m = k->m;
	size_t room = 0;

	for (size_t i = 0; i < k->predicted_count; i++) {
		const struct predicted *p = &k->predicted[i];
		const char *id = m->terms[p->term].id;
		struct match_missing *last =
			m->missing_count ? &m->missing[m->missing_count - 1] : NULL;

		if (p->found)
			continue;
		if (!last || last->id != id || last->size != p->size) {
			m->missing = grow(m->missing, m->missing_count, &room, sizeof(*m->missing));
			last = &m->missing[m->missing_count++];
			*last = (struct match_missing){ .id = id, .size = p->size };
		}
		last->bytes = bytes_add(last->bytes, p->size);
		last->blocks++;
	}
	if (m->missing_count)
		qsort(m->missing, m->missing_count, sizeof(*m->missing), missing_order);
}

/* ---- documents: systems with bytes of components, without blocks ---- */

static int largest_first(const void *a, const void *b)
{
	const struct peak_block *x = ((const struct observed *)a)->row,
				*y = ((const struct observed *)b)->row;

	if (x->bytes != y->bytes)
		return ORDER(y->bytes, x->bytes);
	return ORDER(x, y);
}

/* Assigns blocks of a term's component to the term, the largest first, up to its bytes. */
static void fill_terms(struct making *k)
{
	bytes *left = xcalloc(k->m->term_count + 1, sizeof(*left));

	for (size_t t = 0; t < k->m->term_count; t++)
		left[t] = k->m->terms[t].estimated;
	if (k->observed_count)
		qsort(k->observed, k->observed_count, sizeof(*k->observed), largest_first);
	for (size_t i = 0; i < k->observed_count; i++) {
		struct observed *o = &k->observed[i];

		for (size_t t = 0; t < k->m->term_count && o->term < 0; t++)
			if (category_of(k->m->terms[t].component) == o->row->category &&
			    left[t] >= o->row->bytes) {
				o->term = (int)t;
				left[t] -= o->row->bytes;
			}
	}
	free(left);
}

static int record_document(struct making *k, struct err *e)
{
	struct estimate out;
	int status = estimate_make(&out, k->m->system, k->c, DETAIL_ALL, e);
	size_t n = status < 0 ? 0 : estimate_term_count(&out);
	/* the estimate's terms are those of the first stage */
	const struct stage *stage = k->m->stage > 0 && (size_t)k->m->stage < out.stage_count
					    ? &out.stages[k->m->stage]
					    : NULL;

	if (stage && !stage->terms) {
		status = err_set(
			e,
			"system %s gives only totals of stage %lld: match with --system memtrace, or a trace of the first stage",
			k->m->system->name, (long long)k->m->stage);
		n = 0;
	}
	k->m->terms = xcalloc(n + 1, sizeof(*k->m->terms));
	for (size_t i = 0; i < n; i++) {
		const struct term *t = estimate_term(&out, i);

		/* other components are outside the allocator's blocks */
		if (category_of(t->component) < CATEGORIES)
			add_term(k, t->id, t->component, t->title,
				 bytes_of(stage ? stage->terms[i] : estimate_bytes(&out, i)));
	}
	estimate_release(&out);
	return status;
}

/* ---- both ---- */

static int stack_order(const void *a, const void *b)
{
	const struct match_stack *x = a, *y = b;
	int same = strcmp(x->stack, y->stack);

	return same ? same : ORDER(x->category, y->category);
}

static int stack_bytes(const void *a, const void *b)
{
	const struct match_stack *x = a, *y = b;

	return x->bytes == y->bytes ? stack_order(a, b) : x->bytes < y->bytes ? 1 : -1;
}

/* Blocks without a term, by stack and category. */
static void list_unexplained(struct making *k)
{
	struct match *m = k->m;
	size_t room = 0, count = 0, kept = 0;

	for (size_t i = 0; i < k->observed_count; i++) {
		const struct peak_block *row = k->observed[i].row;

		if (k->observed[i].term >= 0)
			continue;
		m->unexplained = grow(m->unexplained, count, &room, sizeof(*m->unexplained));
		m->unexplained[count++] =
			(struct match_stack){ row->stack, row->category, row->bytes, 1 };
	}
	if (count)
		qsort(m->unexplained, count, sizeof(*m->unexplained), stack_order);
	for (size_t i = 0; i < count; i++) {
		struct match_stack *last = kept ? &m->unexplained[kept - 1] : NULL;

		if (last && !stack_order(last, &m->unexplained[i])) {
			last->bytes = bytes_add(last->bytes, m->unexplained[i].bytes);
			last->blocks++;
		} else {
			m->unexplained[kept++] = m->unexplained[i];
		}
	}
	m->unexplained_count = kept;
}

/* Adds the bytes that the running counters have and the records do not. */
static void add_unrecorded(struct match *m, bytes recorded)
{
	if (m->observed > recorded) {
		m->unexplained =
			xrealloc(m->unexplained, m->unexplained_count + 1, sizeof(*m->unexplained));
		m->unexplained[m->unexplained_count++] =
			(struct match_stack){ "(not recorded)", CATEGORY_OTHER,
					      m->observed - recorded, 0 };
	}
	if (m->unexplained_count)
		qsort(m->unexplained, m->unexplained_count, sizeof(*m->unexplained), stack_bytes);
}

static double off(bytes estimated, bytes observed)
{
	if (!observed)
		return estimated ? 1 : 0;
	return ((double)estimated - (double)observed) / (double)observed;
}

static int beyond(bytes estimated, bytes observed, double tolerance)
{
	double error = off(estimated, observed);

	return (error < 0 ? -error : error) > tolerance;
}

static void list_components(struct making *k, const struct tolerances *t)
{
	struct match *m = k->m;

	m->components = xcalloc(CATEGORIES, sizeof(*m->components));
	for (enum category c = 0; c < CATEGORIES; c++) {
		struct match_component row = { .key = category_key(c),
					       .estimated = k->by_category[c],
					       .observed = m->rank->peak.by_category[c] };

		if (!row.estimated && !row.observed)
			continue;
		row.fails = t->component[c] >= 0 &&
			    beyond(row.estimated, row.observed, t->component[c]);
		m->fails |= row.fails;
		m->components[m->component_count++] = row;
	}
}

static int term_order(const void *a, const void *b)
{
	const struct match_term *x = a, *y = b;
	bytes left = x->observed > x->estimated ? x->observed : x->estimated,
	      right = y->observed > y->estimated ? y->observed : y->estimated;

	return left == right ? strcmp(x->id, y->id) : left < right ? 1 : -1;
}

static void drop_term(struct match_term *t)
{
	free(t->id);
	free(t->component);
	free(t->title);
}

/* Removes terms without bytes. */
static void keep_terms(struct match *m)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->term_count; i++)
		if (m->terms[i].estimated || m->terms[i].observed)
			m->terms[kept++] = m->terms[i];
		else
			drop_term(&m->terms[i]);
	m->term_count = kept;
	if (kept)
		qsort(m->terms, kept, sizeof(*m->terms), term_order);
}

/* The rank's coordinates in Megatron's order of axes; without a layout all ranks share the data. */
struct rank_coordinates match_coordinates(const struct config *c, const struct rank *r)
{
	struct rank_coordinates at = { { 0 } };
	struct rank_layout l;

	if (r->rank < 0)
		return at;
	if (r->world_size < 1 || !rank_layout_read(&l, c, r->world_size)) {
		at.at[AXIS_DP] = r->rank;
		return at;
	}
	return rank_coordinates(&l, r->rank);
}

static void assign(struct making *k)
{
	bytes recorded = 0;

	if (k->predicted)
		match_blocks(k->predicted, k->predicted_count, k->observed, k->observed_count);
	else
		fill_terms(k);
	for (size_t i = 0; i < k->observed_count; i++) {
		const struct observed *o = &k->observed[i];

		recorded = bytes_add(recorded, o->row->bytes);
		if (o->term < 0)
			continue;
		k->m->terms[o->term].blocks++;
		k->m->terms[o->term].observed =
			bytes_add(k->m->terms[o->term].observed, o->row->bytes);
	}
	list_unexplained(k);
	add_unrecorded(k->m, recorded);
	list_missing(k);
}

int match_make(struct match *m, const struct rank *r, const struct system *system,
	       const struct config *c, const struct tolerances *t, struct err *e)
{
	struct making k = { .m = m, .c = c };
	struct rank_coordinates at = match_coordinates(c, r);
	int status;

	*m = (struct match){
		.rank = r, .system = system, .stage = at.at[AXIS_PP], .observed = r->peak_allocated
	};
	status = system == &memtrace ? memtrace_run(c, at, NULL, record_machine, &k, e)
				     : record_document(&k, e);
	if (!status) {
		k.observed = xcalloc(r->peak_block_count + 1, sizeof(*k.observed));
		k.observed_count = r->peak_block_count;
		for (size_t i = 0; i < r->peak_block_count; i++)
			k.observed[i] = (struct observed){ .row = &r->peak_blocks[i], .term = -1 };
		assign(&k);
		m->error = off(m->estimated, m->observed);
		m->fails = beyond(m->estimated, m->observed, t->total);
		list_components(&k, t);
		keep_terms(m);
	}
	free(k.predicted);
	free(k.observed);
	return status;
}

bytes match_gap(const struct match *m)
{
	bytes sum = 0;

	for (size_t i = 0; i < m->unexplained_count; i++)
		sum = bytes_add(sum, m->unexplained[i].bytes);
	for (size_t i = 0; i < m->missing_count; i++)
		sum = bytes_add(sum, m->missing[i].bytes);
	return sum;
}

int match_has_gap(const struct match *m)
{
	return (double)match_gap(m) >= MATCH_NOTABLE * (double)m->observed;
}

void match_release(struct match *m)
{
	for (size_t i = 0; i < m->term_count; i++)
		drop_term(&m->terms[i]);
	for (size_t i = 0; i < m->cause_count; i++) {
		free(m->causes[i].declared);
		free(m->causes[i].value);
	}
	free(m->causes);
	free(m->terms);
	free(m->components);
	free(m->unexplained);
	free(m->missing);
	*m = (struct match){ 0 };
}

int matches_fail(const struct matches *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->list[i].fails)
			return 1;
	return 0;
}

/* Ranks that fail come first, then those with the largest relative gap. */
static int worst_first(const void *a, const void *b)
{
	const struct match *x = a, *y = b;
	double left = (double)match_gap(x) / (double)(x->observed + 1),
	       right = (double)match_gap(y) / (double)(y->observed + 1);

	if (x->fails != y->fails)
		return y->fails - x->fails;
	if (left < right || left > right)
		return left < right ? 1 : -1;
	return ORDER(x->rank->rank, y->rank->rank);
}

void matches_sort(struct matches *m)
{
	if (m->count)
		qsort(m->list, m->count, sizeof(*m->list), worst_first);
}

/* A block with a term counts for the term's category, not for its own. */
bytes match_category_error(const struct match *m, enum category c)
{
	bytes sum = 0;

	for (size_t i = 0; i < m->term_count; i++)
		if (category_of(m->terms[i].component) == c)
			sum += m->terms[i].estimated - m->terms[i].observed;
	for (size_t i = 0; i < m->unexplained_count; i++)
		if (m->unexplained[i].category == c)
			sum -= m->unexplained[i].bytes;
	return (double)(sum < 0 ? -sum : sum) > MATCH_NOTABLE * (double)m->observed ? sum : 0;
}
