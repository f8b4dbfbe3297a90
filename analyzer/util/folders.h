/* Folders above a file that is to be written. */
#ifndef MEMTRACE_FOLDERS_H
#define MEMTRACE_FOLDERS_H

#include <sys/types.h>

#include "util/err.h"

/* Makes those that are missing, up to the path's last slash. */
int folders_make(const char *file, mode_t mode, struct err *e);

#endif
