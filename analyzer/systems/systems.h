/* The list of all systems of estimates. */
#ifndef SYSTEMS_SYSTEMS_H
#define SYSTEMS_SYSTEMS_H

#include "estimate/estimate.h"

extern const struct system *const systems[];
extern const size_t system_count;

/* The system of that name. NULL: there is none; the message lists all names. */
const struct system *system_find(const char *name, struct err *e);

#endif
