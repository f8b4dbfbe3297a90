#include "simulate/summary.h"

#include "session/session.h"
#include "util/shell.h"
#include "util/size.h"
#include "util/terminal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Drops the ranks of an earlier simulation in the same directory. */
static void drop_older(struct report *r, int64_t since)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->count; i++) {
		struct rank x = r->ranks[i];

		if (x.start_realtime_ns < since)
			continue;
		r->ranks[i] = r->ranks[kept];
		r->ranks[kept++] = x;
	}
	while (r->count > kept) {
		struct report older = { .ranks = xcalloc(1, sizeof(struct rank)), .count = 1 };

		older.ranks[0] = r->ranks[--r->count];
		report_release(&older);
	}
}

int summary_read(const char *directory, int64_t since, int measures_need, struct report *r)
{
	const struct session_options o = { .rank = NO_RANK,
					   .measures_need = measures_need,
					   .progress = term_progress };
	char *path = (char *)directory;
	struct session s;
	struct buf notes = { 0 };
	struct err e = { 0 };
	int status = session_find(&s, &path, 1, NULL, &notes, &e);

	if (!status)
		status = session_read(&s, &o, &notes, &e);
	term_progress_end();
	*r = s.report;
	s.report = (struct report){ 0 };
	drop_older(r, since);
	if (!r->count)
		status = -1;
	session_release(&s);
	buf_release(&notes);
	return status;
}

/* The process of a rank with the highest peak; a rank may have several processes. */
static const struct rank *find(const struct report *r, int rank)
{
	const struct rank *found = NULL;

	for (size_t i = 0; i < r->count; i++) {
		const struct rank *x = &r->ranks[i];

		if (rank >= 0 && x->rank != rank)
			continue;
		if (!found || x->peak_device > found->peak_device)
			found = x;
	}
	return found;
}

enum verdict summary_verdict(const struct outcome *outcomes, size_t count, const struct report *r)
{
	int failed = 0;

	for (size_t i = 0; i < count; i++)
		failed |= outcomes[i].status != 0;
	if (!failed)
		return FITS;
	for (size_t i = 0; i < r->count; i++)
		if (r->ranks[i].ooms_seen)
			return OUT_OF_MEMORY;
	return FAILED;
}

static void put_size(struct buf *b, bytes n)
{
	struct buf text = { 0 };

	size_add(&text, n, 0);
	buf_addf(b, "  %10s", text.text);
	buf_release(&text);
}

static const struct rank_class *class_of(const struct rank_classes *y, int rank)
{
	for (size_t i = 0; y && i < y->count; i++)
		if (y->rows[i].rank == rank)
			return &y->rows[i];
	return NULL;
}

static void put_class(struct buf *b, const struct rank_class *like)
{
	const char *most = "";

	if (like->count == like->last - like->first + 1)
		buf_addf(b, "  ranks %d-%d", like->first, like->last);
	else
		buf_addf(b, "  %d ranks from %d to %d", like->count, like->first, like->last);
	if (like->stage_first != like->stage_last) {
		buf_addf(b, " (stages %d to %d", like->stage_first, like->stage_last);
		most = ", at the most)";
	}
	if (like->expert_first >= 0) {
		buf_addf(b, "%s%d", *most ? ", expert ranks " : " (expert ranks ",
			 like->expert_first);
		if (like->expert_first != like->expert_last)
			buf_addf(b, " to %d", like->expert_last);
		most = *most || like->expert_first != like->expert_last ? ", at the most)" : ")";
	}
	buf_puts(b, most);
}

static void put_row(struct buf *b, const struct outcome *o, const struct rank *x,
		    const struct rank_classes *y)
{
	const struct rank_class *like = class_of(y, o->rank);

	buf_addf(b, "%6d", o->rank);
	if (x) {
		put_size(b, x->peak_allocated);
		put_size(b, x->peak_reserved);
		put_size(b, x->peak_device);
		buf_addf(b, "  %-8s", end_name(x->end));
	} else {
		buf_addf(b, "  %10s  %10s  %10s  %-8s", "-", "-", "-", "no trace");
	}
	buf_addf(b, "  %6d  %5.0f s", o->status, o->seconds);
	if (like)
		put_class(b, like);
	buf_puts(b, "\n");
	if (o->was_ended)
		buf_puts(b, "        ended, because another rank had failed\n");
	if (o->timed_out) {
		buf_addf(b, "        stopped after %.0f s (--timeout)%s", o->seconds,
			 o->last_key ? "; the last key of its store that was emulated: " : "");
		if (o->last_key)
			buf_add_clean(b, (struct str){ o->last_key, strlen(o->last_key) });
		buf_puts(b, "\n");
	}
}

void summary_text(const struct simulation *s, const struct outcome *outcomes, size_t count,
		  const struct rank_classes *classes, const struct report *r, struct buf *out)
{
	buf_addf(out, "memtrace: %zu of %d ranks, %s\n", count, s->world,
		 s->together ? "simulated together" : "each simulated alone");
	buf_addf(out, "%6s  %10s  %10s  %10s  %-8s  %6s  %7s%s\n", "rank", "allocated", "reserved",
		 "device", "end", "status", "took", classes ? "  stands for" : "");
	for (size_t i = 0; i < count; i++)
		put_row(out, &outcomes[i], find(r, outcomes[i].rank), classes);
	if (!r->count)
		return;
	buf_puts(out, "See where it went: memtrace report ");
	shell_add_path(out, s->directory);
	buf_puts(out, "; as a page: memtrace html ");
	shell_add_path(out, s->directory);
	buf_puts(out, "\n");
}

static json_t *json_rank(const struct outcome *o, const struct rank *x,
			 const struct rank_classes *y)
{
	const struct rank_class *like = class_of(y, o->rank);
	json_t *j =
		json_pack("{s:i,s:i,s:f,s:b,s:b}", "rank", o->rank, "status", o->status, "seconds",
			  o->seconds, "timed_out", o->timed_out, "was_ended", o->was_ended);

	if (x)
		json_object_set_new(j, "peak",
				    json_pack("{s:I,s:I,s:I}", "allocated_bytes",
					      (json_int_t)x->peak_allocated, "reserved_bytes",
					      (json_int_t)x->peak_reserved, "device_bytes",
					      (json_int_t)x->peak_device));
	if (x)
		json_object_set_new(j, "end", json_string(end_name(x->end)));
	if (like)
		json_object_set_new(j, "stands_for",
				    json_pack("{s:i,s:i,s:i}", "ranks", like->count, "first_rank",
					      like->first, "last_rank", like->last));
	return j;
}

void summary_json(const struct simulation *s, const struct outcome *outcomes, size_t count,
		  const struct rank_classes *classes, const struct report *r, struct buf *out)
{
	json_t *j = json_object(), *ranks = json_array();
	char *text;

	for (size_t i = 0; i < count; i++)
		json_array_append_new(ranks,
				      json_rank(&outcomes[i], find(r, outcomes[i].rank), classes));
	json_object_set_new(j, "world_size", json_integer(s->world));
	json_object_set_new(j, "directory", json_string(s->directory));
	json_object_set_new(j, "simulated", json_true());
	json_object_set_new(j, "ranks", ranks);
	text = json_dumps(j, JSON_INDENT(1));
	if (!text)
		BUG("json");
	buf_addf(out, "%s\n", text);
	free(text);
	json_decref(j);
}
