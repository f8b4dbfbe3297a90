/* The version of NCCL that the process loaded; 2.28.9 if it loaded none. */
#ifndef CUDASIM_VERSION_H
#define CUDASIM_VERSION_H

#include "device/common.h"

EXPORT int ncclGetVersion(int *version);

#endif
