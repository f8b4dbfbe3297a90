#include "html/html.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "html/assets.h"
#include "html/redact.h"
#include "html/stream_classify.h"
#include "html/stream_write.h"
#include "json/json_util.h"
#include "json/report_json.h"
#include "render/report_text.h"
#include "replay/replay.h"
#include "report/rank_groups.h"
#include "trace/trace.h"

#define PAGE_COLUMNS 100 /* of the verdict */

/* Ranks of the list that was asked for. */
struct rank_range {
	long first, last;
};

struct html {
	const struct report *report;
	const struct html_options *options;
	struct rank_range *ranges;
	size_t range_count;
	const struct rank *worst, *least;  /* of the most and of the lowest peak */
	struct redaction redaction, *hide; /* `hide` is NULL without --redact */
	struct buf *page;                  /* so far: its elements with data are added one by one */
	unsigned next;
	json_t *streams;
};

int html_is_possible(struct err *e)
{
	if (ASSET(echarts).length && ASSET(d3).length && ASSET(flamegraph).length)
		return 0;
	return err_set(e, "this memtrace was built without the libraries of the page: run \"make "
			  "setup\" (it fetches them from PyPI), then \"make\"");
}

static int is_asked(const struct html *p, const struct rank *r)
{
	for (size_t i = 0; i < p->range_count; i++)
		if (p->ranges[i].first <= rank_number(r->rank) &&
		    rank_number(r->rank) <= p->ranges[i].last)
			return 1;
	return 0;
}

static int fail_range(const struct report *r, const struct rank_range *range, struct err *e)
{
	int *ranks = xcalloc(r->count, sizeof(*ranks)), status;
	size_t count = 0;
	struct buf asked = { 0 }, there = { 0 };

	for (size_t i = 0; i < r->count; i++)
		if (!count || ranks[count - 1] != rank_number(r->ranks[i].rank))
			ranks[count++] = rank_number(r->ranks[i].rank);
	ranks_list(&there, ranks, count, 8);
	buf_addf(&asked, range->first == range->last ? "%ld" : "%ld-%ld", range->first,
		 range->last);
	status = err_set(e, "--ranks: there is no rank %s in the traces; they have %s %s",
			 asked.text, count == 1 ? "rank" : "ranks", there.text);
	buf_release(&asked);
	buf_release(&there);
	free(ranks);
	return status;
}

/* A part of a list like "0,8-15". Returns what follows it; NULL: it is no such part. */
static const char *read_range(const char *at, struct rank_range *range)
{
	char *end;

	if (!isdigit((unsigned char)*at))
		return NULL;
	range->first = range->last = strtol(at, &end, 10);
	if (*end == '-') {
		if (!isdigit((unsigned char)end[1]))
			return NULL;
		range->last = strtol(end + 1, &end, 10);
	}
	return range->last < range->first || (*end && *end != ',') ? NULL : end;
}

/* Reads the list of ranks. Each part of it must name a rank of the report. */
static int read_list(struct html *p, size_t *room, struct err *e)
{
	const struct report *r = p->report;
	const char *list = p->options->ranks, *at = list;

	while (at) {
		struct rank_range range;
		size_t i = 0;

		at = read_range(at, &range);
		if (!at)
			return err_set(e, "--ranks: \"%s\" is not a list of ranks like 0,8-15",
				       list);
		while (i < r->count && (rank_number(r->ranks[i].rank) < range.first ||
					rank_number(r->ranks[i].rank) > range.last))
			i++;
		if (i == r->count)
			return fail_range(r, &range, e);
		p->ranges = grow(p->ranges, p->range_count, room, sizeof(*p->ranges));
		p->ranges[p->range_count++] = range;
		at = *at ? at + 1 : NULL;
	}
	return 0;
}

static int is_whole(const struct html *p, const struct rank *r)
{
	if (p->options->is_of_records)
		return 0;
	if (p->options->comparison)
		return 1;
	if (p->options->ranks)
		return is_asked(p, r);
	return p->report->count <= HTML_WHOLE_RANKS || r == p->worst || r == p->least;
}

static const struct rank *lowest_peak(const struct report *report)
{
	const struct rank *least = report->ranks;

	for (size_t i = 0; i < report->count; i++)
		if (report->ranks[i].peak_allocated < least->peak_allocated)
			least = &report->ranks[i];
	return least;
}

/* Replays one device of a trace and adds its events to the page. */
static int add_stream(struct html *p, size_t index, struct err *e)
{
	const struct rank *r = &p->report->ranks[index];
	struct stream s;
	struct replay_observer observer = stream_observer(&s);
	struct replay_options options = { .keep_peak_blocks = 1,
					  .name_all_blocks = 1,
					  .observer = &observer };
	struct replay replay;
	struct trace t;
	int status = trace_open_header(&t, r->trace, e);

	if (!status)
		status = trace_load(&t, e);
	if (!status) {
		json_t *j;

		stream_init(&s, &t.tables, r->device);
		replay_trace(&replay, &t, &options);
		stream_end(&s);
		stream_classify(&s, &replay.device[r->device], replay.last_time_ns);
		j = stream_write(&s, &replay.device[r->device], p->hide, p->page, &p->next);
		set(j, "entry", json_integer((json_int_t)index));
		json_array_append_new(p->streams, j);
		replay_release(&replay);
		stream_release(&s);
	}
	trace_release(&t);
	return status;
}

/* `field`: its key, or that of the list that it is in. */
static json_t *redacted(json_t *j, const char *field, const struct redaction *hide)
{
	const char *key;
	json_t *value;

	if (json_is_string(j)) {
		struct buf b = { 0 };

		buf_add(&b, json_string_value(j), json_string_length(j));
		if (!strcmp(field, "trace"))
			redact_path(hide, &b);
		else if (!strcmp(field, "stack"))
			redact_stack(hide, &b);
		else
			redact(hide, &b);
		json_string_setn(j, b.text ? b.text : "", b.length);
		buf_release(&b);
	}
	for (size_t i = 0; i < json_array_size(j); i++)
		redacted(json_array_get(j, i), field, hide);
	json_object_foreach(j, key, value) redacted(value, key, hide);
	return j;
}

/* The paths of a report: each rank's command line and trace, and the arguments that name them. */
struct paths {
	struct named_path {
		char *command, *trace;
	} * ranks;
	const char *declared;
	size_t argument_count;
};

/* Takes command lines, which are wrapped and cut in a text, the folders of traces and the arguments
 * that name them out of the report, until show_paths(). */
static struct paths hide_paths(struct report *r)
{
	static char hidden[] = "(redacted)";
	struct paths p = { xcalloc(r->count, sizeof(*p.ranks)), r->declared, r->argument_count };

	for (size_t i = 0; i < r->count; i++) {
		struct rank *x = &r->ranks[i];

		p.ranks[i] = (struct named_path){ x->command, x->trace };
		if (x->command)
			x->command = hidden;
		if (x->trace)
			x->trace += last_name(x->trace) - x->trace;
	}
	if (r->declared)
		r->declared = report_worst(r)->trace;
	r->argument_count = 0;
	return p;
}

static void show_paths(struct report *r, struct paths *p)
{
	for (size_t i = 0; i < r->count; i++) {
		r->ranks[i].command = p->ranks[i].command;
		r->ranks[i].trace = p->ranks[i].trace;
	}
	r->declared = p->declared;
	r->argument_count = p->argument_count;
	free(p->ranks);
}

static void learn_text(struct html *p, const char *text)
{
	if (text)
		redaction_learn(&p->redaction, text, strlen(text));
}

static int learn_part(void *page, const char *text, size_t length)
{
	struct html *p = page;

	redaction_learn(&p->redaction, text, length);
	return 0;
}

/* Finds the names of users in what the report says, also in its command lines and folders, and this
 * user's. */
static void learn_names(struct html *p)
{
	for (size_t i = 0; i < p->report->count; i++) {
		learn_text(p, p->report->ranks[i].command);
		learn_text(p, p->report->ranks[i].trace);
	}
	report_json_each(p->report, learn_part, NULL, p);
	for (const struct html_part *x = p->options->parts; x && x->name; x++)
		redaction_learn(&p->redaction, x->json.text, x->json.length);
	redaction_add_user(&p->redaction, getenv("USER"));
	redaction_add_user(&p->redaction, getenv("LOGNAME"));
}

/* A JSON text as an element of the page. */
static json_t *write_json(struct html *p, const struct buf *json)
{
	json_t *j, *id;
	char *text;

	if (!p->hide)
		return blob_write(p->page, &p->next, json->text, json->length);
	j = redacted(json_loadb(json->text, json->length, 0, NULL), "", p->hide);
	text = json_dumps(j, JSON_COMPACT);
	id = blob_write(p->page, &p->next, text ? text : "{}", text ? strlen(text) : 2);
	free(text);
	json_decref(j);
	return id;
}

/* A report on its way into the page. */
struct report_writing {
	struct deflating *deflating;
	const struct redaction *hide;
};

static int write_part(void *writing, const char *text, size_t length)
{
	struct report_writing *w = writing;

	return deflating_add(w->deflating, text, length);
}

static void redact_value(void *writing, json_t *value)
{
	struct report_writing *w = writing;

	redacted(value, "", w->hide);
}

/* The report, as `report --json` writes it. */
static json_t *write_report(struct html *p, const struct report *report)
{
	struct report_writing w = { blob_begin(p->page, &p->next), p->hide };

	report_json_each(report, write_part, p->hide ? redact_value : NULL, &w);
	return blob_end(p->page, &p->next, w.deflating);
}

static json_t *write_parts(struct html *p)
{
	json_t *parts = json_object();

	for (const struct html_part *x = p->options->parts; x && x->name; x++)
		set(parts, x->name, write_json(p, &x->json));
	return parts;
}

static const struct style page_style = { .width = PAGE_COLUMNS, .unicode = 1, .top = 10 };

/* The report, or the comparison and both reports. */
static void write_verdict(const struct html *p, struct buf *verdict)
{
	const struct html_options *o = p->options;

	if (!o->comparison)
		report_text(p->report, &page_style, verdict);
	else
		buf_puts(verdict, o->comparison);
	for (int i = 0; i < 2 && o->comparison; i++) {
		struct paths paths = { 0 };

		if (p->hide)
			paths = hide_paths(o->jobs[i]);
		buf_addf(verdict, "\n%c\n", 'A' + i);
		report_text(o->jobs[i], &page_style, verdict);
		if (p->hide)
			show_paths(o->jobs[i], &paths);
	}
	redact(p->hide, verdict);
}

/* The first lines of the page: the headline of a report, and the answer. A comparison has its
 * headline from its items. */
static void add_answer(const struct html *p, json_t *index)
{
	struct buf headline = { 0 }, answer = { 0 };

	report_headline(p->report, &page_style, &headline);
	if (p->options->comparison)
		buf_puts(&answer, p->options->answer);
	else
		report_answer(p->report, &page_style, &answer);
	redact(p->hide, &headline);
	redact(p->hide, &answer);
	set(index, "headline", text(headline.text ? headline.text : "memtrace"));
	set(index, "answer", text(answer.text ? answer.text : ""));
	buf_release(&headline);
	buf_release(&answer);
}

/* Colours, units and titles of the page come from the tables of the analyzer. */
static json_t *names_json(void)
{
	json_t *o = json_object(), *categories = json_array(), *owners = json_array();

	for (enum category c = 0; c < CATEGORIES; c++)
		json_array_append_new(categories,
				      json_pack("[s,s]", category_key(c), category_title(c)));
	for (enum owner k = 0; k < OWNERS; k++)
		json_array_append_new(owners, json_pack("[s,s]", owner_key(k), owner_title(k)));
	set(o, "categories", categories);
	set(o, "owners", owners);
	return o;
}

static void add_escaped(struct buf *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		const char *as = text[i] == '<'   ? "&lt;"
				 : text[i] == '>' ? "&gt;"
				 : text[i] == '&' ? "&amp;"
				 : text[i] == '"' ? "&quot;"
						  : NULL;

		if (as)
			buf_puts(out, as);
		else
			buf_add(out, text + i, 1);
	}
}

static void add_asset(struct buf *out, const char *before, struct str asset, const char *after)
{
	buf_puts(out, before);
	buf_add(out, asset.at, asset.length);
	buf_puts(out, after);
}

/* The part of the page before its data. */
static void begin_page(const struct buf *verdict, struct buf *out)
{
	buf_puts(
		out,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"generator\" content=\"memtrace " MEMTRACE_VERSION "\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"script-src 'unsafe-inline'; worker-src data:; style-src 'unsafe-inline'; img-src data:\">\n"
		"<link rel=\"icon\" href=\"data:,\">\n<title>memtrace</title>\n");
	add_asset(out, "<style>\n", ASSET(style), "</style>\n</head>\n<body>\n");
	buf_puts(out, "<pre id=\"verdict\" tabindex=\"0\" aria-label=\"Report\">");
	add_escaped(out, verdict->text ? verdict->text : "", verdict->length);
	buf_puts(out, "</pre>\n");
	add_asset(out, "", ASSET(body), "");
	add_asset(out, "<template id=\"licences\">\n", ASSET(licences), "</template>\n");
}

static void end_page(json_t *index, struct buf *out)
{
	char *text = json_dumps(index, JSON_COMPACT);

	buf_puts(out, "<script type=\"text/plain\" id=\"index\">");
	deflated_add(out, text, strlen(text));
	buf_puts(out, "</script>\n");
	add_asset(out, "<script>", ASSET(echarts), "</script>\n");
	add_asset(out, "<script>", ASSET(d3), "</script>\n");
	add_asset(out, "<script>", ASSET(flamegraph), "</script>\n");
	add_asset(out, "<script type=\"module\">\n", ASSET(script),
		  "</script>\n</body>\n</html>\n");
	free(text);
}

int html_page(struct report *report, const struct html_options *o, struct buf *out, struct err *e)
{
	struct html p = { .report = report,
			  .options = o,
			  .page = out,
			  .worst = report_worst(report),
			  .least = lowest_peak(report),
			  .streams = json_array() };
	struct buf verdict = { 0 };
	struct paths paths = { 0 };
	json_t *index = names_json();
	size_t room = 0;
	int status = read_list(&p, &room, e);

	if (o->redact) {
		redaction_of(&p.redaction, report);
		p.hide = &p.redaction;
		learn_names(&p);
		paths = hide_paths(report);
	}
	write_verdict(&p, &verdict);
	begin_page(&verdict, out);
	add_answer(&p, index);
	set(index, "version", json_string(MEMTRACE_VERSION));
	set(index, "of_records", json_boolean(o->is_of_records));
	set(index, "compares", json_boolean(o->comparison));
	set(index, "shown", json_integer(o->comparison ? 1 : p.worst - report->ranks));
	set(index, "report", write_report(&p, report));
	if (paths.ranks)
		show_paths(report, &paths);
	set(index, "parts", write_parts(&p));
	for (size_t i = 0; i < report->count && !status; i++) {
		if (is_whole(&p, &report->ranks[i]))
			status = add_stream(&p, i, e);
		if (o->progress)
			o->progress(NULL, (double)(i + 1) / (double)report->count);
	}
	set(index, "streams", p.streams);
	end_page(index, out);
	json_decref(index);
	buf_release(&verdict);
	redaction_release(&p.redaction);
	free(p.ranges);
	return status;
}
