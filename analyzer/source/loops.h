/* Loops of a job outside of its modules, and what becomes of what they compute. */
#ifndef MEMTRACE_SOURCE_LOOPS_H
#define MEMTRACE_SOURCE_LOOPS_H

#include "source/job_source.h"
#include "source/python_names.h"

/* Adds the values of a loop that matter, if the statement `at` of its body belongs to it. */
typedef void names_of_loop(struct python_names *n, const struct python_file *f,
			   struct python_range at, struct python_range body);

/*
 * Is a block of that stack made in a loop whose values come, directly or by way of what functions
 * return, to a backward() behind the loop? `of_loops` has a byte for each frame of the tables,
 * which keeps what is known of its line; NULL: there is no source.
 */
int loops_lead_to_backward(struct job_source *s, uint32_t stack, unsigned char *of_loops,
			   names_of_loop *values);

/* Does the value of the outermost call of a module on a stack come to a backward(), directly or by
 * way of what functions return? */
int loops_call_leads_to_backward(struct job_source *s, uint32_t stack);

#endif
