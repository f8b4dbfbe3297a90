/* Random numbers that decide sizes: a routing or a mask may be drawn at random (randn(), then
 * topk(); randint() of booleans, which choose rows), and the generator's numbers are the same on
 * each GPU with the same number of multiprocessors. Reals are computed only if a kernel reads them:
 * the launch that draws is recorded, no memory is written. Integers are written.
 *
 * The numbers are those of cuRAND's Philox4x32-10, reals with the Box-Muller transformation, drawn
 * in the order of PyTorch's distribution_elementwise_grid_stride_kernel.
 */
#include "kernels/random.h"

#include "device/common.h"
#include "kernels/computed.h"

#include <string.h>

#define PI 3.14159265358979323846
#define LN2 0.69314718055994530942
enum { BLOCK = 256, WORDS = 4 }; /* PyTorch's threads in a block, 32-bit words of one draw */

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

/* (elements (an int up to PyTorch 2.5), generator's state, distribution, lambda). False: in a
 * captured graph the state has pointers. */
static bool read_draw(const struct launch *l, struct draw *d)
{
	struct {
		uint64_t seed, offset;
		uint32_t within_graph;
		bool captured;
	} state;
	uint64_t count = 0;
	memcpy(&count, l->arguments[0], strstr(l->name, "(long, at::Philox") ? 8 : 4);
	memcpy(&state, l->arguments[1], sizeof state);
	*d = (struct draw){ .count = count,
			    .seed = state.seed,
			    .offset = state.offset / WORDS,
			    .threads = (uint64_t)l->columns * BLOCK };
	return !state.captured;
}

/* The lambda has the output, the step between its elements, mean and deviation. */
bool compute_normal(const struct launch *l)
{
	struct {
		const char *to;
		int step;
		float mean, deviation;
	} output;
	struct draw d;
	bool known = read_draw(l, &d);
	memcpy(&output, l->arguments[3], sizeof output);
	if (!known || output.step != sizeof(float) ||
	    !launch_device(output.to, d.count * sizeof(float)))
		return true;
	last = d;
	last.to = output.to;
	last.mean = output.mean;
	last.deviation = output.deviation;
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

/* The words that element `index` is made of: a thread's draw has those of `unrolled` elements,
 * which are one grid apart. Returns the element's place among them. */
static unsigned draw_words(const struct draw *d, uint64_t index, unsigned unrolled,
			   uint32_t words[WORDS])
{
	uint64_t turn = index / d->threads, thread = index % d->threads,
		 counter = d->offset + turn / unrolled;
	words[0] = (uint32_t)counter;
	words[1] = (uint32_t)(counter >> 32);
	words[2] = (uint32_t)thread;
	words[3] = (uint32_t)(thread >> 32);
	philox(words, d->seed);
	return (unsigned)(turn % unrolled);
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
	uint32_t words[WORDS];
	unsigned which = draw_words(d, index, WORDS, words);
	const uint32_t *pair = words + which / 2 * 2;
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

/* ---- integers: randint(), random_() with bounds */

/* What the lambda has: the output, by a step between its elements or by an offset calculator that
 * comes first; then the range and the least number. */
struct integers {
	char *to;
	struct strided layout;
	uint64_t range;
	int64_t least;
};

static bool read_integers(const struct launch *l, uint64_t count, size_t size, struct integers *out)
{
	const char *from = l->arguments[3];
	if (strstr(l->name, ")#2}>(")) {
		size_t bytes = strided_read(&out->layout, from, 1);
		if (!bytes)
			return false;
		from += round_up(bytes, sizeof out->to);
		memcpy(&out->to, from, sizeof out->to);
		from += sizeof out->to;
	} else {
		int step;
		memcpy(&out->to, from, sizeof out->to);
		memcpy(&step, from + sizeof out->to, sizeof step);
		if (step < 0)
			return false;
		out->layout = strided_row(count, 1, &(size_t){ (size_t)step });
		from += 2 * sizeof out->to;
	}
	memcpy(&out->range, from, sizeof out->range);
	memcpy(&out->least, from + sizeof out->range, sizeof out->least);
	return out->range && launch_device(out->to, strided_reach(&out->layout, 0) + size);
}

/* A word, or two for a wide range, modulo the range. */
bool compute_integers(const struct launch *l)
{
	enum number_type type = launch_type(launch_after(l, "distribution_nullary_kernel<"));
	size_t size = number_size(type);
	bool wide = strstr(l->name, "_kernel<unsigned long, 2, ");
	struct integers out;
	struct draw d;
	bool known = read_draw(l, &d);
	if (!type || !read_integers(l, d.count, size, &out))
		return false;
	if (!known || d.count > COMPUTED_PLACES) {
		launch_leaves(l, out.to, strided_reach(&out.layout, 0) + size);
		return true;
	}
	launch_writes(out.to, strided_reach(&out.layout, 0) + size);
	for (uint64_t i = 0; i < d.count; i++) {
		uint32_t words[WORDS];
		uint64_t offsets[ARGUMENTS], drawn;
		unsigned which = draw_words(&d, i, wide ? WORDS / 2 : WORDS, words);
		drawn = wide ? (uint64_t)words[2 * which] << 32 | words[2 * which + 1]
			     : words[which];
		strided_offsets(&out.layout, i, offsets);
		number_store(out.to + offsets[0], type,
			     (int64_t)(drawn % out.range + (uint64_t)out.least));
	}
	return true;
}
