#include "session/session.h"

#include "replay/replay.h"
#include "report/report_build.h"
#include "trace/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_WORKERS 8

/* Workers take one file after the other; all that they share is under the lock. */
struct crew {
	pthread_mutex_t lock;
	const struct trace_files *files;
	const struct session_options *options;
	struct report *report;
	size_t next, done;
	struct err *why; /* by file: why it could not be read */
};

static int add_trace(struct report *r, const char *path, const struct session_options *o,
		     int shows_progress, struct err *e)
{
	struct replay_options replay = {
		.keep_live = o->keep_live,
		.progress = shows_progress ? o->progress : NULL,
	};
	struct trace t;
	int status = -1;

	if (trace_open_header(&t, path, e) == 0 &&
	    (o->rank == NO_RANK || t.header.rank == o->rank) && (status = trace_load(&t, e)) == 0)
		report_add(r, &t, &replay);
	trace_release(&t);
	return status;
}

static void move(struct report *to, struct report *from)
{
	for (size_t i = 0; i < from->count; i++) {
		to->ranks = grow(to->ranks, to->count, &to->room, sizeof(*to->ranks));
		to->ranks[to->count++] = from->ranks[i];
	}
	from->count = 0;
	report_release(from);
}

static int is_reduced(const struct trace_files *g, const struct session_options *o)
{
	return g->count > SESSION_MAX_WHOLE && !o->keep_live;
}

static void *work(void *context)
{
	struct crew *c = context;
	size_t count = c->files->count;
	int reduces = is_reduced(c->files, c->options);

	pthread_mutex_lock(&c->lock);
	while (c->next < count) {
		struct report own = { 0 };
		size_t i = c->next++;

		pthread_mutex_unlock(&c->lock);
		add_trace(&own, c->files->paths[i], c->options, count == 1, &c->why[i]);
		if (reduces)
			for (size_t k = 0; k < own.count; k++)
				rank_reduce(&own.ranks[k], SESSION_REDUCED_STACKS);
		pthread_mutex_lock(&c->lock);
		move(c->report, &own);
		c->done++;
		if (c->options->progress && count > 1)
			c->options->progress(NULL, (double)c->done / (double)count);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static size_t workers_for(size_t files)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = processors < 1 ? 1 : (size_t)processors;

	n = n < MOST_WORKERS ? n : MOST_WORKERS;
	return n < files ? n : files;
}

static void load_all(struct session *j, const struct session_options *o, struct buf *notes)
{
	size_t count = j->files.count, workers = workers_for(count), started = 1;
	struct crew c = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.files = &j->files,
		.options = o,
		.report = &j->report,
		.why = xcalloc(count, sizeof(*c.why)),
	};
	pthread_t threads[MOST_WORKERS];

	/* This thread is one of them. */
	while (started < workers && !pthread_create(&threads[started], NULL, work, &c))
		started++;
	work(&c);
	while (started-- > 1)
		pthread_join(threads[started], NULL);
	for (size_t i = 0; i < count; i++)
		if (c.why[i].text[0])
			buf_addf(notes, "memtrace: %s\n", c.why[i].text);
	free(c.why);
	report_sort(&j->report);
}

/* The rank to show in detail, again and whole. */
static void restore_worst(struct session *j, const struct session_options *o)
{
	const struct rank *worst = report_worst(&j->report);
	struct report whole = { 0 };
	struct err e = { 0 };

	if (!is_reduced(&j->files, o) || !worst)
		return;
	add_trace(&whole, worst->trace, o, 0, &e);
	for (size_t i = 0; i < whole.count; i++)
		if (whole.ranks[i].device == worst->device) {
			struct rank *at = &j->report.ranks[worst - j->report.ranks], reduced = *at;

			*at = whole.ranks[i];
			whole.ranks[i] = reduced;
			break;
		}
	report_release(&whole);
}

static void keep_argv(struct session *j, const struct tables *t)
{
	const struct meta *m = tables_meta(t, MT_META_ARGV);
	size_t room = 0, n;

	for (size_t at = 0; m && at < m->value.length; at += n + 1) {
		struct buf word = { 0 };

		n = strnlen(m->value.at + at, m->value.length - at);
		buf_add_clean(&word, (struct str){ m->value.at + at, n });
		j->argv = grow(j->argv, j->argv_count, &room, sizeof(*j->argv));
		j->argv[j->argv_count++] = buf_take(&word);
	}
}

/* What one of the processes declares is what all do. */
static void read_config(struct session *j)
{
	const struct rank *worst = report_worst(&j->report);
	struct err e = { 0 };
	struct trace t;

	if (trace_open_header(&t, worst->trace, &e) == 0 && trace_load(&t, &e) == 0) {
		keep_argv(j, &t.tables);
		j->has_config = config_read_trace(&j->config, &t, &e) == 0 &&
				config_derive(&j->config, &e) == 0;
	}
	trace_release(&t);
}

int session_load(struct session *j, char *const *arguments, size_t count, const struct session_options *o,
	     struct buf *notes, struct err *e)
{
	*j = (struct session){ 0 };
	config_init(&j->config);
	if (trace_files_find(&j->files, arguments, count, o->run, notes, e) < 0)
		return -1;
	load_all(j, o, notes);
	if (!j->report.count)
		return o->rank == NO_RANK ?
			       err_set(e, "none of the traces can be read") :
			       err_set(e, "there is no trace of rank %d here", o->rank);
	restore_worst(j, o);
	read_config(j);
	if (j->has_config && config_has(&j->config, CONFIG_num_layers) &&
	    config_has(&j->config, CONFIG_vocab_size))
		j->report.declared = count == 1 ? arguments[0] : report_worst(&j->report)->trace;
	/* One file that was named is what was asked for: nothing is missing. */
	if (j->files.count > 1 || strcmp(j->files.paths[0], arguments[0]))
		ranks_relate(&j->report, j->has_config ? &j->config : NULL);
	if (j->report.as_job) {
		j->report.as_job->unreadable = j->files.unreadable;
		j->report.as_job->unreadable_count = j->files.unreadable_count;
	}
	return 0;
}

void session_release(struct session *j)
{
	ranks_free(j->report.as_job);
	report_release(&j->report);
	trace_files_release(&j->files);
	config_release(&j->config);
	for (size_t i = 0; i < j->argv_count; i++)
		free(j->argv[i]);
	free(j->argv);
}
