/* The time that the device takes for a piece of work, in nanoseconds: bytes or arithmetic over the
 * GPU's best speed (speeds.def). Real kernels take longer; their other work is not counted. */
#ifndef CUDASIM_SPEED_H
#define CUDASIM_SPEED_H

#include <stdbool.h>
#include <stdint.h>

enum precision { PRECISION_EIGHT, PRECISION_HALF, PRECISION_TF32, PRECISION_SINGLE };

uint64_t speed_memory(uint64_t bytes);
/* A copy: over the host's bus unless both ends are on the device. */
uint64_t speed_copy(const void *to, const void *from, uint64_t bytes);
/* A kernel of unknown content. */
uint64_t speed_threads(uint64_t threads);
/* A product of matrices of m x k and k x n, `batch` times. */
uint64_t speed_product(uint64_t m, uint64_t n, uint64_t k, uint64_t batch,
		       enum precision precision);
/* `bytes` leave this GPU in a collective of this many ranks, in `steps` rounds. */
uint64_t speed_peers(uint64_t bytes, int ranks, int steps);
/* false: speeds.def has no such GPU. */
bool speed_known(const char *gpu);

#endif
