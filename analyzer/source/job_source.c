#include "source/job_source.h"

#include "attribution/frames.h"
#include "util/glob.h"

#include <stdlib.h>

int job_source_is_own(struct str path)
{
	return str_matches(path, "*.py") && !str_matches(path, "*/site-packages/*") &&
	       !str_matches(path, "*/dist-packages/*") && !str_matches(path, "*/lib/python3*");
}

void job_source_begin(struct job_source *s, const struct tables *t, uint64_t began_ns)
{
	unsigned char *seen = xcalloc(t->string_count + 1, 1);
	int found = 0;

	*s = (struct job_source){ .tables = t, .files.began_ns = began_ns };
	for (uint32_t i = 0; i < t->frame_count; i++) {
		uint32_t file = t->frames[i].file;
		const struct python_file *f;

		if (file >= t->string_count || seen[file] ||
		    !job_source_is_own(tables_string(t, file)))
			continue;
		seen[file] = 1;
		f = python_files_get(&s->files, tables_string(t, file));
		found |= f != NULL;
		if (f)
			optimized_add(&s->optimized, t, f);
	}
	optimized_end(&s->optimized);
	free(seen);
	if (found) {
		s->calls = xcalloc(t->frame_count + 1, 1);
		s->loops = xcalloc(t->frame_count + 1, 1);
		s->returns = xcalloc(t->frame_count + 1, 1);
		s->unrolled = xcalloc(t->frame_count + 1, 1);
		s->generated = xcalloc(t->frame_count + 1, 1);
	}
}

void job_source_end(struct job_source *s)
{
	python_files_release(&s->files);
	free(s->calls);
	free(s->loops);
	free(s->returns);
	free(s->unrolled);
	free(s->generated);
}

const struct python_file *job_source_next(const struct job_source *s, const struct python_file *f)
{
	for (size_t i = f ? (size_t)(f - s->files.list) + 1 : 0; i < s->files.count; i++)
		if (s->files.list[i].line_count && job_source_is_own(s->files.list[i].path))
			return &s->files.list[i];
	return NULL;
}

const struct python_file *job_source_file(struct job_source *s, const struct mt_frame *frame)
{
	const struct python_file *f =
		python_files_get(&s->files, tables_string(s->tables, frame->file));

	if (!f || !frame->line || frame->line > f->line_count || s->work > JOB_SOURCE_MOST_WORK)
		return NULL;
	s->work += f->length;
	return f;
}

const struct python_file *job_source_own_file(struct job_source *s, const struct mt_frame *frame)
{
	return job_source_is_own(tables_string(s->tables, frame->file)) ? job_source_file(s, frame)
									: NULL;
}

uint32_t job_source_caller(const struct job_source *s, const struct stack *of)
{
	uint32_t i = of->frame_count;

	while (i && !frame_is(s->tables, of->frames[i - 1], FRAME_MODULE_CALL | FRAME_FORWARD))
		i--;
	return i;
}
