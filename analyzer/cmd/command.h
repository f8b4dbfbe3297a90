/* A command: one row of commands[] in main.c and one file in cmd/. Only these print and choose exit
 * statuses. */
#ifndef MEMTRACE_COMMAND_H
#define MEMTRACE_COMMAND_H

#include "util/opt.h"

enum status { STATUS_FINE = 0, STATUS_NO = 1, STATUS_USAGE = 2, STATUS_INTERNAL = 3 };

struct command {
	const char *name;
	const char *summary;               /* for `memtrace help` */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

int cmd_run(int argc, char **argv);
int cmd_simulate(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_estimate(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_match(int argc, char **argv);
int cmd_preload_path(int argc, char **argv);

/* Rows of `struct opt` that many commands have. */
#define BYTES_OPTION(where)                                               \
	{                                                                 \
		"bytes", 0, OPT_FLAG, where, NULL, "sizes in bytes", 0, 0 \
	}
#define COLOR_OPTION(where)                                         \
	{                                                           \
		"color", 0, OPT_CHOICE, where, "auto|always|never", \
			"colours (auto: on a terminal)", 0, 0       \
	}

/* "memtrace: …" on standard error; returns `status`. */
int command_fail(int status, const struct err *e);
/* usage: memtrace …, and the options. */
void command_help(const char *usage, const char *about, const struct opt_set *set);
/* Writes a result to standard output; returns STATUS_FINE, or STATUS_INTERNAL if it could not be
 * written. */
int command_print(const char *text, size_t length);

#endif
