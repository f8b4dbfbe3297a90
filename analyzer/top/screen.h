/* `memtrace top` on a terminal, by ncurses: the list of processes, one in detail, the help. */
#ifndef MEMTRACE_TOP_SCREEN_H
#define MEMTRACE_TOP_SCREEN_H

#include <stdio.h>

#include "live/rows.h"
#include "util/terminal.h"

struct screen_options {
	double interval_s;
	struct style style; /* its width follows the terminal's */
	struct row_choice choice;
	/* Called after each update. Returns -1 to end. NULL: nothing. */
	int (*updated)(void *context, struct folder *f, struct err *e);
	void *context;
};

/* Shows the folder until the user quits. */
int screen_run(struct folder *f, const struct screen_options *o, FILE *out, FILE *in,
	       struct err *e);

/* The part of the interval in which tails of traces are read: the job needs its processors. */
#define SCREEN_SHARE 0.1

#endif
