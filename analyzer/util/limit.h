/* A limit as users write it: a size or a percentage. */
#ifndef MEMTRACE_LIMIT_H
#define MEMTRACE_LIMIT_H

#include "util/err.h"
#include "util/util.h"

struct limit {
	int is_given, is_percent;
	double percent;
	bytes bytes;
};

/* Parses "2GiB", "0" or "5%", the value of the option `name`. NULL: no limit is given. */
int limit_parse(struct limit *l, const char *name, const char *text, struct err *e);
/* The limit in bytes; a percentage is of `whole`. */
bytes limit_of(const struct limit *l, bytes whole);

#endif
