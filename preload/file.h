/*
 * The trace file: made once, mapped, grown by whole regions. Space is allocated before it is
 * mapped, so that a full disk shows here as an error and never as SIGBUS in the host. Calls are
 * serialised by the caller.
 */
#ifndef PRELOAD_FILE_H
#define PRELOAD_FILE_H

#include <memtrace/trace.h>
#include <stddef.h>

struct trace_file {
	int fd; /* -1: none */
	uint64_t size;
	struct mt_header *header; /* mapped; NULL: none */
};

/*
 * Makes DIRECTORY (with parents) and NAME in it, exclusively and mode 0600, takes the writer's lock
 * and maps the header and the `first` bytes after it. Returns 0 or -errno with nothing left behind.
 */
int file_create(struct trace_file *f, const char *directory, const char *name, size_t first);

/* Takes back what file_create() made. */
void file_discard(struct trace_file *f, const char *directory, const char *name);

/* Adds BYTES (a multiple of the page size) at the end, zeroed. Returns the mapping and its offset,
 * or NULL with errno set. */
void *file_grow(struct trace_file *f, size_t bytes, uint64_t *offset);

/* Reads up to BYTES of the regular file at PATH. Returns how many, or -1. */
long file_read(const char *path, void *buffer, size_t bytes);

#endif
