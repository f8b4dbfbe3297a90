/* memtrace simulate: runs a command with the recorder and the simulated device preloaded. */
#define _GNU_SOURCE /* environ */
#include "cmd/command.h"
#include "cmd/simulation_messages.h"
#include "cmd/unrecorded.h"
#include "estimate/device.h"
#include "util/buf.h"
#include "session/new_traces.h"
#include "util/launch.h"
#include "util/loader.h"
#include "util/shell.h"
#include "simulate/bisect.h"
#include "simulate/command_template.h"
#include "simulate/launcher.h"
#include "simulate/rank_env.h"
#include "simulate/rank_list.h"
#include "simulate/simulation.h"
#include "simulate/until_oom.h"
#include "simulate/summary.h"

#include <memtrace/not_simulated.h>

#include <memtrace/together.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define MAX_GPUS 8
#define MAX_RANKS 1000000
#define MAX_MEMORY (INT64_C(1) << 43) /* the simulated device's own limit */

static int check_gpu(const char *name, struct err *e)
{
	struct buf list = { 0 };

	gpu_names(&list, ", ");
	if (list.length && !gpu_find(name))
		err_set(e, "--gpu is \"%s\", expected one of %s", name, list.text);
	buf_release(&list);
	return e->text[0] ? -1 : 0;
}

static int set_number(const char *variable, long long value, struct err *e)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", value);
	if (setenv(variable, text, 1) < 0)
		return err_set(e, "cannot set %s", variable);
	return 0;
}

static int set_device(const char *gpu, bytes memory, int count, struct err *e)
{
	if (gpu && setenv("CUDASIM_GPU", gpu, 1) < 0)
		return err_set(e, "cannot set CUDASIM_GPU");
	if (memory && set_number("CUDASIM_MEMORY", memory, e) < 0)
		return -1;
	return count ? set_number("CUDASIM_GPUS", count, e) : 0;
}

struct options {
	const char *directory, *gpu, *ranks, *until_oom, *bisect, *json;
	bytes memory;
	int gpus, world, steps, jobs, timeout, together, deduplicate, print_commands;
};

static int is_alone(const struct options *o)
{
	return o->ranks || o->deduplicate;
}

static int check(const struct options *o, struct err *e)
{
	if (o->memory != -1 && (o->memory <= 0 || o->memory > MAX_MEMORY))
		err_set(e, "--memory is out of range: expected more than 0 and at most 8 TiB");
	if (o->ranks && o->deduplicate)
		err_set(e, "--deduplicate chooses the ranks itself: leave --ranks away");
	if (!is_alone(o) && (o->world || o->jobs || o->print_commands))
		err_set(e,
			"--world-size, --jobs and --print-commands are for ranks simulated alone: add --ranks LIST (or --deduplicate)");
	if (o->together && (!o->ranks || o->jobs || o->print_commands))
		err_set(e,
			"--together runs the ranks of --ranks LIST at once: it needs that list, and does not go with --jobs or --print-commands");
	if (o->until_oom && o->bisect)
		err_set(e,
			"--until-oom and --bisect each try the command in their own way: leave one away");
	if ((o->until_oom || o->bisect) && (o->json || o->print_commands))
		err_set(e,
			"%s prints a table of what was tried; it does not go with --json or --print-commands",
			o->bisect ? "--bisect" : "--until-oom");
	if (o->json && !is_alone(o))
		err_set(e,
			"--json is for ranks simulated alone: add --ranks LIST; of other runs, memtrace report --json tells");
	if (o->gpu && !e->text[0])
		check_gpu(o->gpu, e);
	return e->text[0] ? -1 : 0;
}

/* Removes the list of what the device did not compute for an earlier job. */
static void forget_last_job(const char *directory)
{
	char *path = xasprintf("%s/" NOT_SIMULATED_FILE, directory);

	unlink(path);
	free(path);
}

/* As many as were asked for, or as the launcher starts ranks on a node; 0: the device's own number.
 */
static int gpus_of_node(const struct options *o, char *const *command)
{
	int ranks;

	if (o->gpus || is_alone(o))
		return o->gpus ? o->gpus : MAX_GPUS;
	ranks = getenv("CUDASIM_GPUS") ? 0 : launcher_per_node(command);
	return ranks < MAX_GPUS ? ranks : MAX_GPUS;
}

/* libmemtrace.so comes first, so that it gets the calls before the device. */
static int set_environment(const struct options *o, char *const *command, struct err *e)
{
	int count = gpus_of_node(o, command);
	const char *quiet = getenv("MEMTRACE_QUIET");

	if (quiet && !strcmp(quiet, "1"))
		setenv("CUDASIM_QUIET", "1", 0);
	if (launch_set_directory(o->directory || getenv("MEMTRACE_DIR") ? o->directory : "memtrace",
				 e) < 0)
		return -1;
	forget_last_job(getenv("MEMTRACE_DIR"));
	if (launch_preload("libcudasim.so", e) < 0 || launch_preload("libmemtrace.so", e) < 0 ||
	    launch_set_triton(e) < 0 ||
	    set_device(o->gpu, o->memory > 0 ? o->memory : 0, count, e) < 0)
		return -1;
	return rank_env_inject(o->steps, e);
}

/* ---- ranks alone */

/* The number of ranks of the job: from --world-size, otherwise from its launcher. */
static int find_world(const struct options *o, struct simulation *s, struct err *e)
{
	int launched;

	if (launcher_world(s->command, &launched, e) < 0)
		return -1;
	s->world = o->world ? o->world : launched;
	if (!s->world)
		return err_set(
			e,
			"how many ranks does the job have? give --world-size (the command's launcher does not say)");
	return 0;
}

/* `command`: the command with its placeholders replaced. */
static int find_ranks(const struct options *o, struct simulation *s, char *const *command,
		      struct rank_classes *classes, struct err *e)
{
	const char *routing = getenv("CUDASIM_ROUTING");
	int status;

	if (o->ranks) {
		status = rank_list_parse(o->ranks, s->world, &s->ranks, &s->rank_count, e);
		s->together = o->together && s->rank_count > 1;
		if (!status && o->together && !s->together)
			err_print("--together: rank %d is the only one of --ranks: it runs alone",
				  s->ranks[0]);
		if (!status && s->together && s->rank_count > TOGETHER_RANKS)
			status = err_set(e, "--together: %zu ranks, at most %d can run at once",
					 s->rank_count, TOGETHER_RANKS);
		return status;
	}
	if (deduplicate_ranks(command, s->world, routing && !strcmp(routing, "skewed"), classes,
			      e) < 0)
		return -1;
	s->rank_count = classes->count;
	s->ranks = xcalloc(s->rank_count, sizeof(*s->ranks));
	for (size_t i = 0; i < s->rank_count; i++)
		s->ranks[i] = classes->rows[i].rank;
	return 0;
}

/* Adds the variables of this environment that the command on the other machine needs. */
static void put_environment(struct buf *b)
{
	for (char *const *variable = environ; *variable; variable++) {
		const char *value = strchr(*variable, '=');

		if (!value || !strncmp(*variable, "MEMTRACE_DIR=", strlen("MEMTRACE_DIR=")) ||
		    (strncmp(*variable, "CUDASIM_", strlen("CUDASIM_")) &&
		     strncmp(*variable, "MEMTRACE_", strlen("MEMTRACE_"))))
			continue;
		buf_addf(b, "%.*s", (int)(value + 1 - *variable), *variable);
		shell_add_word(b, (struct str){ value + 1, strlen(value + 1) });
		buf_puts(b, " ");
	}
}

/* Prints one line for each rank: for a job array, or the shell of another machine. */
static int print_commands(const struct options *o, const struct simulation *s)
{
	long long now = time(NULL); /* once: the lines are one run */
	struct buf b = { 0 };
	int status;

	for (size_t i = 0; i < s->rank_count; i++) {
		put_environment(&b);
		buf_addf(&b, "TORCHELASTIC_RUN_ID=simulate-%lld-%d memtrace simulate -o ", now,
			 (int)getpid());
		shell_add_word(&b, (struct str){ s->directory, strlen(s->directory) });
		if (o->gpu)
			buf_addf(&b, " --gpu %s", o->gpu);
		if (o->memory > 0)
			buf_addf(&b, " --memory %lld", (long long)o->memory);
		buf_addf(&b, " --gpus %d --world-size %d --ranks %d", s->gpus_a_node, s->world,
			 s->ranks[i]);
		if (o->steps)
			buf_addf(&b, " --steps %d", o->steps);
		if (o->timeout)
			buf_addf(&b, " --timeout %d", o->timeout);
		buf_puts(&b, " --");
		for (char *const *word = s->command; *word; word++) {
			buf_puts(&b, " ");
			shell_add_word(&b, (struct str){ *word, strlen(*word) });
		}
		buf_puts(&b, "\n");
	}
	status = command_print(b.text ? b.text : "", b.length);
	buf_release(&b);
	return status;
}

/* Writes the JSON to `path`; "-" is standard output. */
static int write_file(const char *path, const struct buf *text, struct err *e)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "we") : stdout;
	int status = 0;

	if (!f || fwrite(text->text, 1, text->length, f) != text->length || fflush(f))
		status = err_set(e, "cannot write %s: %s", path, strerror(errno));
	if (f && f != stdout)
		fclose(f);
	return status;
}

static int run_ranks(const struct options *o, const struct simulation *s,
		     const struct rank_classes *classes, struct err *e)
{
	struct outcome *outcomes = xcalloc(s->rank_count, sizeof(*outcomes));
	struct report r = { 0 };
	struct buf text = { 0 }, json = { 0 };
	int64_t since = new_traces_now();
	int status = 0;

	if (simulation_run(s, outcomes, e) < 0) {
		status = command_fail(LAUNCH_FAILED, e);
	} else {
		summary_read(s->directory, since, 0, &r);
		summary_text(s, outcomes, s->rank_count, classes, &r, &text);
		fputs(text.text, stderr);
		if (o->json)
			summary_json(s, outcomes, s->rank_count, classes, &r, &json);
		if (o->json && write_file(o->json, &json, e) < 0)
			status = command_fail(LAUNCH_FAILED, e);
		for (size_t i = 0; i < s->rank_count && !status; i++)
			status = outcomes[i].was_ended ? 0 : outcomes[i].status;
		if (!r.count)
			unrecorded_tell(s->directory, since, s->command[0], status);
	}
	for (size_t i = 0; i < s->rank_count; i++)
		free(outcomes[i].last_key);
	free(outcomes);
	report_release(&r);
	buf_release(&text);
	buf_release(&json);
	return status;
}

/* Runs the command without changes, for --timeout seconds at most. */
static int run_whole(const struct simulation *s, struct err *e)
{
	struct outcome outcome = { 0 };
	int64_t since = new_traces_now();

	/* The processes print their peaks themselves: no table follows. */
	setenv("MEMTRACE_QUIET", "0", 0);
	if (simulation_run(s, &outcome, e) < 0)
		return command_fail(LAUNCH_FAILED, e);
	unrecorded_tell(s->directory, since, s->command[0], outcome.status);
	return outcome.status;
}

/* Releases both arguments. */
static void print_trials(struct buf *table, struct buf *conclusion)
{
	if (table->length)
		fputs(table->text, stderr);
	if (conclusion->length)
		err_print("%s", conclusion->text);
	buf_release(table);
	buf_release(conclusion);
}

static int run_search(const struct options *o, const struct simulation *s, struct err *e)
{
	struct buf table = { 0 }, conclusion = { 0 };
	int largest = until_oom_find(s, o->until_oom, &table, &conclusion, e);

	print_trials(&table, &conclusion);

	if (largest < 0)
		return command_fail(LAUNCH_FAILED, e);
	return largest ? STATUS_SUCCESS : STATUS_NEGATIVE;
}

static int run_bisect(const struct options *o, const struct simulation *s, struct err *e)
{
	struct buf table = { 0 }, conclusion = { 0 };
	int fits = bisect_find(s, o->bisect, &table, &conclusion, e);

	print_trials(&table, &conclusion);

	if (fits < 0)
		return command_fail(LAUNCH_FAILED, e);
	return fits ? STATUS_SUCCESS : STATUS_NEGATIVE;
}

/* Runs all modes except the plain one, in which the process becomes the command. */
static int simulate(const struct options *o, char **command, struct err *e)
{
	struct rank_classes classes = { 0 };
	char **tried = NULL;
	struct simulation s = { .command = command,
				.gpus_a_node = o->gpus ? o->gpus : MAX_GPUS,
				.jobs = o->jobs,
				.timeout = o->timeout,
				.steps = o->steps,
				.whole = !is_alone(o),
				.messages = simulation_messages() };
	int status;

	if (o->until_oom)
		tried = until_oom_first_command(command, o->until_oom, e);
	else if (o->bisect)
		tried = bisect_own_command(command, o->bisect, e);
	if (!e->text[0] && !s.whole && find_world(o, &s, e) == 0)
		find_ranks(o, &s, tried ? tried : command, &classes, e);
	if (tried)
		template_release(tried);
	if (e->text[0]) {
		free(s.ranks);
		return command_fail(STATUS_USAGE, e);
	}
	if (!getenv("MEMTRACE_DIR") &&
	    launch_set_directory(o->directory ? o->directory : "memtrace", e) < 0)
		return command_fail(LAUNCH_FAILED, e);
	s.directory = getenv("MEMTRACE_DIR");
	if (o->print_commands)
		status = print_commands(o, &s);
	else if (o->until_oom)
		status = run_search(o, &s, e);
	else if (o->bisect)
		status = run_bisect(o, &s, e);
	else if (s.whole)
		status = run_whole(&s, e);
	else
		status = run_ranks(o, &s, o->deduplicate ? &classes : NULL, e);
	free(s.ranks);
	return status;
}

static struct options given = { .memory = -1 };
static const struct opt rows[] = {
	{ "output", 'o', OPT_TEXT, &given.directory, "DIR",
	  "directory for the traces (MEMTRACE_DIR)", 0, 0 },
	{ "gpu", 0, OPT_TEXT, &given.gpu, "NAME", "the GPU to simulate (CUDASIM_GPU)", 0, 0 },
	{ "memory", 0, OPT_SIZE, &given.memory, "SIZE",
	  "the GPU's total memory, context included (CUDASIM_MEMORY)", 0, 0 },
	{ "gpus", 0, OPT_COUNT, &given.gpus, "N",
	  "number of GPUs of a node, 1 to 8 (CUDASIM_GPUS; the launcher's ranks of a node, 8 with --ranks)",
	  1, MAX_GPUS },
	{ "ranks", 0, OPT_TEXT, &given.ranks, "LIST",
	  "simulate these ranks, each alone: 0,8-15, or all", 0, 0 },
	{ "together", 0, OPT_FLAG, &given.together, NULL,
	  "run the ranks of --ranks at the same time and let them exchange data; emulate the rest",
	  0, 0 },
	{ "world-size", 0, OPT_COUNT, &given.world, "W",
	  "number of ranks of the job (default: what its launcher says)", 1, MAX_RANKS },
	{ "deduplicate", 0, OPT_FLAG, &given.deduplicate, NULL,
	  "simulate one rank for all that need the same: first, middle and last pipeline stage", 0,
	  0 },
	{ "steps", 0, OPT_COUNT, &given.steps, "N", "end the job after N steps of its optimizers",
	  1, 1000000 },
	{ "until-oom", 0, OPT_TEXT, &given.until_oom, "KEY",
	  "find the largest number that fits, in place of {KEY} in the command (KEY=FIRST:LAST)", 0,
	  0 },
	{ "jobs", 0, OPT_COUNT, &given.jobs, "N",
	  "run N ranks at a time (default: as many as memory and processors allow)", 1, 64 },
	{ "bisect", 0, OPT_TEXT, &given.bisect, "LIST",
	  "set each KEY to MINIMAL, then one by one to OWN, until memory runs out (KEY=MINIMAL:OWN,...)",
	  0, 0 },
	{ "timeout", 0, OPT_COUNT, &given.timeout, "SECONDS",
	  "end a rank, or the command, that takes longer, and say where it waited", 1, 1000000 },
	{ "json", 0, OPT_TEXT, &given.json, "FILE",
	  "write the peaks of the ranks to FILE as JSON (-: standard output)", 0, 0 },
	{ "print-commands", 0, OPT_FLAG, &given.print_commands, NULL,
	  "print one command a rank instead of running them", 0, 0 },
};

static void more_help(void)
{
	struct buf names = { 0 };

	gpu_names(&names, " ");
	printf("\nGPUs: %s\n", names.text ? names.text : "");
	buf_release(&names);
}

static int run(char **command, size_t count)
{
	struct err e = { 0 };

	check(&given, &e);
	if (!count)
		err_set(&e, "simulate needs a command: memtrace simulate -- COMMAND");
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	if (!given.print_commands &&
	    (set_environment(&given, command, &e) < 0 || loader_check(command[0], &e) < 0))
		return command_fail(LAUNCH_FAILED, &e);
	if (given.print_commands && launch_set_directory(given.directory, &e) < 0)
		return command_fail(LAUNCH_FAILED, &e);
	if (is_alone(&given) || given.until_oom || given.bisect || given.timeout)
		return simulate(&given, command, &e);
	unrecorded_tell_at_end(command);
	return launch_exec(command);
}

const struct command cmd_simulate = {
	.name = "simulate",
	.summary = "run a command on a simulated GPU, on a machine without a GPU",
	.usage =
		"[-o DIR] [--gpu NAME | --memory SIZE] [--gpus N] [--world-size W --ranks LIST] [--steps N] -- COMMAND [ARGUMENT...]",
	.about =
		"Runs COMMAND on a simulated GPU: kernels do nothing, allocations are those of the real PyTorch.\n"
		"With --ranks, each of these ranks of a job runs alone; with --together they run at the same time and\n"
		"exchange data. COMMAND may begin with torchrun, deepspeed, accelerate launch or srun, which are not run.\n"
		"SIZE is a number of bytes, or has a unit: KiB, MiB, GiB, TiB (2^n) or KB, MB, GB, TB (10^n).",
	.more_help = more_help,
	.options = { .rows = rows, .count = ARRAY_SIZE(rows), .stop_at_first = 1 },
	.run = run,
};
