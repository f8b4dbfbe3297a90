#include "session/job_options.h"

#include <stdlib.h>
#include <string.h>

#include "readers/command_line.h"
#include "readers/derive.h"
#include "readers/files.h"
#include "readers/native.h"
#include "session/trace_config.h"
#include "util/util.h"

int job_check(const struct job *job, const char *command, char *const *arguments, size_t count,
	      struct err *e)
{
	if (count)
		return err_set(
			e, "\"%s\" is not an option: configuration files are given with --config",
			arguments[0]);
	if (!job->files.count && !job->values.count && !job->environment.count &&
	    !job->command.count)
		return err_set(e, "%s needs a job: --config FILE, --set KEY=VALUE, or -- COMMAND",
			       command);
	return 0;
}

static int set_pair(struct config *c, const char *pair, struct err *e)
{
	const char *equals = strchr(pair, '=');
	char *key;
	int status;

	if (!equals || equals == pair)
		return err_set(e, "--set is \"%s\", expected KEY=VALUE", pair);
	key = xasprintf("%.*s", (int)(equals - pair), pair);
	status = config_set(c, key, equals + 1, "--set", e);
	free(key);
	return status;
}

int job_read_file(struct config *c, const char *path, struct err *e)
{
	return path_is_trace(path) ? trace_config_read_file(c, path, e)
				   : config_read_file(c, path, e);
}

int job_read(const struct job *job, struct config *c, struct err *e)
{
	const struct opt_list *env = &job->environment, *command = &job->command;

	for (size_t i = 0; i < job->files.count; i++)
		if (job_read_file(c, job->files.at[i], e) < 0)
			return -1;
	for (size_t i = 0; i < env->count; i++)
		if (!strchr(env->at[i], '='))
			return err_set(e, "--env is \"%s\", expected NAME=VALUE", env->at[i]);
	if ((command->count || env->count) &&
	    config_read_command(c, (int)command->count, command->at, env->at, (unsigned)env->count,
				e) < 0)
		return -1;
	if (job->world_size &&
	    config_set_int(c, CONFIG_world_size, job->world_size, "--world-size", e) < 0)
		return -1;
	if (job->gpu && config_set(c, "gpu", job->gpu, "--gpu", e) < 0)
		return -1;
	for (size_t i = 0; i < job->values.count; i++)
		if (set_pair(c, job->values.at[i], e) < 0)
			return -1;
	return config_derive(c, e);
}
