/* A stream as the columns and tables of a page. */
#ifndef MEMTRACE_STREAM_WRITE_H
#define MEMTRACE_STREAM_WRITE_H

#include <jansson.h>

#include "html/columns.h"
#include "html/redact.h"
#include "html/stream.h"

/* Adds the columns to `blobs`, a script element each, and returns the object that describes them.
 * `next` numbers the elements. `d` gives the places of blocks of the backward pass. */
json_t *stream_write(const struct stream *s, const struct device *d, const struct redaction *hide,
		     struct buf *blobs, unsigned *next);
/* Adds an element with these bytes; returns what finds it. */
json_t *blob_write(struct buf *blobs, unsigned *next, const void *data, size_t length);
/* The same part by part: an element is begun, and ended once everything is added. */
struct deflating *blob_begin(struct buf *blobs, unsigned *next);
json_t *blob_end(struct buf *blobs, const unsigned *next, struct deflating *d);

#endif
