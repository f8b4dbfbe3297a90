#include "cmd/commands.h"

#include <string.h>

const struct command *const commands[] = {
	&cmd_run,        &cmd_simulate,  &cmd_report,   &cmd_top,     &cmd_html,
	&cmd_diff,       &cmd_check,     &cmd_estimate, &cmd_match,   &cmd_plan,
	&cmd_export,     &cmd_summarize, &cmd_history,  &cmd_jupyter, &cmd_preload_path,
	&cmd_completion, NULL,
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}
