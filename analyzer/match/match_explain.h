/* What a gap means: which single declared value, if it were another, would explain the blocks that
 * were found. */
#ifndef MEMTRACE_MATCH_EXPLAIN_H
#define MEMTRACE_MATCH_EXPLAIN_H

#include "match/match.h"

/* Fills m->causes, the best first. Only our own system predicts blocks; of others nothing is said.
 */
void match_explain(struct match *m, const struct config *c, const struct tolerances *t);
/* Of one stage, with the same bytes observed, estimated and in the gap. */
int match_is_alike(const struct match *a, const struct match *b);
/* The causes of another one. */
void match_explain_as(struct match *m, const struct match *other);

#endif
