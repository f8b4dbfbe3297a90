/* Device memory that does not hold what a GPU would have there, and that the host may decide by:
 * results of kernels that were too large or unknown, copies that were not kept. What is computed
 * of it is doubtful too. If the host reads such memory, a line on stderr says so. */
#ifndef CUDASIM_DOUBT_H
#define CUDASIM_DOUBT_H

#include <stdint.h>

/* `cause` is a kernel's name or a sentence, and stays readable. `unit`: the bytes of an element; a
 * read of other than whole elements is of something that took its place. */
void doubt_begin(const void *at, uint64_t bytes, unsigned unit, const char *cause);
void doubt_end(const void *at, uint64_t bytes);
/* The cause of any doubt in this memory; NULL: there is none. */
const char *doubt_about(const void *at, uint64_t bytes);
/* The host reads this memory. */
void doubt_read(const void *at, uint64_t bytes);
/* Doubt is copied with the bytes. */
void doubt_copy(const void *to, const void *from, uint64_t bytes);

#endif
