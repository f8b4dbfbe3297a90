/* The file beside the traces in which the simulated device says what it did not compute. */
#ifndef MEMTRACE_NOT_SIMULATED_H
#define MEMTRACE_NOT_SIMULATED_H

#define NOT_SIMULATED_FILE "not-simulated.txt"

#endif
