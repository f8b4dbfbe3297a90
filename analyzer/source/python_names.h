/* Names of variables, and how values go from one statement to the next. */
#ifndef MEMTRACE_PYTHON_NAMES_H
#define MEMTRACE_PYTHON_NAMES_H

#include "source/python_file.h"

#define PYTHON_NAMES 32 /* more are dropped */

struct python_names {
	struct str list[PYTHON_NAMES]; /* in the text of a file */
	size_t count;
};

/* Adds the names that a statement assigns to, or those of what a method of it changes, as `list` in
 * list.append(x); `self` is none. */
void python_names_add(struct python_names *n, struct str statement);
/* Does a text have one of the names? */
int python_names_in(const struct python_names *n, struct str text);
/* Does what a statement computes use one of the names? */
int python_names_used(const struct python_names *n, struct str statement);
/* Adds what is computed from the names, statement by statement, from a line to the one before
 * `end`. */
void python_names_follow(struct python_names *n, const struct python_file *f, uint32_t from,
			 uint32_t end);

#endif
