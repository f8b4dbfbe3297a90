/* The tables of stacks: full, busy, and room made ahead. Sizes are counted by hand. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "record/recorder.h"
#include "record/tables.c"

#include "record/keyframe.h"

#define FIRST_REGION (64u << 10)
#define ENTRY 16u

static char directory[] = "/tmp/memtrace-test-XXXXXX";

static void start(const char *name, uint64_t budget)
{
	struct recorder_setup setup = { .directory = directory, .name = name, .budget = budget };

	keyframe_reset();
	assert_int_equal(recorder_open(&setup), 0);
}

/* A stack of one frame, of its own function and file: as the preload adds a new one. */
static uint32_t add_stack(uint32_t i)
{
	uint32_t name, file, frame = 0, stack = 0;
	char s[16];

	snprintf(s, sizeof(s), "n%07u", i);
	name = tables_string(s, 8);
	s[0] = 'f';
	file = name ? tables_string(s, 8) : 0;
	frame = file ? tables_frame(name, file, i) : 0;
	stack = frame ? tables_stack(1000 + i, 0, &frame, 1) : 0;
	return stack ? stack : tables_unknown_stack(1000 + i, 0);
}

/* A stack whose frame is known: an entry of 24 bytes. */
static uint32_t add_module_stack(uint64_t hash, uint32_t module, uint32_t frame)
{
	uint32_t stack = tables_stack(hash, module, &frame, 1);

	return stack ? stack : tables_unknown_stack(hash, module);
}

static void test_full(void **state)
{
	/* The first region alone, but for what others than stacks may need; two strings, a frame.
	 */
	const uint32_t room = FIRST_REGION - (8u << 10) - 2 * (ENTRY + 8) - (ENTRY + 16);
	const uint32_t stacks = room / (ENTRY + 8);
	const struct mt_header *h;
	uint32_t frame, stack;

	(void)state;
	start("full.mtr", 512u << 10);
	h = recorder_header();
	frame = tables_frame(tables_string("f", 1), tables_string("file", 4), 1);
	assert_int_equal(add_module_stack(1, 0, frame), 1);
	for (uint32_t i = 1; i < stacks; i++)
		assert_int_equal(add_module_stack(1 + i, i, frame), i + 1);
	assert_int_equal(h->lost_stacks, 0);
	assert_int_equal(h->lost_reason, MT_LOST_NOTHING);
	/* One more is not kept; then it is known as unknown, and costs no lock. */
	assert_int_equal(add_module_stack(70001, stacks, frame), MT_NO_STACK);
	assert_int_equal(h->lost_stacks, 1);
	assert_int_equal(h->busy_stacks, 0);
	assert_int_equal(h->lost_reason, MT_LOST_TABLES_FULL);
	atomic_store(&t.lock.held, 1);
	assert_true(tables_known_stack(70001, &stack));
	assert_int_equal(stack, MT_NO_STACK);
	assert_true(tables_known_stack(1, &stack));
	assert_int_equal(stack, 1);
	atomic_store(&t.lock.held, 0);
	/* A stack that is in the tables is found under another hash; modules and threads have room.
	 */
	assert_int_equal(add_module_stack(70002, 7, frame), 8);
	assert_int_equal(tables_module("/lib/x.so"), 1);
	assert_int_equal(tables_thread(1, "t"), 1);
	assert_int_equal(h->lost_stacks, 1);
	recorder_close(0);
}

/* Where nothing more can be learnt either, what was learnt stays. */
static void test_closed(void **state)
{
	uint32_t frame, stack, i;

	(void)state;
	start("closed.mtr", 512u << 10);
	frame = tables_frame(tables_string("f", 1), tables_string("file", 4), 1);
	for (i = 0; i < HASHES; i++)
		(void)add_module_stack(1 + i, i, frame);
	assert_true(tables_known_stack(1, &stack));
	assert_int_equal(stack, 1);
	assert_true(tables_known_stack(100000, &stack));
	assert_int_equal(stack, MT_NO_STACK);
	assert_false(tables_known_stack(HASHES, &stack));
	assert_true(tables_are_closed());
	recorder_close(0);
}

/* Code objects that come and go: endless hashes for one stack. */
static void test_many_hashes(void **state)
{
	uint32_t frame, stack;

	(void)state;
	start("hashes.mtr", 64u << 20);
	frame = tables_frame(tables_string("f", 1), tables_string("file", 4), 1);
	for (uint32_t i = 0; i < 2 * HASHES; i++)
		assert_int_equal(tables_stack((i + 1) * 0x9e3779b97f4a7c15u, 0, &frame, 1), 1);
	assert_true(tables_known_stack(2 * HASHES * 0x9e3779b97f4a7c15u, &stack));
	assert_int_equal(stack, 1);
	assert_int_equal(recorder_header()->lost_stacks, 0);
	recorder_close(0);
}

/* Modules and frames are numbered from 0: stacks differ in a bit or two. */
static void test_stacks_that_differ_little(void **state)
{
	enum { MODULES = 8, OF_FRAMES = 64 };
	const uint64_t hash = 0x9e3779b97f4a7c15u;
	uint32_t next = 0;

	(void)state;
	start("alike.mtr", 64u << 20);
	for (uint32_t module = 0; module < MODULES; module++)
		for (uint32_t frame = 1; frame <= OF_FRAMES; frame++)
			for (uint32_t count = 1; count <= 2; count++) {
				const uint32_t frames[] = { frame, 5 };

				next++;
				assert_int_equal(tables_stack(hash * next, module, frames, count),
						 next);
			}
	recorder_close(0);
}

/* A holder of the lock that is held up is waited for once, for any later request. */
static void test_busy(void **state)
{
	const struct mt_header *h;
	uint64_t begun, waited;

	(void)state;
	start("busy.mtr", 64u << 20);
	h = recorder_header();
	begun = now_ns();
	atomic_store(&t.lock.held, 1);
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(add_stack(i), MT_NO_STACK);
	atomic_store(&t.lock.held, 0);
	waited = now_ns() - begun;
	assert_in_range(waited, LOCK_MS(90), LOCK_MS(900));
	assert_int_equal(h->lost_stacks, 40);
	assert_int_equal(h->busy_stacks, 40);
	assert_int_equal(h->lost_reason, MT_LOST_NOTHING);
	assert_int_equal(add_stack(1), 1);
	/* The lock can be had again, and so is waited for once more. */
	begun = now_ns();
	atomic_store(&t.lock.held, 1);
	assert_int_equal(add_stack(2), MT_NO_STACK);
	atomic_store(&t.lock.held, 0);
	assert_in_range(now_ns() - begun, LOCK_MS(90), LOCK_MS(900));
	assert_int_equal(h->busy_stacks, 41);
	recorder_close(0);
}

static void nothing(void)
{
}

/* The helper makes the next region when this one is half full, and the job's thread takes it. */
static unsigned prepare_tables(void)
{
	tables_prepare();
	return 10000;
}

static void test_room_ahead(void **state)
{
	static _Atomic uint32_t wakeups;
	const struct helper helper = {
		.wakeups = &wakeups, .once = nothing, .work = prepare_tables, .end = nothing
	};
	const struct mt_header *h;
	uint64_t offset;
	uint32_t i = 0;

	(void)state;
	start("ahead.mtr", 64u << 20);
	h = recorder_header();
	assert_int_equal(helper_start(&helper), 0);
	lock_pause();
	for (unsigned ms = 0; ms < 300;
	     ms++) /* its first look is over, the next is in ten seconds */
		for (unsigned k = 0; k < 20; k++)
			lock_pause();
	while (h->table[0].used < FIRST_REGION / 2)
		add_stack(i++);
	for (unsigned k = 0; k < 20000 && !atomic_load(&t.spare); k++)
		lock_pause();
	assert_ptr_not_equal(atomic_load(&t.spare), NULL);
	offset = t.spare_offset;
	while (h->tables == 1)
		add_stack(i++);
	assert_int_equal(h->table[1].offset, offset);
	assert_true(helper_stop(1000));
	recorder_close(0);
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_many_hashes),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_room_ahead),
		cmocka_unit_test(test_stacks_that_differ_little),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
