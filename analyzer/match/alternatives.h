/* Alternative values of a configuration's keys: the table that explains a gap (match_explain.c) and
 * searches for values (infer_search.c), and how one value is changed. */
#ifndef MEMTRACE_ALTERNATIVES_H
#define MEMTRACE_ALTERNATIVES_H

#include "config/config.h"

#include <stddef.h>

struct alternatives {
	enum config_field field;
	const char *explain; /* values of match_explain(), separated by spaces; "": none */
	const char *meaning; /* the cause, if one of these explains the gap */
	const char *search;  /* values of infer_search(); "": none */
};
extern const struct alternatives alternatives[];
extern const size_t alternatives_count;

/* Has a key values of infer_search()? */
int alternatives_are_searched(enum config_field f);
/* Is the row to be searched for the job `c`? */
int alternatives_apply(const struct config *c, size_t row);

enum { ALTERNATIVE_LENGTH = 32 };
/* Copies the word at *at to `word` and moves *at behind it; returns 0 at the end of the list. */
int alternatives_next(const char **at, char word[ALTERNATIVE_LENGTH]);

/* Sets `f` to `value`, or unsets it for "~", and derives the rest again. -1: no such job can run.
 */
int alternative_set(struct config *c, enum config_field f, const char *value, const char *origin);

#endif
