/* The answers of a call: done, not initialised, or not simulated; in the numbers of each library
 * (libraries.def). Also the error that cudaGetLastError() returns. */
#ifndef CUDASIM_STATUS_H
#define CUDASIM_STATUS_H

#include <stdbool.h>

enum library {
#define LIBRARY(id, unsupported, uninitialized) LIB_##id,
#include "device/libraries.def"
#undef LIBRARY
};

/* 0, or the library's "not initialised" if a setting is wrong. */
int sim_done(enum library library);
/* Says on stderr that CALL is not simulated, and returns the library's "not supported". */
int sim_refuse(enum library library, const char *call);
/* The same without a message. */
int sim_refused(enum library library);

/* While a real library plans on this thread (libs/dnn_plan.h), its own look at the driver is not
 * the job's: a call that is not simulated is refused without a message. */
void sim_planning(bool on);
bool sim_is_planning(void);

/* Returns ERROR, and keeps it for cudaGetLastError() of this thread unless it is 0. */
int runtime_error(int error);
/* The error kept last, 0 for none. */
int runtime_last_error(void);
void runtime_clear_error(void);

/* The driver answers after cuInit(), which every call of the runtime makes. */
void driver_start(void);
bool driver_started(void);

#endif
