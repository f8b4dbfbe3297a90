#include "report/report.h"
#include "util/order.h"
#include "report/texts.h"

#include "util/glob.h"

#include <stdlib.h>
#include <string.h>

const char *end_name(enum end e)
{
	static const char *const names[] = { "unknown", "exit", "oom", "killed", "running" };

	return names[e];
}

static const struct {
	const char *key, *title, *why_lower;
} peak_scopes[] = {
#define X(id, key, title, why) { key, title, why },
	PEAK_SCOPES(X)
#undef X
};

const char *peak_scope_key(enum peak_scope s)
{
	return peak_scopes[s].key;
}

const char *peak_scope_title(enum peak_scope s)
{
	return peak_scopes[s].title;
}

const char *peak_scope_why_lower(enum peak_scope s)
{
	return peak_scopes[s].why_lower;
}

enum peak_scope peak_scope_find(struct str key)
{
	for (enum peak_scope s = PEAK_OF_JOB; s < PEAK_SCOPE_COUNT; s++)
		if (str_matches(key, peak_scopes[s].key))
			return s;
	return PEAK_OF_JOB;
}

static int by_rank(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->rank != y->rank)
		return ORDER(x->rank, y->rank);
	if (x->start_realtime_ns != y->start_realtime_ns)
		return ORDER(x->start_realtime_ns, y->start_realtime_ns);
	if (x->pid != y->pid)
		return ORDER(x->pid, y->pid);
	return ORDER(x->device, y->device);
}

void report_sort(struct report *r)
{
	if (r->count)
		qsort(r->ranks, r->count, sizeof(*r->ranks), by_rank);
}

/* Releases all but the first `keep`. */
static void stacks_cut(const struct rank *r, struct stacks *s, size_t keep)
{
	for (; s->count > keep; s->count--) {
		if (r->texts)
			continue;
		free(s->rows[s->count - 1].stack);
		free(s->rows[s->count - 1].label);
		free(s->rows[s->count - 1].backward_of);
		free(s->rows[s->count - 1].inner);
		free(s->rows[s->count - 1].module);
	}
}

static void stacks_release(const struct rank *r, struct stacks *s)
{
	stacks_cut(r, s, 0);
	free(s->rows);
}

static void live_release(struct rank *r)
{
	for (size_t i = 0; i < r->live_pool_count; i++)
		free(r->live_pool[i]);
	free(r->live_pool);
	free(r->live);
	r->live = NULL;
	r->live_pool = NULL;
	r->live_count = r->live_pool_count = r->live_pool_room = 0;
	r->has_live = 0;
}

size_t timeline_reduce(struct timeline_row *rows, size_t count, size_t points)
{
	if (count <= points)
		return count;
	for (size_t i = 0; i < points; i++) {
		size_t at = i * count / points, end = (i + 1) * count / points;
		struct timeline_row top = rows[at];

		while (++at < end) {
			top.allocated = larger_of(top.allocated, rows[at].allocated);
			top.reserved = larger_of(top.reserved, rows[at].reserved);
			top.device = larger_of(top.device, rows[at].device);
		}
		rows[i] = top;
	}
	return points;
}

void rank_reduce(struct rank *r, size_t stacks, size_t points)
{
	r->stacks.left_out += r->stacks.count > stacks ? r->stacks.count - stacks : 0;
	stacks_cut(r, &r->stacks, stacks);
	r->stacks.rows = xrealloc(r->stacks.rows, r->stacks.count + 1, sizeof(*r->stacks.rows));
	for (size_t i = 0; i < r->oom_count; i++)
		stacks_cut(r, &r->ooms[i].stacks, 1);
	for (size_t i = 0; i < r->owner_count; i++) {
		free(r->owners[i].curve);
		r->owners[i].curve = NULL;
	}
	r->owner_points = 0;
	r->timeline_count = timeline_reduce(r->timeline, r->timeline_count, points);
	r->timeline = xrealloc(r->timeline, r->timeline_count + 1, sizeof(*r->timeline));
	live_release(r);
}

static void share_text(struct texts *texts, char **text)
{
	if (*text)
		*text = texts_share(texts, *text);
}

static void share_stacks(struct texts *texts, struct stacks *s)
{
	for (size_t i = 0; i < s->count; i++) {
		share_text(texts, &s->rows[i].stack);
		share_text(texts, &s->rows[i].label);
		share_text(texts, &s->rows[i].backward_of);
		share_text(texts, &s->rows[i].inner);
		share_text(texts, &s->rows[i].module);
	}
}

void rank_share_texts(struct rank *r, struct texts *texts)
{
	share_stacks(texts, &r->stacks);
	for (size_t i = 0; i < r->oom_count; i++)
		share_stacks(texts, &r->ooms[i].stacks);
	share_text(texts, &r->leak_label);
	share_text(texts, &r->left_label);
	share_text(texts, &r->repeat_label);
	share_text(texts, &r->evaluated_label);
	share_text(texts, &r->data_label);
	share_text(texts, &r->setup_label);
	share_text(texts, &r->hooked_label);
	share_text(texts, &r->huge_label);
	share_text(texts, &r->pinned_label);
	r->texts = texts;
}

static void rank_release(struct rank *r)
{
	for (size_t i = 0; i < r->oom_count; i++)
		stacks_release(r, &r->ooms[i].stacks);
	for (size_t i = 0; i < r->warning_count; i++)
		free(r->warnings[i]);
	for (size_t i = 0; i < r->pool_count; i++)
		free(r->pool[i]);
	for (size_t i = 0; i < r->owner_count; i++)
		free(r->owners[i].curve);
	stacks_release(r, &r->stacks);
	free(r->steps);
	free(r->phases);
	free(r->spans);
	free(r->named);
	free(r->moments);
	free(r->owners);
	free(r->metrics);
	if (!r->texts) {
		free(r->leak_label);
		free(r->left_label);
		free(r->repeat_label);
		free(r->evaluated_label);
		free(r->data_label);
		free(r->setup_label);
		free(r->hooked_label);
		free(r->huge_label);
		free(r->pinned_label);
	}
	free(r->comms);
	free(r->ooms);
	live_release(r);
	free(r->peak_blocks);
	free(r->timeline);
	free(r->versions);
	free(r->warnings);
	free(r->pool);
	free(r->coordinates);
}

void report_release(struct report *r)
{
	for (size_t i = 0; i < r->count; i++)
		rank_release(&r->ranks[i]);
	free(r->ranks);
	texts_free(r->texts);
	*r = (struct report){ 0 };
}

const struct oom *rank_oom(const struct rank *r)
{
	return r->oom_count ? &r->ooms[r->oom_count - 1] : NULL;
}

int rank_died(const struct rank *r)
{
	const struct oom *last = rank_oom(r);

	if (last && last->survived == SURVIVED_UNKNOWN)
		return 1;
	if (r->asked_phase && !(last && last->survived == SURVIVED_NO))
		return 0; /* of another phase's failure */
	return r->end == END_OOM;
}

const char *rank_why_unknown_death(const struct rank *r)
{
	return r->end == END_OOM ? NULL
				 : "an allocation failed, and the file does not tell whether that "
				   "ended the job";
}

bytes rank_held(const struct rank *r)
{
	return r->peak_device == UNKNOWN_BYTES ? r->peak_reserved : r->peak_device;
}

static double share(const struct rank *r)
{
	return r->total > 0 ? (double)rank_held(r) / (double)r->total : 0;
}

/* Which of two ranks is worse: 1 the first, -1 the second, 0 neither. */
static int compare_worst(const struct rank *a, const struct rank *b)
{
	int a_died = rank_died(a) && a->oom_count, b_died = rank_died(b) && b->oom_count;

	if (a_died != b_died)
		return ORDER(a_died, b_died);
	if (a_died)
		return ORDER(rank_oom(b)->when.time_s, rank_oom(a)->when.time_s);
	if (ORDER(share(a), share(b)))
		return ORDER(share(a), share(b));
	return ORDER(a->peak_allocated, b->peak_allocated);
}

int rank_is_shown_before(const struct rank *a, const struct rank *b)
{
	int order = compare_worst(a, b);

	return order ? order > 0 : by_rank(a, b) < 0;
}

const struct rank *report_worst(const struct report *r)
{
	const struct rank *worst = NULL;

	for (size_t i = 0; i < r->count; i++)
		if (!worst || compare_worst(&r->ranks[i], worst) > 0)
			worst = &r->ranks[i];
	return worst;
}

static int same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

static int ran_at_one_time(const struct rank *a, const struct rank *b)
{
	double a_start = (double)a->start_realtime_ns / 1e9,
	       b_start = (double)b->start_realtime_ns / 1e9;

	return a_start <= b_start + b->duration_s && b_start <= a_start + a->duration_s;
}

int rank_shares_gpu(const struct rank *a, const struct rank *b)
{
	if (!same(a->gpu_uuid, b->gpu_uuid) || a->pid == b->pid ||
	    (a->rank != NO_RANK && a->rank == b->rank))
		return 0;
	/* Simulated GPUs have the same UUID on every node. */
	if ((a->simulated || b->simulated) && (!same(a->host, b->host) || a->node != b->node))
		return 0;
	return ran_at_one_time(a, b);
}

int report_ordinals_differ(const struct report *r)
{
	for (size_t i = 1; i < r->count; i++)
		for (size_t k = 0; k < i; k++) {
			const struct rank *a = &r->ranks[i], *b = &r->ranks[k];

			if (a->device == b->device && same(a->host, b->host) && a->gpu_uuid &&
			    b->gpu_uuid && strcmp(a->gpu_uuid, b->gpu_uuid) != 0)
				return 1;
		}
	return 0;
}

void named_add_path(const struct named_row *row, struct buf *out)
{
	const struct named_row *path[NAMED_DEPTH];
	size_t depth = 0;

	for (; row && depth < NAMED_DEPTH; row = row->within)
		path[depth++] = row;
	while (depth--)
		buf_addf(out, "%s%s", path[depth]->name, depth ? " / " : "");
}
