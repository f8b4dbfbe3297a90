/* clang-format off */
/* The peers that do not run: every communicator has its true size, and each absent rank is emulated.
 *
 * If this rank runs alone (CUDASIM_ALONE=1), an absent rank does and holds the same as this rank. If
 * several run (CUDASIM_TOGETHER), it does the same as its deputy: the members that run take turns as
 * deputies, so that all of them see the same.
 *
 *   gathers, reductions   its data is its deputy's: alone, sums are multiples, averages and maxima equal
 *   all-to-all            it sends this rank what this rank sends it: counts stay balanced
 *   broadcast             an absent root has its deputy's input; in place, the buffer stays
 *   send                  arrives
 *   receive               what this rank sends that peer in the same group, when sizes agree, else the
 *                         buffer stays as it is, and a line says so
 *   scatter               an absent root leaves the buffer as it is
 *
 * A split tells only the colour and key of ranks that run. PyTorch's colour is Python's hash of the
 * list of ranks, and the key is the rank's position in it: the list is the grid (as process meshes
 * make them) that has this rank in that position and hashes to that colour.
 */
/* clang-format on */
#include "nccl/peers.h"

#include <stdint.h>

/* CPython's hash(tuple of small ints), element by element (xxHash's scheme, since Python 3.8). */
#define PRIME_1 11400714785074694791ull
#define PRIME_2 14029467366897019727ull
#define PRIME_5 2870177450012600261ull

static uint64_t tuple_add(uint64_t state, uint64_t element)
{
	state += element * PRIME_2;
	state = state << 31 | state >> 33;
	return state * PRIME_1;
}

/* ... and made a colour: abs(hash) % 2**31, as PyTorch does. */
static int tuple_colour(uint64_t state, uint64_t length)
{
	uint64_t hash = state + (length ^ (PRIME_5 ^ 3527539ull));
	if (hash == UINT64_MAX)
		hash = 1546275796;
	if (hash >> 63)
		hash = -hash;
	return (int)(hash % (1ull << 31));
}

/* Ranks first, first + stride, ... `inner` of them, and that row again every `step`. */
struct grid {
	int first, stride, inner, step;
};

/* How many ranks of the grid have that colour together; 0: no number of rows has it. */
static int grid_match(const struct grid *g, int ranks, int colour, int key)
{
	uint64_t state = PRIME_5;
	for (int row = 0, length = 0;; row++)
		for (int i = 0; i < g->inner; i++) {
			int64_t rank = g->first + (int64_t)row * g->step + (int64_t)i * g->stride;
			if (rank >= ranks)
				return 0;
			state = tuple_add(state, (uint64_t)rank);
			length++;
			if (i == g->inner - 1 && length > key &&
			    tuple_colour(state, (uint64_t)length) == colour)
				return length;
		}
}

static int try_grid(int stride, int inner, int step, int ranks, int rank, int colour, int key)
{
	int64_t first = rank - (int64_t)(key / inner) * step - (int64_t)(key % inner) * stride;
	struct grid g = { (int)first, stride, inner, step };
	return first < 0 ? 0 : grid_match(&g, ranks, colour, key);
}

int peers_of_split(int ranks, int rank, int colour, int key)
{
	int size;
	for (int step = 1; step < ranks; step++) /* evenly spaced: most groups */
		if ((size = try_grid(1, 1, step, ranks, rank, colour, key)))
			return size;
	for (int stride = 1; stride < ranks; stride++)
		for (int inner = 2; inner * stride < ranks; inner++)
			for (int step = inner * stride; step < ranks; step += inner * stride)
				if ((size = try_grid(stride, inner, step, ranks, rank, colour,
						     key)))
					return size;
	return 0;
}
