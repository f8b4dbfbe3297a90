/* Reads PYTORCH_CUDA_ALLOC_CONF. */
#include "allocator/allocator.h"

#include "config/allocator_conf.h"

#include <stdio.h>
#include <string.h>

#define MIB (INT64_C(1) << 20)
/* 2.15 was replayed; the strings of the library say that 2.11 has it and 2.7 has not; 2.8 to 2.10
 * are assumed. */
#define SEGMENTS_BY_AGE 208

/* Sets a size that is given in MiB; returns 0 if the option has another name or no number. */
static int read_mib(int64_t *size, const struct allocator_option *o, const char *name)
{
	long long number;

	if (!allocator_option_is(o, name, NULL) || !o->value.length ||
	    sscanf(o->value.at, "%lld", &number) != 1)
		return 0;
	*size = number * MIB;
	return 1;
}

int allocator_configure(struct allocator_settings *s, const char *conf, int version, struct err *e)
{
	struct str rest = { conf, strlen(conf) };
	struct allocator_option o;

	s->by_address = version && version < SEGMENTS_BY_AGE;
	while (allocator_conf_next(&rest, &o)) {
		if (allocator_option_is(&o, "expandable_segments", "True") ||
		    allocator_option_is(&o, "expandable_segments", "true"))
			s->expandable_segments = 1;
		else if (allocator_option_is(&o, "expandable_segments", "False"))
			s->expandable_segments = 0;
		else if (!(allocator_option_is(&o, "roundup_power2_divisions", NULL) &&
			   o.value.length && !allocator_conf_divisions(o.value.at, s->divisions)) &&
			 !read_mib(&s->max_split_size, &o, "max_split_size_mb") &&
			 !read_mib(&s->max_non_split_rounding, &o, "max_non_split_rounding_mb") &&
			 !read_mib(&s->large_segment_size, &o, "large_segment_size_mb"))
			return err_set(e, "PYTORCH_CUDA_ALLOC_CONF: \"%.*s\" is not modelled",
				       (int)o.written.length, o.written.at);
	}
	return 0;
}
