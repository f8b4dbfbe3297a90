#include "diff/diff_config.h"

#include "util/glob.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Variables that identify a process, its host and its time; they do not configure it. */
static const char *const identities[] = {
	"RANK",         "LOCAL_RANK",     "*_RANK",
	"*_PROCID",     "MASTER_PORT",    "MASTER_ADDR",
	"*RUN_ID",      "*RESTART_COUNT", "*ERROR_FILE",
	"*JOBID",       "*JOB_ID",        "*LOCALID",
	"*NODEID",      "*STEP_ID",       "*AGENT_*",
	"MEMTRACE_DIR", "MEMTRACE_QUIET", "CUDA_VISIBLE_DEVICES",
};

static int is_identity(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(identities); i++)
		if (str_matches((struct str){ name, strlen(name) }, identities[i]))
			return 1;
	return 0;
}

static const struct session *job_of(const struct diff *d, int side)
{
	return d->side[side].runs[0];
}

static void add_if_other(struct diff *d, const char *name, const char *a, const char *b)
{
	if ((a || b) && (!a || !b || strcmp(a, b)))
		diff_add_text(d, name, a, b);
}

static char *value_of(const struct config *c, enum config_field f)
{
	struct buf b = { 0 };

	if (!config_has(c, f))
		return NULL;
	config_value(c, f, &b);
	return buf_take(&b);
}

static void diff_fields(struct diff *d)
{
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		char *a, *b;

		if (f == CONFIG_environment || f == CONFIG_torch_version || f == CONFIG_gpu)
			continue;
		a = value_of(&job_of(d, SIDE_A)->config, (enum config_field)f);
		b = value_of(&job_of(d, SIDE_B)->config, (enum config_field)f);
		add_if_other(d, config_name((enum config_field)f), a, b);
		free(a);
		free(b);
	}
}

static json_t *environment_of(const struct session *l)
{
	return config_has(&l->config, CONFIG_environment)
		       ? json_loads(l->config.environment, 0, NULL)
		       : NULL;
}

static void add_variable(struct diff *d, const char *name, const json_t *a, const json_t *b)
{
	char *key = xasprintf("env:%s", name);

	if (!is_identity(name))
		add_if_other(d, key, json_string_value(a), json_string_value(b));
	free(key);
}

static void diff_environments(struct diff *d)
{
	json_t *a = environment_of(job_of(d, SIDE_A)), *b = environment_of(job_of(d, SIDE_B));
	const char *name;
	json_t *value;

	json_object_foreach(a, name, value) add_variable(d, name, value, json_object_get(b, name));
	json_object_foreach(b, name, value) if (!json_object_get(a, name))
		add_variable(d, name, NULL, value);
	json_decref(a);
	json_decref(b);
}

static const char *version_of(const struct rank *r, const char *name)
{
	for (size_t i = 0; i < r->version_count; i++)
		if (!strcmp(r->versions[i].name, name))
			return r->versions[i].text;
	return NULL;
}

static void diff_versions(struct diff *d, const struct rank *a, const struct rank *b)
{
	for (int side = 0; side < SIDES; side++) {
		const struct rank *r = side ? b : a;

		for (size_t i = 0; i < r->version_count; i++) {
			const char *name = r->versions[i].name;
			char *key = xasprintf("version:%s", name);

			if (side == SIDE_A || !version_of(a, name))
				add_if_other(d, key, version_of(a, name), version_of(b, name));
			free(key);
		}
	}
}

static void diff_devices(struct diff *d, const struct rank *a, const struct rank *b)
{
	char memory[SIDES][32];

	add_if_other(d, "gpu", a->gpu, b->gpu);
	add_if_other(d, "source", a->simulated ? "simulated" : "observed",
		     b->simulated ? "simulated" : "observed");
	if (a->total == UNKNOWN_BYTES || b->total == UNKNOWN_BYTES)
		return;
	snprintf(memory[SIDE_A], sizeof(memory[0]), "%lld", (long long)a->total);
	snprintf(memory[SIDE_B], sizeof(memory[0]), "%lld", (long long)b->total);
	add_if_other(d, "device_memory_bytes", memory[SIDE_A], memory[SIDE_B]);
}

/* An option of a command line: "--name=value", or "--name" and the words up to the next option. */
struct argument {
	char *name, *value;
};

static int is_option(const char *word)
{
	return word[0] == '-' && (word[1] == '-' || (word[1] >= 'A' && word[1] <= 'z'));
}

/* The next option from *at on; a word that is no option has the name "". Returns 0 at the end. */
static int next_argument(const struct session *l, size_t *at, struct argument *to)
{
	const char *word, *equals;

	if (*at >= l->argv_count)
		return 0;
	word = l->argv[(*at)++];
	equals = strchr(word, '=');
	if (!is_option(word)) {
		*to = (struct argument){ xstrdup(""), xstrdup(word) };
	} else if (equals) {
		*to = (struct argument){ xasprintf("%.*s", (int)(equals - word), word),
					 xstrdup(equals + 1) };
	} else {
		struct buf value = { 0 };

		while (*at < l->argv_count && !is_option(l->argv[*at]))
			buf_addf(&value, "%s%s", value.length ? " " : "", l->argv[(*at)++]);
		*to = (struct argument){ xstrdup(word), buf_take(&value) };
	}
	return 1;
}

/* All values of an option, "" if it has none; NULL: it is not given. The caller frees it. */
static char *find_value(const struct session *l, const char *name)
{
	struct buf all = { 0 };
	struct argument x;
	size_t at = 0;
	int found = 0;

	while (next_argument(l, &at, &x)) {
		if (!strcmp(x.name, name)) {
			buf_addf(&all, "%s%s", found ? " " : "", x.value);
			found = 1;
		}
		free(x.name);
		free(x.value);
	}
	if (found)
		return buf_take(&all);
	buf_release(&all);
	return NULL;
}

/* Does a field of the configuration have its value from this option? */
static int is_read(const struct session *l, const char *option)
{
	for (int f = 0; f < CONFIG_FIELDS; f++)
		if (config_has(&l->config, (enum config_field)f) &&
		    !strcmp(l->config.origin[f], option))
			return 1;
	return 0;
}

static void diff_commands(struct diff *d)
{
	for (int side = 0; side < SIDES; side++) {
		struct argument x;
		size_t at = 0;

		while (next_argument(job_of(d, side), &at, &x)) {
			char *a = find_value(job_of(d, SIDE_A), x.name),
			     *b = find_value(job_of(d, SIDE_B), x.name);
			const char *name = *x.name ? x.name : "command";

			if ((side == SIDE_A || !a) && !is_read(job_of(d, SIDE_A), name) &&
			    !is_read(job_of(d, SIDE_B), name) && !diff_find(d, DIFF_CONFIG, name))
				add_if_other(d, name, a, b);
			free(a);
			free(b);
			free(x.name);
			free(x.value);
		}
	}
}

void diff_configs(struct diff *d)
{
	const struct rank *a = d->side[SIDE_A].ranks[0], *b = d->side[SIDE_B].ranks[0];

	diff_fields(d);
	diff_commands(d);
	diff_environments(d);
	diff_versions(d, a, b);
	diff_devices(d, a, b);
}
