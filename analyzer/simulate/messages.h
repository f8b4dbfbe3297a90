/* Messages of a running simulation for the user. simulate/ prints nothing itself: a command gives
 * the functions that do. */
#ifndef MEMTRACE_MESSAGES_H
#define MEMTRACE_MESSAGES_H

#include <stddef.h>

struct simulation_progress {
	size_t done, total, active; /* ranks */
	double seconds;             /* since the simulation began */
};

struct messages {
	void (*notice)(const char *text); /* a line, without its newline; NULL: dropped */
	void (*progress)(const struct simulation_progress *p); /* NULL: not reported */
};

/* Formats a notice. `m` may be NULL: then it is dropped. */
__attribute__((format(printf, 2, 3))) void notice(const struct messages *m, const char *format,
						  ...);

#endif
