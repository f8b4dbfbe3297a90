#include "record/record_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int path_is_records(const char *path)
{
	struct stat st;
	char head[4096] = "";
	FILE *f;

	if (!strcmp(path, "-"))
		return 1;
	if (stat(path, &st) < 0 || S_ISDIR(st.st_mode))
		return 0;
	/* A pipe cannot be read twice, and no trace is read from one. */
	if (S_ISFIFO(st.st_mode))
		return 1;
	f = fopen(path, "re");
	if (f) {
		(void)!fread(head, 1, sizeof(head) - 1, f);
		fclose(f);
	}
	/* A profiler's trace is JSON too; these keys are at its beginning. */
	return *head == '{' && !strstr(head, "\"schemaVersion\"") &&
	       !strstr(head, "\"traceEvents\"");
}

/* Reads a line of at most RECORD_MAX bytes into `to`; the rest of a longer one is passed over. Its
 * whole length; -1 at the end of the file. */
static int64_t read_line(FILE *f, char *to)
{
	int64_t length = 0;
	int c;

	while ((c = getc_unlocked(f)) != EOF && c != '\n') {
		if (length < RECORD_MAX)
			to[length] = (char)c;
		length++;
	}
	return c == EOF && !length ? -1 : length;
}

static int64_t trimmed(const char *line, int64_t length)
{
	while (length && length <= RECORD_MAX && strchr(" \t\r", line[length - 1]))
		length--;
	return length;
}

/* Lines that are no records and get a message: a file of another kind has only such lines. */
#define LINES_NOTED 5

static void note_line(struct buf *notes, const char *path, long long line, const char *why)
{
	buf_puts(notes, "memtrace: ");
	buf_add_clean(notes, (struct str){ path, strlen(path) });
	buf_addf(notes, ":%lld: %s\n", line, why);
}

static int read_all(FILE *f, const char *path,
		    int (*on)(void *context, const json_t *record, struct str line, struct err *e),
		    void *context, struct buf *notes, struct err *e)
{
	char *line = xcalloc(1, RECORD_MAX);
	int64_t length;
	int count = 0, status = 0;
	long long refused = 0;

	for (long long number = 1; !status && (length = read_line(f, line)) >= 0; number++) {
		struct err why = { 0 };
		json_t *record;

		length = trimmed(line, length);
		if (!length)
			continue;
		record = record_parse(line, (size_t)length, &why);
		if (record)
			status = on(context, record, (struct str){ line, (size_t)length }, e);
		else if (refused++ < LINES_NOTED)
			note_line(notes, path, number, why.text);
		count += record && !status;
		json_decref(record);
	}
	if (refused > LINES_NOTED) {
		struct err more = { 0 };

		err_set(&more, "%s: %lld more lines are no records", path, refused - LINES_NOTED);
		buf_addf(notes, "memtrace: %s\n", more.text);
	}
	if (!status && ferror(f))
		status = err_set(e, "cannot read %s: %s", path, strerror(errno));
	free(line);
	return status ? -1 : count;
}

/* Standard input under a number of its own, or NULL: who reads it closes it like a file. */
static FILE *open_input(void)
{
	int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f && fd >= 0)
		close(fd);
	return f;
}

static FILE *open_once(const char *path, struct err *e)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : open_input();

	if (!f)
		err_set(e, "cannot open %s: %s", path, strerror(errno));
	return f;
}

static const char *title_of(const char *path)
{
	return strcmp(path, "-") ? path : "standard input";
}

int record_each(const char *path,
		int (*on)(void *context, const json_t *record, struct str line, struct err *e),
		void *context, struct buf *notes, struct err *e)
{
	FILE *f = open_once(path, e);
	int count;

	if (!f)
		return -1;
	count = read_all(f, title_of(path), on, context, notes, e);
	fclose(f);
	return count;
}
