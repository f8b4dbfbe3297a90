/* memtrace preload-path: the path of libmemtrace.so. */
#include "cmd/command.h"
#include "util/launch.h"

#include <stdio.h>
#include <stdlib.h>

static int run(char **arguments, size_t count)
{
	struct err e = { 0 };
	char *path;

	(void)arguments;
	if (count)
		err_set(&e, "preload-path takes no arguments");
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	path = launch_find("libmemtrace.so", &e);
	if (!path)
		return command_fail(STATUS_USAGE, &e);
	printf("%s\n", path);
	free(path);
	return STATUS_SUCCESS;
}

const struct command cmd_preload_path = {
	.name = "preload-path",
	.summary = "print the path of libmemtrace.so, for LD_PRELOAD",
	.usage = "",
	.about = "Prints the path of libmemtrace.so: LD_PRELOAD=$(memtrace preload-path) COMMAND",
	.words = "",
	.run = run,
};
