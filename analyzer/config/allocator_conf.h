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

/* Sizes from 1 MiB on by powers of two: class i begins at 2^i MiB. */
#define ALLOCATOR_CLASSES 16

/* Reads the value of roundup_power2_divisions, which may go on behind its end: "4", or divisions by
 * size in MiB: "[256:1,512:2,>:4]". As in PyTorch, sizes between two entries are not rounded (0).
 * -1: malformed. */
int allocator_conf_divisions(const char *text, int divisions[ALLOCATOR_CLASSES]);

#endif
