/* One try of a command template: its places filled, simulated, and what came of it. */
#ifndef MEMTRACE_SIM_TRIAL_H
#define MEMTRACE_SIM_TRIAL_H

#include "simulate/simulation.h"
#include "simulate/summary.h"
#include "util/util.h"

/* Where `{key}` is, `value` goes. */
struct place {
	const char *key, *value;
};

struct trial {
	char *name; /* as the table shows it; owned */
	enum verdict verdict;
	bytes peak; /* of the device, the largest of the ranks' */
	double seconds;
};

/* Has a word of the command the place `{key}`? */
int trial_has_place(char *const *command, const char *key);
/* The command with its places filled; a word that was nothing but places which are now empty goes
 * away. trial_release() frees it. */
char **trial_fill(char *const *command, const struct place *places, size_t count);
void trial_release(char **words);
/*
 * Simulates s->command with its places filled, in a directory `folder` below s->directory. An end
 * for another reason than memory is an error.
 */
int trial_run(const struct simulation *s, const struct place *places, size_t count,
	      const char *folder, struct trial *t, struct err *e);
void trial_print(const char *heading, const struct trial *trials, size_t count);

#endif
