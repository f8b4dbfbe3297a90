/* The file of an export, with a buffer. */
#ifndef MEMTRACE_EXPORT_OUTPUT_H
#define MEMTRACE_EXPORT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "util/err.h"
#include "util/whole_file.h"

#define OUTPUT_BUFFER (256u << 10)

struct output {
	FILE *file;              /* NULL: a library writes `whole.temporary` itself */
	struct whole_file whole; /* unused if `standard` is written */
	char *buffer;            /* OUTPUT_BUFFER bytes, of which `used` are not in the file */
	size_t used;
};

/* `path` NULL: writes to `standard`. `by_library`: the file is only named, not opened. */
int output_begin(struct output *o, const char *path, FILE *standard, int by_library, struct err *e);
/* Completes the file; removes what is there of it if it `failed`. Returns 0, or -1 if the file
 * cannot be completed. */
int output_end(struct output *o, int failed, struct err *e);

/* Writes what is in the buffer. */
void output_flush(struct output *o);

/* Failures of writing are found by output_end(). */
static inline void output_add(struct output *o, const void *data, size_t length)
{
	if (length > OUTPUT_BUFFER - o->used)
		output_flush(o);
	if (length > OUTPUT_BUFFER) {
		fwrite(data, 1, length, o->file);
		return;
	}
	memcpy(o->buffer + o->used, data, length);
	o->used += length;
}

/* In decimal: printf() would take most of the time of an export. */
void output_add_integer(struct output *o, int64_t value);

#endif
