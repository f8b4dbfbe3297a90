/* Owners of device memory (owner.def), and the owner of a module's allocations. */
#ifndef MEMTRACE_OWNER_H
#define MEMTRACE_OWNER_H

#include "util/util.h"

enum owner {
#define OWNER(id, key, title, patterns) OWNER_##id,
#include "attribution/owner.def"
#undef OWNER
	OWNERS
};

const char *owner_key(enum owner o);   /* in JSON */
const char *owner_title(enum owner o); /* for people */
/* Is it listed even with 0 bytes? */
int owner_is_always_listed(enum owner o);
/* The owner of what the module with this path allocates. */
enum owner owner_of_module(struct str path);

#endif
