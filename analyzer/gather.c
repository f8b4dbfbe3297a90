#include "gather.h"

#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A trace by its header. */
struct candidate {
	char *path;
	char run_id[64];
	int restart;
	uint64_t start;
	int named;              /* by itself, not by its directory */
	int taken;
};

struct candidates {
	struct candidate *all;
	size_t count, room;
};

static int is_same_run(const struct candidate *a, const struct candidate *b)
{
	return a->restart == b->restart && !strcmp(a->run_id, b->run_id);
}

static void note(struct buf *notes, const char *text)
{
	buf_puts(notes, "memtrace: ");
	buf_add_clean(notes, (struct str){ text, strlen(text) });
	buf_puts(notes, "\n");
}

static int add_file(struct candidates *c, struct gather *g, const char *path, int named, struct buf *notes)
{
	struct err why = { 0 };
	struct trace t;
	int status = trace_open_header(&t, path, &why);

	if (status < 0) {
		note(notes, why.text);
		g->unreadable++;
	} else {
		struct candidate *x;
		struct buf id = { 0 };

		c->all = grow(c->all, c->count, &c->room, sizeof(*c->all));
		x = &c->all[c->count++];
		*x = (struct candidate){ .path = xstrdup(path), .restart = t.header.restart_count < 0 ? 0 : t.header.restart_count,
					 .start = t.header.start_realtime_ns, .named = named };
		buf_add_clean(&id, (struct str){ t.header.run_id, strlen(t.header.run_id) });
		snprintf(x->run_id, sizeof(x->run_id), "%s", id.text ? id.text : "");
		buf_release(&id);
	}
	trace_release(&t);
	return status;
}

static int is_trace_name(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && !strcmp(name + n - 4, ".mtr");
}

static int add_directory(struct candidates *c, struct gather *g, const char *path, struct buf *notes, struct err *e)
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
		file = xasprintf("%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry->d_name);
		add_file(c, g, file, 0, notes);
		free(file);
		found++;
	}
	closedir(directory);
	return found ? 0 : err_set(e, "%s: there are no traces (*.mtr) here", path);
}

static int matches(const struct candidate *x, const char *run)
{
	size_t n = strlen(x->run_id);
	char restart[32];

	if (strncmp(run, x->run_id, n))
		return 0;
	snprintf(restart, sizeof(restart), ":%d", x->restart);
	return !run[n] || !strcmp(run + n, restart);
}

/* The candidate whose run is reported, or NULL. */
static const struct candidate *choose(const struct candidates *c, const char *run)
{
	const struct candidate *best = NULL;

	for (size_t i = 0; i < c->count; i++) {
		const struct candidate *x = &c->all[i];

		if (run ? !matches(x, run) : x->named)
			continue;
		if (!best || x->start > best->start || (x->start == best->start && x->restart > best->restart))
			best = x;
	}
	return best;
}

static void name_others(struct candidates *c, const struct candidate *best, struct buf *notes)
{
	size_t runs = 0;
	struct buf list = { 0 };

	for (size_t i = 0; i < c->count; i++) {
		const struct candidate *x = &c->all[i];
		size_t files = 1;
		int seen = x->taken;

		for (size_t k = 0; k < c->count && !seen; k++) {
			const struct candidate *y = &c->all[k];

			if (k == i || y->taken || !is_same_run(x, y))
				continue;
			seen |= k < i;
			files++;
		}
		if (seen)
			continue;
		runs++;
		buf_addf(&list, "%s%s:%d (%zu %s)", list.length ? ", " : "", x->run_id, x->restart, files,
			 files == 1 ? "trace" : "traces");
	}
	if (runs)
		buf_addf(notes, "memtrace: this is run %s:%d; also here: %s; --run ID chooses\n", best->run_id, best->restart,
			 list.text);
	buf_release(&list);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct candidate *)a)->path, ((const struct candidate *)b)->path);
}

static int take(struct gather *g, struct candidates *c, const char *run, struct buf *notes, struct err *e)
{
	const struct candidate *best;

	if (c->count)
		qsort(c->all, c->count, sizeof(*c->all), by_path);
	best = choose(c, run);
	if (run && !best)
		return err_set(e, "there is no run \"%s\" here", run);
	for (size_t i = 0; i < c->count; i++) {
		struct candidate *x = &c->all[i];

		x->taken = (best && is_same_run(x, best)) || (x->named && !run);
		/* A file may be named, and be in a directory that is named too. */
		if (!x->taken || (i && !strcmp(x->path, c->all[i - 1].path)))
			continue;
		g->paths = grow(g->paths, g->count, &g->room, sizeof(*g->paths));
		g->paths[g->count++] = xstrdup(x->path);
	}
	if (best)
		name_others(c, best, notes);
	return g->count ? 0 : err_set(e, "none of the traces can be read");
}

int gather_traces(struct gather *g, char *const *arguments, size_t count, const char *run, struct buf *notes, struct err *e)
{
	struct candidates c = { 0 };
	int status = 0;

	*g = (struct gather){ 0 };
	for (size_t i = 0; i < count && !status; i++) {
		struct stat st;

		if (stat(arguments[i], &st) < 0)
			status = err_set(e, "cannot open %s: %s", arguments[i], strerror(errno));
		else if (S_ISDIR(st.st_mode))
			status = add_directory(&c, g, arguments[i], notes, e);
		else
			add_file(&c, g, arguments[i], 1, notes);
	}
	if (!status)
		status = take(g, &c, run, notes, e);
	for (size_t i = 0; i < c.count; i++)
		free(c.all[i].path);
	free(c.all);
	return status;
}

void gather_release(struct gather *g)
{
	for (size_t i = 0; i < g->count; i++)
		free(g->paths[i]);
	free(g->paths);
	*g = (struct gather){ 0 };
}
