/* The configuration after reading as JSON: every value with its source. */
#ifndef MEMTRACE_CONFIG_JSON_H
#define MEMTRACE_CONFIG_JSON_H

#include "config/config.h"

/* {"config":[{"key":...,"value":...,"source":...}],"notes":[...]} */
void config_show_json(const struct config *c, struct buf *out);

#endif
