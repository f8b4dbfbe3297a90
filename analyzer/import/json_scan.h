/*
 * Reads a large JSON text (as it is, or compressed by gzip) value by value, so that only one value
 * is in memory. Only the ends of values are looked for here: json_walk.h reads what is of interest.
 */
#ifndef MEMTRACE_IMPORT_JSON_SCAN_H
#define MEMTRACE_IMPORT_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include <zlib.h>

#include "util/buf.h"
#include "util/err.h"

struct json_scan {
	const unsigned char *data; /* the text, or what is inflated of it */
	size_t size, at;
	uint64_t before; /* bytes of the text before `data` */
	z_stream zlib;
	unsigned char *window; /* NULL: the text is not compressed */
	struct buf value;      /* of the last json_scan_value() */
	struct err *e;
};

/* Do these two bytes begin a file that gzip compressed? */
static inline int json_scan_is_gzip(const unsigned char *first)
{
	return first[0] == 0x1f && first[1] == 0x8b;
}
/* `data` must stay as long as the scan. */
int json_scan_begin(struct json_scan *s, const void *data, size_t size, struct err *e);
/* The next byte that is no white space, which is not taken; -1: the text ends or is damaged. */
int json_scan_peek(struct json_scan *s);
/* Takes the next byte that is no white space if it is `c`. Returns whether it was. */
int json_scan_take(struct json_scan *s, int c);
/* Takes the next value into `value`. Returns 0, or -1: the message says where. */
int json_scan_value(struct json_scan *s);
/* Passes over the next value, of any size. Returns 0 or -1, likewise. */
int json_scan_skip(struct json_scan *s);
void json_scan_release(struct json_scan *s);

#endif
