#include "session/session.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "readers/derive.h"
#include "record/record_lines.h"
#include "replay/replay.h"
#include "report/report_build.h"
#include "session/session_records.h"
#include "report/texts.h"
#include "session/trace_config.h"
#include "trace/trace.h"

#define MAX_THREADS 8

/* The work of all threads; the lock guards report, next and done. */
struct reading {
	pthread_mutex_t lock;
	const struct trace_files *files;
	const struct session_options *options;
	struct report *report;
	size_t next, done;  /* files */
	size_t devices;     /* that were read */
	struct err *errors; /* of each file; empty: it was read */
};

/* A declaration that cannot be read to its end counts as far as it was read. */
static void add_loaded_trace(struct report *r, struct trace *t, const struct replay_options *o,
			     const struct session_options *options)
{
	struct err ignored = { 0 };
	struct config c;

	config_init(&c);
	trace_config_read(&c, t, &ignored);
	report_add(r, t, &c, o);
	if (options->on_devices)
		options->on_devices(options->context, r, &c);
	config_release(&c);
}

/* Adds a trace to the report. Does nothing if it is of another rank. */
static int add_trace(struct report *r, const char *path, size_t file,
		     const struct session_options *o, int shows_progress, struct err *e)
{
	struct replay_options replay = {
		.phase = o->phase,
		.keep_live = o->keep_live,
		.keep_peak_blocks = o->keep_peak_blocks,
		.measures_need = o->measures_need,
		.progress = shows_progress ? o->progress : NULL,
	};
	struct trace t;
	int status = trace_open_header(&t, path, e);

	if (!status && (o->rank == NO_RANK || t.header.rank == o->rank)) {
		status = trace_load(&t, e);
		if (!status)
			add_loaded_trace(r, &t, &replay, o);
		if (!status && o->on_trace)
			status = o->on_trace(o->context, file, &t, e);
	}
	trace_release(&t);
	return status;
}

static void move_ranks(struct report *to, struct report *from)
{
	for (size_t i = 0; i < from->count; i++) {
		to->ranks = grow(to->ranks, to->count, &to->room, sizeof(*to->ranks));
		to->ranks[to->count++] = from->ranks[i];
	}
	from->count = 0;
	report_release(from);
}

static int is_reduced(const struct trace_files *files, const struct session_options *o)
{
	return files->count > SESSION_MAX_WHOLE && !o->keep_live && !o->keep_peak_blocks;
}

/* What stays of each rank lies between the pages that its replay used and freed. */
#define TRIM_EVERY 128

static void *read_files(void *context)
{
	struct reading *c = context;
	size_t count = c->files->count;
	int reduces = is_reduced(c->files, c->options);

	pthread_mutex_lock(&c->lock);
	while (c->next < count) {
		struct report own = { 0 };
		size_t i = c->next++, devices;

		pthread_mutex_unlock(&c->lock);
		add_trace(&own, c->files->paths[i], i, c->options, count == 1, &c->errors[i]);
		if (reduces && !c->options->on_devices)
			for (size_t k = 0; k < own.count; k++)
				rank_reduce(&own.ranks[k], SESSION_REDUCED_STACKS,
					    session_points(count));
		devices = own.count;
		if (c->options->on_devices)
			report_release(&own);
		pthread_mutex_lock(&c->lock);
		c->devices += devices;
		for (size_t k = 0; k < own.count && reduces; k++)
			rank_share_texts(&own.ranks[k], c->report->texts);
		if (!c->options->on_devices)
			move_ranks(c->report, &own);
		if (++c->done % TRIM_EVERY == 0)
			malloc_trim(0);
		if (c->options->progress && count > 1)
			c->options->progress(NULL, (double)c->done / (double)count);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static size_t threads_for(size_t files)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = processors < 1 ? 1 : (size_t)processors;

	n = n < MAX_THREADS ? n : MAX_THREADS;
	return n < files ? n : files;
}

static int needs_traces(const char *path, struct err *e)
{
	return err_set(e, "%s has records, and this needs the traces themselves", path);
}

static void session_init(struct session *s)
{
	*s = (struct session){ 0 };
	config_init(&s->config);
}

int session_find(struct session *s, char *const *arguments, size_t count, const char *run,
		 struct buf *notes, struct err *e)
{
	session_init(s);
	for (size_t i = 0; i < count; i++)
		if (path_is_records(arguments[i]))
			return needs_traces(arguments[i], e);
	return trace_files_find(&s->files, arguments, count, run, 0, notes, e);
}

int session_read(struct session *s, const struct session_options *o, struct buf *notes,
		 struct err *e)
{
	size_t count = s->files.count, wanted = threads_for(count), started = 1;
	struct reading c = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.files = &s->files,
		.options = o,
		.report = &s->report,
		.errors = xcalloc(count, sizeof(*c.errors)),
	};
	pthread_t threads[MAX_THREADS];
	int status = 0;

	s->report.texts = texts_new();
	/* Most traces have one device: doubled room would lie idle. */
	s->report.room = count + 1;
	s->report.ranks = xrealloc(NULL, s->report.room, sizeof(*s->report.ranks));
	/* The calling thread is one of them. */
	while (started < wanted && !pthread_create(&threads[started], NULL, read_files, &c))
		started++;
	read_files(&c);
	while (started-- > 1)
		pthread_join(threads[started], NULL);
	for (size_t i = 0; i < count; i++) {
		if (!c.errors[i].text[0])
			continue;
		if (o->needs_every_trace)
			status = err_set(e, "%s", c.errors[i].text);
		else
			buf_addf(notes, "memtrace: %s\n", c.errors[i].text);
	}
	free(c.errors);
	report_sort(&s->report);
	if (!status && !c.devices)
		status = o->rank == NO_RANK
				 ? err_set(e, "none of the traces can be read")
				 : err_set(e, "there is no trace of rank %d here", o->rank);
	return status;
}

/* Reads the rank to show in detail again, to have all of its entry. */
static void restore_worst(struct session *s, const struct session_options *o)
{
	const struct rank *worst = report_worst(&s->report);
	struct session_options again = *o;
	struct report whole = { 0 };
	struct err e = { 0 };

	if (!is_reduced(&s->files, o) || !worst)
		return;
	again.on_trace = NULL;
	add_trace(&whole, worst->trace, 0, &again, 0, &e);
	for (size_t i = 0; i < whole.count; i++)
		if (whole.ranks[i].device == worst->device) {
			struct rank *at = &s->report.ranks[worst - s->report.ranks], reduced = *at;

			*at = whole.ranks[i];
			whole.ranks[i] = reduced;
			break;
		}
	report_release(&whole);
}

static void keep_argv(struct session *s, const struct tables *t)
{
	struct str words = tables_argv(t);
	size_t room = 0, n;

	s->command = xcalloc(words.length + 1, sizeof(*s->command));
	for (size_t at = 0; at < words.length; at += n + 1) {
		struct buf word = { 0 };

		n = strnlen(words.at + at, words.length - at);
		buf_add_clean(&word, (struct str){ words.at + at, n });
		s->argv = grow(s->argv, s->argv_count, &room, sizeof(*s->argv));
		s->command[s->argv_count] = xasprintf("%.*s", (int)n, words.at + at);
		s->argv[s->argv_count++] = buf_take(&word);
	}
}

static void keep_working(struct session *s, const struct tables *t)
{
	const struct meta *m = tables_meta(t, MT_META_CWD);

	if (m && m->value.length)
		s->working = xasprintf("%.*s", (int)m->value.length, m->value.at);
}

/* All processes of a job declare the same: one of them is read. */
static void read_config(struct session *s)
{
	const struct rank *worst = report_worst(&s->report);
	struct err e = { 0 };
	struct trace t;

	if (trace_open_header(&t, worst->trace, &e) == 0 && trace_load(&t, &e) == 0) {
		keep_argv(s, &t.tables);
		keep_working(s, &t.tables);
		s->has_config = trace_config_read(&s->config, &t, &e) == 0 &&
				config_derive(&s->config, &e) == 0;
	}
	trace_release(&t);
}

int session_load(struct session *s, char *const *arguments, size_t count,
		 const struct session_options *o, struct buf *notes, struct err *e)
{
	const char *records = NULL, *other = NULL;

	session_init(s);
	s->arguments = xcalloc(count, sizeof(*s->arguments));
	for (size_t i = 0; i < count; i++)
		s->arguments[i] = xstrdup(arguments[i]);
	s->report.arguments = s->arguments;
	s->report.argument_count = s->argument_count = count;
	for (size_t i = count; i-- > 0;)
		*(path_is_records(arguments[i]) ? &records : &other) = arguments[i];
	if (records && other)
		return err_set(e, "%s has records and %s has none: name one kind", records, other);
	if (records && (o->on_trace || o->keep_live || o->keep_peak_blocks))
		return needs_traces(records, e);
	if (records)
		return session_load_records(s, arguments, count, o, notes, e);
	if (trace_files_find(&s->files, arguments, count, o->run, o->every_attempt, notes, e) < 0 ||
	    session_read(s, o, notes, e) < 0)
		return -1;
	s->run = o->run ? xstrdup(o->run) : NULL;
	s->report.run = s->run;
	if (s->files.count == 1) {
		s->report.arguments = s->files.paths;
		s->report.argument_count = 1;
	}
	restore_worst(s, o);
	read_config(s);
	if (s->has_config && config_has(&s->config, CONFIG_num_layers) &&
	    config_has(&s->config, CONFIG_vocab_size))
		s->report.declared = count == 1 ? s->arguments[0] : report_worst(&s->report)->trace;
	/* A single file that was named is all that was asked for: no rank is missing then. */
	if (s->files.count > 1 || strcmp(s->files.paths[0], arguments[0]))
		ranks_relate(&s->report, s->has_config ? &s->config : NULL);
	if (s->report.as_job) {
		s->report.as_job->unreadable = s->files.unreadable;
		s->report.as_job->unreadable_count = s->files.unreadable_count;
	}
	return 0;
}

void session_release(struct session *s)
{
	for (size_t i = 0; i < s->argument_count; i++)
		free(s->arguments[i]);
	free(s->arguments);
	free(s->run);
	ranks_free(s->report.as_job);
	report_release(&s->report);
	trace_files_release(&s->files);
	config_release(&s->config);
	for (size_t i = 0; i < s->argv_count; i++) {
		free(s->argv[i]);
		free(s->command[i]);
	}
	free(s->argv);
	free(s->command);
	free(s->working);
}
