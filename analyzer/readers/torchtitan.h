/* torchtitan's --section.option flags. */
#ifndef MEMTRACE_TORCHTITAN_H
#define MEMTRACE_TORCHTITAN_H

#include "readers/flags.h"

int config_read_torchtitan(struct reader *r, const struct flags *f);
/* Does a command line look like torchtitan's? */
int torchtitan_knows(const struct flags *f);

#endif
