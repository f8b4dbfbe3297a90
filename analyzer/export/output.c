#include "export/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/util.h"

void output_flush(struct output *o)
{
	fwrite(o->buffer, 1, o->used, o->file);
	o->used = 0;
}

int output_begin(struct output *o, const char *path, FILE *standard, int by_library, struct err *e)
{
	*o = (struct output){ .buffer = xcalloc(1, OUTPUT_BUFFER) };
	if (!path) {
		o->file = standard;
		return 0;
	}
	if (whole_file_begin(&o->whole, path, by_library, e) < 0)
		return -1;
	if (by_library)
		return 0;
	o->file = o->whole.file;
	setvbuf(o->file, NULL, _IONBF, 0);
	return 0;
}

int output_end(struct output *o, int failed, struct err *e)
{
	int status = 0;

	if (o->file)
		output_flush(o);
	if (o->whole.path) {
		status = whole_file_end(&o->whole, failed, e);
	} else if (o->file && (fflush(o->file) || ferror(o->file)) && !failed) {
		status = err_set(e, "cannot write standard output: %s", strerror(errno));
	}
	free(o->buffer);
	*o = (struct output){ 0 };
	return failed ? -1 : status;
}

void output_add_integer(struct output *o, int64_t value)
{
	char digits[24], *at = digits + sizeof(digits);
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		*--at = '-';
	output_add(o, at, (size_t)(digits + sizeof(digits) - at));
}
