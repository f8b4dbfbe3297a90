/* What a job says of itself: named phases and moments, marked steps. */
#include "replay_job.h"

#include <string.h>

#include "replay/marks.h"

static uint32_t named(struct fixture *f, const char *name)
{
	return write_stack(&f->w, 0, write_frame(&f->w, name, "", 0), 0, 0, 0);
}

static void mark(struct fixture *f, int kind, uint64_t address, bytes n, const char *name)
{
	write_event_on(&f->w, MT_NO_DEVICE, kind, address, n, name ? named(f, name) : NONE,
		       f->python);
}

static void begin(struct fixture *f, uint64_t id, const char *name)
{
	mark(f, MT_PHASE_BEGIN, id, 0, name);
}

static void end(struct fixture *f, uint64_t id)
{
	mark(f, MT_PHASE_END, id, 0, NULL);
}

static const struct named_phase *phase(const struct fixture *f, const char *name)
{
	const struct marks *m = &f->replay.marks;

	for (size_t i = 1; i < m->phase_count; i++) {
		struct str s = tables_string(&f->trace.tables, m->phases[i].name);

		if (s.length == strlen(name) && !memcmp(s.at, name, s.length))
			return &m->phases[i];
	}
	fail_msg("no phase %s", name);
	return NULL;
}

static void a_phase_has_the_peak_while_it_is_open(void **state)
{
	struct fixture *f = *state;

	forward(f, 0x1000, 100);
	begin(f, 1, "outer");
	forward(f, 0x2000, 50);
	begin(f, 2, "inner");
	forward(f, 0x3000, 500);
	release(f, 0x3000, 500);
	end(f, 2);
	forward(f, 0x4000, 20);
	end(f, 1);
	begin(f, 3, "later");
	end(f, 3);
	forward(f, 0x5000, 4000);
	run(f);
	assert_int_equal(f->replay.marks.phase_count, 4); /* with the job itself */
	assert_int_equal(phase(f, "outer")->peak[0], 650);
	assert_int_equal(phase(f, "inner")->peak[0], 650);
	assert_int_equal(phase(f, "inner")->parent, 1);
	assert_int_equal(phase(f, "later")->peak[0], 170);
	assert_int_equal(f->replay.device[0].peak.named_phase, 0);
}

/* Two threads; an end that nothing began; a begin that is there twice. */
/* In "first" 100 are live when 7 more are refused, then 300; in "second" 400 are refused, and 60
 * are live at most. Between them 9 are refused. */
static void write_failing_phases(struct fixture *f)
{
	begin(f, 1, "first");
	forward(f, 0x1000, 100);
	write_event(&f->w, MT_TENSOR_OOM, 0, 7, f->model, f->python);
	forward(f, 0x2000, 200);
	release(f, 0x2000, 200);
	release(f, 0x1000, 100);
	end(f, 1);
	write_event(&f->w, MT_TENSOR_OOM, 0, 9, f->model, f->python);
	begin(f, 2, "second");
	forward(f, 0x3000, 60);
	write_event(&f->w, MT_TENSOR_OOM, 0, 400, f->model, f->python);
	end(f, 2);
	begin(f, 3, "third");
	end(f, 3);
}

static void assert_failures(struct fixture *f, const char *phase, bytes peak, size_t count,
			    bytes requested)
{
	const struct device *d = &f->replay.device[0];

	f->phase = phase;
	run(f);
	assert_int_equal(d->peak.allocated, peak);
	assert_int_equal(d->failure_count, count);
	assert_int_equal(d->failures_seen, count);
	if (count)
		assert_int_equal(d->failures[count - 1].requested, requested);
	/* How the job ended is asked of all of it. */
	assert_true(d->ran_out);
}

static void of_all_phases_are_the_failures(void **state)
{
	write_failing_phases(*state);
	assert_failures(*state, NULL, 300, 3, 400);
}

static void failures_are_those_of_the_phase(void **state)
{
	write_failing_phases(*state);
	assert_failures(*state, "first", 300, 1, 7);
}

static void failures_of_a_later_phase(void **state)
{
	write_failing_phases(*state);
	assert_failures(*state, "second", 60, 1, 400);
}

static void a_phase_without_a_failure_has_none(void **state)
{
	write_failing_phases(*state);
	assert_failures(*state, "third", 60, 0, 0);
}

static void phases_may_overlap(void **state)
{
	struct fixture *f = *state;

	begin(f, 1, "one");
	begin(f, 2, "two");
	begin(f, 2, "two");
	end(f, 1);
	forward(f, 0x1000, 100);
	end(f, 2);
	end(f, 2);
	end(f, 9);
	forward(f, 0x2000, 100);
	run(f);
	assert_int_equal(phase(f, "one")->peak[0], 0);
	assert_int_equal(phase(f, "two")->peak[0], 100);
	assert_int_equal(phase(f, "two")->times, 1);
	assert_int_equal(f->replay.frees_unknown, 2);
}

static void a_keyframe_has_the_open_phases(void **state)
{
	struct fixture *f = *state;

	begin(f, 1, "before");
	forward(f, 0x1000, 900);
	write_segment(&f->w, 1000);
	write_keyframe(&f->w, MT_PHASE_BEGIN, 9, 0, named(f, "inner"));
	write_keyframe(&f->w, MT_TENSOR_ALLOC, 0x2000, 300, f->model);
	write_keyframe(&f->w, MT_PHASE_BEGIN, 5, 0, named(f, "outer"));
	write_keyframe(&f->w, MT_STEP, 0, 7, NONE);
	forward(f, 0x3000, 100);
	end(f, 9);
	run(f);
	assert_int_equal(phase(f, "before")->peak[0], 900);
	assert_int_equal(phase(f, "outer")->peak[0], 400);
	assert_int_equal(phase(f, "outer")->parent, 0);
	assert_int_equal(phase(f, "inner")->peak[0], 400);
	assert_int_equal(f->replay.marks.phases[phase(f, "inner")->parent].name,
			 phase(f, "outer")->name);
	/* The gap hides no marked step; the model was called before the first mark. */
	assert_int_equal(f->replay.device[0].now.step, 8);
}

/* Behind a gap a phase goes on: it has begun once. The keyframe has no order, and many records. */
static void a_phase_over_gaps_begins_once(void **state)
{
	struct fixture *f = *state;
	uint32_t outer = named(f, "outer"), inner = named(f, "inner"), later = named(f, "later");

	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_BEGIN, 1, 0, outer, f->python);
	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_BEGIN, 2, 0, inner, f->python);
	for (unsigned gap = 0; gap < 3; gap++) {
		write_segment(&f->w, 1000 * (gap + 1));
		write_keyframe(&f->w, MT_PHASE_BEGIN, 2, 0, inner);
		for (uint64_t i = 0; i < 9000; i++)
			write_keyframe(&f->w, MT_TENSOR_ALLOC, 0x10000 + 512 * i, 512, f->model);
		write_keyframe(&f->w, MT_PHASE_BEGIN, 1, 0, outer);
		write_keyframe(&f->w, MT_PHASE_BEGIN, 7, 0, later);
		forward(f, 0x1000, 100);
		end(f, 7);
	}
	run(f);
	assert_int_equal(f->replay.marks.phase_count, 4);
	assert_int_equal(phase(f, "outer")->times, 1);
	assert_int_equal(phase(f, "inner")->times, 1);
	assert_int_equal(phase(f, "later")->times, 3);
	assert_int_equal(f->replay.marks.phases[phase(f, "inner")->parent].name,
			 phase(f, "outer")->name);
}

/* "inner" began within "outer", which ended before the gap: behind it, "inner" is within none. */
static void a_phase_may_outlive_the_one_around_it(void **state)
{
	struct fixture *f = *state;
	uint32_t outer = named(f, "outer"), inner = named(f, "inner");
	const struct marks *m = &f->replay.marks;

	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_BEGIN, 1, 0, outer, f->python);
	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_BEGIN, 2, 0, inner, f->python);
	end(f, 1);
	forward(f, 0x1000, 100);
	write_segment(&f->w, 1000);
	write_keyframe(&f->w, MT_PHASE_BEGIN, 2, 0, inner);
	forward(f, 0x2000, 300);
	run(f);
	assert_int_equal(m->phase_count, 4);
	for (size_t i = 1; i < m->phase_count; i++)
		assert_int_equal(m->phases[i].times, 1);
	assert_int_equal(m->phases[3].parent, 0);
	assert_int_equal(m->phases[3].peak[0], 300);
}

static void moments_have_levels(void **state)
{
	struct fixture *f = *state;
	const struct named_moment *m;

	forward(f, 0x1000, 900);
	release(f, 0x1000, 900);
	forward(f, 0x2000, 10);
	mark(f, MT_MARK, 0, 0, "first");
	forward(f, 0x3000, 30);
	mark(f, MT_MARK, 0, 0, "second");
	run(f);
	m = f->replay.marks.moments;
	assert_int_equal(f->replay.marks.moment_count, 2);
	assert_int_equal(m[0].allocated[0], 10);
	assert_int_equal(m[0].peak[0], 900);
	assert_int_equal(m[1].allocated[0], 40);
	assert_int_equal(m[1].peak[0], 40);
}

/* More names than are kept: those behind count as the phase around them. */
static void names_are_bounded(void **state)
{
	struct fixture *f = *state;
	char name[32];

	begin(f, 1, "outer");
	for (uint64_t i = 0; i < MAX_NAMED_PHASES + 10; i++) {
		snprintf(name, sizeof(name), "phase %llu", (unsigned long long)i);
		begin(f, 2 + i, name);
		end(f, 2 + i);
	}
	forward(f, 0x1000, 10);
	run(f);
	assert_int_equal(f->replay.marks.phase_count, MAX_NAMED_PHASES);
	assert_int_equal(f->replay.marks.left_out, 12);
	assert_int_equal(phase(f, "outer")->times, 1);
	assert_int_equal(phase(f, "outer")->peak[0], 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_phase_has_the_peak_while_it_is_open),
		TEST(of_all_phases_are_the_failures),
		TEST(failures_are_those_of_the_phase),
		TEST(failures_of_a_later_phase),
		TEST(a_phase_without_a_failure_has_none),
		TEST(phases_may_overlap),
		TEST(a_keyframe_has_the_open_phases),
		TEST(a_phase_over_gaps_begins_once),
		TEST(a_phase_may_outlive_the_one_around_it),
		TEST(moments_have_levels),
		TEST(names_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
