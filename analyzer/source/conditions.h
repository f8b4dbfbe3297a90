/* Which conditions of a Python program were true, as far as the job's command line tells. */
#ifndef MEMTRACE_CONDITIONS_H
#define MEMTRACE_CONDITIONS_H

#include "source/python_file.h"
#include "trace/tables.h"

enum truth { IS_UNKNOWN, IS_TRUE, IS_FALSE };

/*
 * Are the conditions true under which a place of a file runs: of `if` and `else` around it in its
 * function, and of `a if condition else b` in its statement? Known are `"--flag" in sys.argv`, the
 * flags of argparse that store True, names that are assigned one of these, and what `not` makes of
 * them.
 */
enum truth conditions_at(const struct tables *t, const struct python_file *f, size_t place);

#endif
