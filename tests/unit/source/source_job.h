/* A Python file that a test writes, and stacks of its lines. */
#ifndef MEMTRACE_TEST_SOURCE_JOB_H
#define MEMTRACE_TEST_SOURCE_JOB_H

#include "fixture.h"

#include "attribution/frames.h"
#include "source/job_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#define MOST 16

/* A file, and stacks of its lines: a line is told by the comment behind it. */
struct job {
	const char *directory, *text;
	char path[128];
	struct mt_frame frames[MOST];
	struct stack stacks[MOST];
	uint32_t of_stacks[MOST][4];
	unsigned char kinds[MOST];
	struct str strings[MOST];
	struct tables tables;
	struct job_source source;
};

enum { NO_NAME, PATH, FUNCTIONS };

static inline struct str of_text(const char *text)
{
	return (struct str){ text, strlen(text) };
}

static inline uint32_t line_of(const struct job *j, const char *mark)
{
	const char *at = strstr(j->text, mark);
	uint32_t line = 1;

	assert_non_null(at);
	for (const char *c = j->text; c < at; c++)
		line += *c == '\n';
	return line;
}

static inline uint32_t frame(struct job *j, const char *mark, const char *function, int kinds)
{
	uint32_t id = (uint32_t)j->tables.frame_count++;

	j->strings[j->tables.string_count] = of_text(function);
	j->frames[id] = (struct mt_frame){ .file = PATH,
					   .function = (uint32_t)j->tables.string_count++,
					   .line = line_of(j, mark) };
	j->kinds[id] = (unsigned char)kinds;
	return id;
}

/* A stack of frames, the innermost first. */
static inline uint32_t stack(struct job *j, uint32_t inner, uint32_t outer)
{
	uint32_t id = (uint32_t)j->tables.stack_count++;

	j->of_stacks[id][0] = inner;
	j->of_stacks[id][1] = outer;
	j->stacks[id] = (struct stack){ .frame_count = outer ? 2 : 1, .frames = j->of_stacks[id] };
	return id;
}

/* A block of the module that the line of a mark calls. */
static inline uint32_t call(struct job *j, const char *mark)
{
	uint32_t outer = frame(j, mark, "step", 0);

	return stack(j, frame(j, mark, "Linear.forward", FRAME_LIBRARY | FRAME_FORWARD), outer);
}

static inline void begin(struct job *j, const struct fixture *fx, const char *text)
{
	const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	FILE *out;

	*j = (struct job){ .text = text };
	snprintf(j->path, sizeof(j->path), "%s/train.py", fx->directory);
	out = fopen(j->path, "w");
	assert_non_null(out);
	assert_int_not_equal(fputs(text, out), EOF);
	fclose(out);
	assert_int_equal(utimensat(AT_FDCWD, j->path, old, 0), 0);
	j->strings[PATH] = of_text(j->path);
	j->tables = (struct tables){ .strings = j->strings,
				     .string_count = FUNCTIONS,
				     .frames = j->frames,
				     .frame_count = 1,
				     .frame_kinds = j->kinds,
				     .stacks = j->stacks,
				     .stack_count = 1 };
	/* The file is known by its frames, of which there is one at least. */
	j->frames[j->tables.frame_count++] = (struct mt_frame){ .file = PATH, .line = 1 };
}

static inline struct job_source *source(struct job *j)
{
	job_source_begin(&j->source, &j->tables, UINT64_C(1000000000) * 1000);
	return &j->source;
}

#define IN_DIRECTORY(test) \
	cmocka_unit_test_setup_teardown(test, fixture_setup_directory, fixture_teardown)

#endif
