/* PYTORCH_CUDA_ALLOC_CONF. */
#include "torch/allocator.h"

#include <stdio.h>
#include <string.h>

#define MIB (INT64_C(1) << 20)
#define SEGMENTS_BY_AGE \
	208 /* replayed in 2.15 only; by its strings 2.11 has it and 2.7 not; between: assumed */
#define ROUNDUP "roundup_power2_divisions:"

static int class_of(long long mib)
{
	int i = 0;

	while (i + 1 < ALLOCATOR_CLASSES && 2LL << i <= mib)
		i++;
	return i;
}

/* "4", or by size in MiB: "[256:1,512:2,>:4]". What lies between two sizes is not rounded, as in
 * PyTorch. -1: malformed. */
static int read_divisions(struct allocator_settings *s, const char *text)
{
	int *to = s->divisions, last = -1, used, value;
	long long size;

	if (*text != '[') {
		if (sscanf(text, "%d", &value) != 1)
			return -1;
		for (int i = 0; i < ALLOCATOR_CLASSES; i++)
			to[i] = value;
		return 0;
	}
	for (text++; *text && *text != ']'; text += used + (text[used] == ',')) {
		if (sscanf(text, ">:%d%n", &value, &used) == 1) {
			for (int i = last + 1; i < ALLOCATOR_CLASSES; i++)
				to[i] = value;
			continue;
		}
		if (sscanf(text, "%lld:%d%n", &size, &value, &used) != 2)
			return -1;
		for (int i = 0; last < 0 && i < class_of(size); i++)
			to[i] = value;
		last = class_of(size);
		to[last] = value;
	}
	return 0;
}

int allocator_configure(struct allocator_settings *s, const char *conf, int version, struct err *e)
{
	s->by_address = version && version < SEGMENTS_BY_AGE;
	while (*conf) {
		size_t n = strcspn(conf, ",");
		long long number;

		if (!strncmp(conf, "expandable_segments:True", n) ||
		    !strncmp(conf, "expandable_segments:true", n))
			s->expandable_segments = 1;
		else if (!strncmp(conf, "expandable_segments:False", n))
			s->expandable_segments = 0;
		else if (!strncmp(conf, ROUNDUP, strlen(ROUNDUP)) &&
			 !read_divisions(s, conf + strlen(ROUNDUP)))
			n = strcspn(conf, "[,") < n
				    ? strcspn(conf, "]") + (strchr(conf, ']') != NULL)
				    : n;
		else if (sscanf(conf, "max_split_size_mb:%lld", &number) == 1)
			s->max_split_size = number * MIB;
		else if (sscanf(conf, "max_non_split_rounding_mb:%lld", &number) == 1)
			s->max_non_split_rounding = number * MIB;
		else if (sscanf(conf, "large_segment_size_mb:%lld", &number) == 1)
			s->large_segment_size = number * MIB;
		else
			return err_set(e, "PYTORCH_CUDA_ALLOC_CONF: \"%.*s\" is not modelled",
				       (int)n, conf);
		conf += n + (conf[n] == ',');
	}
	return 0;
}
