#include "cmd/diff_inputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/terminal.h"

static int add_run(struct side_runs *l, char *path, const char *run, int rank, struct buf *notes,
		   struct err *e)
{
	const struct session_options load = { .run = run, .rank = rank, .progress = term_progress };
	int status;

	if (l->count == DIFF_MAX_RUNS)
		return err_set(e, "a side has more than %d runs", DIFF_MAX_RUNS);
	l->all[l->count] = xcalloc(1, sizeof(struct session));
	status = session_load(l->all[l->count++], &path, 1, &load, notes, e);
	term_progress_end();
	return status;
}

static int add_every_run(struct side_runs *l, char *path, int rank, struct buf *notes,
			 struct err *e)
{
	struct recorded_run *runs;
	size_t count;
	struct buf ignored = { 0 }; /* add_run() writes them too */
	int status = trace_files_runs(path, &runs, &count, &ignored, e);

	for (size_t i = 0; i < count && !status; i++)
		status = add_run(l, path, runs[i].name, rank, notes, e);
	recorded_runs_release(runs, count);
	buf_release(&ignored);
	return status;
}

/* `text` is PATH, PATH@RUN or PATH@all. If a file has the whole text as its name, it is used. */
static int add_path(struct side_runs *l, const char *text, int rank, struct buf *notes,
		    struct err *e)
{
	char *path = xstrdup(text), *at = strrchr(path, '@');
	int status;

	if (!access(path, F_OK) || !at) {
		status = add_run(l, path, NULL, rank, notes, e);
	} else {
		*at++ = '\0';
		status = strcmp(at, "all") ? add_run(l, path, at, rank, notes, e)
					   : add_every_run(l, path, rank, notes, e);
	}
	free(path);
	return status;
}

static int add_side(struct side_runs *l, const char *text, int rank, struct buf *notes,
		    struct err *e)
{
	int status = 0;

	if (!access(text, F_OK))
		return add_path(l, text, rank, notes, e);
	while (!status && *text) {
		size_t n = strcspn(text, ",");
		char *one = xasprintf("%.*s", (int)n, text);

		status = *one ? add_path(l, one, rank, notes, e)
			      : err_set(e, "there is an empty name in a list of traces");
		free(one);
		text += n + (text[n] == ',');
	}
	if (!status && !l->count)
		status = err_set(e, "a side has no trace");
	return status;
}

int diff_inputs_read(struct diff_inputs *d, char *const *sides, int rank, struct buf *notes,
		     struct err *e)
{
	*d = (struct diff_inputs){ .diff = { .count = 0 } };
	for (int s = 0; s < SIDES; s++) {
		struct side_runs *l = &d->sides[s];

		if (add_side(l, sides[s], rank, notes, e) < 0)
			return -1;
		for (size_t i = 0; i < l->count; i++)
			d->diff.side[s].runs[i] = l->all[i];
		d->diff.side[s].count = l->count;
	}
	return diff_make(&d->diff, rank, e);
}

void diff_inputs_release(struct diff_inputs *d)
{
	diff_release(&d->diff);
	for (int s = 0; s < SIDES; s++)
		for (size_t i = 0; i < d->sides[s].count; i++) {
			session_release(d->sides[s].all[i]);
			free(d->sides[s].all[i]);
		}
}
