/*
 * Memory of the recorder. A recording reserves much more than it uses. If the job called
 * mlockall(MCL_FUTURE), the kernel locks each new mapping: it fills the mapping at once, never
 * takes a page back, and counts all of it against a limit of the job. So a mapping is made small,
 * is unlocked, and then grows; what it grows by is not locked.
 */
#ifndef PRELOAD_MAPPING_H
#define PRELOAD_MAPPING_H

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define MAPPING_PAGE 4096ul /* the kernel rounds up to a page of its own size */

#define MAPPING_ACCESS (PROT_READ | PROT_WRITE)

/* ThreadSanitizer does not see that mremap() gives memory which was a thread's before. */
#if defined(__SANITIZE_THREAD__)
#define MAPPING_GROWS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAPPING_GROWS 0
#endif
#endif
#ifndef MAPPING_GROWS
#define MAPPING_GROWS 1
#endif

/* BYTES of memory of this process alone. FLAGS: MAP_NORESERVE or 0. NULL with errno: there is none.
 */
static inline void *mapping_private(size_t bytes, int flags)
{
	const int kind = MAP_PRIVATE | MAP_ANONYMOUS | flags;
	void *page = mmap(NULL, MAPPING_PAGE, MAPPING_ACCESS, kind, -1, 0), *all;

	if (page == MAP_FAILED)
		return NULL;
	(void)munlock(page, MAPPING_PAGE);
	all = MAPPING_GROWS ? mremap(page, MAPPING_PAGE, bytes, MREMAP_MAYMOVE) : MAP_FAILED;
	if (all != MAP_FAILED)
		return all;
	(void)munmap(page, MAPPING_PAGE);
	if (MAPPING_GROWS && errno == ENOMEM)
		return NULL;
	all = mmap(NULL, bytes, MAPPING_ACCESS, kind, -1, 0);
	return all != MAP_FAILED ? all : NULL;
}

/* The same, shared with forked children. Such memory cannot grow: it is made without access
 * instead, so that the kernel cannot fill it. */
static inline void *mapping_shared(size_t bytes)
{
	void *all = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		return NULL;
	(void)munlock(all, bytes);
	if (mprotect(all, bytes, MAPPING_ACCESS) == 0)
		return all;
	(void)munmap(all, bytes);
	return NULL;
}

#endif
