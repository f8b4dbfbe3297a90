/* PyTorch's memory snapshot as a trace. The pickles of tests/unit/fuzz/corpus/trace, written by
 * Python, hold a job with a block and a segment from before the history, and an allocation that
 * failed. */
#define _GNU_SOURCE /* memmem */
#include "attribution/stack_text.h"
#include "seeds.h"
#include "import/snapshot.h"
#include "import/unpickle.h"

/*
 * Before the history: the segment of 2 MiB, the block of 500 bytes that is live at the end, and 300
 * bytes that an event frees. Then 1000 and 4000 are allocated: 5800 is the peak. A map of 2 MiB and
 * an unmap of 1 MiB follow.
 */
static void a_snapshot_is_a_trace(void **state)
{
	static const char *const files[] = { "tests/unit/fuzz/corpus/trace/4",
					     "tests/unit/fuzz/corpus/trace/5" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct replay replay;
		struct trace t;
		struct err e = { 0 };
		size_t size;
		void *pickle = read_seed(files[i], &size);
		const struct device *d = &replay.device[0];

		assert_int_equal(trace_open_memory(&t, pickle, size, &e), 0);
		replay_trace(&replay, &t, &(struct replay_options){ .keep_live = 1 });
		assert_int_equal(d->peak.allocated, 500 + 300 + 1000 + 4000);
		assert_int_equal(d->final.bytes, 500 + 1000);
		assert_int_equal(d->reserved_peak, 4 * MIB);
		assert_int_equal(d->now.reserved, 3 * MIB);
		assert_int_equal(d->failure_count, 1);
		assert_int_equal(d->failures[0].requested, INT64_C(1) << 40);
		assert_int_equal(d->failures[0].free, 77);
		assert_int_equal(t.header.start_realtime_ns, UINT64_C(1700000000000001000));
		replay_release(&replay);
		trace_release(&t);
		free(pickle);
	}
}

/* Of PyTorch 2.0: a block's stack is in its history. And of later ones: ranges that the job named,
 * of which those with a number are steps, and pinned memory: 4096 bytes are freed before 8192 are
 * allocated; 100 and 50 are from before. */
static void histories_annotations_and_the_host(void **state)
{
	struct replay replay;
	struct trace t;
	struct err e = { 0 };
	size_t size;
	void *pickle = read_seed("tests/unit/fuzz/corpus/import/5", &size);
	struct buf stacks = { 0 };

	(void)state;
	assert_int_equal(trace_open_memory(&t, pickle, size, &e), 0);
	replay_trace(&replay, &t, &(struct replay_options){ .keep_live = 1 });
	assert_int_equal(replay.marks.steps_seen, 2);
	assert_int_equal(replay.marks.phase_count, 2); /* the first one is none */
	assert_int_equal(replay.host.pinned_peak, 50 + 100 + 8192);
	assert_int_equal(replay.device[0].peak.allocated, 1000 + 400 + 512);
	for (uint32_t i = 1; i < t.tables.stack_count; i++)
		stack_add_text(&t.tables, i, &stacks);
	/* The module alone, that of history, that of all events, and the name of the phase. */
	assert_int_equal(t.tables.stack_count, 1 + 4);
	assert_non_null(strstr(stacks.text, "old /old.py:9"));
	buf_release(&stacks);
	replay_release(&replay);
	trace_release(&t);
	free(pickle);
}

static int notes_the_missing_history(const struct trace *t)
{
	const struct meta *m = tables_meta(&t->tables, MT_META_NOTE "import");

	assert_non_null(m);
	return memmem(m->value.at, m->value.length, "no history", 10) != NULL;
}

/* Devices of which the snapshot has segments only: what is live was there throughout. The first
 * file has no history at all, one block of 100 bytes less than 2 MiB. In the second one, 1000 bytes
 * are allocated on device 0 beside 2 MiB; devices 1 and 2 have 5 MiB of 8 and 16 of 16. */
static void devices_without_history(void **state)
{
	struct replay replay;
	struct trace t;
	struct err e = { 0 };
	size_t size;
	void *pickle = read_seed("tests/unit/fuzz/corpus/import/6", &size);

	(void)state;
	assert_int_equal(trace_open_memory(&t, pickle, size, &e), 0);
	replay_trace(&replay, &t, &(struct replay_options){ .keep_live = 1 });
	assert_int_equal(replay.device[0].peak.allocated, 2 * MIB - 100);
	assert_int_equal(replay.device[0].final.bytes, 2 * MIB - 100);
	assert_int_equal(replay.device[0].reserved_peak, 2 * MIB);
	assert_true(notes_the_missing_history(&t));
	replay_release(&replay);
	trace_release(&t);
	free(pickle);
	pickle = read_seed("tests/unit/fuzz/corpus/import/7", &size);
	assert_int_equal(trace_open_memory(&t, pickle, size, &e), 0);
	replay_trace(&replay, &t, &(struct replay_options){ .keep_live = 1 });
	assert_int_equal(replay.device[0].peak.allocated, 2 * MIB + 1000);
	assert_int_equal(replay.device[1].peak.allocated, 5 * MIB);
	assert_int_equal(replay.device[1].reserved_peak, 8 * MIB);
	assert_int_equal(replay.device[2].final.bytes, 16 * MIB);
	assert_int_equal(replay.device[3].reserved_peak, 0);
	assert_false(notes_the_missing_history(&t));
	replay_release(&replay);
	trace_release(&t);
	free(pickle);
}

/*
 * The history of expandable segments begins in the middle: 8 MiB at 1 GiB are mapped, of which it
 * unmaps 2 MiB. 8 MiB behind them are mapped, then 6 MiB unmapped that are of both: 14 MiB is the
 * peak. The second device has an event of no memory only.
 */
static void parts_of_maps_are_unmapped(void **state)
{
	const uint64_t at = UINT64_C(1) << 30;
	const struct mt_record *r;
	struct replay replay;
	struct trace t;
	struct err e = { 0 };
	size_t size;
	void *pickle = read_seed("tests/unit/fuzz/corpus/import/10", &size);
	int64_t mapped = 0, at_the_end = 0;
	struct mt_record records[64];
	size_t count;

	(void)state;
	assert_int_equal(trace_open_memory(&t, pickle, size, &e), 0);
	replay_trace(&replay, &t, &(struct replay_options){ 0 });
	assert_int_equal(replay.device[0].reserved_peak, 14 * MIB);
	assert_int_equal(replay.device[0].now.reserved, 8 * MIB);
	assert_false(replay.device[1].seen);
	count = trace_read(&t, &t.segments[0].events, 0, records, ARRAY_SIZE(records));
	for (r = records; r < records + count; r++) {
		mapped += r->kind == MT_MAP || r->kind == MT_UNMAP ? r->bytes : 0;
		at_the_end += r->address == at + (uint64_t)(12 * MIB) ? r->bytes : 0;
	}
	assert_int_equal(mapped, 8 * MIB);
	assert_int_equal(at_the_end, 4 * MIB);
	assert_non_null(tables_meta(&t.tables, MT_META_PEAK_OF "0"));
	replay_release(&replay);
	trace_release(&t);
	free(pickle);
}

/* What stands `count` times in a list, by its number in the memo: 2 bytes each. */
static void again(struct buf *b, char number, size_t count)
{
	char code[2] = { 'h', number };

	for (size_t i = 0; i < count; i++)
		buf_add(b, code, sizeof(code));
}

static void put(struct buf *b, const char *key)
{
	unsigned char head[2] = { 0x8c, (unsigned char)strlen(key) };

	buf_add(b, head, sizeof(head));
	buf_puts(b, key);
}

/* A file may name one object in many places: it is read once, however large it is. Here 20000
 * events share a stack of 20000 frames, and 20000 segments a list of 20000 blocks. */
static void what_is_shared_is_read_once(void **state)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	uint64_t length = 0;
	unsigned char *trace;
	size_t many = 20000;

	(void)state;
	buf_puts(&b, "\x80\x04}(");
	put(&b, "device_traces");
	buf_puts(&b, "](](}(");
	put(&b, "action");
	put(&b, "alloc");
	put(&b, "addr");
	buf_puts(&b, "K\x10");
	put(&b, "size");
	buf_puts(&b, "K\x10");
	put(&b, "frames");
	buf_puts(&b, "](}(");
	put(&b, "filename");
	put(&b, "a.py");
	buf_puts(&b, "u\x94");
	again(&b, 0, many);
	buf_puts(&b, "eu\x94");
	again(&b, 1, many);
	buf_puts(&b, "ee");
	put(&b, "segments");
	buf_puts(&b, "](}(");
	put(&b, "total_size");
	buf_puts(&b, "K\x10");
	put(&b, "blocks");
	buf_puts(&b, "](}(");
	put(&b, "size");
	buf_puts(&b, "K\x10u\x94");
	again(&b, 2, many);
	buf_puts(&b, "eu\x94");
	again(&b, 3, many);
	buf_puts(&b, "eu.");
	alarm(20);
	trace = snapshot_to_trace(b.text, b.length, &length, &e);
	alarm(0);
	assert_non_null(trace);
	free(trace);
	buf_release(&b);
}

/* 1000 frames have the same file, of 200 bytes, which the snapshot holds once. */
static void a_shared_text_is_kept_once(void **state)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	uint64_t length = 0;
	unsigned char *trace;
	char file[201];

	(void)state;
	memset(file, 'x', 200);
	memcpy(file + 197, ".py", 4);
	buf_puts(&b, "\x80\x04}(");
	put(&b, "device_traces");
	buf_puts(&b, "](](}(");
	put(&b, "action");
	put(&b, "alloc");
	put(&b, "size");
	buf_puts(&b, "K\x10");
	put(&b, "frames");
	buf_puts(&b, "](}(");
	put(&b, "filename");
	put(&b, file);
	buf_puts(&b, "\x94u");
	for (int i = 0; i < 1000; i++) {
		buf_puts(&b, "}(");
		put(&b, "filename");
		again(&b, 0, 1);
		buf_puts(&b, "u");
	}
	buf_puts(&b, "euee");
	put(&b, "segments");
	buf_puts(&b, "]u.");
	trace = snapshot_to_trace(b.text, b.length, &length, &e);
	assert_non_null(trace);
	assert_true(length < MT_HEADER_BYTES + 1000 * 200);
	free(trace);
	buf_release(&b);
}

/* Without any stack nothing says which thread allocated: it is not all of the backward pass. */
static void without_stacks_no_thread_is_known(void **state)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	struct replay replay;
	struct trace t;

	(void)state;
	buf_puts(&b, "\x80\x04}(");
	put(&b, "device_traces");
	buf_puts(&b, "](](}(");
	put(&b, "action");
	put(&b, "alloc");
	put(&b, "size");
	buf_puts(&b, "K\x10");
	put(&b, "frames");
	buf_puts(&b, "]uee");
	put(&b, "segments");
	buf_puts(&b, "]u.");
	assert_int_equal(trace_open_memory(&t, b.text, b.length, &e), 0);
	replay_trace(&replay, &t, &(struct replay_options){ 0 });
	assert_int_equal(replay.device[0].peak.allocated, 16);
	assert_int_equal(replay.device[0].peak.thread, 1);
	replay_release(&replay);
	trace_release(&t);
	buf_release(&b);
}

static void refused(const void *pickle, size_t size, const char *why)
{
	struct pickle_data p;
	struct err e = { 0 };

	assert_int_equal(unpickle(&p, pickle, size, &e), -1);
	if (!strstr(e.text, why))
		fail_msg("%s, not %s", e.text, why);
	pickle_data_release(&p);
}

/* os.system("x") as pickle.dumps() writes it, and damaged data. */
static void nothing_is_evaluated(void **state)
{
	(void)state;
	refused("\x80\x02"
		"cposix\nsystem\nq\x00X\x01\x00\x00\x00xq\x01\x85q\x02Rq\x03.",
		36, "GLOBAL at byte 2");
	refused("\x80\x04\x8c\x05posix\x8c\x06system\x93.", 19, "STACK_GLOBAL");
	refused("\x80\x04K\x01R.", 6, "REDUCE");
	refused("\x80\x04}b.", 5, "BUILD");
	refused("\x80\x04(K\x01", 5, "the file ends");
	refused("\x80\x04u.", 4, "no mark");
	refused("\x80\x04h\x05.", 5, "unknown memo number");
	refused("\x80\x04X\xff\xff\xff\x7f.", 8, "a text beyond the end");
	refused("\x80\x04K\x01(K\x02u.", 9, "items without their container");
	refused("\x80\x04(.", 4, "no single value");
	refused("\x80\x04\x8a\x0a"
		"0123456789.",
		15, "more than 64 bits");
}

/* Lists without end are refused before their memory is many times the file's; at most 1 in 8 bytes,
 * and 65,536 in a small file. */
static void containers_are_few_for_the_size(void **state)
{
	struct pickle_data p;
	struct err e = { 0 };
	size_t size = 3000000;
	char *lists = malloc(size + 1);

	(void)state;
	assert_non_null(lists);
	memset(lists, ']', size);
	memcpy(lists, "\x80\x04(", 3);
	/* The first one too many is at byte 3 + 65,536 + 3,000,000 / 8. */
	refused(lists, size, "too many containers for its size at byte 440540");
	/* The same number in a text of their own size is read to the end of the file. */
	memset(lists + 440539, 'N', size - 440539);
	refused(lists, size, "the file ends at byte 3000000");
	/* A small file is read. */
	memcpy(lists + 3 + 65536, "e.", 2);
	lists[2] = ']';
	lists[3] = '(';
	assert_int_equal(unpickle(&p, lists, 3 + 65536 + 2, &e), 0);
	assert_int_equal(p.root.items->count, 65535);
	pickle_data_release(&p);
	free(lists);
}

static void another_pickle_is_refused(void **state)
{
	uint64_t size;
	struct err e = { 0 };

	(void)state;
	assert_null(snapshot_to_trace("\x80\x04]\x94K\x01"
				      "a.",
				      8, &size, &e));
	assert_non_null(strstr(e.text, "no segments"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_is_a_trace),
		cmocka_unit_test(histories_annotations_and_the_host),
		cmocka_unit_test(devices_without_history),
		cmocka_unit_test(parts_of_maps_are_unmapped),
		cmocka_unit_test(what_is_shared_is_read_once),
		cmocka_unit_test(a_shared_text_is_kept_once),
		cmocka_unit_test(without_stacks_no_thread_is_known),
		cmocka_unit_test(nothing_is_evaluated),
		cmocka_unit_test(containers_are_few_for_the_size),
		cmocka_unit_test(another_pickle_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
