/* The configuration after reading: every value with its source. */
#ifndef RENDER_CONFIG_SHOW_H
#define RENDER_CONFIG_SHOW_H

#include "config/config.h"

/* One line for each field: key, value, source. The notes follow. */
void config_show(const struct config *c, struct buf *out);

#endif
