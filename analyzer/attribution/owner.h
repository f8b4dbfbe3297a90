/* Who holds device memory: owners.def as an enum, names, and what a module belongs to. */
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
/* The owner of what a module asked for; `path` is the module's. */
enum owner owner_of_module(struct str path);

#endif
