/* The result of infer(): values with their evidence, and keys that stay undetermined. */
#ifndef MEMTRACE_INFERRED_H
#define MEMTRACE_INFERRED_H

#include "config/config.h"
#include "util/buf.h"

enum inferred_confidence {
	INFERRED_EXACT,  /* sizes or frames allow no other value */
	INFERRED_LIKELY, /* this value leaves clearly the smallest gap */
	INFERRED_GUESS,  /* other values explain the blocks as well, or nearly */
};
const char *inferred_confidence_name(enum inferred_confidence confidence);

/* A value that was inferred; texts owned. */
struct inferred {
	enum config_field field;
	char *value, *evidence;
	enum inferred_confidence confidence;
};

/* A key whose value the blocks do not determine; `reason` owned. */
struct undetermined {
	enum config_field field;
	char *reason;
};

struct inferred_config {
	struct inferred *list; /* in the order in which they were inferred */
	size_t count, room;
	struct undetermined *undetermined;
	size_t undetermined_count, undetermined_room;
};

void inferred_release(struct inferred_config *i);

/* Sets field `f` of `c` and lists it with its evidence (a printf format), unless `c` has a value
 * for it that was not derived from others. */
__attribute__((format(printf, 6, 7))) void inferred_add(struct inferred_config *i, struct config *c,
							enum config_field f,
							enum inferred_confidence confidence,
							const char *value, const char *evidence,
							...);
/* Lists `f` as undetermined; `reason` is a printf format. */
__attribute__((format(printf, 3, 4))) void inferred_undetermined(struct inferred_config *i,
								 enum config_field f,
								 const char *reason, ...);
/* The entry of `f`; NULL if it was not inferred. Borrowed. */
struct inferred *inferred_find(const struct inferred_config *i, enum config_field f);

#endif
