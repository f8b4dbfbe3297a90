/*
 * Traces in memory that other tools' files became. A command opens a file several times: the
 * newest ones are kept for the next time, until the file changes. All threads may call these.
 */
#ifndef MEMTRACE_TRACE_CONVERTED_H
#define MEMTRACE_TRACE_CONVERTED_H

#include <stdint.h>
#include <sys/stat.h>

struct converted {
	const unsigned char *bytes;
	uint64_t size;
	const char *kind; /* of file: "a memory snapshot of PyTorch" */
	/* Only for converted.c. */
	struct stat of;
	unsigned users;
	struct converted *next;
};

/* The converted form of a file; NULL: it is not kept. */
struct converted *converted_find(const struct stat *of);
/* Takes over `image`. `of` is NULL for what is no file: it is not kept. */
struct converted *converted_add(const struct stat *of, unsigned char *image, uint64_t size,
				const char *kind);
/* The end of a use; does nothing for NULL. */
void converted_release(struct converted *c);

#endif
