/* torchtitan's --section.option flags. */
#ifndef CONFIG_TORCHTITAN_H
#define CONFIG_TORCHTITAN_H

#include "config/flags.h"

int config_read_torchtitan(struct reader *r, const struct flags *f);
/* Does a command line look like torchtitan's? */
int torchtitan_knows(const struct flags *f);

#endif
