#include "util/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"

/* Names of files, arguments and variables may hold any character. */
__attribute__((format(printf, 3, 0))) static void clean_into(char *to, size_t room,
							     const char *format, va_list args)
{
	char *text = xvasprintf(format, args);
	struct buf b = { 0 };
	size_t n;

	buf_add_clean(&b, (struct str){ text, strlen(text) });
	n = b.length < room ? b.length : room - 1;
	while (n < b.length && n && utf8_continues(b.text[n]))
		n--; /* does not cut a character */
	if (n)
		memcpy(to, b.text, n);
	to[n] = 0;
	buf_release(&b);
	free(text);
}

int err_set(struct err *e, const char *format, ...)
{
	va_list args;

	if (e->text[0])
		return -1;
	va_start(args, format);
	clean_into(e->text, sizeof(e->text), format, args);
	va_end(args);
	return -1;
}

void err_print(const char *format, ...)
{
	char line[2048];
	va_list args;

	va_start(args, format);
	clean_into(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "memtrace: %s\n", line);
}
