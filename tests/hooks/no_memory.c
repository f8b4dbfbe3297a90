/*
 * Refuses libmemtrace.so the memory for its live sets, private memory of 128 KiB or more, from
 * the NO_MEMORY-th request on (1: always). Prints the number of refusals at the end. Preloaded
 * before it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

static int asked, refused;

static int is_memtrace(const void *caller)
{
	Dl_info where;

	return dladdr(caller, &where) && strstr(where.dli_fname, "libmemtrace.so");
}

/* The page from which the thread's next live set grows. Those of other tables are MAP_NORESERVE. */
static __thread void *page;

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	__typeof__(&mmap) next = (__typeof__(next))dlsym(RTLD_NEXT, "mmap");
	void *made = next(at, bytes, protection, flags, fd, offset);

	if (flags == (MAP_PRIVATE | MAP_ANONYMOUS) && is_memtrace(__builtin_return_address(0)))
		page = made;
	return made;
}

EXPORT void *mremap(void *at, size_t old, size_t bytes, int flags, ...)
{
	__typeof__(&mremap) next = (__typeof__(next))dlsym(RTLD_NEXT, "mremap");

	if (at == page && bytes >= 128 << 10 && getenv("NO_MEMORY") &&
	    is_memtrace(__builtin_return_address(0)) &&
	    __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) >= atoi(getenv("NO_MEMORY"))) {
		__atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return next(at, old, bytes, flags);
}

__attribute__((destructor)) static void end(void)
{
	printf("refused %d\n", refused);
}
