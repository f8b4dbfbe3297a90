/* The marks of a job in a recording: a phase from before it, a step, a moment, names that are cut.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "marks/marks.h"
#include "record/event.h"
#include "record/recorder.h"
#include "record/state.h"
#include "record/tables.h"
#include "record/writer.h"

static char directory[] = "/tmp/memtrace-test-XXXXXX";

static void nothing_is_recorded_before(void **state)
{
	uint64_t levels[5];
	char path[64];

	(void)state;
	memtrace_step();
	memtrace_mark("early");
	memtrace_mark(NULL);
	assert_int_equal(memtrace_phase_begin(NULL), 0);
	memtrace_phase_end(0);
	assert_int_equal(memtrace_levels(0, levels), -1);
	assert_int_equal(memtrace_flush(10), -1);
	assert_int_equal(memtrace_trace(path, sizeof(path)), -1);
}

/* As NVTX's ranges may be ended: twice, and with a number of before. */
static void ends_without_a_begin_make_no_room(void **state)
{
	uint64_t last = 0;
	unsigned begun = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		memtrace_phase_end(memtrace_phase_begin("one"));
	for (unsigned i = 0; i < 100; i++)
		memtrace_phase_end(1);
	for (uint64_t phase; (phase = memtrace_phase_begin("many")) != 0 && begun < 10000; begun++)
		last = phase;
	assert_int_equal(begun, 4096);
	for (unsigned i = 0; i < begun; i++)
		memtrace_phase_end(last - i);
}

/* Returns the records of the file, which has one segment. */
static const struct mt_record *read_back(const char *path, size_t *count, const char **file)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct mt_header *h;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	h = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(h, MAP_FAILED);
	close(fd);
	*count = h->segment[0].used < h->segment[0].capacity ? h->segment[0].used
							     : h->segment[0].capacity;
	*file = (const char *)h;
	return (const void *)((const char *)h + h->segment[0].offset);
}

static void marks_are_events(void **state)
{
	struct recorder_setup setup = { .directory = directory,
					.name = "m.mtr",
					.budget = 1u << 20 };
	uint64_t early = memtrace_phase_begin("from before"), ended = memtrace_phase_begin("ended"),
		 phase;
	const struct mt_record *r;
	const char *file;
	char name[300], path[600];
	size_t count;

	(void)state;
	memtrace_phase_end(ended);
	assert_int_equal(recorder_open(&setup), 0);
	recorder_control()->begin = clock_read(0);
	event_begin();
	recorder_begin();
	atomic_store(&recording_state, RECORDING_ON);
	marks_begin();
	memtrace_step();
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	phase = memtrace_phase_begin(name);
	memtrace_phase_end(phase);
	memtrace_mark("moment");
	memtrace_phase_end(early);
	assert_int_equal(memtrace_trace(path, sizeof(path)), 0);
	assert_int_equal(memtrace_trace(path, 10), -1);
	recorder_close(0);
	writer_check(recorder_control());
	assert_int_equal(writer_finish(recorder_control(), 10000), 1);
	atomic_store(&recording_state, RECORDING_OFF);
	r = read_back(path, &count, &file);
	assert_int_equal(count, 6);
	assert_int_equal(r[0].kind, MT_PHASE_BEGIN);
	assert_int_equal(r[0].address, early);
	assert_int_equal(r[0].device, MT_NO_DEVICE);
	assert_int_equal(r[1].kind, MT_STEP);
	assert_int_equal(r[1].bytes, 2); /* the first was before the recording */
	assert_int_equal(r[2].kind, MT_PHASE_BEGIN);
	assert_int_equal(r[2].address, phase);
	assert_int_not_equal(r[2].stack, r[0].stack);
	assert_int_equal(r[3].kind, MT_PHASE_END);
	assert_int_equal(r[3].address, phase);
	assert_int_equal(r[4].kind, MT_MARK);
	assert_int_equal(r[5].kind, MT_PHASE_END);
	assert_int_equal(r[5].address, early);
	name[119] = 0;
	assert_ptr_not_equal(memmem(file + MT_HEADER_BYTES, 1024, name, 119), NULL);
	assert_ptr_equal(memmem(file + MT_HEADER_BYTES, 1024, "ended", 5), NULL);
}

static void begin_recording(const char *name, uint64_t budget)
{
	struct recorder_setup setup = { .directory = directory, .name = name, .budget = budget };

	assert_int_equal(recorder_open(&setup), 0);
	recorder_control()->begin = clock_read(0);
	event_begin();
	recorder_begin();
}

static void end_recording(void)
{
	recorder_close(0);
	writer_check(recorder_control());
	assert_int_equal(writer_finish(recorder_control(), 10000), 1);
	atomic_store(&recording_state, RECORDING_OFF);
}

static void *phases_without_end(void *unused)
{
	(void)unused;
	for (int after = 0; after < 50; after += recording_already()) {
		uint64_t outer = memtrace_phase_begin("outer"),
			 inner = memtrace_phase_begin("inner");

		memtrace_phase_end(inner);
		memtrace_phase_end(outer);
	}
	return NULL;
}

/* Each begin that is recorded is followed by its end, and no end stands alone. */
static void phases_while_the_recording_begins(void **state)
{
	static unsigned char open[1u << 26];
	const struct mt_record *r;
	pthread_t threads[2];
	char path[600];
	const char *file;
	size_t count;

	(void)state;
	atomic_store(&recording_state, RECORDING_IDLE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, phases_without_end, NULL), 0);
	begin_recording("begins.mtr", 1u << 20);
	atomic_store(&recording_state, RECORDING_ON);
	marks_begin();
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(memtrace_trace(path, sizeof(path)), 0);
	end_recording();
	r = read_back(path, &count, &file);
	for (size_t i = 0; i < count; i++) {
		assert_in_range(r[i].address, 1, sizeof(open) - 1);
		assert_int_equal(open[r[i].address], r[i].kind == MT_PHASE_END);
		open[r[i].address] = r[i].kind == MT_PHASE_BEGIN;
	}
	assert_null(memchr(open, 1, sizeof(open)));
}

static void endless_names_leave_room_for_stacks(void **state)
{
	char name[32];

	(void)state;
	begin_recording("names.mtr", 16u << 20);
	atomic_store(&recording_state, RECORDING_ON);
	for (int i = 0; i < 60000; i++) {
		snprintf(name, sizeof(name), "step %d", i);
		memtrace_mark(name);
	}
	assert_int_not_equal(tables_string("a function", 10), 0);
	assert_int_equal(recorder_header()->lost_stacks, 0);
	end_recording();
}

static void phases_that_never_end_are_limited(void **state)
{
	uint64_t phase, last = 0;
	int begun = 0;

	(void)state;
	while (begun < 10000 && (phase = memtrace_phase_begin("open"))) {
		last = phase;
		begun++;
	}
	assert_in_range(begun, 4000, 4096);
	memtrace_phase_end(last);
	assert_int_not_equal(memtrace_phase_begin("again"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_recorded_before),
		cmocka_unit_test(ends_without_a_begin_make_no_room),
		cmocka_unit_test(marks_are_events),
		cmocka_unit_test(phases_while_the_recording_begins),
		cmocka_unit_test(endless_names_leave_room_for_stacks),
		cmocka_unit_test(phases_that_never_end_are_limited),
	};

	if (!mkdtemp(directory))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
