/* Lines on the job's stderr, which may be full, closed, or another file by now. */
#ifndef PRELOAD_STDERR_H
#define PRELOAD_STDERR_H

#include <stddef.h>

/* Remembers which file descriptor 2 is; the library does so when it is loaded. */
void stderr_remember(void);

/*
 * Writes one line, in one piece, if descriptor 2 is still the file that it was and takes the line
 * at once; else drops it. It is no cancellation
 * point, keeps errno, and raises no SIGPIPE.
 */
void stderr_line(const char *line, size_t n);

#endif
