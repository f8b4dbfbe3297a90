/* The wrapped calls that a thread is inside of: the outermost one records. This costs no
 * look-up: the depth is in the thread's static TLS. */
#ifndef PRELOAD_NESTING_H
#define PRELOAD_NESTING_H

#include <stdint.h>

/* Wrapped calls that this thread is inside of: only the outermost records. */
extern __thread unsigned nesting_depth
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
extern __thread struct nesting_outermost {
	const char *frame;
	unsigned inside; /* calls that counted as inside of it */
} nesting_outermost __attribute__((tls_model("initial-exec"), visibility("hidden")));

#define FRAME ((const char *)__builtin_frame_address(0))

/* The outermost call was left and never returned: calls that counted as inside of it may not
 * have been, and are counted as lost. */
void nesting_count_left(void) __attribute__((visibility("hidden"), cold));

/*
 * A call is inside another one only if its frame is below. A call that was left by longjmp() or
 * by a C++ exception is recognised by the next call, whose frame is not below (a second try of
 * the same). A deeper call counts as inside: to know better we would have to read a stack that
 * may be gone, or to unwind, which would take libgcc into every host. nesting_count_left()
 * counts such calls.
 */
static inline int nesting_is_inside(const char *frame)
{
	return nesting_depth && (uintptr_t)frame < (uintptr_t)nesting_outermost.frame;
}

/* Returns 1 in the outermost call. */
static inline int nesting_enter(const char *frame)
{
	if (nesting_is_inside(frame)) {
		nesting_depth++;
		nesting_outermost.inside++;
		return 0;
	}
	if (__builtin_expect(nesting_depth, 0))
		nesting_count_left();
	nesting_outermost.frame = frame;
	nesting_outermost.inside = 0;
	nesting_depth = 1;
	return 1;
}

/* The call of the last nesting_enter() has returned. Returns 1 in the outermost call. */
static inline int nesting_leave(void)
{
	return nesting_depth &&
	       --nesting_depth == 0; /* 0: a signal handler's call on another stack came between */
}

#endif
