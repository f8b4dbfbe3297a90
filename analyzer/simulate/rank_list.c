#include "simulate/rank_list.h"

#include "util/util.h"

#include <stdlib.h>
#include <string.h>

int rank_list_parse(const char *list, int world, int **ranks, size_t *count, struct err *e)
{
	char *chosen = xcalloc((size_t)world, 1);
	const char *at = list;
	int status = 0;

	if (!strcmp(list, "all")) {
		memset(chosen, 1, (size_t)world);
		at += 3;
	}
	while (*at && !status) {
		char *end;
		long first = strtol(at, &end, 10), last = first;

		if (end != at && *end == '-')
			last = strtol(at = end + 1, &end, 10);
		if (end == at || (*end && *end != ',') || first < 0 || last < first) {
			status = err_set(e, "--ranks is \"%s\", expected ranks like 0,8-15, or all",
					 list);
		} else if (last >= world) {
			status = err_set(
				e, "--ranks: there is no rank %ld, the world has %d (0 to %d)",
				last, world, world - 1);
		} else {
			for (long i = first; i <= last && !status; i++)
				if (chosen[i]++)
					status = err_set(e, "--ranks names rank %ld twice", i);
			at = *end ? end + 1 : end;
		}
	}
	*count = 0;
	*ranks = xcalloc((size_t)world, sizeof(**ranks));
	for (int i = 0; i < world; i++)
		if (chosen[i])
			(*ranks)[(*count)++] = i;
	free(chosen);
	if (!status && !*count)
		status = err_set(e, "--ranks is empty, expected ranks like 0,8-15, or all");
	return status;
}
