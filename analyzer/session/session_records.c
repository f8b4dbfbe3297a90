#include "session/session_records.h"

#include <stdlib.h>
#include <string.h>

#include "readers/derive.h"
#include "record/record_lines.h"
#include "record/record_merge.h"
#include "session/attempts.h"
#include "report/texts.h"

/*
 * One pass over the records is enough if all of them are of one attempt. As soon as there is
 * another, the rest of that pass only collects the attempts, and a second one reads those of the
 * chosen one, or of its job: memory holds the ranks of no other.
 */
struct record_reading {
	struct session *session;
	const struct session_options *options;
	struct record_merge *merge; /* the records, each process and device once */
	struct err *e;              /* of a pass */
	struct attempts attempts;
	const struct attempt_part *chosen; /* NULL: in the first pass */
	int any;                           /* every attempt of the chosen one's job */
	size_t worst;                      /* index of the rank to show in detail, so far */
};

static int64_t number(const json_t *record, const char *key)
{
	const json_t *v = json_object_get(record, key);

	return json_is_integer(v) && json_integer_value(v) > 0 ? json_integer_value(v) : 0;
}

static int is_wanted(struct record_reading *c, const json_t *record)
{
	const char *run = json_string_value(json_object_get(record, "run"));
	struct buf id = { 0 };
	int64_t restart = number(record, "restart");
	struct attempt_part process;
	int is_wanted;

	buf_add_clean(&id, (struct str){ run ? run : "", strlen(run ? run : "") });
	process = (struct attempt_part){
		.run_id = id.text ? id.text : "",
		.restart = restart > INT32_MAX ? INT32_MAX : (int)restart,
		.start = (uint64_t)number(record, "start_time_ns"),
		.ooms = (uint64_t)number(record, "oom_count"),
		.events = (uint64_t)number(record, "tensor_allocs"),
	};
	if (c->chosen) {
		is_wanted = attempt_covers(c->chosen, c->any, process.run_id, process.restart);
	} else {
		attempts_add(&c->attempts, &process);
		is_wanted = attempts_count(&c->attempts) == 1 || c->options->run == every_run;
	}
	buf_release(&id);
	return is_wanted;
}

static void reduce(struct record_reading *c, size_t rank)
{
	struct report *r = &c->session->report;

	if (rank >= SESSION_MAX_WHOLE && rank != c->worst)
		rank_reduce(&r->ranks[rank], SESSION_REDUCED_STACKS, session_points(r->count));
}

/* Of many ranks, reduces the last one, or the one that was to be shown in detail and is not now. */
static void reduce_one(struct record_reading *c)
{
	const struct report *r = &c->session->report;
	size_t last = r->count - 1, other = last;

	if (!last || rank_is_shown_before(&r->ranks[last], &r->ranks[c->worst])) {
		other = c->worst;
		c->worst = last;
	}
	/* One more than SESSION_MANY: those before had more points. */
	for (size_t i = 0; r->count == SESSION_MANY + 1 && i < last; i++)
		reduce(c, i);
	reduce(c, other);
}

static int take_record(struct record_reading *c, const json_t *record)
{
	struct report *r = &c->session->report;
	const json_t *rank = json_object_get(record, "rank");
	struct err ignored = { 0 };

	if (!is_wanted(c, record))
		return 0;
	if (c->options->rank != NO_RANK &&
	    (!json_is_integer(rank) || json_integer_value(rank) != c->options->rank))
		return 0;
	if (record_add(r, record, c->e) < 0)
		return -1;
	if (!c->session->has_config)
		c->session->has_config = record_config(&c->session->config, record, &ignored) == 0;
	reduce_one(c);
	return 0;
}

static int take_line(void *context, struct str line)
{
	struct record_reading *c = context;
	json_t *record = record_parse(line.at, line.length - 1, c->e);
	int status = record ? take_record(c, record) : -1;

	json_decref(record);
	return status;
}

static int read_pass(struct record_reading *c)
{
	c->session->report.texts = texts_new();
	return record_merge_each(c->merge, take_line, c, c->e);
}

/* Leaves the ranks of the run that is chosen in the report. */
static int choose_run(struct record_reading *c, struct buf *notes)
{
	const char *run = c->options->run;
	struct session *s = c->session;

	if (run == every_run || !attempts_count(&c->attempts))
		return 0;
	c->chosen = attempts_choose(&c->attempts, run, 0);
	if (!c->chosen)
		return err_set(c->e, "there is no run \"%s\" here", run);
	if (attempts_count(&c->attempts) == 1)
		return 0;
	c->any = c->options->every_attempt && attempt_is_any(c->chosen, run);
	attempts_describe(&c->attempts, c->chosen, &s->files.attempts);
	if (!run)
		attempts_name_others(&c->attempts, c->chosen, c->any, "record", notes);
	report_release(&s->report);
	s->report = (struct report){ 0 };
	config_release(&s->config);
	config_init(&s->config);
	s->has_config = 0;
	c->worst = 0;
	return read_pass(c);
}

int session_load_records(struct session *s, char *const *arguments, size_t count,
			 const struct session_options *o, struct buf *notes, struct err *e)
{
	struct record_reading c = {
		.session = s, .options = o, .merge = record_merge_new(e), .e = e
	};
	struct err ignored = { 0 };
	int status = c.merge ? 0 : -1;

	for (size_t i = 0; i < count && !status; i++)
		status =
			record_each(arguments[i], record_merge_add, c.merge, notes, e) < 0 ? -1 : 0;
	if (!status)
		status = read_pass(&c);
	if (!status)
		status = choose_run(&c, notes);
	record_merge_free(c.merge);
	attempts_release(&c.attempts);
	if (!status && !s->report.count)
		status = o->rank == NO_RANK
				 ? err_set(e, "%s: there are no records here", arguments[0])
				 : err_set(e, "there is no record of rank %d here", o->rank);
	if (status)
		return -1;
	s->report.run = o->run == every_run ? NULL : o->run;
	s->has_config = s->has_config && config_derive(&s->config, &ignored) == 0;
	report_sort(&s->report);
	ranks_relate(&s->report, s->has_config ? &s->config : NULL);
	return 0;
}
