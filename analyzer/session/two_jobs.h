/* Whether two arguments name two jobs, to be compared, or the ranks of one. */
#ifndef MEMTRACE_TWO_JOBS_H
#define MEMTRACE_TWO_JOBS_H

/* A failure to read counts as one job: whoever reads it finds the failure again. */
int are_two_jobs(char *const *two);

#endif
