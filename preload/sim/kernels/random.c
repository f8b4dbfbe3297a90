/* Random numbers that decide sizes: a routing may be drawn at random (randn(), then topk()), and
 * the generator's numbers are the same on each GPU with the same number of multiprocessors. They
 * are computed only if a kernel reads them: the launch that draws is recorded, no memory is
 * written.
 *
 * The numbers are those of cuRAND's Philox4x32-10 with the Box-Muller transformation, drawn in the
 * order of PyTorch's distribution_elementwise_grid_stride_kernel.
 */
#include "kernels/random.h"

#include "device/common.h"
#include "kernels/computed.h"

#include <string.h>

#define PI 3.14159265358979323846
#define LN2 0.69314718055994530942
enum { BLOCK = 256, UNROLLED = 4 }; /* PyTorch's threads in a block, numbers of one draw */

struct draw {
	uint64_t count, seed, offset, threads;
	const char *to;
	float mean, deviation;
};

static _Thread_local struct draw last; /* count 0: no launch, or another kernel ran after it */

void random_forget(void)
{
	last.count = 0;
}

/* (elements (an int up to PyTorch 2.5), generator's state, distribution, lambda): the lambda has
 * the output, the step between its elements, mean and deviation. In a captured graph the state has
 * pointers. */
bool compute_normal(const struct launch *l)
{
	struct {
		uint64_t seed, offset;
		uint32_t within_graph;
		bool captured;
	} state;
	struct {
		const char *to;
		int step;
		float mean, deviation;
	} output;
	uint64_t count = 0;
	memcpy(&count, l->arguments[0], strstr(l->name, "(long, at::Philox") ? 8 : 4);
	memcpy(&state, l->arguments[1], sizeof state);
	memcpy(&output, l->arguments[3], sizeof output);
	if (!state.captured && output.step == sizeof(float) &&
	    launch_device(output.to, count * sizeof(float)))
		last = (struct draw){ count,
				      state.seed,
				      state.offset / UNROLLED,
				      (uint64_t)l->columns * BLOCK,
				      output.to,
				      output.mean,
				      output.deviation };
	return true;
}

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
static void philox(uint32_t counter[4], uint64_t seed)
{
	uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
	for (int round = 0; round < 10; round++) {
		uint64_t a = 0xd2511f53ull * counter[0], b = 0xcd9e8d57ull * counter[2];
		uint32_t next[4] = { (uint32_t)(b >> 32) ^ counter[1] ^ key[0], (uint32_t)b,
				     (uint32_t)(a >> 32) ^ counter[3] ^ key[1], (uint32_t)a };
		memcpy(counter, next, sizeof next);
		key[0] += 0x9e3779b9;
		key[1] += 0xbb67ae85;
	}
}

/* The device does not link libm: ln(x) of 0 < x <= 1, and the sine and cosine of a fraction of a
 * full turn, by their series. */
static double logarithm(double x)
{
	int exponent = 0;
	while (x < 0.7) { /* NOLINT(clang-analyzer-security.FloatLoopCounter): doubling is exact */
		x *= 2;
		exponent--;
	}
	double z = (x - 1) / (x + 1), term = z, sum = 0;
	for (int n = 1; n <= 17; n += 2) {
		sum += term / n;
		term *= z * z;
	}
	return 2 * sum + exponent * LN2;
}

static double cosine(double turns)
{
	double x = 2 * PI * (turns < 0.5 ? turns - 0.25 : turns - 0.75), term = -x, sum = 0;
	for (int n = 1; n <= 17; n += 2) {
		sum += term; /* cos(x + pi/2) = -sin(x), cos(x + 3pi/2) = sin(x) */
		term *= -x * x / ((n + 1) * (n + 2));
	}
	return turns < 0.5 ? sum : -sum;
}

static double square_root(double x)
{
	double root = x > 1 ? x : 1;
	for (int i = 0; i < 24; i++)
		root = (root + x / root) / 2;
	return root;
}

static float normal(const struct draw *d, uint64_t index)
{
	uint64_t round = index / d->threads / UNROLLED, thread = index % d->threads,
		 which = index / d->threads % UNROLLED, counter = d->offset + round;
	uint32_t bits[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)thread,
			     (uint32_t)(thread >> 32) };
	philox(bits, d->seed);
	const uint32_t *pair = bits + which / 2 * 2;
	double length = square_root(-2 * logarithm(pair[0] * 0x1p-32 + 0x1p-33));
	double turns = pair[1] * 0x1p-32 + 0x1p-33;
	double part = cosine(which % 2 ? turns : turns < 0.25 ? turns + 0.75 : turns - 0.25);
	return (float)(length * part) * d->deviation + d->mean;
}

bool random_normals(float *numbers, const void *from, uint64_t count)
{
	const struct draw *d = &last;
	uint64_t first = (uint64_t)((const char *)from - d->to) / sizeof(float);
	if (!d->count || (const char *)from < d->to || first >= d->count ||
	    count > d->count - first)
		return false;
	for (uint64_t i = 0; i < count; i++)
		numbers[i] = normal(d, first + i);
	return true;
}
