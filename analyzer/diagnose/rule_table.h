/* The rows of rules.def as text. */
#ifndef MEMTRACE_RULE_TABLE_H
#define MEMTRACE_RULE_TABLE_H

#include <stddef.h>

/* A row of rules.def. `undetectable`: the reason; NULL for a rule. */
struct rule_row {
	const char *id, *severity, *title, *when, *message, *source, *undetectable;
};
/* The row of index `i`, or NULL after the last. */
const struct rule_row *rule_at(size_t i);
/* Its message if no request failed; NULL: the same. */
const char *rule_unfailed(size_t i);

#endif
