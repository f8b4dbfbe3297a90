/* One simulation of a command template with values filled in, and its result. */
#ifndef MEMTRACE_TRIAL_H
#define MEMTRACE_TRIAL_H

#include "simulate/command_template.h"
#include "simulate/simulation.h"
#include "simulate/summary.h"
#include "util/buf.h"

struct trial {
	char *name; /* as the table shows it; owned */
	enum verdict verdict;
	bytes peak; /* of the device, the largest of the ranks' */
	double seconds;
};

/* Simulates s->command with its placeholders filled, in a directory `folder` below s->directory. A
 * failure for another reason than memory is an error. */
int trial_run(const struct simulation *s, const struct placeholder *placeholders, size_t count,
	      const char *folder, struct trial *t, struct err *e);
/* Adds a table of trials, a line each, and a message if none of them recorded anything. */
void trial_table(const struct simulation *s, const char *heading, const struct trial *trials,
		 size_t count, struct buf *out);

#endif
