/* A command: one file in cmd/ and one row of commands[] (commands.c). Commands print results and
 * choose exit statuses. */
#ifndef MEMTRACE_COMMAND_H
#define MEMTRACE_COMMAND_H

#include "util/buf.h"
#include "util/opt.h"

enum status { STATUS_SUCCESS = 0, STATUS_NEGATIVE = 1, STATUS_USAGE = 2, STATUS_INTERNAL = 3 };

struct command {
	const char *name;
	const char *summary;     /* for `memtrace help` */
	const char *usage;       /* after the name: "[OPTIONS] TRACE..." */
	const char *about;       /* for --help, between the usage and the options */
	void (*more_help)(void); /* prints what follows the options; NULL: nothing */
	struct opt_set options;  /* the rows point into the command's own variables */
	const char
		*words; /* the values that its arguments can have: "bash|zsh|fish"; NULL: files */
	/* `arguments` ends with NULL; returns the exit status. */
	int (*run)(char **arguments, size_t count);
};

/* Parses the options and runs the command, or prints its help. argv[0] is the command's name.
 * Returns the exit status. */
int command_main(const struct command *c, int argc, char **argv);

/* What attempts_choose() takes without --run, for `about`. */
#define ABOUT_ATTEMPT                                                                   \
	"Of a directory the latest run is used; of a job that was restarted, the last " \
	"attempt that ran out\n"                                                        \
	"of memory, otherwise the attempt that allocated most often."

/* Rows of `struct opt` that many commands have. */
#define RUN_OPTION(where)                                                                         \
	{                                                                                         \
		"run", 0, OPT_TEXT, where, "ID",                                                  \
			"use this run of a directory with several: ID, ID:RESTART, :RESTART, or " \
			"oom",                                                                    \
			0, 0                                                                      \
	}
#define BYTES_OPTION(where)                                                    \
	{                                                                      \
		"bytes", 0, OPT_FLAG, where, NULL, "show sizes in bytes", 0, 0 \
	}
#define COLOR_OPTION(where)                                         \
	{                                                           \
		"color", 0, OPT_CHOICE, where, "auto|always|never", \
			"use colours (auto: on a terminal)", 0, 0   \
	}

/* Prints "memtrace: ..." on standard error; returns `status`. */
int command_fail(int status, const struct err *e);
/* Adds a line with the `memtrace html` command for this result; arguments are quoted for a shell.
 */
void command_add_page(struct buf *out, const struct buf *options, char *const *arguments,
		      size_t count);
/* Writes a result to standard output; returns STATUS_SUCCESS, or STATUS_INTERNAL if it cannot be
 * written. */
int command_print(const char *text, size_t length);

#endif
