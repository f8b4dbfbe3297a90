/* Is a list of sizes the same list twice? */
#ifndef MEMTRACE_SIZES_TWICE_H
#define MEMTRACE_SIZES_TWICE_H

#include "util/util.h"

/*
 * The sum of the sizes at the beginning of the list that come again behind them, in any order:
 * those of a model, of which there is a second one. 0: they do not.
 *
 * Both have a size at one place of which a model has two at most, as its embedding and its head;
 * layers that are alike are no second model. `least`: fewer sizes may be alike by chance.
 */
bytes sizes_twice(const bytes *sizes, size_t count, size_t least);

/* The position at which the list begins again: from there to its end it has the sizes of its
 * begin, in their order, at least `least` and a third of the list. 0: nowhere, or only because
 * layers are alike. */
size_t sizes_begin_again(const bytes *sizes, size_t count, size_t least);

/* The number of sizes of one model, if all sizes are those of two to eight equal models one behind
 * the other, of `least` sizes each at least; else 0. */
size_t sizes_of_equal_models(const bytes *sizes, size_t count, size_t least);

#endif
