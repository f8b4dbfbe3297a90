/* memtrace: what happened to the memory of a GPU job. */
#include "cmd/command.h"
#include "util/buf.h"
#include "util/version.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command commands[] = {
	{ "run", "run a command and record its GPU allocations", cmd_run },
	{ "simulate", "the same on a simulated GPU, on a machine without one", cmd_simulate },
	{ "report", "where did the peak go? why did it run out of memory?", cmd_report },
	{ "diff", "what changed between two jobs?", cmd_diff },
	{ "check", "is a memory budget kept? for a CI", cmd_check },
	{ "estimate", "what should a job need? our answer and four published ones, from its configuration", cmd_estimate },
	{ "match", "does what was observed agree with the estimate, term by term?", cmd_match },
	{ "plan", "which parallel layouts fit, the best first", cmd_plan },
	{ "preload-path", "print where libmemtrace.so is, for LD_PRELOAD", cmd_preload_path },
};

static void print_help(void)
{
	puts("usage: memtrace COMMAND [OPTIONS] [ARGUMENTS]\n"
	     "       memtrace TRACE...            the same as memtrace report TRACE...\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-14s %s\n", commands[i].name, commands[i].summary);
	puts("\n  memtrace COMMAND --help shows a command's options; memtrace --version the version.\n"
	     "  Exit status: 0 fine, 1 the answer is no, 2 bad usage or input, 3 internal error.\n"
	     "\n  Record: LD_PRELOAD=$(memtrace preload-path) torchrun ... train.py    or    memtrace run -- COMMAND");
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static int unknown(const char *word)
{
	const char *names[ARRAY_SIZE(commands) + 2] = { 0 };
	struct buf list = { 0 };
	const char *near;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i].name;
	names[ARRAY_SIZE(commands)] = "help";
	near = nearest(word, names);
	if (near) {
		err_print("\"%s\" is neither a command nor a file; did you mean %s?", word, near);
		return STATUS_USAGE;
	}
	for (size_t i = 0; names[i]; i++)
		buf_addf(&list, "%s %s", i ? "," : "", names[i]);
	err_print("\"%s\" is neither a command nor a file; the commands are%s", word, list.text);
	buf_release(&list);
	return STATUS_USAGE;
}

static int help(int argc, char **argv)
{
	char flag[] = "--help", *line[] = { NULL, flag, NULL };
	const struct command *c;

	if (argc < 3) {
		print_help();
		return STATUS_FINE;
	}
	c = find(argv[2]);
	if (!c)
		return unknown(argv[2]);
	line[0] = argv[2];
	return c->run(2, line);
}

int main(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		print_help();
		return STATUS_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return help(argc, argv);
	if (!strcmp(argv[1], "--version")) {
		puts("memtrace " MEMTRACE_VERSION);
		return STATUS_FINE;
	}
	c = find(argv[1]);
	if (c)
		return c->run(argc - 1, argv + 1);
	/* Without a command it is a report: options may come first. */
	if (argv[1][0] == '-' || !access(argv[1], F_OK))
		return cmd_report(argc, argv);
	return unknown(argv[1]);
}
