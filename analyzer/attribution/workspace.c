#include "attribution/workspace.h"

#include "util/cublas.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_WITHOUT 215 /* 100 * major + minor */

struct workspace_sizes workspace_sizes_of(const struct tables *t)
{
	const struct meta *config = tables_meta(t, MT_META_ENV "CUBLAS_WORKSPACE_CONFIG");
	bytes given = config ? cublas_workspace_parse(config->value) : 0;

	return (struct workspace_sizes){ { CUBLAS_WORKSPACE_HOPPER, CUBLAS_WORKSPACE_OTHERS,
					   given > 0 ? given : 0 } };
}

int workspaces_last(const struct tables *t)
{
	const struct meta *version = tables_meta(t, MT_META_VERSION "torch");
	char text[16] = "", *end;
	long major, minor;

	if (!version)
		return 1;
	memcpy(text, version->value.at,
	       version->value.length < sizeof(text) ? version->value.length : sizeof(text) - 1);
	major = strtol(text, &end, 10);
	if (end == text || *end != '.' || major < 0 || major > 99)
		return 1;
	minor = strtol(end + 1, NULL, 10);
	return major < FIRST_WITHOUT / 100 ||
	       (major == FIRST_WITHOUT / 100 && minor < FIRST_WITHOUT % 100);
}
