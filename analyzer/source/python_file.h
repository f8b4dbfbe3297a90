/*
 * The Python source of a job, as text: what names an optimizer got, and which lines call what, is
 * evidence that no allocation has. A file counts only if it was last changed before the job began.
 */
#ifndef MEMTRACE_PYTHON_FILE_H
#define MEMTRACE_PYTHON_FILE_H

#include "source/python_text.h"

struct python_file {
	struct str path; /* in the tables of the trace */
	char *text;      /* of `length` bytes; comments and what is in quotes are blanks */
	char *raw;       /* the same with all that stands in the file */
	size_t length;
	size_t *starts;      /* the offset of each line; behind the last one, length */
	char *continued;     /* of each line: it goes on with the statement of the line before */
	uint32_t line_count; /* 0: the file cannot be used */
};

struct python_files {
	struct python_file *list;
	size_t count, room;
	uint64_t began_ns; /* since the Unix epoch: when the job began */
};

/* Lines of a file, from 1, the last one included. */
struct python_range {
	uint32_t first, last;
};

/* The file of that path; NULL if it is not called .py, is not there, is no plain file, is larger
 * than 512 KiB, or was changed since the job began. The next call may move the files. */
const struct python_file *python_files_get(struct python_files *files, struct str path);
void python_files_release(struct python_files *files);

/* Reads `text`, of `length` bytes, as a file of no path. To be freed with python_file_release(). */
void python_file_parse(struct python_file *f, const char *text, size_t length);
void python_file_release(struct python_file *f);

/* A line without its end; empty if there is none of that number. */
struct str python_line(const struct python_file *f, uint32_t line);
/* Blanks before the first character of a line; SIZE_MAX: it has none, or goes on with the statement
 * of the line before. */
size_t python_indent(const struct python_file *f, uint32_t line);
/* Does a line, behind its first blanks, match a pattern (util/glob.h)? */
int python_begins_with(const struct python_file *f, uint32_t line, const char *pattern);
/* The number of the line at an offset of the text. */
uint32_t python_line_at(const struct python_file *f, size_t place);
/* The lines of the statement to which a line belongs, as one text; a compound statement's first
 * part alone. */
struct python_range python_statement(const struct python_file *f, uint32_t line);
struct str python_text(const struct python_file *f, struct python_range lines);
static inline struct str python_whole(const struct python_file *f)
{
	return (struct str){ f->text, f->length };
}

/* What stands in the file where `text`, a part of f->text, is. */
struct str python_raw(const struct python_file *f, struct str text);
/* The statement at an offset of the text, from its first word on; empty if it has more than 16 KiB.
 */
struct str python_statement_at(const struct python_file *f, size_t place);
/* The head of the innermost compound statement around a line: the last line before it with a
 * smaller indentation; 0: there is none. */
uint32_t python_head(const struct python_file *f, uint32_t line);
/* The innermost function around a line, with its `def`; outside of functions, all lines. */
struct python_range python_function(const struct python_file *f, uint32_t line);
/* The head of the innermost loop around a line, within its function, and the lines behind the head
 * that it repeats; 0: there is none. */
uint32_t python_loop(const struct python_file *f, uint32_t line, struct python_range *body);

/* The next statement from `*from` on that assigns to `name`, or to an attribute of that name, from
 * its first word on; empty: there is none. `*from` becomes the place behind the name. */
struct str python_assignment(const struct python_file *f, struct str name, size_t *from);
#endif
