/* Lines that run without gradients. */
#ifndef MEMTRACE_SOURCE_NO_GRAD_H
#define MEMTRACE_SOURCE_NO_GRAD_H

#include "source/job_source.h"

enum no_grad_says {
	NO_GRAD_NOTHING,
	NO_GRAD_OFF,   /* gradients are off */
	NO_GRAD_MAYBE, /* they may be: a condition that the command line does not tell decides */
	NO_GRAD_ON     /* a block or a decorator turns them on */
};

/* By the `with` statements around a line, the innermost one first, and by the decorators of its
 * function. */
enum no_grad_says no_grad_around(const struct job_source *s, const struct python_file *f,
				 uint32_t line);
/* Are gradients off in a line of a stack? The innermost of those that turn them on or off counts.
 */
int job_source_is_no_grad(struct job_source *s, uint32_t stack);

#endif
