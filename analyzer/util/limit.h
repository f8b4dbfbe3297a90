/* A limit as people write it: a size, or a part of something. */
#ifndef MEMTRACE_LIMIT_H
#define MEMTRACE_LIMIT_H

#include "util/err.h"
#include "util/util.h"

struct limit {
	int is_given, is_percent;
	double percent;
	bytes bytes;
};

/* "2GiB", "0", "5%" of the option `name`; NULL is no limit. */
int limit_parse(struct limit *l, const char *name, const char *text, struct err *e);
/* In bytes, where it is a part of `whole`. */
bytes limit_of(const struct limit *l, bytes whole);

#endif
