/* A trace in memory, made from another tool's file: tables and records are appended, the header is
 * written at the end. */
#ifndef MEMTRACE_IMPORT_IMAGE_H
#define MEMTRACE_IMPORT_IMAGE_H

#include <memtrace/trace.h>

#include "util/buf.h"

struct image {
	struct mt_header header;
	struct buf table;
	uint32_t ids[8]; /* the last id of each kind of entry */
	struct mt_record *records;
	size_t count, room;
};

void image_begin(struct image *i);
uint32_t image_string(struct image *i, struct str text);
/* `frame` has the ids of its strings. */
uint32_t image_frame(struct image *i, const struct mt_frame *frame);
uint32_t image_module(struct image *i, const char *path);
/* words[0] is the module, then the frames, innermost first. */
uint32_t image_stack(struct image *i, const uint32_t *words, size_t count);
uint16_t image_thread(struct image *i, const char *name);
void image_meta(struct image *i, const char *key, struct str value);
/* `scope`: a key of PEAK_SCOPES (report.h). */
void image_peak_of(struct image *i, unsigned device, const char *scope);
/* The first `count` records of the device are of blocks that are older than the history. */
void image_before(struct image *i, unsigned device, size_t count);
void image_record(struct image *i, const struct mt_record *r);

/* The complete file, its records by time, which the caller frees. The image is released. */
unsigned char *image_finish(struct image *i, uint64_t *size);
void image_release(struct image *i);

#endif
