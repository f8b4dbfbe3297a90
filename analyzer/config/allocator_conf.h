/* The grammar of PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF: "NAME:VALUE,NAME:VALUE". A value
 * in brackets may hold commas: "roundup_power2_divisions:[256:1,>:4]". */
#ifndef CONFIG_ALLOCATOR_CONF_H
#define CONFIG_ALLOCATOR_CONF_H

#include "util/util.h"

struct allocator_option {
	struct str name, value; /* parts of the text */
	struct str written;     /* both, with the colon */
};

/* Takes the next option off `conf`; returns 0 if none is left. */
int allocator_conf_next(struct str *conf, struct allocator_option *o);

/* Is this the option `name`, with the value `value` if that is not NULL? */
int allocator_option_is(const struct allocator_option *o, const char *name, const char *value);

#endif
