/* memtrace run: a command under the interceptor. */
#include "cmd/command.h"
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

int cmd_run(int argc, char **argv)
{
	const char *directory = NULL;
	const struct opt rows[] = {
		{ "output", 'o', OPT_TEXT, &directory, "DIR",
		  "directory for the traces (MEMTRACE_DIR)", 0, 0 },
	};
	struct opt_set set = { .rows = rows, .count = ARRAY_SIZE(rows), .stop_at_first = 1 };
	struct err e = { 0 };
	int n = opt_parse(&set, argc, argv, &e);

	if (set.wants_help) {
		command_help(
			"run [-o DIR] -- COMMAND [ARGUMENT...]",
			"Runs COMMAND with libmemtrace.so in LD_PRELOAD: every process that uses a GPU writes a trace.\n"
			"Exits with COMMAND's status; 125 to 127 are memtrace's own failures.",
			&set);
		print_settings();
		return STATUS_FINE;
	}
	if (!n)
		err_set(&e, "run needs a command: memtrace run -- COMMAND");
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	if (launch_set_directory(directory, &e) < 0 || launch_preload("libmemtrace.so", &e) < 0 ||
	    loader_check(argv[1], &e) < 0)
		return command_fail(LAUNCH_FAILED, &e);
	return launch_exec(argv + 1);
}
