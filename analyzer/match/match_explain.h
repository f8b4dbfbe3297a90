/* Explains a gap: finds single values that, if changed, would explain the observed blocks. */
#ifndef MEMTRACE_MATCH_EXPLAIN_H
#define MEMTRACE_MATCH_EXPLAIN_H

#include "match/match.h"

/* Fills m->causes, the best first. Only memtrace's own system predicts blocks; for others it does
 * nothing. */
void match_explain(struct match *m, const struct config *c, const struct tolerances *t);
/* Are both of one stage, with the same observed and estimated bytes and the same gap? */
int match_is_alike(const struct match *a, const struct match *b);
/* Copies the causes of another match. */
void match_explain_as(struct match *m, const struct match *other);

#endif
