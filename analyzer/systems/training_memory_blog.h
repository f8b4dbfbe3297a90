/* Document 000: a blog's totals, divided by the parallel sizes. */
#ifndef SYSTEMS_TRAINING_MEMORY_BLOG_H
#define SYSTEMS_TRAINING_MEMORY_BLOG_H

#include "estimate/estimate.h"

extern const struct system training_memory_blog;

#endif
