/* The result of `match` for the ranks of a job, for the command and for the page. */
#ifndef MEMTRACE_MATCH_RANKS_H
#define MEMTRACE_MATCH_RANKS_H

#include "cmd/match_inputs.h"
#include "match/match.h"
#include "modelrun/run_system.h"

struct match_ranks_options {
	const char *system;  /* its name */
	const char *python;  /* for a run of the model; NULL: the first that has PyTorch */
	const char *what_if; /* NULL: nothing */
	enum how how;        /* our own estimate is made */
	struct tolerances tolerances;
	int without_reasons; /* which name values of the command line */
};

/* The tolerance of a total, if none is given, and none of a component. */
struct tolerances tolerances_default(void);
/* Fills `m` with a match for each rank that allocated, the worst first, with the reasons of its
 * gap. Must be released even on failure. */
int match_ranks(struct matches *m, const struct match_inputs *j,
		const struct match_ranks_options *o, struct err *e);
void matches_release(struct matches *m);

#endif
