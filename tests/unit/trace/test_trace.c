/* Reading damaged files: a message or a warning, never a crash. */
#include "attribution/stack_text.h"
#include "util/glob.h"
#include "trace/trace.h"

#include "replay/replay.h"
#include "write_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A file in memory, which each test writes and damages. */
struct file {
	struct writer w;
	unsigned char *at;
	size_t size;
	struct trace trace;
	struct err e;
};

static struct mt_header *header(struct file *f)
{
	return (struct mt_header *)(void *)f->at;
}

static void make(struct file *f)
{
	uint32_t stack;
	uint16_t thread;

	memset(f, 0, sizeof(*f));
	write_start(&f->w);
	write_module(&f->w, "/lib/libc10_cuda.so");
	thread = write_thread(&f->w, 100, "python");
	stack = write_stack(&f->w, 1, write_frame(&f->w, "forward", "/m/model.py", 7), 0, 0, 0);
	for (unsigned i = 0; i < 100; i++)
		write_event(&f->w, MT_TENSOR_ALLOC, 0x1000 + i * 512, 512, stack, thread);
	f->at = write_finish(&f->w, &f->size);
}

static int open_file(struct file *f)
{
	return trace_open_memory(&f->trace, f->at, f->size, &f->e);
}

static void done(struct file *f)
{
	trace_release(&f->trace);
	write_release(&f->w);
	free(f->at);
}

/* Replays the part that could be read, and returns the bytes that were live at the peak. */
static bytes peak_of(struct file *f)
{
	const struct replay_options options = { 0 };
	struct replay r;
	bytes peak;

	replay_trace(&r, &f->trace, &options);
	peak = r.device[0].peak.allocated;
	replay_release(&r);
	return peak;
}

static void assert_refused(struct file *f, const char *message)
{
	assert_int_equal(open_file(f), -1);
	if (!strstr(f->e.text, message))
		fail_msg("\"%s\" does not say \"%s\"", f->e.text, message);
	done(f);
}

static void a_valid_file_is_read(void **state)
{
	struct file f;

	(void)state;
	make(&f);
	assert_int_equal(open_file(&f), 0);
	assert_int_equal(f.trace.segment_count, 1);
	assert_int_equal(f.trace.segments[0].events.records, 100);
	assert_int_equal(f.trace.tables.stack_count, 2);
	assert_false(f.trace.truncated);
	assert_int_equal(peak_of(&f), 51200);
	done(&f);
}

static void other_files_are_refused(void **state)
{
	struct file f;

	(void)state;
	make(&f);
	f.at[0] = 'x';
	assert_refused(&f, "not a memtrace trace");
	make(&f);
	f.size = 0;
	assert_refused(&f, "holds nothing yet");
	make(&f);
	f.size = 12;
	assert_refused(&f, "ends inside its header");
	make(&f);
	f.size = MT_HEADER_BYTES - 1;
	assert_refused(&f, "ends inside its header");
	make(&f);
	header(&f)->version = 9;
	assert_refused(&f, "reads version 1, memory has version 9");
	make(&f);
	header(&f)->byte_order = 0x04030201;
	assert_refused(&f, "byte order");
	make(&f);
	header(&f)->record_bytes = 24;
	assert_refused(&f, "damaged");
	make(&f);
	header(&f)->header_bytes = 4096;
	assert_refused(&f, "damaged");
}

static void a_truncated_file_is_read_to_its_last_whole_record(void **state)
{
	struct file f;

	(void)state;
	make(&f);
	f.size -= 40 * sizeof(struct mt_record) + 5;
	assert_int_equal(open_file(&f), 0);
	assert_true(f.trace.truncated);
	assert_int_equal(f.trace.segments[0].events.records, 59);
	assert_int_equal(peak_of(&f), 59 * 512);
	done(&f);

	make(&f);
	f.size = MT_HEADER_BYTES;
	assert_int_equal(open_file(&f), 0);
	assert_true(f.trace.truncated);
	assert_int_equal(peak_of(&f), 0);
	done(&f);
}

static void missing_records_of_a_truncated_file_are_not_discarded_ones(void **state)
{
	const struct replay_options options = { 0 };
	struct replay r;
	struct file f;

	(void)state;
	make(&f);
	free(f.at);
	write_segment(&f.w, 10);
	write_event(&f.w, MT_TENSOR_ALLOC, 0x900000, 512, 0, 0);
	f.at = write_finish(&f.w, &f.size);
	header(&f)->segment[0].offset = f.size - 50 * sizeof(struct mt_record);
	header(&f)->segment[1].offset = f.size - 60 * sizeof(struct mt_record);
	assert_int_equal(open_file(&f), 0);
	assert_true(f.trace.truncated);
	replay_trace(&r, &f.trace, &options);
	assert_int_equal(r.given_up, 10);
	assert_int_equal(f.trace.segments[1].gap, 60);
	replay_release(&r);
	done(&f);
}

static void segments_outside_of_the_file_do_no_harm(void **state)
{
	static const uint64_t offsets[] = {
		0, 8, MT_HEADER_BYTES - 1, UINT64_MAX, UINT64_MAX - 31, UINT64_MAX / 2, 1u << 30
	};
	struct file f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		make(&f);
		header(&f)->segment[0].offset = offsets[i];
		header(&f)->segment[0].used = header(&f)->segment[0].capacity = UINT64_MAX;
		assert_int_equal(open_file(&f), 0);
		assert_int_equal(peak_of(&f), 0);
		assert_true(f.trace.truncated || f.trace.skipped_segments);
		done(&f);
	}
}

static void overlapping_segments_are_read_once(void **state)
{
	struct file f;

	(void)state;
	make(&f);
	header(&f)->segments = MT_MAX_SEGMENTS + 7;
	for (size_t i = 1; i < MT_MAX_SEGMENTS; i++) {
		header(&f)->segment[i] = header(&f)->segment[0];
		header(&f)->segment[i].first_sequence = i;
	}
	assert_int_equal(open_file(&f), 0);
	assert_int_equal(f.trace.segment_count, 1);
	assert_int_equal(f.trace.skipped_segments, MT_MAX_SEGMENTS - 1);
	done(&f);
}

static void used_beyond_capacity_is_clamped(void **state)
{
	struct file f;

	(void)state;
	make(&f);
	header(&f)->segment[0].used = 5000;
	assert_int_equal(open_file(&f), 0);
	assert_int_equal(f.trace.segments[0].events.records, 100);
	assert_false(f.trace.truncated);
	done(&f);
}

static void invalid_records_are_counted(void **state)
{
	const struct replay_options options = { 0 };
	struct replay r;
	struct file f;
	struct mt_record *records;

	(void)state;
	make(&f);
	records = (struct mt_record *)(void *)(f.at + header(&f)->segment[0].offset);
	records[0].kind = 0;
	records[1].kind = 200;
	records[2].bytes = -512;
	records[3].bytes = INT64_MAX;
	records[4].device = 99;
	records[5].stack = 4000000000u;
	records[6].thread = 4000;
	records[7].device = MT_NO_DEVICE;
	assert_int_equal(open_file(&f), 0);
	replay_trace(&r, &f.trace, &options);
	assert_int_equal(r.unwritten, 1);
	assert_int_equal(r.unknown_kinds, 1);
	assert_int_equal(r.damaged, 3);
	assert_int_equal(r.without_device, 1);
	assert_int_equal(r.device[0].peak.allocated, 94 * 512);
	replay_release(&r);
	done(&f);
}

static void damaged_tables_end_where_they_are_damaged(void **state)
{
	struct file f;

	(void)state;
	make(&f);
	((struct mt_entry *)(void *)(f.at + MT_HEADER_BYTES))->bytes = UINT32_MAX;
	assert_int_equal(open_file(&f), 0);
	assert_int_equal(f.trace.tables.damaged, 1);
	assert_int_equal(f.trace.tables.stack_count, 1);
	assert_int_equal(peak_of(&f), 51200);
	done(&f);

	make(&f);
	header(&f)->table[0].used = header(&f)->table[0].capacity = UINT64_MAX;
	header(&f)->table[1] = (struct mt_table){ UINT64_MAX, UINT64_MAX, UINT64_MAX };
	header(&f)->tables = UINT64_MAX;
	assert_int_equal(open_file(&f), 0);
	assert_true(f.trace.truncated);
	done(&f);
}

static void entries_refer_to_earlier_entries_only(void **state)
{
	struct mt_frame ahead = { .function = 500, .file = 1, .line = 1 };
	uint32_t cyclic[] = { 1, 1, 9 }, odd[] = { 77, 1 };
	struct buf b = { 0 };
	struct file f;

	(void)state;
	make(&f);
	free(f.at);
	write_entry(&f.w, MT_ENTRY_FRAME, &ahead, sizeof(ahead));
	write_entry(&f.w, MT_ENTRY_STACK, cyclic, sizeof(cyclic));
	write_entry(&f.w, MT_ENTRY_STACK, odd, sizeof(odd));
	write_entry(&f.w, MT_ENTRY_STACK, odd, 3);
	write_entry(&f.w, 99, "?", 1);
	write_entry(&f.w, MT_ENTRY_META, "no zero", 7);
	f.at = write_finish(&f.w, &f.size);
	assert_int_equal(open_file(&f), 0);
	assert_int_equal(f.trace.tables.damaged, 5);
	assert_int_equal(f.trace.tables.unknown, 1);
	stack_add_text(&f.trace.tables, 2, &b);
	stack_add_text(&f.trace.tables, 3, &b);
	stack_add_text(&f.trace.tables, 12345, &b);
	assert_int_equal(b.length, 0);
	stack_add_text(&f.trace.tables, 1, &b);
	assert_string_equal(b.text, "forward /m/model.py:7");
	buf_release(&b);
	done(&f);
}

/* What reads the text of a stack takes it apart at its semicolons. */
static void a_name_with_a_semicolon_is_one_frame(void **state)
{
	struct buf b = { 0 };
	struct file f;
	uint32_t stack;

	(void)state;
	make(&f);
	free(f.at);
	stack = write_stack(&f.w, 1, write_frame(&f.w, "a;b", "/m;x/y;.py", 3), 0, 0, 0);
	f.at = write_finish(&f.w, &f.size);
	assert_int_equal(open_file(&f), 0);
	stack_add_text(&f.trace.tables, stack, &b);
	assert_string_equal(b.text, "a:b /m:x/y:.py:3");
	buf_release(&b);
	done(&f);
}

/* The frames nearest to the allocation are read, and the others are counted. */
static void a_stack_is_read_to_its_4096th_frame(void **state)
{
	static const uint32_t counts[] = { 4096, 5000 };
	uint32_t words[1 + 5000] = { 1 }, ids[2];
	const struct stack *s;
	struct file f;

	(void)state;
	make(&f);
	for (uint32_t i = 0; i < 5000; i++)
		words[1 + i] = write_frame(&f.w, "f", "/m/deep.py", i);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		ids[i] = write_entry(&f.w, MT_ENTRY_STACK, words, (1 + counts[i]) * sizeof(*words));
	free(f.at);
	f.at = write_finish(&f.w, &f.size);
	assert_int_equal(open_file(&f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		s = tables_stack(&f.trace.tables, ids[i]);
		assert_int_equal(s->frame_count, 4096);
		assert_int_equal(s->left_out, counts[i] - 4096);
		assert_int_equal(tables_frame(&f.trace.tables, s->frames[0])->line, 0);
		assert_int_equal(tables_frame(&f.trace.tables, s->frames[4095])->line, 4095);
	}
	done(&f);
}

static void ids_with_holes_are_unknown(void **state)
{
	struct file f;
	struct mt_entry *last;
	size_t at;

	(void)state;
	make(&f);
	free(f.at);
	at = f.w.table_used;
	write_string(&f.w, "far");
	last = (struct mt_entry *)(void *)(f.w.table + at);
	last->id = 50;
	f.at = write_finish(&f.w, &f.size);
	assert_int_equal(open_file(&f), 0);
	assert_int_equal(f.trace.tables.string_count, 51);
	assert_int_equal(tables_string(&f.trace.tables, 20).length, 0);
	assert_non_null(tables_string(&f.trace.tables, 20).at);
	assert_int_equal(tables_string(&f.trace.tables, 50).length, 3);
	done(&f);

	make(&f);
	last = (struct mt_entry *)(void *)(f.at + MT_HEADER_BYTES);
	last->id = 4000000000u;
	assert_int_equal(open_file(&f), 0);
	assert_true(f.trace.tables.damaged > 0);
	done(&f);
}

static void patterns_match(void **state)
{
	(void)state;
	assert_true(str_matches((struct str){ "pt_autograd_0", 13 }, "pt_autograd*"));
	assert_true(
		str_matches((struct str){ "/x/torch/optim/adamw.py", 23 }, "*/torch/optim/*.py"));
	assert_false(
		str_matches((struct str){ "/x/torch/optim/adamw.pyc", 24 }, "*/torch/optim/*.py"));
	assert_true(str_matches((struct str){ "", 0 }, "*"));
	assert_false(str_matches((struct str){ "", 0 }, "a"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_valid_file_is_read),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(a_truncated_file_is_read_to_its_last_whole_record),
		cmocka_unit_test(missing_records_of_a_truncated_file_are_not_discarded_ones),
		cmocka_unit_test(segments_outside_of_the_file_do_no_harm),
		cmocka_unit_test(overlapping_segments_are_read_once),
		cmocka_unit_test(used_beyond_capacity_is_clamped),
		cmocka_unit_test(invalid_records_are_counted),
		cmocka_unit_test(damaged_tables_end_where_they_are_damaged),
		cmocka_unit_test(entries_refer_to_earlier_entries_only),
		cmocka_unit_test(a_name_with_a_semicolon_is_one_frame),
		cmocka_unit_test(a_stack_is_read_to_its_4096th_frame),
		cmocka_unit_test(ids_with_holes_are_unknown),
		cmocka_unit_test(patterns_match),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
