#include "config/megatron.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

static const char *const megatron_names[] = {
#include "config/megatron_names.def"
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int megatron_known(const char *key)
{
	return bsearch(&key, megatron_names, ARRAY_SIZE(megatron_names), sizeof(char *), compare) !=
	       NULL;
}
