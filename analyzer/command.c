#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int command_fail(int status, const struct err *e)
{
	fprintf(stderr, "memtrace: %s\n", e->text);
	return status;
}

void command_help(const char *usage, const char *about, const struct opt_set *set)
{
	printf("usage: memtrace %s\n\n%s\n\n", usage, about);
	opt_print_help(set);
}

int command_print(const char *text, size_t length)
{
	struct err e = { 0 };

	if (fwrite(text, 1, length, stdout) == length && !fflush(stdout))
		return STATUS_FINE;
	err_set(&e, "cannot write the result: %s", strerror(errno));
	return command_fail(STATUS_INTERNAL, &e);
}
