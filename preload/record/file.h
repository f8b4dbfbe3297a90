/* Functions on the trace file, for its one writer, and a function that reads small files. A thread
 * that allocates GPU memory calls only file_read() and file_read_within(), when recording begins.
 */
#ifndef PRELOAD_FILE_H
#define PRELOAD_FILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Creates DIRECTORY (with parents, mode 0700; no symbolic link as its last part) and NAME in it,
 * exclusively and mode 0600, and takes the lock that tells a reader that the writer is running.
 * Returns the descriptor; or -errno, and then no file remains.
 */
int file_create(const char *directory, const char *name);

/* Opens and locks a file that file_create() made. Returns a descriptor or -errno. */
int file_open(const char *directory, const char *name);

/* Removes the file. */
void file_discard(const char *directory, const char *name);

/* Writes all BYTES at OFFSET. Returns 0 or -errno. */
int file_write(int fd, const void *from, uint64_t bytes, uint64_t offset);

/* Cuts the file behind BYTES. */
void file_cut(int fd, uint64_t bytes);

void file_close(int fd);

/*
 * Reads up to BYTES of the regular file at PATH into BUFFER. Returns the number of bytes, or -1. No
 * descriptor of the job's table is used if there can be a thread with a table of its own
 * (descriptors.h).
 */
long file_read(const char *path, void *buffer, size_t bytes);

/*
 * The same for a file of the user, whose file server may never answer: returns -1 after LIMIT_MS.
 * The thread that reads then goes on, so PATH and BUFFER must stay. Once in a process.
 */
long file_read_within(const char *path, void *buffer, size_t bytes, unsigned limit_ms);

/* Makes an empty file NAME in DIRECTORY, which must exist. Returns 0 or -errno. */
int file_make_empty(const char *directory, const char *name);

#endif
