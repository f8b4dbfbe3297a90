/* Document 002: DeepSpeed's model states under ZeRO-2 and ZeRO-3. */
#ifndef SYSTEMS_DEEPSPEED_ZERO_H
#define SYSTEMS_DEEPSPEED_ZERO_H

#include "estimate/estimate.h"

extern const struct system deepspeed_zero;

#endif
