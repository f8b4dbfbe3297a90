/*
 * The memory of a recording: a header of fixed size, then regions that are given out one after the
 * other. A region's offset in memory is its offset in the trace file.
 */
#ifndef PRELOAD_REGIONS_H
#define PRELOAD_REGIONS_H

#include <stddef.h>
#include <stdint.h>

#include "record/control.h"

/* Gives out the image behind CONTROL, of which the first BYTES are taken. */
void regions_begin(struct writer_control *control, uint64_t bytes);

/* Returns a new region of BYTES, zeroed, and its offset in the file. NULL: there is none (errno
 * EBUSY: now; EFBIG, ENOMEM: any more). Any thread may call it. */
void *regions_add(size_t bytes, uint64_t *offset);

/* Bytes of the image that are given out: how long the file becomes. */
uint64_t regions_bytes(void);

/* In a forked child: the memory is the parent's. */
void regions_forget(void);

#endif
