/* Predicts the peak of another configuration from the observed peak of this one. */
#ifndef MEMTRACE_MATCH_WHAT_IF_H
#define MEMTRACE_MATCH_WHAT_IF_H

#include "match/match.h"

/* `pairs`: "KEY=VALUE,KEY=VALUE". Fills m->what_if. -1: malformed, or the system cannot estimate
 * it. */
int match_what_if(struct match *m, const struct config *c, const char *pairs, struct err *e);

#endif
