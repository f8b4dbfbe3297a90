#include "metrics/metrics.h"

#include <stddef.h>
#include <string.h>

const struct metric_row metric_rows[] = {
#define METRIC(id, unit, meaning) { #id, UNIT_##unit, meaning, offsetof(struct metrics, id) },
#include "metrics/metrics.def"
#undef METRIC
};
const size_t metric_count = ARRAY_SIZE(metric_rows);

const struct metric_row *metric_find(const char *name, size_t length)
{
	for (size_t i = 0; i < metric_count; i++)
		if (strlen(metric_rows[i].name) == length &&
		    !memcmp(metric_rows[i].name, name, length))
			return &metric_rows[i];
	return NULL;
}

int64_t metric_value(const struct metrics *m, const struct metric_row *row)
{
	int64_t value;

	memcpy(&value, (const char *)m + row->offset, sizeof(value));
	return value;
}
