/* The counter of the device in Perfetto's format has each level that a bin of its curve knows. */
#include "export/perfetto.pb-c.h"
#include "export_job.h"

#define BIN_NS 65536 /* of a short trace */
#define MOST 64

struct level {
	uint64_t bin;
	int64_t mib;
};

static Perfetto__Trace *exported(struct fixture *f)
{
	static unsigned char text[1 << 16];
	size_t size = export_process(f, "perfetto", MOMENT_OF_FORMAT, text, sizeof(text));

	return perfetto__trace__unpack(NULL, size, text);
}

/* The counters of the track "device". */
static size_t levels_of(const Perfetto__Trace *t, struct level *levels)
{
	uint64_t track = 0, last = 0;
	size_t count = 0;

	for (size_t i = 0; i < t->n_packet; i++) {
		const Perfetto__TracePacket *p = t->packet[i];
		const Perfetto__TrackDescriptor *d = p->track_descriptor;

		if (d && d->counter && !strcmp(d->name, "device"))
			track = d->uuid;
		if (!p->track_event || p->track_event->track_uuid != track)
			continue;
		assert_true(p->timestamp > last);
		assert_in_range(count, 0, MOST - 1);
		last = p->timestamp;
		levels[count].bin = (last - 1700000000000000000u) / BIN_NS;
		levels[count++].mib = p->track_event->counter_value / MIB;
	}
	return count;
}

static void at(struct fixture *f, uint64_t ns, int kind, uint64_t address, bytes mib)
{
	struct written_segment *s = f->w.segments;

	fixture_event(f, kind, address, mib * MIB, f->program);
	s->events[s->event_count - 1].time_ns = ns;
}

/* A dip and a spike that are over within their bin, a rise and a drop that last, both in one bin,
 * whose order is not known, and a drop that is partly made up for. A level that stays has no point.
 */
static void a_bin_loses_no_extreme(void **state)
{
	static const struct level expected[] = { { 0, 0 },   { 0, 100 },  { 3, 0 },   { 3, 100 },
						 { 6, 600 }, { 6, 100 },  { 9, 150 }, { 12, 100 },
						 { 15, 0 },  { 15, 300 }, { 15, 50 }, { 18, 0 },
						 { 18, 20 } };
	struct fixture *f = *state;
	struct level levels[MOST];
	Perfetto__Trace *t;
	size_t count;

	f->program = fixture_stack(f, "/job/program");
	at(f, 10000, MT_DEVICE_ALLOC, 0x1000, 100);
	at(f, 3 * BIN_NS + 100, MT_DEVICE_FREE, 0x1000, -100);
	at(f, 3 * BIN_NS + 200, MT_DEVICE_ALLOC, 0x1000, 100);
	at(f, 6 * BIN_NS + 100, MT_DEVICE_ALLOC, 0x2000, 500);
	at(f, 6 * BIN_NS + 200, MT_DEVICE_FREE, 0x2000, -500);
	at(f, 9 * BIN_NS + 100, MT_DEVICE_ALLOC, 0x3000, 50);
	at(f, 12 * BIN_NS + 100, MT_DEVICE_FREE, 0x3000, -50);
	at(f, 15 * BIN_NS + 100, MT_DEVICE_ALLOC, 0x3000, 200);
	at(f, 15 * BIN_NS + 200, MT_DEVICE_FREE, 0x3000, -200);
	at(f, 15 * BIN_NS + 300, MT_DEVICE_FREE, 0x1000, -100);
	at(f, 15 * BIN_NS + 400, MT_DEVICE_ALLOC, 0x1000, 50);
	at(f, 18 * BIN_NS + 100, MT_DEVICE_FREE, 0x1000, -50);
	at(f, 18 * BIN_NS + 200, MT_DEVICE_ALLOC, 0x1000, 20);
	t = exported(f);
	assert_non_null(t);
	count = levels_of(t, levels);
	for (size_t i = 0; i < count && i < ARRAY_SIZE(expected); i++) {
		assert_int_equal(levels[i].mib, expected[i].mib);
		assert_int_equal(levels[i].bin, expected[i].bin);
	}
	assert_int_equal(count, ARRAY_SIZE(expected));
	perfetto__trace__free_unpacked(t, NULL);
}

static const struct {
	const char *track, *name;
	Perfetto__TrackEvent__Type type;
} said[] = {
	{ "named phases", "outer", PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN },
	{ "named phases", "inner", PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN },
	{ "moments", "model ready", PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT },
	{ "named phases", NULL, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END },
	{ "named phases", NULL, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END },
};

static const char *name_of(const Perfetto__Trace *t, uint64_t track)
{
	for (size_t i = 0; i < t->n_packet; i++) {
		const Perfetto__TrackDescriptor *d = t->packet[i]->track_descriptor;

		if (d && d->uuid == track && d->name)
			return d->name;
	}
	return "";
}

static void mark(struct fixture *f, int kind, uint64_t address, const char *name)
{
	uint32_t stack =
		name ? write_stack(&f->w, 0, write_frame(&f->w, name, "", 0), 0, 0, 0) : NONE;

	write_event_on(&f->w, MT_NO_DEVICE, kind, address, 0, stack, f->python);
}

/* "inner" ends behind "outer": each has a track of its own. "outer" is open at the end. */
static void what_the_job_names(void **state)
{
	struct fixture *f = *state;
	Perfetto__Trace *t;
	uint64_t begun[2] = { 0 }, ended[2] = { 0 };
	size_t count = 0, begins = 0, ends = 0;

	mark(f, MT_PHASE_BEGIN, 1, "outer");
	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, MIB, f->pytorch);
	mark(f, MT_PHASE_BEGIN, 2, "inner");
	mark(f, MT_MARK, 0, "model ready");
	mark(f, MT_PHASE_END, 7, NULL);
	mark(f, MT_PHASE_END, 2, NULL);
	t = exported(f);
	assert_non_null(t);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Perfetto__TrackEvent *e = t->packet[i]->track_event;
		const char *track = e ? name_of(t, e->track_uuid) : "";

		if (strcmp(track, "named phases") && strcmp(track, "moments"))
			continue;
		assert_in_range(count, 0, ARRAY_SIZE(said) - 1);
		assert_string_equal(track, said[count].track);
		assert_int_equal(e->type, said[count].type);
		if (said[count].name)
			assert_string_equal(e->name, said[count].name);
		if (e->type == PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN)
			begun[begins++] = e->track_uuid;
		if (e->type == PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END)
			ended[ends++] = e->track_uuid;
		count++;
	}
	assert_int_equal(count, ARRAY_SIZE(said));
	assert_int_not_equal(begun[0], begun[1]);
	assert_int_equal(ended[0], begun[1]);
	assert_int_equal(ended[1], begun[0]);
	perfetto__trace__free_unpacked(t, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_bin_loses_no_extreme, fixture_setup_directory,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(what_the_job_names, fixture_setup_directory,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
