#include "session/trace_files.h"

#include "report/report.h"
#include "session/attempts.h"
#include "trace/trace.h"
#include "util/order.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char every_run[] = "*";

/* A trace file whose header was read. */
struct found_trace {
	char *path;
	char run_id[64];
	int restart, rank, world_size;
	uint64_t start;
	uint64_t ooms, events; /* failed allocations; allocations */
	enum run_end end;
	bytes peak_allocated, peak_device;
	size_t argument; /* index of the argument that is the file or its directory */
	int named;       /* the argument is the file */
	int taken;
};

struct found_traces {
	struct found_trace *all;
	size_t count, room;
};

static int is_same_run(const struct found_trace *a, const struct found_trace *b)
{
	return a->restart == b->restart && !strcmp(a->run_id, b->run_id);
}

static void note(struct buf *notes, const char *text)
{
	buf_puts(notes, "memtrace: ");
	buf_add_clean(notes, (struct str){ text, strlen(text) });
	buf_puts(notes, "\n");
}

/* A trace does not say here whether the job survived a failed allocation: an end with status 0 says
 * it did. */
static enum run_end end_of(const struct trace *t, uint64_t ooms)
{
	int has_ended = t->header.state == MT_STATE_ENDED;

	if (trace_is_imported(t))
		return RUN_UNKNOWN;
	if (!has_ended && t->lock == LOCK_HELD)
		return RUN_RUNNING;
	if (has_ended && !t->header.exit_status)
		return RUN_EXITED;
	if (ooms)
		return RUN_OUT_OF_MEMORY;
	if (has_ended)
		return t->header.exit_status > 0 ? RUN_FAILED : RUN_EXITED;
	return t->lock == LOCK_UNKNOWN ? RUN_UNKNOWN : RUN_KILLED;
}

static void add_counters(struct found_trace *x, const struct mt_device *d)
{
	x->ooms += d->ooms + d->refused;
	x->events += d->allocs;
	if ((bytes)d->allocated_peak > x->peak_allocated)
		x->peak_allocated = (bytes)d->allocated_peak;
	if ((bytes)d->device_peak > x->peak_device)
		x->peak_device = (bytes)d->device_peak;
}

static void add_file(struct found_traces *c, struct trace_files *g, const char *path,
		     size_t argument, int named, struct buf *notes)
{
	struct err why = { 0 };
	struct trace t;

	if (trace_open_header(&t, path, &why) < 0) {
		note(notes, why.text);
		g->unreadable = grow(g->unreadable, g->unreadable_count, &g->unreadable_room,
				     sizeof(*g->unreadable));
		g->unreadable[g->unreadable_count++] =
			(struct unreadable_file){ xstrdup(path), xstrdup(why.text) };
	} else {
		struct found_trace *x;
		struct buf id = { 0 };

		c->all = grow(c->all, c->count, &c->room, sizeof(*c->all));
		x = &c->all[c->count++];
		*x = (struct found_trace){
			.path = xstrdup(path),
			.restart = t.header.restart_count < 0 ? 0 : t.header.restart_count,
			.rank = t.header.rank,
			.world_size = t.header.world_size,
			.start = t.header.start_realtime_ns,
			.argument = argument,
			.named = named,
		};
		for (size_t k = 0; k < MT_MAX_DEVICES; k++)
			add_counters(x, &t.header.device[k]);
		if (trace_is_imported(&t))
			x->peak_device = UNKNOWN_BYTES;
		x->end = end_of(&t, x->ooms);
		buf_add_clean(&id, (struct str){ t.header.run_id, strlen(t.header.run_id) });
		snprintf(x->run_id, sizeof(x->run_id), "%s", id.text ? id.text : "");
		buf_release(&id);
	}
	trace_release(&t);
}

static int is_trace_name(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && !strcmp(name + n - 4, ".mtr");
}

static int add_directory(struct found_traces *c, struct trace_files *g, const char *path,
			 size_t argument, struct buf *notes, struct err *e)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	size_t found = 0;

	if (!directory)
		return err_set(e, "cannot open %s: %s", path, strerror(errno));
	while ((entry = readdir(directory))) {
		char *file;

		if (!is_trace_name(entry->d_name))
			continue;
		file = xasprintf("%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
				 entry->d_name);
		add_file(c, g, file, argument, 0, notes);
		free(file);
		found++;
	}
	closedir(directory);
	return found ? 0 : err_set(e, "%s: there are no traces (*.mtr) here", path);
}

/* The attempts of the traces, in their order. The caller releases them. */
static struct attempts attempts_of(const struct found_traces *c)
{
	struct attempts a = { 0 };

	for (size_t i = 0; i < c->count; i++) {
		const struct found_trace *x = &c->all[i];

		attempts_add(&a, &(struct attempt_part){ .run_id = x->run_id,
							 .restart = x->restart,
							 .argument = x->argument,
							 .named = x->named,
							 .start = x->start,
							 .ooms = x->ooms,
							 .events = x->events });
	}
	return a;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct found_trace *)a)->path, ((const struct found_trace *)b)->path);
}

static void take_run(struct found_traces *c, const struct attempt_part *best, int any, int anywhere)
{
	for (size_t i = 0; i < c->count; i++)
		if (attempt_covers(best, any, c->all[i].run_id, c->all[i].restart) &&
		    (anywhere || c->all[i].argument == best->argument))
			c->all[i].taken = 1;
}

/* Marks the traces of one run of each argument, or of the run that is named. */
static int choose_runs(struct trace_files *g, struct found_traces *c, size_t arguments,
		       const char *run, int every_attempt, struct buf *notes, struct err *e)
{
	struct attempts attempts = attempts_of(c);
	int status = 0;

	for (size_t k = 0; k < (run ? 1 : arguments); k++) {
		const struct attempt_part *best = attempts_choose(&attempts, run, k);
		int any = every_attempt && best && attempt_is_any(best, run);

		if (best && !g->attempts.length)
			attempts_describe(&attempts, best, &g->attempts);
		if (best)
			take_run(c, best, any, run != NULL);
		else if (run)
			status = err_set(e, "there is no run \"%s\" here", run);
		if (best && !run)
			attempts_name_others(&attempts, best, any, "trace", notes);
	}
	attempts_release(&attempts);
	return status;
}

static int add_taken(struct trace_files *g, struct found_traces *c, size_t arguments,
		     const char *run, int every_attempt, struct buf *notes, struct err *e)
{
	if (c->count)
		qsort(c->all, c->count, sizeof(*c->all), by_path);
	if (choose_runs(g, c, arguments, run, every_attempt, notes, e) < 0)
		return -1;
	for (size_t i = 0; i < c->count; i++) {
		const struct found_trace *x = &c->all[i];

		/* A file and its directory may both be arguments. */
		if (!(x->taken || (x->named && !run)) ||
		    (g->count && !strcmp(x->path, g->paths[g->count - 1])))
			continue;
		g->paths = grow(g->paths, g->count, &g->room, sizeof(*g->paths));
		g->paths[g->count++] = xstrdup(x->path);
	}
	return g->count ? 0 : err_set(e, "none of the traces can be read");
}

int trace_files_find(struct trace_files *g, char *const *arguments, size_t count, const char *run,
		     int every_attempt, struct buf *notes, struct err *e)
{
	struct found_traces c = { 0 };
	int every = run == every_run, status = 0;

	*g = (struct trace_files){ 0 };
	for (size_t i = 0; i < count && !status; i++) {
		struct stat st;

		if (stat(arguments[i], &st) < 0)
			status = err_set(e, "cannot open %s: %s", arguments[i], strerror(errno));
		else if (S_ISDIR(st.st_mode))
			status = add_directory(&c, g, arguments[i], i, notes, e);
		else
			add_file(&c, g, arguments[i], i, 1, notes);
	}
	/* A file that is named is taken, whatever its run. */
	for (size_t i = 0; i < c.count; i++)
		c.all[i].named |= every;
	if (!status)
		status = add_taken(g, &c, every ? 0 : count, every ? NULL : run, every_attempt,
				   notes, e);
	for (size_t i = 0; i < c.count; i++)
		free(c.all[i].path);
	free(c.all);
	return status;
}

const char *run_end_key(enum run_end end)
{
	static const char *const keys[] = {
#define X(name, key, title) key,
		RUN_ENDS(X)
#undef X
	};

	return keys[end];
}

const char *run_end_title(enum run_end end)
{
	static const char *const titles[] = {
#define X(name, key, title) title,
		RUN_ENDS(X)
#undef X
	};

	return titles[end];
}

static int by_run(const void *a, const void *b)
{
	const struct found_trace *x = a, *y = b;
	int order = strcmp(x->run_id, y->run_id);

	if (order)
		return order;
	return x->restart != y->restart ? ORDER(x->restart, y->restart) : ORDER(x->rank, y->rank);
}

static int by_begin(const void *a, const void *b)
{
	const struct recorded_run *x = a, *y = b;

	if (x->began_ns != y->began_ns)
		return ORDER(x->began_ns, y->began_ns);
	return strcmp(x->name, y->name);
}

static void add_to_run(struct recorded_run *run, const struct found_trace *x, int is_other_rank)
{
	run->ranks += (size_t)is_other_rank;
	run->traces++;
	run->ooms += x->ooms != 0;
	if (x->start < run->began_ns)
		run->began_ns = x->start;
	if (x->world_size > run->world_size)
		run->world_size = x->world_size;
	if (x->end > run->end)
		run->end = x->end;
	if (x->peak_allocated > run->peak_allocated)
		run->peak_allocated = x->peak_allocated;
	if (x->peak_device == UNKNOWN_BYTES || run->peak_device == UNKNOWN_BYTES)
		run->peak_device = UNKNOWN_BYTES;
	else
		run->peak_device = larger_of(x->peak_device, run->peak_device);
}

static int is_chosen_by(const struct attempts *a, const char *choice, const struct found_trace *x)
{
	const struct attempt_part *chosen = attempts_choose(a, choice, 0);

	return chosen && attempt_has(chosen, x->run_id, x->restart);
}

static void name_choice(const struct attempts *a, struct recorded_run *run,
			const struct found_trace *x)
{
	char restart[32];

	snprintf(restart, sizeof(restart), ":%d", x->restart);
	run->is_latest = is_chosen_by(a, NULL, x);
	if (is_chosen_by(a, restart, x))
		run->choice = xstrdup(restart);
	else
		run->choice = xstrdup(is_chosen_by(a, x->run_id, x) ? x->run_id : run->name);
}

/* `c` is sorted by run. */
static struct recorded_run *list_runs(const struct found_traces *c, size_t *count)
{
	struct attempts attempts = attempts_of(c);
	struct recorded_run *runs = NULL;
	size_t room = 0;

	*count = 0;
	for (size_t i = 0; i < c->count; i++) {
		const struct found_trace *x = &c->all[i];
		int is_new = !i || !is_same_run(x, x - 1);

		if (is_new) {
			runs = grow(runs, *count, &room, sizeof(*runs));
			runs[(*count)++] = (struct recorded_run){
				.name = xasprintf("%s:%d", x->run_id, x->restart),
				.restart = x->restart,
				.began_ns = x->start,
				.end = x->end,
			};
			name_choice(&attempts, &runs[*count - 1], x);
		}
		add_to_run(&runs[*count - 1], x, is_new || x->rank < 0 || x->rank != x[-1].rank);
	}
	attempts_release(&attempts);
	if (runs)
		qsort(runs, *count, sizeof(*runs), by_begin);
	return runs;
}

int trace_files_runs(const char *directory, struct recorded_run **runs, size_t *count,
		     struct buf *notes, struct err *e)
{
	struct found_traces c = { 0 };
	struct trace_files files = { 0 };
	int status = add_directory(&c, &files, directory, 0, notes, e);

	if (c.count)
		qsort(c.all, c.count, sizeof(*c.all), by_run);
	*runs = list_runs(&c, count);
	for (size_t i = 0; i < c.count; i++)
		free(c.all[i].path);
	free(c.all);
	trace_files_release(&files);
	return status;
}

void recorded_runs_release(struct recorded_run *runs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(runs[i].name);
		free(runs[i].choice);
	}
	free(runs);
}

void trace_files_release(struct trace_files *g)
{
	for (size_t i = 0; i < g->count; i++)
		free(g->paths[i]);
	for (size_t i = 0; i < g->unreadable_count; i++) {
		free(g->unreadable[i].path);
		free(g->unreadable[i].why);
	}
	free(g->unreadable);
	free(g->paths);
	buf_release(&g->attempts);
	*g = (struct trace_files){ 0 };
}
