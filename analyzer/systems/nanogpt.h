/* Document 001: nanoGPT on one GPU. */
#ifndef SYSTEMS_NANOGPT_H
#define SYSTEMS_NANOGPT_H

#include "estimate/estimate.h"

extern const struct system nanogpt;

#endif
