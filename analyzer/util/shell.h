/* Words as a shell takes them. */
#ifndef MEMTRACE_SHELL_H
#define MEMTRACE_SHELL_H

#include "util/buf.h"

/* Adds a word, in single quotes if it is empty or has characters that a shell could change. */
void shell_add_word(struct buf *b, struct str word);
/* Adds a path as a word of a command that is shown: control characters are '?'. */
void shell_add_path(struct buf *b, const char *path);

#endif
