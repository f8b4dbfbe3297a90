/* A job's configuration, value by value. */
#ifndef MEMTRACE_TEST_GIVE_H
#define MEMTRACE_TEST_GIVE_H

#include <stdlib.h>

#include "config/config.h"
#include "util/util.h"

/* A text is the configuration's to free. */
#define GIVE(c, name, value)                                  \
	do {                                                  \
		(c)->name = value;                            \
		free((c)->origin[CONFIG_##name]);             \
		(c)->origin[CONFIG_##name] = xstrdup("test"); \
	} while (0)

#endif
