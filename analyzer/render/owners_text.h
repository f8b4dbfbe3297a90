/* The device's memory by owner, in the text of a report. */
#ifndef MEMTRACE_HOLDERS_H
#define MEMTRACE_HOLDERS_H

#include "render/page.h"
#include "report/report.h"

/* By owner at the device's peak, and over time. */
void put_owners(struct page *p, const struct rank *r);
/* NCCL's communicators. */
void put_comms(struct page *p, const struct rank *r);
/* Pinned host memory. */
void put_host(struct page *p, const struct rank *r);

/* Is the owner of that key modelled instead of measured, as CUDA's context and NCCL on a simulated
 * device? */
int is_modelled(const struct rank *r, const char *owner);
/* The bounds of its bytes, after the tables' thousandths (context.def, nccl.def). */
void modelled_bounds(const struct rank *r, const char *owner, bytes size, bytes *low, bytes *high);

#endif
