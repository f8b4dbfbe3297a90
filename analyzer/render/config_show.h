/* The configuration as it was read: every value and its source. */
#ifndef RENDER_CONFIG_SHOW_H
#define RENDER_CONFIG_SHOW_H

#include "config/config.h"

/* Key, value and source, a line each; the notes after them. */
void config_show(const struct config *c, struct buf *out);
/* {"config":[{"key":...,"value":...,"source":...}],"notes":[...]} */
void config_show_json(const struct config *c, struct buf *out);

#endif
