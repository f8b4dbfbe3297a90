#include "cmd/command.h"

#include "util/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int command_fail(int status, const struct err *e)
{
	err_print("%s", e->text);
	return status;
}

void command_help(const char *usage, const char *about, const struct opt_set *set)
{
	printf("usage: memtrace %s\n\n%s\n\n", usage, about);
	opt_print_help(set);
}

int command_print(const char *text, size_t length)
{
	struct buf page = { 0 };
	struct err e = { 0 };
	int is_written;

	buf_add_page(&page, (struct str){ text, length });
	is_written = fwrite(page.length ? page.text : "", 1, page.length, stdout) == page.length &&
		     !fflush(stdout);
	if (!is_written)
		err_set(&e, "cannot write the result: %s", strerror(errno));
	buf_release(&page);
	return is_written ? STATUS_FINE : command_fail(STATUS_INTERNAL, &e);
}
