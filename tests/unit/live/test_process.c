/* What `top` reads of a trace on disk: ends, counters, the last event, and the trend of the tail.
 */
#include "../attribution/steps_job.h"

#include <time.h>

#include "live/folder.h"
#include "live/tail.h"

static int start_on_disk(void **state)
{
	struct fixture *f;

	if (start(state) < 0)
		return -1;
	f = *state;
	strcpy(f->directory, "/tmp/memtrace-test-XXXXXX");
	return mkdtemp(f->directory) ? 0 : -1;
}

static void read_process(struct fixture *f, struct live_process *p)
{
	char *path = xasprintf("%s/a.mtr", f->directory);

	assert_int_equal(write_save(&f->w, path), 0);
	*p = (struct live_process){ .path = path };
	live_process_read(p, 30);
}

/* A step that leaves `kept` bytes behind: 10 MiB forward, freed backward, and the optimizer's. */
static void step(struct fixture *f, bytes kept)
{
	uint64_t a = make(f, f->model, 10 * MIB);

	drop_in_backward(f, a, 10 * MIB);
	if (kept)
		make(f, f->optimizer, kept);
	drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
}

static void ends_are_told_apart(void **state)
{
	static const struct {
		uint32_t state;
		int32_t exit_status;
		uint64_t ooms, refused;
		enum live_state expected;
	} ends[] = {
		{ MT_STATE_ENDED, 0, 0, 0, LIVE_ENDED },
		{ MT_STATE_ENDED, 0, 2, 0, LIVE_ENDED },
		{ MT_STATE_ENDED, 1, 0, 0, LIVE_FAILED },
		{ MT_STATE_ENDED, 1, 1, 0, LIVE_OOM },
		{ MT_STATE_ENDED, 1, 0, 1, LIVE_OOM },
		{ MT_STATE_ENDED, -1, 0, 0, LIVE_ENDED },
		{ MT_STATE_RECORDING, -1, 0, 0, LIVE_KILLED },
		{ MT_STATE_RECORDING, -1, 1, 0, LIVE_OOM },
		{ MT_STATE_STOPPED, -1, 0, 0, LIVE_KILLED },
	};
	struct fixture *f = *state;

	gethostname(f->w.header.host, sizeof(f->w.header.host) - 1);
	f->w.header.device[0].total_bytes = GIB;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct live_process p;

		f->w.header.state = ends[i].state;
		f->w.header.exit_status = ends[i].exit_status;
		f->w.header.device[0].ooms = ends[i].ooms;
		f->w.header.device[0].refused = ends[i].refused;
		read_process(f, &p);
		assert_int_equal(p.state, ends[i].expected);
		live_process_release(&p);
	}
}

/* The lock of a job on another host is not seen: the last event tells. */
static void another_host_is_known_by_its_events(void **state)
{
	struct fixture *f = *state;
	struct live_process p;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	make(f, f->model, MIB);
	f->w.header.state = MT_STATE_RECORDING;
	f->w.header.start_realtime_ns = (uint64_t)(now.tv_sec - 10) * 1000000000u;
	read_process(f, &p);
	assert_int_equal(p.state, LIVE_RUNNING);
	assert_true(p.age_s >= 9 && p.age_s < 30);
	live_process_release(&p);
	f->w.header.start_realtime_ns = (uint64_t)(now.tv_sec - 100) * 1000000000u;
	read_process(f, &p);
	assert_int_equal(p.state, LIVE_UNKNOWN);
	assert_true(p.age_s >= 99);
	live_process_release(&p);
}

static void counters_are_the_headers(void **state)
{
	struct fixture *f = *state;
	struct live_process p;

	f->w.header.device[3] = (struct mt_device){ .total_bytes = 80,
						    .allocated = 1,
						    .allocated_peak = 2,
						    .reserved = 4,
						    .reserved_peak = 8,
						    .other = 16,
						    .untracked = 32,
						    .device_peak = 60,
						    .allocs = 7,
						    .frees = 6,
						    .ooms = 5 };
	f->w.header.device[5].allocs = 1;
	f->w.header.device[5].reserved = UINT64_MAX; /* damage */
	read_process(f, &p);
	assert_int_equal(p.device_count, 2);
	assert_int_equal(p.devices[0].ordinal, 3);
	assert_int_equal(p.devices[0].total, 80);
	assert_int_equal(p.devices[0].allocated, 1);
	assert_int_equal(live_device_bytes(&p.devices[0]), 4 + 16 + 32);
	assert_int_equal(p.devices[0].device_peak, 60);
	assert_int_equal(p.devices[1].ordinal, 5);
	assert_int_equal(p.devices[1].reserved, 0);
	live_process_release(&p);
}

/* Each of 12 steps leaves 2 MiB. The first three and the last one do not count, so 8 do. The floor
 * of step i (from 1) is 2(i - 1) MiB and its peak 10 MiB above: step 11 has 30. Of 130 MiB, 10 are
 * other memory and 10 untracked: (110 - 30) / 2 steps. */
static void growth_and_steps_until_full(void **state)
{
	struct fixture *f = *state;
	struct live_process p;
	const struct live_tail *t = &p.devices[0].tail;

	f->w.header.device[0] = (struct mt_device){ .total_bytes = 130 * MIB,
						    .other = 10 * MIB,
						    .untracked = 10 * MIB };
	for (int i = 0; i < 12; i++)
		step(f, 2 * MIB);
	read_process(f, &p);
	assert_int_equal(p.records, 12 * 5);
	assert_false(t->is_known);
	live_tail_read(&p);
	assert_true(t->is_known);
	assert_int_equal(t->trend.steps, 8);
	assert_int_equal(t->trend.growth, 2 * MIB);
	assert_int_equal(t->trend.peak, 30 * MIB);
	assert_int_equal(live_steps_until_full(&p.devices[0]), 40);
	assert_int_equal(t->step, 12);
	assert_int_equal(t->peak, 32 * MIB);
	live_process_release(&p);
}

static void a_steady_job_is_never_full(void **state)
{
	struct fixture *f = *state;
	struct live_process p;

	f->w.header.device[0].total_bytes = GIB;
	for (int i = 0; i < 20; i++)
		step(f, i ? 0 : 2 * MIB);
	read_process(f, &p);
	live_tail_read(&p);
	assert_int_equal(p.devices[0].tail.trend.growth, 0);
	assert_int_equal(live_steps_until_full(&p.devices[0]), -1);
	live_process_release(&p);
}

/* Behind enough records the trace is read from a keyframe on: levels are right, and steps have no
 * number. The first step of the tail is not complete. */
static void a_tail_begins_at_a_keyframe(void **state)
{
	struct fixture *f = *state;
	struct live_process p;
	const struct live_tail *t = &p.devices[0].tail;
	uint64_t kept = make(f, f->setup, 100 * MIB);
	size_t steps = TAIL_RECORDS / 4 + 1;

	f->w.header.device[0].total_bytes = GIB;
	step(f, 0);
	write_segment(&f->w, 0);
	write_keyframe(&f->w, MT_TENSOR_ALLOC, kept, 100 * MIB, f->setup);
	for (size_t i = 0; i < steps; i++)
		step(f, i + 20 < steps ? 0 : MIB);
	read_process(f, &p);
	live_tail_read(&p);
	assert_true(t->is_known);
	assert_int_equal(t->step, 0);
	assert_int_equal(t->peak, (100 + 19 + 10) * MIB);
	assert_true(t->trend.growth > 0);
	live_process_release(&p);
}

/* Steps that the job marks have a number behind a keyframe too. */
static void marked_steps_are_numbered_in_a_tail(void **state)
{
	struct fixture *f = *state;
	struct live_process p;
	size_t steps = TAIL_RECORDS / 4 + 1;

	f->w.header.device[0].total_bytes = GIB;
	step(f, 0);
	write_segment(&f->w, 0);
	write_keyframe(&f->w, MT_STEP, 0, 7, 0);
	for (size_t i = 0; i < steps; i++) {
		fixture_event(f, MT_STEP, 0, (int64_t)i + 8, NONE);
		step(f, 0);
	}
	read_process(f, &p);
	live_tail_read(&p);
	assert_int_equal(p.devices[0].tail.step, steps + 7);
	live_process_release(&p);
}

/* A file that is cut or changed at any place is damaged or read, and nothing else. */
static void damage_is_survived(void **state)
{
	struct fixture *f = *state;
	struct live_process p;
	unsigned char *file;
	size_t size;

	f->w.header.device[0].total_bytes = GIB;
	for (int i = 0; i < 12; i++)
		step(f, MIB);
	read_process(f, &p);
	file = write_finish(&f->w, &size);
	srand(1);
	for (int i = 0; i < 400; i++) {
		FILE *out = fopen(p.path, "wb");
		unsigned char *copy = malloc(size);
		size_t length = i % 2 ? size : (size_t)rand() % size;

		assert_non_null(copy);
		assert_non_null(out);
		memcpy(copy, file, size);
		for (int k = 0; k < 8 && i % 2; k++)
			copy[(size_t)rand() % (k % 2 ? size : 9000)] = (unsigned char)rand();
		assert_int_equal(fwrite(copy, 1, length, out), length);
		fclose(out);
		free(copy);
		p.state = LIVE_RUNNING; /* so that it is read again */
		live_process_read(&p, 30);
		assert_true((p.state == LIVE_DAMAGED) == (p.why != NULL));
		live_tail_read(&p);
	}
	free(file);
	live_process_release(&p);
}

static void a_directory_without_traces_says_what_to_do(void **state)
{
	struct fixture *f = *state;
	struct folder folder;
	struct err e = { 0 };

	assert_int_equal(folder_open(&folder, f->directory, 30, &e), -1);
	assert_non_null(strstr(e.text, "memtrace run -o"));
	folder_release(&folder);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, start_on_disk, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(ends_are_told_apart),
		TEST(another_host_is_known_by_its_events),
		TEST(counters_are_the_headers),
		TEST(growth_and_steps_until_full),
		TEST(a_steady_job_is_never_full),
		TEST(a_tail_begins_at_a_keyframe),
		TEST(marked_steps_are_numbered_in_a_tail),
		TEST(damage_is_survived),
		TEST(a_directory_without_traces_says_what_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
