/* Device memory whose content differs from a GPU's, and on which the host may base a decision:
 * results of kernels that were too large or unknown, copies that were not kept. Results that are
 * computed from it are tainted too. If the host reads such memory, a line on stderr says so. */
#ifndef CUDASIM_TAINT_H
#define CUDASIM_TAINT_H

#include <stdint.h>

/* `cause` is a kernel's name or a sentence, and stays readable. `unit`: the bytes of an element; a
 * read of other than whole elements is of something that took its place. */
void taint_set(const void *at, uint64_t bytes, unsigned unit, const char *cause);
void taint_clear(const void *at, uint64_t bytes);
/* The cause of any taint in this memory; NULL: there is none. */
const char *taint_of(const void *at, uint64_t bytes);
/* The host reads this memory. */
void taint_read(const void *at, uint64_t bytes);
/* Taint is copied with the bytes. */
void taint_copy(const void *to, const void *from, uint64_t bytes);

#endif
