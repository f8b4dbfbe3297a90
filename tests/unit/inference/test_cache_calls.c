/* How many calls of a model fit beside a cache that each of them makes anew. The truth is the same
 * job, run on in the model of PyTorch's allocator until a block does not fit. */
#include "fixture.h"

#include "allocator/allocator.h"
#include "inference/cache_calls.h"

#define MIB (INT64_C(1) << 20)
#define LAYERS 4
#define ROOM (1000 * MIB)

enum { OTHER, KEYS, STACKS };

/* A job: in each call a layer makes a temporary block, and its keys anew, `step` longer. */
struct job {
	int whole_list; /* the old keys are freed behind the call, not layer by layer */
	bytes step;     /* by which a layer's keys grow with each call */
	bytes temporary;
	struct history *history;
	struct cache_calls *calls;
	struct allocator *allocator;
	uint32_t number[2][LAYERS];
	struct allocation *place[2][LAYERS];
	struct mt_record record[2][LAYERS];
};

static const struct job whole_list = { .whole_list = 1, .step = 2 * MIB, .temporary = 6 * MIB };
static const struct job by_layer = { .step = 2 * MIB, .temporary = 6 * MIB };

static struct mt_record block(uint32_t stack, bytes size)
{
	return (struct mt_record){ .kind = MT_TENSOR_ALLOC, .stack = stack, .bytes = size };
}

/* 0: it does not fit. */
static int keys_made(struct job *j, int turn, int layer, bytes size)
{
	struct mt_record *r = &j->record[turn][layer];

	*r = block(KEYS, size);
	if (j->history)
		history_add(j->history, r);
	if (j->calls)
		j->number[turn][layer] = cache_calls_add(j->calls, r);
	if (j->allocator) {
		j->place[turn][layer] = allocator_malloc(j->allocator, size, 0);
		return j->place[turn][layer] != NULL;
	}
	return 1;
}

static void keys_freed(struct job *j, int turn, int layer)
{
	if (j->history)
		history_take(j->history, &j->record[turn][layer]);
	if (j->calls)
		cache_calls_free(j->calls, j->number[turn][layer]);
	if (j->allocator)
		allocator_free(j->allocator, j->place[turn][layer]);
}

static int temporary(struct job *j)
{
	struct mt_record r = block(OTHER, j->temporary);
	struct allocation *place;

	if (j->calls)
		cache_calls_free(j->calls, cache_calls_add(j->calls, &r));
	if (!j->allocator)
		return 1;
	place = allocator_malloc(j->allocator, r.bytes, 0);
	if (place)
		allocator_free(j->allocator, place);
	return place != NULL;
}

/* Returns how many calls ran. */
static int run(struct job *j, int calls)
{
	for (int c = 0; c < calls; c++) {
		for (int i = 0; i < LAYERS; i++) {
			if (!temporary(j) || !keys_made(j, c % 2, i, 20 * MIB + c * j->step))
				return c;
			if (c && !j->whole_list)
				keys_freed(j, (c + 1) % 2, i);
		}
		for (int i = 0; c && j->whole_list && i < LAYERS; i++)
			keys_freed(j, (c + 1) % 2, i);
	}
	return calls;
}

static struct cache_growth growth_of(struct job kind, int calls, bytes room)
{
	static const unsigned char is_cache[STACKS] = { 0, 1 };
	struct job before = kind, j = kind;

	before.history = history_new(STACKS);
	run(&before, calls);
	j.calls = cache_calls_new(
		&(struct cache_plan){ .is_cache = is_cache,
				      .stack_count = STACKS,
				      .stack = KEYS,
				      .series = *history_series(&before.history->stacks[KEYS]),
				      .room = room,
				      .conf = "" });
	history_free(before.history);
	run(&j, calls);
	return cache_calls_end(j.calls);
}

static int runs_in_all(struct job j, bytes room)
{
	struct allocator_settings settings = { 0 };
	int calls;

	j.allocator = allocator_new(&settings, room);
	calls = run(&j, 1000000);
	allocator_release(j.allocator);
	return calls;
}

/* Call c has 4 layers of 20 + 2 c MiB, and those of the call before, 2 MiB smaller: 152 + 16 c <=
 * 1000 for c <= 53, if nothing is lost between blocks. The first call has c = 0. */
static void a_list_that_is_copied_needs_twice_its_size(void **state)
{
	int all = runs_in_all(whole_list, ROOM);
	struct cache_growth g = growth_of(whole_list, 20, ROOM);

	(void)state;
	assert_in_range(all, 30, 54);
	assert_int_equal(g.token, LAYERS * 2 * MIB);
	assert_int_equal(g.left, all - 20);
}

/* One layer at a time: 98 + 10 c <= 1000 for c <= 90. */
static void a_layer_that_is_copied_needs_its_own_size_more(void **state)
{
	int all = runs_in_all(by_layer, ROOM);
	struct cache_growth g = growth_of(by_layer, 20, ROOM);

	(void)state;
	assert_in_range(all, 60, 91);
	assert_int_equal(g.token, LAYERS * 2 * MIB);
	assert_int_equal(g.left, all - 20);
}

/* 4 KiB a layer and call on 8000 MiB: more calls than are repeated one by one. In the calls of the
 * job the temporary block makes the peak, 80 + 64 MiB + 16 KiB c; later the copy of a layer does:
 * 100 MiB + 20 KiB c <= 8000 MiB for c <= 404480. */
static void of_very_many_calls_some_are_repeated(void **state)
{
	struct job slow = { .step = 4 * 1024, .temporary = 64 * MIB };
	int all = runs_in_all(slow, 8 * ROOM);
	struct cache_growth g = growth_of(slow, 20, 8 * ROOM);

	(void)state;
	assert_in_range(all, 300000, 404481);
	assert_int_equal(g.token, LAYERS * 4 * 1024);
	assert_in_range(g.left, all / 100 * 98, all);
}

static void without_the_devices_size_nothing_is_said(void **state)
{
	struct cache_growth g = growth_of(by_layer, 20, 0);

	(void)state;
	assert_int_equal(g.token, LAYERS * 2 * MIB);
	assert_int_equal(g.left, -1);
}

static void two_calls_show_no_growth(void **state)
{
	struct cache_growth g = growth_of(by_layer, 2, ROOM);

	(void)state;
	assert_int_equal(g.token, 0);
	assert_int_equal(g.left, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_that_is_copied_needs_twice_its_size),
		cmocka_unit_test(a_layer_that_is_copied_needs_its_own_size_more),
		cmocka_unit_test(of_very_many_calls_some_are_repeated),
		cmocka_unit_test(without_the_devices_size_nothing_is_said),
		cmocka_unit_test(two_calls_show_no_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
