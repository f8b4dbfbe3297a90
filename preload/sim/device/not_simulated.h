/* Reports operations that are not simulated and may matter. */
#ifndef CUDASIM_NOT_SIMULATED_H
#define CUDASIM_NOT_SIMULATED_H

/* Prints one line on stderr: once in a job, by whichever of its ranks comes first. Kept for the
 * report. */
void sim_say_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
