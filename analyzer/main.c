/* memtrace: the memory of GPU jobs. */
#include "cmd/commands.h"
#include "util/buf.h"
#include "util/version.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_help(void)
{
	puts("usage: memtrace COMMAND [OPTIONS] [ARGUMENTS]\n"
	     "       memtrace TRACE...            the same as memtrace report TRACE...\n");
	for (size_t i = 0; commands[i]; i++)
		printf("  %-14s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n  memtrace COMMAND --help shows a command's options; memtrace --version the version.\n"
	     "  Exit status: 0 success, 1 a negative answer, 2 bad usage or input, 3 internal error.\n"
	     "\n  Record: LD_PRELOAD=$(memtrace preload-path) torchrun ... train.py    or    memtrace run -- COMMAND");
}

static int unknown(const char *word)
{
	const char *names[64] = { 0 };
	struct buf list = { 0 };
	const char *near;
	size_t count = 0;

	for (; commands[count]; count++)
		names[count] = commands[count]->name;
	names[count] = "help";
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
		return STATUS_SUCCESS;
	}
	c = command_find(argv[2]);
	if (!c)
		return unknown(argv[2]);
	line[0] = argv[2];
	return command_main(c, 2, line);
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
		return STATUS_SUCCESS;
	}
	c = command_find(argv[1]);
	if (c)
		return command_main(c, argc - 1, argv + 1);
	/* Without a command the traces are reported; options may come first. */
	if (argv[1][0] == '-' || !access(argv[1], F_OK))
		return command_main(&cmd_report, argc, argv);
	return unknown(argv[1]);
}
