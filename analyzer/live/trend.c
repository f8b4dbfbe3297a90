#include "live/trend.h"

#include <math.h>

struct trend trend_of(const struct trend_step *steps, size_t count)
{
	size_t n = (count < TREND_STEPS ? count : TREND_STEPS) & ~(size_t)1, half = n / 2;
	const struct trend_step *earlier = steps + count - n, *later = earlier + half;
	struct trend t = { .steps = n };
	bytes highest, lowest;
	double rise = 0;

	if (n < TREND_LEAST)
		return t;
	highest = earlier[0].floor;
	lowest = later[0].floor;
	t.peak = later[0].peak;
	for (size_t i = 0; i < half; i++) {
		rise += (double)(later[i].floor - earlier[i].floor);
		highest = larger_of(highest, earlier[i].floor);
		lowest = smaller_of(lowest, later[i].floor);
		t.peak = larger_of(t.peak, later[i].peak);
	}
	t.growth = (bytes)llround(rise / (double)half / (double)half);
	t.is_growing = lowest > highest && t.growth > 0;
	t.step_s = (double)(later[half - 1].start_ns - earlier[0].start_ns) / 1e9 / (double)(n - 1);
	return t;
}

int64_t trend_steps_until(const struct trend *t, bytes limit)
{
	if (t->steps < TREND_LEAST || !t->is_growing)
		return -1;
	return limit <= t->peak ? 0 : (limit - t->peak) / t->growth;
}
