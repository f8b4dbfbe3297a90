/* The parts of a page that are the same in every page; assets.S embeds them. */
#ifndef MEMTRACE_ASSETS_H
#define MEMTRACE_ASSETS_H

#include "util/util.h"

/* Files of build/page: ASSET(name). */
#define ASSETS(X) X(style) X(body) X(script) X(echarts) X(d3) X(flamegraph) X(licences)

#define X(name) extern const char asset_##name[], asset_##name##_end[];
ASSETS(X)
#undef X

#define ASSET(name) ((struct str){ asset_##name, (size_t)(asset_##name##_end - asset_##name) })

#endif
