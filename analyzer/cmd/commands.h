/* The commands. Each is defined in the file of its name. */
#ifndef MEMTRACE_COMMANDS_H
#define MEMTRACE_COMMANDS_H

#include "cmd/command.h"

extern const struct command cmd_run, cmd_simulate, cmd_report, cmd_diff, cmd_check, cmd_estimate,
	cmd_html, cmd_match, cmd_plan, cmd_export, cmd_summarize, cmd_history, cmd_preload_path,
	cmd_completion, cmd_top, cmd_jupyter;

/* In the order of `memtrace --help`; ends with NULL. */
extern const struct command *const commands[];
/* NULL: there is no command of this name. */
const struct command *command_find(const char *name);

#endif
