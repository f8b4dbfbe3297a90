/* The preload's settings: MEMTRACE_* variables, one row each in settings.def. */
#ifndef PRELOAD_SETTINGS_H
#define PRELOAD_SETTINGS_H

#include <stdint.h>

#define SETTING_TYPE_PATH const char *
#define SETTING_TYPE_SIZE uint64_t
#define SETTING_TYPE_RANKS const char *
#define SETTING_TYPE_FLAG int

struct settings {
#define SETTING(name, type, def, help) SETTING_TYPE_##type name;
#include "process/settings.def"
#undef SETTING
};

extern struct settings settings;

/* MEMTRACE_DISABLE, asked before anything is read. */
int settings_disabled(void);
/* The same for MEMTRACE_NVTX. */
int settings_nvtx(void);

/*
 * Reads the environment into `settings`. A bad value or an unknown MEMTRACE_ name is passed to
 * `complain` with the name and what was expected; the default then holds. Strings are borrowed from
 * the environment.
 */
void settings_read(void (*complain)(const char *name, const char *expected));

/* Does MEMTRACE_RANKS (as `list`) name `rank`? An empty list names all. */
int settings_rank_chosen(const char *list, int rank);

#endif
