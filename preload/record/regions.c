#define _GNU_SOURCE
#include "record/regions.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/lock.h"

#define WAIT LOCK_MS(40) /* the longest that a thread of the job waits for another */

static struct {
	struct writer_control *control;
	uint64_t bytes;
	struct lock lock;
} regions;

void regions_begin(struct writer_control *control, uint64_t bytes)
{
	regions_forget();
	regions.control = control;
	regions.bytes = bytes;
}

void *regions_add(size_t bytes, uint64_t *offset)
{
	struct rlimit limit;
	char *p = NULL;

	if (!lock_acquire(&regions.lock, WAIT)) {
		errno = EBUSY;
		return NULL;
	}
	if (regions.control && bytes <= regions.control->image_bytes - regions.bytes) {
		*offset = regions.bytes;
		p = (char *)writer_image(regions.control) + regions.bytes;
		regions.bytes += bytes;
	}
	lock_release(&regions.lock);
	if (!p)
		errno = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
				? EFBIG
				: ENOMEM;
	return p;
}

uint64_t regions_bytes(void)
{
	return regions.bytes;
}

void regions_forget(void)
{
	memset(&regions, 0, sizeof(regions));
}
