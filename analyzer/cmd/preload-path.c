/* memtrace preload-path: LD_PRELOAD=$(memtrace preload-path) torchrun … */
#include "cmd/command.h"
#include "util/launch.h"

#include <stdio.h>
#include <stdlib.h>

int cmd_preload_path(int argc, char **argv)
{
	struct opt_set set = { 0 };
	struct err e = { 0 };
	int n = opt_parse(&set, argc, argv, &e);
	char *path;

	if (set.wants_help) {
		command_help(
			"preload-path",
			"Prints where libmemtrace.so is: LD_PRELOAD=$(memtrace preload-path) COMMAND",
			&set);
		return STATUS_FINE;
	}
	if (n > 0)
		err_set(&e, "preload-path takes no arguments");
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	path = launch_find("libmemtrace.so", &e);
	if (!path)
		return command_fail(STATUS_USAGE, &e);
	printf("%s\n", path);
	free(path);
	return STATUS_FINE;
}
