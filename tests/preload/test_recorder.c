/* The recorder without the preload: real files, hand-counted records. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "record/helper.h"
#include "record/keyframe.h"
#include "record/recorder.h"
#include "record/segments.h"
#include "record/writer.h"
#include "record/tables.h"

static char directory[] = "/tmp/memtrace-test-XXXXXX";
static const struct mt_header *file;
static size_t file_bytes;

static void start(const char *name, uint64_t budget)
{
	struct recorder_setup setup = { .directory = directory, .name = name, .budget = budget };

	keyframe_reset();
	assert_int_equal(recorder_open(&setup), 0);
	recorder_control()->begin = clock_read(0);
	recorder_begin();
}

/* Closes the recording, and has it written by a thread, for no process is started. */
static void finish(int status)
{
	recorder_close(status);
	writer_check(recorder_control());
	assert_int_equal(writer_finish(recorder_control(), 10000), 1);
}

static void read_back(const char *name)
{
	char path[256];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	file_bytes = (size_t)st.st_size;
	file = mmap(NULL, file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	close(fd);
}

static const struct mt_record *records(const struct mt_segment *s)
{
	uint64_t used = s->used < s->capacity ? s->used : s->capacity;

	assert_true(s->offset + used * sizeof(struct mt_record) <= file_bytes);
	return (const struct mt_record *)(const void *)((const char *)file + s->offset);
}

/* All that the file has. */
static uint64_t count_records(void)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < file->segments; i++) {
		const struct mt_segment *s = &file->segment[i];
		for (uint64_t k = 0;
		     s->first_sequence != MT_UNKNOWN && k < s->used && k < s->capacity; k++)
			n += records(s)[k].kind != 0;
	}
	return n;
}

static void write_one(enum mt_event kind, uint64_t address, int64_t bytes)
{
	recorder_write(now_ns(), address, bytes, recorder_last(0, 0, kind, 0));
}

/* Until the writer has been through once. */
static void wait_for_first_pass(void)
{
	writer_check(recorder_control());
	while (!atomic_load(&recorder_control()->passes))
		usleep(100);
}

static unsigned helper_work(void)
{
	segments_prepare_next();
	tables_prepare();
	keyframe_work();
	writer_check(recorder_control());
	writer_wake(recorder_control());
	return 1;
}

/* Waits for a writer or a helper that is late: what has no segment is lost. */
static void wait_for_next_segment(int helper_runs)
{
	const struct segment *s = atomic_load(&segments.current);

	for (int i = 0; i < 5000; i++) {
		if (!helper_runs)
			helper_work();
		if (atomic_load(&segments.prepared) ||
		    __atomic_load_n(&s->entry->used, __ATOMIC_RELAXED) < s->wake_at)
			return;
		usleep(1000);
	}
}

/* Everything written is there, in order; the tail of the file was given back. */
static void test_all_records(void **state)
{
	uint64_t n = 0, in_use = 0;

	(void)state;
	start("all.mtr", 64u << 20);
	for (uint64_t i = 0; i < 200000; i++) {
		write_one(i & 1 ? MT_TENSOR_FREE : MT_TENSOR_ALLOC, 0x1000 + (i >> 1),
			  i & 1 ? -512 : 512);
		if (i % 1000 == 0)
			wait_for_next_segment(0);
	}
	finish(7);
	read_back("all.mtr");
	assert_int_equal(file->state, MT_STATE_ENDED);
	assert_int_equal(file->exit_status, 7);
	assert_int_equal(file->lost_events, 0);
	assert_int_equal(file->inline_prepares, 0);
	for (uint64_t next = 0, found = 1; found;) {
		found = 0;
		for (uint64_t i = 0; i < file->segments; i++) {
			const struct mt_segment *s = &file->segment[i];
			if (s->first_sequence != next || !s->capacity)
				continue;
			uint64_t used = s->used < s->capacity ? s->used : s->capacity;
			for (uint64_t k = 0; k < used; k++, n++)
				assert_int_equal(records(s)[k].address, 0x1000 + (n >> 1));
			next += s->capacity;
			found = used > 0;
			in_use++;
			break;
		}
	}
	assert_int_equal(n, 200000);
	assert_true(in_use > 1);
	assert_true(file_bytes < 200000 * 36 + MT_HEADER_BYTES + (64u << 10));
}

/* A small budget: old segments are used again, the file stays within it, and the newest one's
 * keyframe is exactly the live set. */
static void test_budget_and_keyframe(void **state)
{
	const struct mt_segment *newest = NULL;
	uint64_t live[100] = { 0 }, expected = 0, in_segment = 0;
	const uint64_t budget = 2u << 20;

	(void)state;
	start("budget.mtr", budget);
	/* 100 addresses come and go; every tenth stays */
	for (uint64_t i = 0; i < 300000; i++) {
		uint64_t a = i % 100;
		if (!live[a]) {
			write_one(MT_TENSOR_ALLOC, 0x10000 + a * 512, (int64_t)(512 + a));
			live[a] = 1;
		} else if (a % 10) {
			write_one(MT_TENSOR_FREE, 0x10000 + a * 512, -(int64_t)(512 + a));
			live[a] = 0;
		}
		if (i % 500 == 0)
			wait_for_next_segment(0);
	}
	finish(0);
	read_back("budget.mtr");
	assert_true(file_bytes <= budget);
	assert_true(file->reused_records > 0);
	assert_int_equal(file->lost_events, 0);
	for (uint64_t i = 0; i < file->segments; i++)
		if (file->segment[i].first_sequence != MT_UNKNOWN &&
		    file->segment[i].has_keyframe &&
		    (!newest || file->segment[i].first_sequence > newest->first_sequence))
			newest = &file->segment[i];
	assert_non_null(newest);
	/* keyframe + the segment's own records must end at what the test itself counts as live */
	const struct mt_record *k =
		(const struct mt_record *)(const void *)((const char *)file +
							 newest->keyframe_offset);
	int64_t count = (int64_t)newest->keyframe_records;
	for (uint64_t i = 0; i < newest->keyframe_records; i++)
		assert_int_equal(k[i].kind, MT_TENSOR_ALLOC);
	for (uint64_t i = 0; i < newest->used && i < newest->capacity; i++, in_segment++)
		count += records(newest)[i].kind == MT_TENSOR_ALLOC ? 1 : -1;
	for (unsigned a = 0; a < 100; a++)
		expected += live[a];
	assert_int_equal(count, expected);
	assert_true(in_segment > 0);
	/* the first segment is kept */
	assert_int_equal(file->segment[0].first_sequence, 0);
}

/* A record that a thread has reserved and not written yet holds the replay up; written late, it is
 * in the next keyframe all the same. */
static void test_late_record_is_in_the_keyframe(void **state)
{
	struct mt_header *h;
	struct mt_record *late;
	int found = 0;

	(void)state;
	start("late.mtr", 1u << 20);
	h = recorder_header();
	late = (struct mt_record *)(void *)((char *)h + h->segment[0].offset) + 5;
	for (uint64_t i = 0; i < 5; i++)
		write_one(MT_TENSOR_ALLOC, 0x1000 + i * 512, 512);
	__atomic_fetch_add(&h->segment[0].used, 1,
			   __ATOMIC_RELAXED); /* as a thread does that then loses its processor */
	for (uint64_t i = 0; i < 3000; i++) {
		write_one(i & 1 ? MT_TENSOR_FREE : MT_TENSOR_ALLOC, 0x100000, i & 1 ? -512 : 512);
		helper_work();
	}
	assert_int_equal(h->segment[1].has_keyframe, 0);
	assert_int_equal(keyframe_work(), 1); /* it waits */
	late->time_ns = now_ns();
	late->address = 0x7777;
	late->bytes = 512;
	__atomic_store_n((uint64_t *)(void *)&late->stack, recorder_last(0, 0, MT_TENSOR_ALLOC, 0),
			 __ATOMIC_RELEASE);
	helper_work();
	assert_int_equal(h->segment[1].has_keyframe, 1);
	for (uint64_t i = 0; i < h->segment[1].keyframe_records; i++)
		found +=
			((struct mt_record *)(void *)((char *)h + h->segment[1].keyframe_offset))[i]
				.address == 0x7777;
	assert_int_equal(found, 1);
	assert_int_equal(h->lost_events, 0);
	finish(0);
}

/* One that never comes is counted as lost, with a reason, and holds nothing up for good. */
static void test_record_that_never_comes(void **state)
{
	struct mt_header *h;

	(void)state;
	start("never.mtr", 1u << 20);
	h = recorder_header();
	__atomic_fetch_add(&h->segment[0].used, 1, __ATOMIC_RELAXED);
	for (uint64_t i = 0; i < 3000; i++)
		write_one(MT_TENSOR_ALLOC, 0x1000 + i * 512, 512);
	helper_work();
	assert_int_equal(h->lost_events, 0);
	usleep(250000);
	helper_work();
	assert_int_equal(h->lost_events, 1);
	assert_int_equal(h->lost_reason, MT_LOST_BUSY);
	finish(0);
}

/* A million live blocks: keyframes fit beside the records, and the file stays near the budget. */
static void test_many_live_blocks(void **state)
{
	const uint64_t budget = 64u << 20;

	(void)state;
	start("live.mtr", budget);
	for (uint64_t i = 0; i < 2000000; i++) {
		write_one(i < 1000000 ? MT_TENSOR_ALLOC : MT_TENSOR_FREE,
			  0x1000 + i % 1000000 * 512, i < 1000000 ? 512 : -512);
		if (i % 1000 == 0)
			wait_for_next_segment(0);
	}
	finish(0);
	read_back("live.mtr");
	assert_int_equal(file->lost_events, 0);
	assert_true(file_bytes < budget + budget / 16);
}

static void *one_thread(void *number)
{
	uint64_t t = (uintptr_t)number;

	for (uint64_t i = 0; i < 50000; i++) {
		write_one(MT_TENSOR_ALLOC, t << 32 | i, 512);
		if (i % 1000 == 0)
			wait_for_next_segment(1);
	}
	return NULL;
}

static void nothing(void)
{
}

/* Eight threads and the real helper: each record once or counted as lost, in its thread's order. */
static void test_threads(void **state)
{
	static _Atomic uint32_t wakeups;
	const struct helper helper = {
		.wakeups = &wakeups, .once = nothing, .work = helper_work, .end = nothing
	};
	static uint64_t next[8];
	pthread_t thread[8];
	uint64_t n = 0;

	(void)state;
	start("threads.mtr", 256u << 20);
	assert_int_equal(helper_start(&helper), 0);
	for (uintptr_t t = 0; t < 8; t++)
		pthread_create(&thread[t], NULL, one_thread, (void *)t);
	for (unsigned t = 0; t < 8; t++)
		pthread_join(thread[t], NULL);
	helper_stop(1000);
	finish(0);
	read_back("threads.mtr");
	for (uint64_t sequence = 0, more = 1; more;) {
		more = 0;
		for (uint64_t i = 0; i < file->segments; i++) {
			const struct mt_segment *s = &file->segment[i];
			if (s->first_sequence != sequence || !s->capacity)
				continue;
			for (uint64_t k = 0; k < s->used && k < s->capacity; k++, n++) {
				uint64_t a = records(s)[k].address;
				if (!file->lost_events)
					assert_int_equal(a & 0xffffffffu, next[a >> 32]);
				assert_true((a & 0xffffffffu) >= next[a >> 32]);
				next[a >> 32] = (a & 0xffffffffu) + 1;
			}
			sequence += s->capacity;
			more = 1;
			break;
		}
	}
	assert_int_equal(n + file->lost_events, 8 * 50000);
	assert_true(n > 8 * 40000);
}

/* No more room: recording stops, and the header says why and how much is missing. */
static void test_file_limit(void **state)
{
	struct rlimit old, small;

	(void)state;
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 3u << 20;
	signal(SIGXFSZ, SIG_IGN); /* the helper thread blocks it */
	start("limit.mtr", 64u << 20);
	wait_for_first_pass();
	setrlimit(RLIMIT_FSIZE, &small);
	for (uint64_t i = 0; i < 100000; i++) {
		write_one(MT_TENSOR_ALLOC, 0x1000 + i * 512, 512);
		if (i % 1000 == 0)
			helper_work();
	}
	finish(0);
	setrlimit(RLIMIT_FSIZE, &old);
	read_back("limit.mtr");
	assert_true(file_bytes <= 3u << 20);
	assert_int_equal(file->state, MT_STATE_ENDED);
	assert_int_equal(file->lost_reason, MT_LOST_NO_SPACE);
	assert_int_equal(file->lost_errno, 27 /* EFBIG */);
	assert_int_equal(file->lost_events + count_records(), 100000);
	assert_true(count_records() >= file->segment[0].capacity);
}

/* kill -9 in the middle: the file opens and holds all that the helper has written. */
static void test_sigkill(void **state)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		start("kill.mtr", 64u << 20);
		for (uint64_t i = 0; i < 12345; i++)
			write_one(MT_TENSOR_ALLOC, 0x1000 + i * 512, 512);
		wait_for_first_pass();
		(void)!write(ready[1], "x", 1);
		pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	read_back("kill.mtr");
	assert_int_equal(file->state, MT_STATE_RECORDING);
	assert_int_equal(file->segment[0].used, 12345);
	assert_int_equal(records(&file->segment[0])[12344].address, 0x1000 + 12344 * 512);
}

static int refused(const char *where, const char *name)
{
	struct recorder_setup setup = { .directory = where, .name = name, .budget = 1u << 20 };

	assert_int_equal(recorder_open(&setup), 0);
	recorder_begin();
	writer_check(recorder_control());
	assert_int_equal(writer_finish(recorder_control(), 10000), 1);
	assert_int_equal(atomic_load(&recorder_control()->state), WRITER_REFUSED);
	return atomic_load(&recorder_control()->error);
}

/* Names are not used twice, errors keep their number, symbolic links are not followed. */
static void test_cannot_create(void **state)
{
	char link[256], slash[260];

	(void)state;
	assert_int_equal(refused(directory, "all.mtr"), EEXIST);
	assert_int_equal(refused("/proc/nowhere", "x.mtr"), ENOENT);
	snprintf(link, sizeof(link), "%s/link", directory);
	snprintf(slash, sizeof(slash), "%s/", link);
	assert_int_equal(symlink("/tmp", link), 0);
	assert_int_equal(refused(link, "x.mtr"), ELOOP);
	assert_int_equal(refused(slash, "x.mtr"), ELOOP);
	snprintf(link, sizeof(link), "%s/all.mtr", directory);
	assert_int_equal(refused(link, "x.mtr"), ENOTDIR);
}

static void test_tables(void **state)
{
	uint32_t a, b, f, g, stack;

	(void)state;
	start("tables.mtr", 64u << 20);
	a = tables_string("forward", 7);
	b = tables_string("model.py", 8);
	assert_int_equal(tables_string("forward", 7), a);
	assert_int_not_equal(a, b);
	f = tables_frame(a, b, 52);
	assert_int_equal(tables_frame(a, b, 52), f);
	g = tables_frame(a, b, 53);
	assert_int_not_equal(f, g);
	assert_false(tables_known_stack(99, &stack));
	assert_int_equal(tables_stack(99, 0, (uint32_t[]){ f, g }, 2), 1);
	assert_true(tables_known_stack(99, &stack));
	assert_int_equal(stack, 1);
	/* many: the table grows by regions and nothing is lost */
	for (uint32_t i = 0; i < 20000; i++) {
		char s[64];
		int n = snprintf(s, sizeof(s), "a string of some length that fills tables %u", i);
		assert_int_equal(tables_string(s, (size_t)n), 3 + i);
	}
	finish(0);
	read_back("tables.mtr");
	assert_true(file->tables > 4);
	assert_int_equal(file->lost_stacks, 0);
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_records),
		cmocka_unit_test(test_budget_and_keyframe),
		cmocka_unit_test(test_late_record_is_in_the_keyframe),
		cmocka_unit_test(test_record_that_never_comes),
		cmocka_unit_test(test_many_live_blocks),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_file_limit),
		cmocka_unit_test(test_sigkill),
		cmocka_unit_test(test_cannot_create),
		cmocka_unit_test(test_tables),
	};

	return cmocka_run_group_tests_name("recorder", tests, make_directory, remove_directory);
}
