#include "model/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static const char *const names[] = { "--config", "--set", "--env", "--fix" };

/* Which list the argument is for, or `lists`. */
static int which_list(const char *argument, int lists)
{
	for (int i = 0; i < lists; i++) {
		size_t n = strlen(names[i]);

		if (!strncmp(argument, names[i], n) && (!argument[n] || argument[n] == '='))
			return i;
	}
	return lists;
}

int job_take(struct job *job, int lists, int argc, char **argv, struct err *e)
{
	int left = 1;

	for (int i = 0; i < JOB_LISTS; i++)
		job->lists[i] = xcalloc((size_t)argc + 1, sizeof(*job->lists[i]));
	for (int i = 1; i < argc; i++) {
		int which = which_list(argv[i], lists);

		if (!strcmp(argv[i], "--")) {
			job->command = argv + i + 1;
			job->command_count = (size_t)(argc - i - 1);
			break;
		}
		if (which == lists)
			argv[left++] = argv[i];
		else if (argv[i][strlen(names[which])] == '=')
			job->lists[which][job->counts[which]++] =
				argv[i] + strlen(names[which]) + 1;
		else if (i + 1 == argc || !strcmp(argv[i + 1], "--"))
			return err_set(e, "%s needs a value", argv[i]);
		else
			job->lists[which][job->counts[which]++] = argv[++i];
	}
	return left;
}

void job_release(struct job *job)
{
	for (int i = 0; i < JOB_LISTS; i++)
		free(job->lists[i]);
}

int job_is_empty(const struct job *job)
{
	return !job->counts[JOB_CONFIG] && !job->counts[JOB_SET] && !job->counts[JOB_ENV] &&
	       !job->command_count;
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

int job_read(const struct job *job, struct config *c, int world_size, const char *gpu,
	     struct err *e)
{
	char text[32];

	for (size_t i = 0; i < job->counts[JOB_CONFIG]; i++)
		if (config_read_file(c, job->lists[JOB_CONFIG][i], e) < 0)
			return -1;
	for (size_t i = 0; i < job->counts[JOB_ENV]; i++)
		if (!strchr(job->lists[JOB_ENV][i], '='))
			return err_set(e, "--env is \"%s\", expected NAME=VALUE",
				       job->lists[JOB_ENV][i]);
	if ((job->command_count || job->counts[JOB_ENV]) &&
	    config_read_command(c, (int)job->command_count, job->command, job->lists[JOB_ENV],
				(unsigned)job->counts[JOB_ENV], e) < 0)
		return -1;
	if (world_size) {
		snprintf(text, sizeof(text), "%d", world_size);
		if (config_set(c, "world_size", text, "--world-size", e) < 0)
			return -1;
	}
	if (gpu && config_set(c, "gpu", gpu, "--gpu", e) < 0)
		return -1;
	for (size_t i = 0; i < job->counts[JOB_SET]; i++)
		if (set_pair(c, job->lists[JOB_SET][i], e) < 0)
			return -1;
	return config_derive(c, e);
}
