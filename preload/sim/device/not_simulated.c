/* Features that are not simulated and may matter: one line on stderr for each feature and job. The
 * lines are also in a file beside the traces, in which the job's processes see the lines that were
 * printed, and `memtrace report` finds them. */
#define _GNU_SOURCE
#include "device/not_simulated.h"

#include "device/common.h"
#include "device/settings.h"

#include <memtrace/not_simulated.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LINE_BYTES = 1024, FILE_BYTES = 1 << 18 };

/* The file is locked. */
static bool has_line(int file, const char *line, size_t length)
{
	char *text = malloc(FILE_BYTES + 1);
	ssize_t bytes = text ? pread(file, text, FILE_BYTES, 0) : -1;
	bool found = bytes >= FILE_BYTES; /* full: no more */
	if (bytes >= 0) {
		text[bytes] = '\0';
		for (char *at = text; !found && (at = strstr(at, line)); at += length)
			found = at == text || at[-1] == '\n';
	}
	free(text);
	return found;
}

/* True: the line is new to the job. Without a folder of traces, only rank 0 speaks. */
static bool note(const char *line, size_t length)
{
	char path[4096];
	const char *folder = getenv("MEMTRACE_DIR"), *rank = getenv("RANK");
	int file = -1;
	if (folder && *folder &&
	    (size_t)snprintf(path, sizeof path, "%s/" NOT_SIMULATED_FILE, folder) < sizeof path)
		file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (file < 0)
		return !rank || !strcmp(rank, "0");
	flock(file, LOCK_EX);
	bool fresh = !has_line(file, line, length) && write(file, line, length) >= 0;
	close(file);
	return fresh;
}

void sim_say_once(const char *format, ...)
{
	char line[LINE_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof line - 1, format, arguments);
	va_end(arguments);
	size_t length = strlen(line);
	line[length++] = '\n';
	line[length] = '\0';
	bool fresh = note(line, length);
	if (fresh && !settings.quiet)
		sim_say("%.*s", (int)length - 1, line);
}
