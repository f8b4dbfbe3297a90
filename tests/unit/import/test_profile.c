/* The trace of PyTorch's profiler as a trace. The files of tests/unit/fuzz/corpus/import were
 * written by Python: 1 with Python's stacks, 2 without, compressed. */
#include "attribution/stack_text.h"
#include "seeds.h"
#include "import/json_scan.h"
#include "import/profile_trace.h"

#include <string.h>
#include <sys/resource.h>
#include <zlib.h>

#define FOLDER "tests/unit/fuzz/corpus/import/"

struct opened {
	void *data;
	struct trace t;
	struct replay r;
};

static void begin(struct opened *o, const char *path)
{
	struct err e = { 0 };
	size_t size;

	o->data = read_seed(path, &size);
	assert_int_equal(trace_open_memory(&o->t, o->data, size, &e), 0);
	replay_trace(&o->r, &o->t, &(struct replay_options){ .keep_live = 1 });
}

static void end(struct opened *o)
{
	replay_release(&o->r);
	trace_release(&o->t);
	free(o->data);
}

/* The stack of the first allocation of so many bytes. */
static void assert_stack(const struct opened *o, bytes size, const char *text)
{
	struct mt_record r;
	struct buf b = { 0 };
	uint64_t i = 0;

	for (;; i++) {
		assert_int_equal(trace_read(&o->t, &o->t.segments[0].events, i, &r, 1), 1);
		if (r.kind == MT_TENSOR_ALLOC && r.bytes == size)
			break;
	}
	stack_add_text(&o->t.tables, r.stack, &b);
	assert_string_equal(b.length ? b.text : "", text);
	buf_release(&b);
}

/* 5000 bytes before the profile, of which an event frees 300; then 512, 1000 in the forward pass
 * and, by autograd's thread, 2000. */
static void events_are_a_trace(void **state)
{
	static const char *const files[] = { FOLDER "1", FOLDER "2" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct opened o;
		const struct device *d = &o.r.device[0];

		begin(&o, files[i]);
		assert_int_equal(d->peak.allocated, 5000 + 512 + 1000 - 300 + 2000);
		assert_int_equal(d->final.bytes, 5212);
		assert_int_equal(d->reserved_peak, 4 * MIB);
		assert_int_equal(d->failure_count, 1);
		assert_int_equal(d->failures[0].requested, INT64_C(1) << 40);
		assert_int_equal(o.r.marks.steps_seen, 2);
		end(&o);
	}
}

/* The line of a function is that from which it called the next, the innermost's the first one. */
static void python_s_stacks(void **state)
{
	struct opened o;

	(void)state;
	begin(&o, FOLDER "1");
	assert_stack(&o, 512, "<module> ./train.py:33;step ./train.py:20");
	assert_stack(&o, 1000,
		     "<module> ./train.py:33;step ./train.py:24;"
		     "_call_impl ./site-packages/torch/nn/modules/module.py:134");
	assert_stack(&o, 2000, "");
	assert_stack(&o, 4700, "(allocated before the profile) profile:0");
	assert_int_equal(o.t.header.rank, 3);
	assert_int_equal(o.t.header.world_size, 8);
	assert_int_equal(o.t.header.pid, 42);
	assert_string_equal(o.t.header.host, "node1");
	assert_int_equal(o.t.header.device[0].total_bytes, UINT64_C(80) << 30);
	assert_int_equal(o.t.header.device[0].allocated_peak, 8212);
	end(&o);
	begin(&o, FOLDER "2");
	assert_stack(&o, 2000, "autograd::engine::evaluate_function: AddmmBackward0 operator:0");
	end(&o);
}

/* An event of a block: address, time, size, and PyTorch's counter. */
#define BLOCK(address, ts, size, total)                                                \
	"{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"tid\":1," \
	"\"ts\":" #ts ",\"args\":{\"Device Type\":1,\"Device Id\":0,\"Addr\":" address \
	",\"Bytes\":" #size ",\"Total Allocated\":" #total ",\"Total Reserved\":5}}"
#define EVENT(ts, size, total) BLOCK(#ts "000", ts, size, total)
#define AT(ts, size, total) BLOCK("4096", ts, size, total)

/* PyTorch's counter shows what the events do not: here 70000 bytes of a thread that the profiler
 * does not follow. Two events that are noted out of order are no sign of it. */
static void what_the_events_lack(void **state)
{
	static const char text[] =
		"{\"traceEvents\":[" EVENT(1, 100, 100) "," EVENT(2, 20, 150) "," EVENT(
			3, 30, 130) "," EVENT(4, 50, 200) "," EVENT(5, 10,
								    70210) "," EVENT(6, 10,
										     70220) "]}";
	struct err e = { 0 };
	struct replay r;
	struct trace t;

	(void)state;
	assert_int_equal(trace_open_memory(&t, text, sizeof(text) - 1, &e), 0);
	replay_trace(&r, &t, &(struct replay_options){ .keep_live = 1 });
	assert_int_equal(r.device[0].peak.allocated, 70220);
	assert_int_equal(t.header.device[0].allocs, 7);
	replay_release(&r);
	trace_release(&t);
}

/* A name of 100 characters is cut to what the header has for it, and the next field stays. */
static void a_long_host_is_cut(void **state)
{
	char text[512], name[101];
	struct err e = { 0 };
	const struct mt_header *h;
	unsigned char *file;
	uint64_t length;

	(void)state;
	memset(name, 'x', 100);
	name[100] = '\0';
	snprintf(text, sizeof(text),
		 "{\"host_name\":\"%s\",\"traceEvents\":[" EVENT(1, 100, 100) "]}", name);
	file = profile_to_trace(text, strlen(text), &length, &e);
	assert_non_null(file);
	h = (const struct mt_header *)(const void *)file;
	name[sizeof(h->host) - 1] = '\0';
	assert_string_equal(h->host, name);
	assert_string_equal(h->job_id, "");
	assert_string_equal(h->run_id, "profile");
	free(file);
}

/* Sorts as C allows: equal elements come out in another order. */
static void sort_backwards(void *base, size_t count, size_t size,
			   int (*compare)(const void *, const void *))
{
	char *at = base, *other = xcalloc(1, size);

	for (size_t i = 1; i < count; i++)
		for (size_t k = i; k > 0; k--) {
			char *left = at + (k - 1) * size, *right = left + size;

			if (compare(left, right) < 0)
				break;
			memcpy(other, left, size);
			memcpy(left, right, size);
			memcpy(right, other, size);
		}
	free(other);
}

/* For all of the program, in place of the C library's, which happens to keep equal elements in
 * order in some versions. */
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	sort_backwards(base, count, size, compare);
}

/* An allocation and its free have equal times if they are nearer than the profile's clock tells.
 * They stay in the order of the file: no block was there before, and none is left. */
static void equal_times_stay_in_order(void **state)
{
	static const char text[] = "{\"traceEvents\":[" AT(7, 100, 100) "," AT(7, -100, 0) "," AT(
		8, 20, 20) "," AT(8, -20, 0) "]}";
	struct err e = { 0 };
	struct replay r;
	struct trace t;

	(void)state;
	assert_int_equal(trace_open_memory(&t, text, sizeof(text) - 1, &e), 0);
	replay_trace(&r, &t, &(struct replay_options){ .keep_live = 1 });
	assert_int_equal(r.device[0].peak.allocated, 100);
	assert_int_equal(r.device[0].final.bytes, 0);
	assert_int_equal(t.header.device[0].allocs, 2);
	assert_int_equal(t.header.device[0].frees, 2);
	replay_release(&r);
	trace_release(&t);
}

static void assert_refused(const char *text, size_t size, const char *why)
{
	struct err e = { 0 };
	uint64_t length;

	assert_null(profile_to_trace(text, size, &length, &e));
	if (!strstr(e.text, why))
		fail_msg("\"%s\" does not say \"%s\"", e.text, why);
}

static void what_is_no_profile_is_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "{}", "without traceEvents" },
		{ "{\"a\":1}", "without traceEvents" },
		{ "{\"traceEvents\":[]}", "no memory events of a GPU" },
		{ "{\"traceEvents\":7}", "traceEvents is no list" },
		{ "{\"traceEvents\":[{\"name\":\"[memory]\"", "the text ends at byte" },
		{ "{\"traceEvents\":[{\"name\":\"[memory]\" 7}]}", "before byte 37" },
		{ "{\"traceEvents\":[{}", "ends" },
		{ "[1]", "neither" },
		{ "\x1f\x8b\x08garbage of no use at all", "damaged gzip data" },
	};
	char *deep = xcalloc(1, 3000000);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_refused(cases[i].text, strlen(cases[i].text), cases[i].why);
	/* A value that never ends, and one that is nested without end. */
	memset(deep, '[', 3000000);
	memcpy(deep, "{\"a\":", 5);
	assert_refused(deep, 3000000, "the text ends");
	memset(deep + 1500000, ']', 1500000);
	assert_refused(deep, 3000000, "not a profiler's trace");
	free(deep);
}

/* A double has a quarter of a microsecond since 1970. */
static void times_have_all_their_digits(void **state)
{
	static const char text[] = "{\"traceEvents\":[" EVENT(
		1700000000000000.001, 100, 100) "," EVENT(1700000000000000.250, 20, 120) "]}";
	struct err e = { 0 };
	struct trace t;

	(void)state;
	assert_int_equal(trace_open_memory(&t, text, sizeof(text) - 1, &e), 0);
	assert_int_equal(t.header.start_realtime_ns, UINT64_C(1700000000000000001));
	assert_int_equal(t.header.device[0].last_time_ns, 249);
	trace_release(&t);
}

static long most_resident_kb(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss;
}

/* 15 MiB of empty objects, which nobody wants, beside the events and within one. */
static void what_is_not_read_takes_no_memory(void **state)
{
	static const char begin[] = "{\"x\":[", middle[] = "{}],\"traceEvents\":[", end[] = "]}";
	const size_t many = 5 * MIB, within = 5 * MIB;
	struct buf b = { 0 };
	struct err e = { 0 };
	unsigned char *trace;
	uint64_t length;
	long before;

	(void)state;
	buf_puts(&b, begin);
	for (size_t i = 0; i < many; i++)
		buf_add(&b, "{},", 3);
	buf_puts(&b, middle);
	buf_puts(&b, EVENT(1, 100, 100) ",{\"name\":\"a\",\"cat\":\"cpu_op\",\"x\":[");
	for (size_t i = 0; i < within; i++)
		buf_add(&b, "{},", 3);
	buf_puts(&b, "7]}");
	buf_puts(&b, end);
	before = most_resident_kb();
	trace = profile_to_trace(b.text, b.length, &length, &e);
	assert_non_null(trace);
	assert_true(most_resident_kb() - before < 100 << 10);
	free(trace);
	buf_release(&b);
}

static void deflate_all(z_stream *z, struct buf *to, const char *text, size_t size, int flush)
{
	unsigned char out[1 << 16];

	z->next_in = (unsigned char *)(uintptr_t)text;
	z->avail_in = (unsigned)size;
	do {
		z->next_out = out;
		z->avail_out = sizeof(out);
		assert_true(deflate(z, flush) != Z_STREAM_ERROR);
		buf_add(to, out, sizeof(out) - z->avail_out);
	} while (!z->avail_out);
}

/* 8 Mi ranges and one more are a megabyte of gzip. */
static void a_number_of_ranges_is_refused(void **state)
{
	static const char one[] = ",{\"name\":\"\",\"cat\":\"cpu_op\"}",
			  begin[] = "{\"traceEvents\":[" EVENT(1, 100, 100);
	struct buf part = { 0 }, all = { 0 };
	z_stream z = { 0 };

	(void)state;
	for (int i = 0; i < 1 << 14; i++)
		buf_add(&part, one, sizeof(one) - 1);
	assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	deflate_all(&z, &all, begin, sizeof(begin) - 1, Z_NO_FLUSH);
	for (int i = 0; i < 1 << 9; i++)
		deflate_all(&z, &all, part.text, part.length, Z_NO_FLUSH);
	deflate_all(&z, &all, "]}", 2, Z_FINISH);
	deflateEnd(&z);
	assert_true(all.length < 2 * MIB);
	assert_refused(all.text, all.length, "more than 8388608 ranges and events of memory");
	buf_release(&part);
	buf_release(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_a_trace),
		cmocka_unit_test(python_s_stacks),
		cmocka_unit_test(what_the_events_lack),
		cmocka_unit_test(a_long_host_is_cut),
		cmocka_unit_test(equal_times_stay_in_order),
		cmocka_unit_test(times_have_all_their_digits),
		cmocka_unit_test(what_is_not_read_takes_no_memory),
		cmocka_unit_test(a_number_of_ranges_is_refused),
		cmocka_unit_test(what_is_no_profile_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
