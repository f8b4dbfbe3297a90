/* memtrace check: checks a job against memory limits, for a CI. */
#include "util/buf.h"
#include "cmd/command.h"
#include "util/limit.h"
#include "session/session.h"
#include "json/json_util.h"
#include "util/size.h"
#include "util/terminal.h"

#include <stdio.h>
#include <stdlib.h>

/* Growth is measured from this step to the last but one: the first two steps fill caches and
 * states, and the last ends with the process. */
#define FIRST_STEP 3

struct options {
	const char *run, *growth, *baseline, *tolerance;
	bytes limit[LEVELS]; /* UNKNOWN_BYTES: none */
	int json, raw_bytes, color;
};

/* One line of the output. */
struct checked_rule {
	const char *rule;
	const struct rank *rank; /* the worst one; NULL: none to name */
	bytes value, limit;      /* `limit` may be UNKNOWN_BYTES, as the baseline's peak is */
	int is_over, is_unknown;
	int is_death;       /* `value` was asked for and not to be had; there is no limit */
	const char *remark; /* what the value is, or why it is unknown; or NULL */
};

struct checked_rules {
	struct checked_rule all[LEVELS * 2 + 3];
	size_t count;
	int has_attempts; /* the checked traces are of several attempts of a job */
};

static void add(struct checked_rules *v, struct checked_rule x)
{
	x.is_over = !x.is_unknown && (x.is_death || x.value > x.limit);
	v->all[v->count++] = x;
}

/* The rank with the largest value of the level. */
static const struct rank *largest(const struct report *r, enum level m)
{
	const struct rank *most = &r->ranks[0];

	for (size_t i = 1; i < r->count; i++)
		if (rank_level(&r->ranks[i], m) > rank_level(most, m))
			most = &r->ranks[i];
	return most;
}

/* An out-of-memory error that ended a process exceeds every limit. */
static void check_ooms(struct checked_rules *v, const struct report *r)
{
	const struct rank *unknown = NULL;

	for (size_t i = 0; i < r->count; i++) {
		const struct rank *x = &r->ranks[i];

		if (x->oom_count && !rank_why_unknown_death(x)) {
			add(v, (struct checked_rule){ .rule = "out-of-memory",
						      .rank = x,
						      .value = rank_oom(x)->requested,
						      .is_death = 1 });
			return;
		}
		unknown = !unknown && x->oom_count && rank_died(x) ? x : unknown;
	}
	if (unknown)
		add(v, (struct checked_rule){ .rule = "out-of-memory",
					      .rank = unknown,
					      .is_death = 1,
					      .is_unknown = 1,
					      .remark = rank_why_unknown_death(unknown) });
}

static int is_told(const struct report *r, enum level m)
{
	for (size_t i = 0; i < r->count; i++)
		if (rank_level(&r->ranks[i], m) == UNKNOWN_BYTES)
			return 0;
	return 1;
}

/* The reason why the highest value of a level is not that of the job; NULL: it is. */
static const char *why_unknown(const struct report *r, enum level m)
{
	if (!is_told(r, m))
		return "the file of another tool does not tell it";
	for (enum peak_scope s = PEAK_OF_JOB; s < PEAK_SCOPE_COUNT; s++)
		for (size_t i = 0; i < r->count; i++)
			if (r->ranks[i].peak_of == s && peak_scope_why_lower(s))
				return peak_scope_why_lower(s);
	return NULL;
}

/* A peak that is not known to be the job's exceeds a limit nevertheless if it is higher. */
static void check_level(struct checked_rules *v, const struct report *r, enum level m,
			struct checked_rule x)
{
	x.rank = largest(r, m);
	x.value = rank_level(x.rank, m);
	if (x.rank->peak_of != PEAK_OF_JOB)
		x.remark = peak_scope_title(x.rank->peak_of);
	if (x.value <= x.limit && why_unknown(r, m)) {
		x.is_unknown = 1;
		x.remark = why_unknown(r, m);
	}
	add(v, x);
}

static void check_peaks(struct checked_rules *v, const struct report *r, const struct options *o)
{
	static const char *const rules[LEVELS] = { "max-peak", "max-reserved", "max-device" };

	for (enum level m = 0; m < LEVELS; m++)
		if (o->limit[m] != UNKNOWN_BYTES)
			check_level(
				v, r, m,
				(struct checked_rule){ .rule = rules[m], .limit = o->limit[m] });
}

static const struct step_row *step_of(const struct rank *r, uint32_t step)
{
	for (size_t i = 0; i < r->step_count; i++)
		if (r->steps[i].step == step)
			return &r->steps[i];
	return NULL;
}

/* Growth of the allocated bytes per step. -1: too few steps. */
static int growth_of(const struct rank *r, bytes *growth)
{
	const struct step_row *from = step_of(r, FIRST_STEP), *to;

	if (!from || r->step_count < 2)
		return -1;
	to = &r->steps[r->step_count - 2];
	if (to->step <= from->step)
		return -1;
	*growth = (to->floor - from->floor) / (bytes)(to->step - from->step);
	return 0;
}

static void check_growth(struct checked_rules *v, const struct report *r, const struct limit *limit)
{
	struct checked_rule x = { .rule = "max-growth",
				  .is_unknown = 1,
				  .limit = limit->bytes,
				  .remark = "a growth needs five steps at least" };
	bytes growth;

	for (size_t i = 0; i < r->count; i++)
		if (!growth_of(&r->ranks[i], &growth) && (x.is_unknown || growth > x.value)) {
			x.value = growth;
			x.rank = &r->ranks[i];
			x.is_unknown = 0;
			x.remark = "a step";
		}
	add(v, x);
}

static int attempt_of(const struct rank *r)
{
	return r->restart_count == NO_RANK ? 0 : r->restart_count;
}

/* Did the last attempt of the job run out of memory? Another rank was ended with it. */
static int ran_out(const struct report *r)
{
	int last = 0, ended = 0;

	for (size_t i = 0; i < r->count; i++)
		if (attempt_of(&r->ranks[i]) > last)
			last = attempt_of(&r->ranks[i]);
	for (size_t i = 0; i < r->count; i++)
		ended |= attempt_of(&r->ranks[i]) == last && r->ranks[i].end == END_OOM;
	return ended;
}

/* The reason why nothing can be said beside the peak of the baseline, `limit`; NULL: something can.
 * A baseline that ran out of memory needs more than its peak: a lower one is lower than that, too.
 */
static const char *why_no_limit(const struct report *base, const struct report *r, enum level m,
				bytes limit)
{
	if (why_unknown(base, m))
		return "the peak of the baseline is not known";
	if (ran_out(base) && rank_level(largest(r, m), m) > limit)
		return "the baseline ran out of memory, so that it needs more than its peak";
	return NULL;
}

static void check_baseline(struct checked_rules *v, const struct report *r,
			   const struct report *base, const struct limit *tolerance)
{
	static const char *const rules[LEVELS] = { "baseline-peak", "baseline-reserved",
						   "baseline-device" };

	for (enum level m = 0; m < LEVELS; m++) {
		bytes was = why_unknown(base, m) ? 0 : rank_level(largest(base, m), m);
		struct checked_rule x = { .rule = rules[m],
					  .limit = was + limit_of(tolerance, was) };
		const char *why = why_no_limit(base, r, m, x.limit);

		/* Two files of other tools are compared by what both tell. */
		if (!is_told(base, m) && !is_told(r, m))
			continue;
		if (why)
			add(v, (struct checked_rule){ .rule = rules[m],
						      .limit = UNKNOWN_BYTES,
						      .is_unknown = 1,
						      .remark = why });
		else
			check_level(v, r, m, x);
	}
}

static int has_attempts(const struct report *r)
{
	for (size_t i = 1; i < r->count; i++)
		if (attempt_of(&r->ranks[i]) != attempt_of(&r->ranks[0]))
			return 1;
	return 0;
}

/* The rank with the value, and its attempt if there are several. */
static void add_rank(struct buf *b, const struct rank *r, int has_attempts)
{
	if (r->rank != NO_RANK)
		buf_addf(b, "  rank %d", r->rank);
	if (has_attempts)
		buf_addf(b, "%s attempt :%d", r->rank != NO_RANK ? "," : " ", attempt_of(r));
	if (r->simulated)
		buf_puts(b, "  simulated");
}

static void add_line(struct buf *b, const struct checked_rule *v, int has_attempts,
		     const struct style *style)
{
	const char *word = v->is_unknown ? "?" : v->is_over ? "OVER" : "ok";
	int is_red = style->color && v->is_over,
	    digits = size_digits(v->value, v->is_death ? v->value : v->limit, style->raw_bytes);

	buf_addf(b, "%s%-4s%s  %-17s  ", is_red ? "\033[1;31m" : "", word, is_red ? "\033[0m" : "",
		 v->rule);
	if (v->is_unknown) {
		buf_addf(b, "%s\n", v->remark);
		return;
	}
	buf_puts(b, v->is_death ? "asked for " : "");
	size_add_digits(b, v->value, digits);
	if (!v->is_death) {
		buf_addf(b, "%s%s, at most ", v->remark ? " " : "", v->remark ? v->remark : "");
		size_add_digits(b, v->limit, digits);
	}
	if (v->rank)
		add_rank(b, v->rank, has_attempts);
	buf_puts(b, "\n");
}

static json_t *rule_json(const struct checked_rule *v)
{
	json_t *o = json_object();

	set(o, "rule", json_string(v->rule));
	set(o, "ok", v->is_unknown ? json_null() : json_boolean(!v->is_over));
	set(o, "bytes", v->is_unknown ? json_null() : json_integer(v->value));
	set(o, "limit_bytes", v->is_death ? json_null() : size(v->limit));
	set(o, "remark", text(v->remark));
	set(o, "rank", number(v->rank ? v->rank->rank : NO_RANK));
	set(o, "restart_count", number(v->rank ? v->rank->restart_count : NO_RANK));
	set(o, "simulated", v->rank ? json_boolean(v->rank->simulated) : json_null());
	return o;
}

static void add_json(struct buf *out, const struct checked_rules *v, int status)
{
	static const char *const words[] = { "ok", "over", "unknown" };
	json_t *root = json_object(), *list = json_array();

	for (size_t i = 0; i < v->count; i++)
		json_array_append_new(list, rule_json(&v->all[i]));
	set(root, "verdict", json_string(words[status]));
	set(root, "rules", list);
	if (json_dump_callback(root, add_json_part, out, JSON_INDENT(1)) < 0)
		BUG("json");
	buf_puts(out, "\n");
	json_decref(root);
}

/* A limit that is exceeded decides, then an unknown one. */
static int status_of(const struct checked_rules *v)
{
	int status = STATUS_SUCCESS;

	for (size_t i = 0; i < v->count; i++)
		if (v->all[i].is_over)
			return STATUS_NEGATIVE;
		else if (v->all[i].is_unknown)
			status = STATUS_USAGE;
	return status;
}

static int print(const struct checked_rules *v, const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 };
	int status = status_of(v), printed;

	style.raw_bytes = o->raw_bytes;
	if (o->json)
		add_json(&out, v, status);
	else
		for (size_t i = 0; i < v->count; i++)
			add_line(&out, &v->all[i], v->has_attempts, &style);
	printed = command_print(out.text, out.length);
	buf_release(&out);
	return printed ? printed : status;
}

static int check(char **paths, size_t count, const struct options *o, const struct limit *growth,
		 const struct limit *tolerance)
{
	const struct session_options load = { .run = o->run,
					      .every_attempt = 1,
					      .rank = NO_RANK,
					      .progress = term_progress },
				     plain = { .every_attempt = 1,
					       .rank = NO_RANK,
					       .progress = term_progress };
	char *baseline = o->baseline ? xstrdup(o->baseline) : NULL;
	struct session now, base = { 0 };
	struct checked_rules v = { 0 };
	struct buf notes = { 0 };
	struct err e = { 0 };
	int status = session_load(&now, paths, count, &load, &notes, &e);

	if (!status && baseline)
		status = session_load(&base, &baseline, 1, &plain, &notes, &e);
	term_progress_end();
	if (notes.length)
		fputs(notes.text, stderr);
	if (status < 0) {
		status = command_fail(STATUS_USAGE, &e);
	} else {
		v.has_attempts = has_attempts(&now.report);
		check_ooms(&v, &now.report);
		check_peaks(&v, &now.report, o);
		if (growth->is_given)
			check_growth(&v, &now.report, growth);
		if (baseline)
			check_baseline(&v, &now.report, &base.report, tolerance);
		status = print(&v, o);
	}
	session_release(&now);
	if (baseline)
		session_release(&base);
	free(baseline);
	buf_release(&notes);
	return status;
}

static void validate(const struct options *o, size_t n, struct limit *growth,
		     struct limit *tolerance, struct err *e)
{
	int limits = o->growth || o->baseline;

	for (enum level m = 0; m < LEVELS; m++)
		limits |= o->limit[m] != UNKNOWN_BYTES;
	if (!n)
		err_set(e, "check needs a trace: a file, or a directory of traces");
	else if (!limits)
		err_set(e, "check needs a limit: --max-peak, --max-reserved, --max-device, "
			   "--max-growth or --baseline");
	else if (o->tolerance && !o->baseline)
		err_set(e, "--tolerance needs --baseline");
	else if (limit_parse(growth, "max-growth", o->growth, e) == 0 &&
		 limit_parse(tolerance, "tolerance", o->tolerance, e) == 0 && growth->is_percent)
		err_set(e, "--max-growth: \"%s\" is not a size", o->growth);
}

static struct options given = { .limit = { UNKNOWN_BYTES, UNKNOWN_BYTES, UNKNOWN_BYTES } };
static const struct opt rows[] = {
	{ "max-peak", 0, OPT_SIZE, &given.limit[LEVEL_ALLOCATED], "SIZE",
	  "limit for the memory in tensors, on any rank", 0, 0 },
	{ "max-reserved", 0, OPT_SIZE, &given.limit[LEVEL_RESERVED], "SIZE",
	  "limit for the memory that PyTorch's allocator reserves", 0, 0 },
	{ "max-device", 0, OPT_SIZE, &given.limit[LEVEL_DEVICE], "SIZE",
	  "limit for the memory in use on a device", 0, 0 },
	{ "max-growth", 0, OPT_TEXT, &given.growth, "SIZE",
	  "limit for the growth from one step to the next", 0, 0 },
	{ "baseline", 0, OPT_TEXT, &given.baseline, "TRACE",
	  "no peak may be higher than in this job (its highest of all attempts)", 0, 0 },
	{ "tolerance", 0, OPT_TEXT, &given.tolerance, "SIZE|PERCENT",
	  "allowed increase over --baseline (0)", 0, 0 },
	RUN_OPTION(&given.run),
	{ "json", 0, OPT_FLAG, &given.json, NULL, "write JSON", 0, 0 },
	BYTES_OPTION(&given.raw_bytes),
	COLOR_OPTION(&given.color),
};

static int run(char **paths, size_t count)
{
	struct limit growth = { 0 }, tolerance = { 0 };
	struct err e = { 0 };

	validate(&given, count, &growth, &tolerance, &e);
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	return check(paths, count, &given, &growth, &tolerance);
}

const struct command cmd_check = {
	.name = "check",
	.summary = "check a job against a memory budget, for a CI",
	.usage = "[OPTIONS] TRACE...",
	.about =
		"Checks a memory budget. Prints one line a limit; exit status 1 if a limit is exceeded.\n"
		"TRACE is a file, or a directory of traces. Of a directory the latest run is checked: every attempt of a\n"
		"job that was restarted must keep the limits.",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
