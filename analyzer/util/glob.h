/* Patterns in which * matches any number of characters, and every other character itself. */
#ifndef MEMTRACE_GLOB_H
#define MEMTRACE_GLOB_H

#include "util/util.h"

/* Returns whether the whole of `text` matches `pattern`. Takes time proportional to the product of
 * both lengths at most. */
int str_matches(struct str text, const char *pattern);
/* The same for the first `length` bytes of a pattern. */
int str_matches_part(struct str text, const char *pattern, size_t length);

#endif
