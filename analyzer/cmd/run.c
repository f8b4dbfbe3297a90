/* memtrace run: runs a command with the recorder preloaded. */
#include "cmd/command.h"
#include "cmd/unrecorded.h"
#include "util/launch.h"
#include "util/loader.h"

#include <stdio.h>

#if __has_include("../../preload/process/settings.def")
static const struct {
	const char *name, *initial, *help;
} settings[] = {
#define SETTING(name, type, initial, help) { "MEMTRACE_" #name, initial, help },
#include "../../preload/process/settings.def"
#undef SETTING
};

static void print_settings(void)
{
	puts("\nSettings, from the environment:");
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		printf("  %-32s %s%s%s%s\n", settings[i].name, settings[i].help,
		       *settings[i].initial ? " (" : "", settings[i].initial,
		       *settings[i].initial ? ")" : "");
}
#else
static void print_settings(void)
{
}
#endif

static const char *directory;
static const struct opt rows[] = {
	{ "output", 'o', OPT_TEXT, &directory, "DIR", "directory for the traces (MEMTRACE_DIR)", 0,
	  0 },
};

static int run(char **command, size_t count)
{
	struct err e = { 0 };

	if (!count) {
		err_set(&e, "run needs a command: memtrace run -- COMMAND");
		return command_fail(STATUS_USAGE, &e);
	}
	if (launch_set_directory(directory, &e) < 0 || launch_preload("libmemtrace.so", &e) < 0 ||
	    loader_check(command[0], &e) < 0)
		return command_fail(LAUNCH_FAILED, &e);
	unrecorded_tell_at_end(command);
	return launch_exec(command);
}

const struct command cmd_run = {
	.name = "run",
	.summary = "run a command and record its GPU allocations",
	.usage = "[-o DIR] -- COMMAND [ARGUMENT...]",
	.about =
		"Runs COMMAND with libmemtrace.so in LD_PRELOAD: every process that uses a GPU writes a trace.\n"
		"Exits with COMMAND's status; 125 to 127 are memtrace's own failures.",
	.more_help = print_settings,
	.options = { .rows = rows, .count = ARRAY_SIZE(rows), .stop_at_first = 1 },
	.run = run,
};
