#include "attribution/workspace.h"

#include "util/cublas.h"

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
	return tables_torch_version(t) < FIRST_WITHOUT;
}
