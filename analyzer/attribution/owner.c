#include "attribution/owner.h"

#include "util/glob.h"

#include <string.h>

static const struct {
	const char *key, *title, *patterns;
} owners[] = {
#define OWNER(id, key, title, patterns) { key, title, patterns },
#include "attribution/owner.def"
#undef OWNER
};

const char *owner_key(enum owner o)
{
	return owners[o].key;
}

const char *owner_title(enum owner o)
{
	return owners[o].title;
}

static int matches_one_of(struct str name, const char *patterns)
{
	while (*patterns) {
		size_t n = strcspn(patterns, " ");

		if (str_matches_part(name, patterns, n))
			return 1;
		patterns += n + (patterns[n] != '\0');
	}
	return 0;
}

enum owner owner_of_module(struct str path)
{
	static const struct str deleted = { " (deleted)", 10 }; /* /proc/PID/maps appends it */
	size_t start;

	if (path.length > deleted.length &&
	    !memcmp(path.at + path.length - deleted.length, deleted.at, deleted.length))
		path.length -= deleted.length;
	for (start = path.length; start && path.at[start - 1] != '/'; start--)
		;
	if (start < path.length)
		path = (struct str){ path.at + start, path.length - start };
	for (size_t i = 0; i < OWNERS; i++)
		if (matches_one_of(path, owners[i].patterns))
			return (enum owner)i;
	return OWNER_APPLICATION;
}

int owner_is_always_listed(enum owner o)
{
	return o == OWNER_PYTORCH || o == OWNER_CONTEXT || o == OWNER_UNEXPLAINED;
}
