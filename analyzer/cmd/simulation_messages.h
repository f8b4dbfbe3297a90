/* Messages of a simulation on standard error, for the commands that simulate. */
#ifndef MEMTRACE_SIMULATION_MESSAGES_H
#define MEMTRACE_SIMULATION_MESSAGES_H

#include "simulate/messages.h"

/* Progress is shown only if standard error is a terminal. */
const struct messages *simulation_messages(void);
/* NULL if standard error is no terminal. */
const struct messages *simulation_messages_of_terminal(void);

#endif
