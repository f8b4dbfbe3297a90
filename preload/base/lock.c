#include "base/lock.h"

int (*real_clock)(clockid_t, struct timespec *) = clock_gettime;
