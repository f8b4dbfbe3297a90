/* Does an estimate fit on a GPU? */
#ifndef ESTIMATE_FIT_H
#define ESTIMATE_FIT_H

#include "estimate/estimate.h"

/* Document 003's rule of 80 %: green up to 80 % of the memory, red above 100 %. */
enum fit { FIT_GREEN, FIT_YELLOW, FIT_RED };
const char *fit_word(enum fit f);

/* The rule for `total` bytes on a GPU of `memory` bytes. */
enum fit device_fit(wide total, wide memory);
/* The rule for an estimate. If the system has run the job on the device, the result of the run
 * decides between yellow and red. */
enum fit estimate_fit(const struct estimate *e, wide memory);
/* Did a stage run out of memory on the job's device? */
int estimate_out_of_memory(const struct estimate *e);
/* Bytes of the device in the largest stage, as far as the system counts them. */
wide estimate_device(const struct estimate *e);

#endif
