#include "simulate/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum meaning { IGNORED, NODES, PER_NODE, TASKS, MODULE, NO_PYTHON, NO_LOCAL_RANK };
enum id {
#define LAUNCHER(id, name, module, local_rank) id,
#define VALUE(...)
#define FLAG(...)
#include "simulate/launchers.def"
#undef LAUNCHER
#undef VALUE
#undef FLAG
	LAUNCHERS
};

static const struct launcher {
	const char *name, *module, *local_rank;
} launchers[] = {
#define LAUNCHER(id, name, module, local_rank) { name, module, local_rank },
#define VALUE(...)
#define FLAG(...)
#include "simulate/launchers.def"
#undef LAUNCHER
#undef VALUE
#undef FLAG
};

static const struct option {
	enum id id;
	const char *name;
	enum meaning meaning;
	int takes_value;
} options[] = {
#define LAUNCHER(...)
#define VALUE(id, option, meaning) { id, option, meaning, 1 },
#define FLAG(id, option, meaning) { id, option, meaning, 0 },
#include "simulate/launchers.def"
#undef LAUNCHER
#undef VALUE
#undef FLAG
};

/* The values of the launcher's options. */
struct launch_options {
	int nodes, per_node, tasks, module, no_python, no_local_rank;
};

static void push(struct worker *w, const char *text)
{
	w->argv = grow(w->argv, w->count + 1, &w->room, sizeof(*w->argv));
	w->argv[w->count++] = xstrdup(text);
	w->argv[w->count] = NULL;
}

void worker_release(struct worker *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->argv[i]);
	free(w->argv);
	*w = (struct worker){ 0 };
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Is it the option? "--nproc_per_node" is "--nproc-per-node", with or without "=value". */
static int same_option(const char *given, const char *name)
{
	while (*name && (*given == *name || (*given == '_' && *name == '-')))
		given++, name++;
	return !*name && (!*given || *given == '=');
}

static const struct option *find_option(enum id id, const char *given)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (options[i].id == id && same_option(given, options[i].name))
			return &options[i];
	/* -n8: a short option with its value */
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (options[i].id == id && options[i].takes_value && options[i].name[1] != '-' &&
		    !strncmp(given, options[i].name, 2))
			return &options[i];
	return NULL;
}

static int parse_count(const char *text, const char *option, int *into, struct err *e)
{
	/* --nnodes 1:4: at most four */
	const char *colon = text ? strchr(text, ':') : NULL, *number = colon ? colon + 1 : text;
	char *end;
	long n;

	if (!number)
		return err_set(e, "%s needs a value", option);
	n = strtol(number, &end, 10);
	if (end == number || *end || n < 1 || n > 1000000)
		return err_set(
			e,
			"%s is \"%s\", expected a number (for \"gpu\" or \"auto\" give --world-size)",
			option, text);
	*into = (int)n;
	return 0;
}

static int apply_option(const struct option *o, const char *value, struct launch_options *s,
			struct err *e)
{
	int is_word = value && (!strcmp(value, "gpu") || !strcmp(value, "auto"));

	switch (o->meaning) {
	case NODES:
		return parse_count(value, o->name, &s->nodes, e);
	case PER_NODE:
		return is_word ? 0 : parse_count(value, o->name, &s->per_node, e);
	case TASKS:
		return parse_count(value, o->name, &s->tasks, e);
	case MODULE:
		s->module = 1;
		break;
	case NO_PYTHON:
		s->no_python = 1;
		break;
	case NO_LOCAL_RANK:
		s->no_local_rank = 1;
		break;
	case IGNORED:
		break;
	}
	return 0;
}

/* Reads a launcher's options from command[0] on; returns how many words they are, or -1. */
static int read_options(enum id id, char *const *command, struct launch_options *s, struct err *e)
{
	int i = 0;

	for (; command[i] && command[i][0] == '-'; i++) {
		const struct option *o = find_option(id, command[i]);
		const char *value = strchr(command[i], '=');

		if (!strcmp(command[i], "--"))
			return i + 1;
		if (!o)
			return err_set(
				e,
				"%s: unknown option %s; give the worker's command instead, with --world-size",
				launchers[id].name, command[i]);
		if (value)
			value++;
		else if (o->takes_value && command[i][1] != '-' && command[i][2])
			value = command[i] + 2;
		else if (o->takes_value)
			value = command[++i];
		if (o->takes_value && !value)
			return err_set(e, "%s: option %s has no value", launchers[id].name,
				       o->name);
		if (apply_option(o, value, s, e) < 0)
			return -1;
	}
	return i;
}

/* The Python of an installed script: the one beside it, else the first on the path. */
static char *python_beside(const char *script)
{
	const char *path = getenv("PATH");
	char *found = NULL;

	if (strchr(script, '/')) {
		found = xasprintf("%.*s/python3", (int)(strrchr(script, '/') - script), script);
	} else {
		for (const char *p = path; p && *p && !found; p += *p == ':') {
			size_t n = strcspn(p, ":");
			char *file = xasprintf("%.*s/%s", (int)n, p, script);

			if (!access(file, X_OK))
				found = xasprintf("%.*s/python3", (int)n, p);
			free(file);
			p += n;
		}
	}
	if (found && !access(found, X_OK))
		return found;
	free(found);
	return xstrdup("python3");
}

/* The launcher at the start of the command; *words: words of its name, *python: the interpreter
 * (allocated). LAUNCHERS: none. */
static enum id recognize(char *const *c, int *words, char **python)
{
	const char *name = base_name(c[0]);
	int m = 1;

	*words = 1;
	for (enum id i = 0; i < LAUNCHERS; i++) {
		if (strcmp(name, launchers[i].name))
			continue;
		if (i == ACCELERATE && (!c[1] || strcmp(c[1], "launch")))
			continue;
		*words = i == ACCELERATE ? 2 : 1;
		*python = python_beside(c[0]);
		return i;
	}
	if (strncmp(name, "python", 6))
		return LAUNCHERS;
	while (c[m] && c[m][0] == '-' && strcmp(c[m], "-m"))
		m += !strcmp(c[m], "-W") || !strcmp(c[m], "-X") ? 2 : 1;
	if (!c[m] || strcmp(c[m], "-m") || !c[m + 1])
		return LAUNCHERS;
	for (enum id i = 0; i < LAUNCHERS; i++) {
		if (!launchers[i].module || strcmp(c[m + 1], launchers[i].module))
			continue;
		*words = m + 2;
		*python = xstrdup(c[0]);
		return i;
	}
	return LAUNCHERS;
}

/* accelerate launch: the helper lets Accelerate itself set the worker's environment. */
static int parse_accelerate(char *const *rest, const char *python, const char *helper,
			    struct worker *w, struct err *e)
{
	push(w, python);
	push(w, helper);
	for (; *rest; rest++) {
		const char *value = strchr(*rest, '=');

		if (same_option(*rest, "--num-processes")) {
			value = value ? value + 1 : rest[1];
			if (!value || parse_count(value, "--num_processes", &w->world, e) < 0)
				return err_set(e, "accelerate: --num_processes has no value");
		}
		push(w, *rest);
	}
	w->per_node = w->world;
	return 0;
}

static void parse_worker(enum id id, char *const *rest, const char *python,
			 const struct launch_options *s, struct worker *w)
{
	if (!s->no_python) {
		push(w, python);
		push(w, "-u");
		if (s->module)
			push(w, "-m");
	}
	push(w, *rest++);
	if (launchers[id].local_rank && !s->no_local_rank) {
		w->local_rank = launchers[id].local_rank;
		w->local_rank_at = w->count;
	}
	while (*rest)
		push(w, *rest++);
	w->per_node = s->per_node;
	if (s->per_node)
		w->world = s->per_node * (s->nodes ? s->nodes : 1);
}

static int parse(char *const *command, const char *helper, struct worker *w, struct err *e);

static int parse_srun(char *const *rest, const char *helper, const struct launch_options *s,
		      struct worker *w, struct err *e)
{
	int tasks = s->tasks      ? s->tasks
		    : s->per_node ? s->per_node * (s->nodes ? s->nodes : 1)
				  : s->nodes;

	if (parse(rest, helper, w, e) < 0)
		return -1;
	if (!w->launcher) {
		w->launcher = launchers[SRUN].name;
		w->world = tasks;
		w->is_slurm = 1;
	}
	return 0;
}

/* Keeps "env NAME=VALUE..." for the worker; returns its number of words. */
static int keep_environment(char *const *command, struct worker *w)
{
	int n = 1;

	if (strcmp(base_name(command[0]), "env") != 0)
		return 0;
	while (command[n] && command[n][0] != '-' && strchr(command[n], '='))
		n++;
	if (!command[n] || command[n][0] == '-')
		return 0;
	for (int i = 0; i < n; i++)
		push(w, command[i]);
	return n;
}

static int parse(char *const *command, const char *helper, struct worker *w, struct err *e)
{
	struct launch_options s = { 0 };
	char *python = NULL;
	int words, n = 0, status = 0;
	enum id id;

	command += keep_environment(command, w);
	id = recognize(command, &words, &python);
	if (id == LAUNCHERS) {
		while (*command)
			push(w, *command++);
		return 0;
	}
	command += words;
	if (id != ACCELERATE && (n = read_options(id, command, &s, e)) < 0) {
		free(python);
		return -1;
	}
	command += n;
	if (!*command)
		status = err_set(e, "%s has no command to run", launchers[id].name);
	else if (id == SRUN)
		status = parse_srun(command, helper, &s, w, e);
	else if (id == ACCELERATE)
		status = parse_accelerate(command, python, helper, w, e);
	else
		parse_worker(id, command, python, &s, w);
	if (!status && !w->launcher)
		w->launcher = launchers[id].name;
	free(python);
	return status;
}

int launcher_parse(char *const *command, const char *helper, struct worker *w, struct err *e)
{
	*w = (struct worker){ 0 };
	return parse(command, helper, w, e);
}

int launcher_world(char *const *command, int *world, struct err *e)
{
	struct worker w;
	int status = launcher_parse(command, "", &w, e);

	*world = status ? 0 : w.world;
	worker_release(&w);
	return status;
}

int launcher_per_node(char *const *command)
{
	struct err e = { 0 };
	struct worker w;
	int n = launcher_parse(command, "", &w, &e) ? 0 : w.per_node;

	worker_release(&w);
	return n;
}
