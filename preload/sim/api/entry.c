/* Driver entry points by name. They are our own functions, never what RTLD_DEFAULT would find: a
 * tracer preloaded before us wraps the look-up itself. */
#include "api/entry.h"

#include "device/common.h"

#include <string.h>

/* Here a driver function is only an address. */
#define ENTRY(symbol, version) extern void symbol(void);

#include "api/driver.def"
#undef ENTRY

static const struct entry {
	const char *name;
	void (*function)(void);
	int version;
} entries[] = {
#define ENTRY(symbol, version) { #symbol, symbol, version },
#include "api/driver.def"
#undef ENTRY

};

/* The match of a symbol and a name: 0 none, 1 the plain name, n for name_vn. */
static int rank_of(const char *symbol, const char *name, size_t length)
{
	if (strncmp(symbol, name, length))
		return 0;
	const char *rest = symbol + length;
	if (!*rest)
		return 1;
	return rest[0] == '_' && rest[1] == 'v' && rest[2] >= '2' && rest[2] <= '9' && !rest[3]
		       ? rest[2] - '0'
		       : 0;
}

/* `name` is a base name ("cuMemAlloc") or a full one; of several symbols, the newest that the
 * requested version knows. */
void *entry_find(const char *name, int version)
{
	const struct entry *best = NULL;
	int best_rank = 0;
	size_t length = strlen(name);
	for (size_t i = 0; i < LENGTH(entries); i++) {
		int rank = rank_of(entries[i].name, name, length);
		if (rank <= best_rank || (version && entries[i].version > version))
			continue;
		best = &entries[i];
		best_rank = rank;
	}
	return best ? (void *)best->function : NULL;
}
