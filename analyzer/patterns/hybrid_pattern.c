#include "patterns/hybrid_pattern.h"

#include <string.h>

#define KINDS "MG*D+-E"
#define MAX_PATTERN 100000

int hybrid_pattern_is_valid(const char *pattern)
{
	size_t length = strlen(pattern);

	if (length == 0 || length > MAX_PATTERN || strspn(pattern, KINDS "|/") != length)
		return 0;
	/* each prediction has layers, and no stages */
	return *pattern != '/' && pattern[length - 1] != '/' && !strstr(pattern, "//") &&
	       !strchr(hybrid_predictions(pattern), '|');
}

const char *hybrid_predictions(const char *pattern)
{
	const char *slash = strchr(pattern, '/');

	return slash ? slash + 1 : "";
}

char hybrid_layer_kind(const char *pattern, int64_t layer)
{
	for (; *pattern && *pattern != '/'; pattern++)
		if (*pattern != '|' && layer-- == 0)
			return *pattern;
	return '\0';
}
