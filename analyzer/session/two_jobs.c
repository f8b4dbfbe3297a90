#include "session/two_jobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/trace_files.h"
#include "trace/trace.h"

/* The process of a trace, by its header. */
struct process {
	char run_id[64];
	int restart, rank;
	uint32_t pid;
};

struct side {
	struct trace_files files;
	struct process *list;
	size_t count;
};

static int read_side(struct side *s, char *argument)
{
	struct buf ignored = { 0 };
	struct err e = { 0 };
	int status = trace_files_find(&s->files, &argument, 1, NULL, 0, &ignored, &e);

	buf_release(&ignored);
	if (status)
		return -1;
	s->list = xcalloc(s->files.count, sizeof(*s->list));
	for (size_t i = 0; i < s->files.count; i++) {
		struct process *p = &s->list[s->count];
		struct trace t;

		if (!trace_open_header(&t, s->files.paths[i], &e)) {
			memcpy(p->run_id, t.header.run_id, sizeof(p->run_id));
			p->restart = t.header.restart_count;
			p->rank = t.header.rank;
			p->pid = t.header.pid;
			s->count++;
		}
		trace_release(&t);
	}
	return s->count ? 0 : -1;
}

/* A process without a rank is known by its number. */
static int has_same_seat(const struct process *a, const struct process *b)
{
	return a->rank < 0 && b->rank < 0 ? a->pid == b->pid : a->rank == b->rank;
}

/* A rank twice in one run: these are copies, or files of a tool that names no run. */
static int has_a_rank_twice(const struct side *a, const struct side *b)
{
	for (size_t i = 0; i < a->count; i++)
		for (size_t k = 0; k < b->count; k++)
			if (has_same_seat(&a->list[i], &b->list[k]) &&
			    strcmp(a->files.paths[i], b->files.paths[k]))
				return 1;
	return 0;
}

static void side_release(struct side *s)
{
	trace_files_release(&s->files);
	free(s->list);
}

int are_two_jobs(char *const *two)
{
	struct side a = { .count = 0 }, b = { .count = 0 };
	int is_two;

	/* DIR@RUN and lists with commas are names of a comparison. */
	if (access(two[0], F_OK) || access(two[1], F_OK))
		return 1;
	is_two = !read_side(&a, two[0]) && !read_side(&b, two[1]) &&
		 (a.list->restart != b.list->restart || strcmp(a.list->run_id, b.list->run_id) ||
		  has_a_rank_twice(&a, &b));
	side_release(&a);
	side_release(&b);
	return is_two;
}
