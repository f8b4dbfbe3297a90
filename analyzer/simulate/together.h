/*
 * Ranks of a job that run together while the others are emulated: which rank sets a key of the
 * store, which members of an NCCL communicator run, and when only an absent rank can set what all
 * wait for.
 */
#ifndef MEMTRACE_SIMULATE_TOGETHER_H
#define MEMTRACE_SIMULATE_TOGETHER_H

#include "simulate/messages.h"
#include "util/err.h"
#include "util/util.h"

#include <memtrace/together.h>
#include <stdint.h>

enum setter {
	SETTER_ABSENT,
	SETTER_RUNS,
	SETTER_UNKNOWN, /* a rank that runs may set it later, or an absent one */
};
/* Which rank sets a key that a client waits for, in a command of `asked` keys? */
enum setter together_setter(const char *key, uint64_t asked);

/* Memory that the simulated devices of the ranks share: communicators, and which ranks wait. */
struct board {
	const struct messages *messages; /* borrowed; may be NULL */
	struct together *shared;
	int file, owner; /* `owner`: this process; its children open the file by it */
	uint32_t groups; /* rows that are written; counted here, since the ranks can change the
			    shared count */
	int is_refusing; /* the notice that there are too many was given */
	int is_settling; /* all ranks were waiting, with these turns */
	uint64_t turns[TOGETHER_RANKS];
};

int board_open(struct board *b, const struct messages *messages, struct err *e);
void board_close(struct board *b);
/* The path by which the simulated device of the rank in that row opens it. Allocated. */
char *board_name(const struct board *b, size_t row);
/* To be called when a key is set: if the value is a communicator's id, its members that run are
 * recorded. */
void board_note(struct board *b, const char *key, const void *value, size_t length);
/* Does every rank wait, in the store (waits_here[]) or in the device? True only if those in the
 * device have looked again since the last call at which all waited. */
int board_is_quiet(struct board *b, const int *waits_here, size_t ranks);
/* The call in which the rank of that row waits, and for which rank; "": it does not wait.
 * Allocated. */
char *board_where(const struct board *b, size_t row);

#endif
