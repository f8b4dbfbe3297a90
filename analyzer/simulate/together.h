/*
 * Some ranks of a job that run together while the others are played: whose a key of the store is,
 * which members of an NCCL communicator run, and when nothing but an absent rank can help.
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
	SETTER_UNKNOWN, /* either: a rank that runs may do it yet, or one that does not */
};
/* Who sets a key that somebody waits for, together with `asked` keys in all. */
enum setter together_setter(const char *key, uint64_t asked);

struct board {
	const struct messages *messages; /* borrowed; may be NULL */
	struct together *shared;
	int file, owner; /* this process: what it starts opens the file through it */
	uint32_t groups; /* rows that are written: the ranks could change what they map */
	int is_refusing; /* more than that was said */
	int is_settling; /* all were seen to wait, with these turns */
	uint64_t turns[TOGETHER_RANKS];
};

int board_open(struct board *b, const struct messages *messages, struct err *e);
void board_close(struct board *b);
/* Where the simulated device of the rank in that row finds it. Allocated. */
char *board_name(const struct board *b, size_t row);
/* A value has been set: if it is a communicator's id, its members that run are written down. */
void board_note(struct board *b, const char *key, const void *value, size_t length);
/* Does every rank (any thread of it) wait, but for those of waits_here[]? They must have looked
 * again since the last call that found it so. */
int board_is_quiet(struct board *b, const int *waits_here, size_t ranks);
/* The call in which the rank of that row waits for another, and for whom; "": it does not.
 * Allocated. */
char *board_where(const struct board *b, size_t row);

#endif
