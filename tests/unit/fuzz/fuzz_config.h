/* The readers as fuzz targets. */
#ifndef FUZZ_CONFIG_H
#define FUZZ_CONFIG_H

#include <stddef.h>
#include <stdint.h>

struct config;
struct err;

struct fuzz_reader {
	const char *name;
	/* `text` ends with a zero, and may be changed */
	int (*read)(struct config *c, char *text, size_t length, struct err *e);
};

extern const struct fuzz_reader fuzz_readers[]; /* ends with a NULL name */

/* Reads, derives, shows, estimates; aborts where a failure has no message. */
void fuzz_one(const struct fuzz_reader *reader, const uint8_t *data, size_t size);

#endif
