/* The export of one process, whose events a test has written, as the bytes of the file. */
#ifndef MEMTRACE_TEST_EXPORT_JOB_H
#define MEMTRACE_TEST_EXPORT_JOB_H

#include "export/export.h"
#include "fixture.h"

/* Returns how many bytes are in `data`, which has room for `room`. */
static inline size_t export_process(struct fixture *f, const char *format,
				    enum export_moment moment, void *data, size_t room)
{
	char trace[128], path[128], *paths[] = { trace };
	struct trace_files files = { .paths = paths, .count = 1 };
	struct export_options o = { .path = path, .moment = moment, .rank = NO_RANK, .device = -1 };
	struct buf notes = { 0 };
	struct err e = { 0 };
	size_t size;
	FILE *file;

	for (o.format = export_formats; strcmp(o.format->name, format);)
		o.format++;
	snprintf(trace, sizeof(trace), "%s/a.mtr", f->directory);
	snprintf(path, sizeof(path), "%s/out", f->directory);
	assert_int_equal(write_save(&f->w, trace), 0);
	assert_int_equal(export_traces(&files, &o, &notes, &e), 0);
	file = fopen(path, "rb");
	assert_non_null(file);
	size = fread(data, 1, room, file);
	fclose(file);
	buf_release(&notes);
	return size;
}

#endif
