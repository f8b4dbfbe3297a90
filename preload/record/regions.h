/*
 * The memory of a recording: a header of fixed size, then regions that are given out one after the
 * other. A region's offset in memory is its offset in the trace file.
 */
#ifndef PRELOAD_REGIONS_H
#define PRELOAD_REGIONS_H

#include <stddef.h>
#include <stdint.h>

#include "record/control.h"

/* Begins to give out the image after CONTROL; its first BYTES are already in use. */
void regions_begin(struct writer_control *control, uint64_t bytes);

/* Returns a new region of BYTES, zeroed, and its offset in the file. NULL: there is none now (errno
 * EBUSY), or there will be none (EFBIG, ENOMEM). Any thread may call it. */
void *regions_add(size_t bytes, uint64_t *offset);

/* Bytes of the image that are given out, which is the length of the file. */
uint64_t regions_bytes(void);

/* For a forked child: the memory belongs to the parent. */
void regions_forget(void);

#endif
