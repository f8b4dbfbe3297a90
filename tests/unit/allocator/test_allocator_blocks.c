/* The order of free blocks, held against a plain list that is searched from the beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "allocator/allocator_blocks.h"

#define BLOCKS 300
#define CHANGES 20000

static struct allocator_segment segments[BLOCKS];
static struct allocation blocks[BLOCKS];
static int is_in[BLOCKS];

/* Numbers that look random and are the same in every run. */
static unsigned next_number(void)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(state >> 33);
}

/* PyTorch's comparator: stream, size, age of the segment, address. */
static int comes_before(const struct allocation *a, const struct allocation *b)
{
	if (a->stream != b->stream)
		return a->stream < b->stream;
	if (a->size != b->size)
		return a->size < b->size;
	if (a->segment->age != b->segment->age)
		return a->segment->age < b->segment->age;
	return a->address < b->address;
}

/* The first block of the pool that comes after `than`; NULL as `than`: the first of all. */
static struct allocation *following(const struct allocation *than)
{
	struct allocation *first = NULL;

	for (size_t i = 0; i < BLOCKS; i++)
		if (is_in[i] && (!than || comes_before(than, &blocks[i])) &&
		    (!first || comes_before(&blocks[i], first)))
			first = &blocks[i];
	return first;
}

static void make_blocks(void)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		segments[i].age = next_number() % 20;
		blocks[i] = (struct allocation){ .size = 512 * (1 + next_number() % 12),
						 .address = (i + 1) << 20,
						 .segment = &segments[i],
						 .stream = (int)(next_number() % 3) };
		is_in[i] = 0;
	}
}

static void check_order(const struct pool *p)
{
	struct pool_place at = pool_first();
	struct allocation *expected = NULL;
	size_t count = 0;

	while ((expected = following(expected))) {
		assert_ptr_equal(pool_block(p, at), expected);
		at = pool_next(p, at);
		count++;
	}
	assert_null(pool_block(p, at));
	assert_int_equal(p->count, count);
	at = pool_end(p);
	while (pool_back(p, &at))
		count--;
	assert_int_equal(count, 0);
}

static void check_search(struct pool *p)
{
	struct allocation least = { .size = 512 * (next_number() % 14),
				    .stream = (int)(next_number() % 3),
				    .segment = &segments[0] };
	struct allocation *first = NULL;

	for (size_t i = 0; i < BLOCKS; i++)
		if (is_in[i] &&
		    (blocks[i].stream > least.stream ||
		     (blocks[i].stream == least.stream && blocks[i].size >= least.size)) &&
		    (!first || comes_before(&blocks[i], first)))
			first = &blocks[i];
	assert_ptr_equal(pool_block(p, pool_at_least(p, least.stream, least.size)), first);
}

static void order_of_pytorch(void **unused)
{
	struct pool p = { .count = 0 };

	(void)unused;
	make_blocks();
	for (int i = 0; i < CHANGES; i++) {
		/* Most are in, then few. */
		size_t b = next_number() % BLOCKS;
		int wanted = next_number() % 8 < (i / 2500 % 2 ? 1 : 7);

		if (wanted && !is_in[b])
			pool_add(&p, &blocks[b]);
		if (!wanted && is_in[b])
			pool_remove(&p, &blocks[b]);
		is_in[b] = wanted;
		check_search(&p);
		if (i % 500 == 0)
			check_order(&p);
	}
	check_order(&p);
	pool_release(&p);
}

/* The place that is returned is that of the block that followed, in this bin or the next. */
static void removal_goes_on(void **unused)
{
	struct pool p = { .count = 0 };
	struct pool_place at = pool_first();
	size_t left = BLOCKS;

	(void)unused;
	make_blocks();
	for (size_t i = 0; i < BLOCKS; i++) {
		pool_add(&p, &blocks[i]);
		is_in[i] = 1;
	}
	for (struct allocation *b; (b = pool_block(&p, at)); left--) {
		struct allocation *after = following(b);

		at = pool_remove_at(&p, at);
		is_in[b - blocks] = 0;
		assert_ptr_equal(pool_block(&p, at), after);
	}
	assert_int_equal(left, 0);
	assert_int_equal(p.count, 0);
	pool_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_pytorch),
		cmocka_unit_test(removal_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
