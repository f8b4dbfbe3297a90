/* What is said about a job: text, JSON. */
#include "report_job.h"

#include "json/report_json.h"
#include "render/report_text.h"

#include <jansson.h>

static void a_death_is_told_on_the_first_screen(void **state)
{
	struct style style = { .width = 200, .top = 10, .unicode = 1 };
	struct fixture *f = *state;

	write_death(f);
	add(f, save(f, "a"), 0);
	report_text(&f->report, &style, &f->out);
	assert_says(
		f,
		"OUT OF MEMORY  rank 1 of 2  step 2, forward      asked 288.0 MiB, free 512.0 MiB, "
		"largest cached free block 1.0 GiB\n"
		"breakdown   15.5 GiB = gradients 3.0 + activations 7.0 + temporaries 4.0 + cached and free 1.0 + CUDA context 0.5\n"
		"request     CausalSelfAttention.forward  model.py:52\n"
		"top         7.0 GiB  7 \xc3\x97 1.0 GiB  CausalSelfAttention.forward  model.py:52\n");
	assert_says(f, "rank 1 of 2  host ");
	assert_says(f, "gpu         0: NVIDIA H100 80GB HBM3, 16.0 GiB\n");
	assert_says(f, "command     python train.py --name 'it'\\''s'\n");
	assert_says(f, "ended       out of memory, status 1, ");
	assert_says(
		f,
		"peak        14.0 GiB in tensors at 0.01 s, step 1, backward, thread pt_autograd_0; PyTorch held up to 15.0 GiB, "
		"the device up to 15.5 GiB\n");
	assert_says(
		f,
		"tensors 14.0 GiB  \xe2\x96\x93 cached and fragmented 1.0  \xe2\x96\x91 outside PyTorch 0.5  \xc2\xb7 free 0.5\n");
	assert_says(
		f,
		"       4.0 GiB  29 %  1 \xc3\x97 4.0 GiB     temporaries       l?oss\xef\xbf\xbd  train.py:12\n");
	assert_says(
		f,
		"       3.0 GiB  21 %  2 blocks        gradients         (no Python stack, thread pt_autograd_0)\n");
	assert_null(strstr(f->out.text, "simulated"));
	assert_null(strchr(f->out.text, '\033'));
}

static void assert_first(struct fixture *f,
			 void (*say)(const struct report *, const struct style *, struct buf *),
			 const char *wanted)
{
	struct style style = { .width = 100, .top = 10, .unicode = 1 };
	struct buf said = { 0 };

	say(&f->report, &style, &said);
	if (strncmp(said.text, wanted, strlen(wanted)))
		fail_msg("not \"%s\":\n%s", wanted, said.text);
	buf_release(&said);
}

static void a_page_has_the_failure_as_its_headline(void **state)
{
	struct fixture *f = *state;

	write_death(f);
	add(f, save(f, "a"), 0);
	assert_first(f, report_headline, "OUT OF MEMORY, rank 1 of 2, step 2, forward");
	assert_first(f, report_answer,
		     "OUT OF MEMORY  rank 1 of 2  step 2, forward\n"
		     "            asked 288.0 MiB, free 512.0 MiB, largest cached free block 1.0 "
		     "GiB\nbreakdown   15.5 GiB = ");
}

static void narrow_and_ascii_fit(void **state)
{
	struct style style = { .width = 60, .top = 1 };
	struct fixture *f = *state;

	f->w.header.flags = MT_FLAG_SIMULATED;
	write_death(f);
	add(f, save(f, "a"), 0);
	report_text(&f->report, &style, &f->out);
	for (const char *line = f->out.text; *line; line += strcspn(line, "\n") + 1)
		if (strcspn(line, "\n") > 60 && strncmp(line, "next", 4))
			fail_msg("too long: %.*s", (int)strcspn(line, "\n"), line);
	for (const char *c = f->out.text; *c; c++)
		assert_in_range(*c, 1, 127);
	assert_says(f, "# tensors 14.0 GiB  = cached and fragmented");
	assert_says(f, "simulated:");
	assert_says(f, "OUT OF MEMORY  rank 1 of 2  step 2, forward  simulated\n");
	assert_says(f, "2 more stacks");
	assert_says(f, "next        memtrace report --top 3 ");
}

static void bytes_and_colour_are_options(void **state)
{
	struct style style = { .width = 200, .top = 10, .raw_bytes = 1, .color = 1 };
	struct fixture *f = *state;

	write_death(f);
	add(f, save(f, "a"), 0);
	report_text(&f->report, &style, &f->out);
	assert_says(f, "\033[1;31mOUT OF MEMORY\033[0m");
	assert_says(f, "asked 301989888 bytes, free 536870912 bytes");
	assert_says(
		f,
		"16642998272 bytes = gradients 3221225472 + activations 7516192768 + temporaries 4294967296 + cached and free 1073741824 + CUDA context 536870912\n");
}

static void many_ranks_are_a_table_and_the_worst(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct fixture *f = *state;

	write_event(&f->w, MT_TENSOR_ALLOC, GIB, GIB, f->loss, f->python);
	add(f, save(f, "a"), 0);
	write_death(f);
	add(f, save(f, "b"), 0);
	report_text(&f->report, &style, &f->out);
	assert_says(f, "OUT OF MEMORY  rank 1 of 2");
	assert_says(f, "rank  host");
	assert_says(f, "  oom    15.0 GiB  15.0 GiB  15.5 GiB     1\n");
	assert_says(f, "  exit    1.0 GiB       0 B       0 B     1\n");
}

static void others_that_died_are_named(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct fixture *f = *state;

	write_death(f);
	add(f, save(f, "a"), 0);
	f->w.header.rank = 3;
	add(f, save(f, "b"), 0);
	report_text(&f->report, &style, &f->out);
	assert_says(f, "also out of memory: rank 3\n");
	f->w.header.rank = 5;
	add(f, save(f, "c"), 0);
	buf_release(&f->out);
	report_text(&f->report, &style, &f->out);
	assert_says(f, "also out of memory: ranks 3, 5\n");
	f->w.header.rank = -1;
	add(f, save(f, "d"), 0);
	buf_release(&f->out);
	report_text(&f->report, &style, &f->out);
	assert_says(f, "OUT OF MEMORY  process 100");
	assert_says(f, "also out of memory: ranks 1, 3, 5\n");
}

static void more_is_proposed_only_where_there_is_more(void **state)
{
	struct style style = { .width = 100, .top = 3 };
	struct fixture *f = *state;

	write_death(f);
	add(f, save(f, "a"), 0);
	report_text(&f->report, &style, &f->out);
	assert_null(strstr(f->out.text, "--top"));
}

static const json_t *at(const json_t *f, const char *key)
{
	const json_t *found = json_object_get(f, key);

	if (!found)
		fail_msg("no key \"%s\"", key);
	return found;
}

static long long number(const json_t *f, const char *key)
{
	const json_t *n = at(f, key);

	if (!json_is_integer(n))
		fail_msg("\"%s\" is no integer", key);
	return json_integer_value(n);
}

static const char *const rank_keys[] = {
	"rank",
	"device",
	"host",
	"pid",
	"simulated",
	"end",
	"events",
	"gpu",
	"device_memory_bytes",
	"peak",
	"oom",
	"command",
	"versions",
	"local_rank",
	"world_size",
	"restart_count",
	"run_id",
	"lost",
	"trace",
	"timeline",
	"final",
	"tensor_allocs",
	"tensor_frees",
	"live",
	"owners",
	"communicators",
	"imported_peak_bytes",
	"host_pinned_peak_bytes",
	"host_registered_peak_bytes",
};

static void json_has_the_keys_of_the_design(void **state)
{
	struct fixture *f = *state;
	const json_t *rank, *peak, *owner, *oom;
	json_t *root;
	json_error_t e;

	write_death(f);
	add(f, save(f, "a"), 1);
	report_json(&f->report, &f->out);
	root = json_loads(f->out.text, 0, &e);
	assert_non_null(root);
	assert_int_equal(json_array_size(at(root, "findings")), 0);
	rank = json_array_get(at(root, "ranks"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rank_keys); i++)
		at(rank, rank_keys[i]);
	assert_string_equal(json_string_value(at(rank, "end")), "oom");
	assert_string_equal(json_string_value(at(at(rank, "versions"), "torch")), "2.15");
	assert_true(json_is_false(at(rank, "simulated")));
	assert_int_equal(number(rank, "rank"), 1);
	assert_int_equal(number(rank, "events"), 11);
	assert_int_equal(number(rank, "device_memory_bytes"), 16 * GIB);
	assert_int_equal(number(at(rank, "final"), "blocks"), 10);
	assert_int_equal(json_array_size(at(rank, "live")), 10);
	assert_int_equal(number(json_array_get(at(rank, "live"), 9), "address"), 77 * GIB);
	peak = at(rank, "peak");
	assert_int_equal(number(peak, "allocated_bytes"), 14 * GIB);
	assert_int_equal(number(peak, "reserved_bytes"), 15 * GIB);
	assert_int_equal(number(peak, "device_bytes"), 15 * GIB + 512 * MIB);
	assert_int_equal(number(peak, "step"), 1);
	assert_true(json_is_real(at(peak, "time_s")));
	assert_string_equal(json_string_value(at(peak, "phase")), "backward");
	owner = at(peak, "by_owner");
	assert_int_equal(json_object_size(owner), 3);
	assert_int_equal(number(owner, "pytorch"), 15 * GIB);
	assert_int_equal(number(owner, "unexplained"), 0);
	assert_int_equal(number(owner, "context"), 512 * MIB);
	assert_string_equal(json_string_value(at(json_array_get(at(peak, "stacks"), 0), "stack")),
			    "<module> /job/train.py:9;CausalSelfAttention.forward /job/model.py:52;"
			    "softmax /x/site-packages/torch/nn/functional.py:2140");
	oom = json_array_get(at(rank, "oom"), 0);
	assert_int_equal(number(oom, "requested_bytes"), 288 * MIB);
	assert_int_equal(number(oom, "allocated_bytes"), 14 * GIB);
	assert_int_equal(number(oom, "reserved_bytes"), 15 * GIB);
	assert_int_equal(number(oom, "free_bytes"), 512 * MIB);
	assert_int_equal(number(oom, "largest_free_bytes"), GIB);
	assert_int_equal(number(at(oom, "by_owner"), "pytorch"), 15 * GIB);
	assert_int_equal(number(at(oom, "by_owner"), "context"), 512 * MIB);
	assert_int_equal(number(at(oom, "by_owner"), "unexplained"), 0);
	json_decref(root);
}

static void unknown_is_null(void **state)
{
	struct fixture *f = *state;
	const json_t *rank;
	json_t *root;

	f->w.header.rank = f->w.header.world_size = -1;
	write_event(&f->w, MT_RESERVED, 0, MIB, 0, f->python);
	write_event(&f->w, MT_TENSOR_OOM, MT_UNKNOWN, MIB, 0, f->python);
	add(f, save(f, "a"), 0);
	report_json(&f->report, &f->out);
	root = json_loads(f->out.text, 0, NULL);
	rank = json_array_get(at(root, "ranks"), 0);
	assert_int_equal(number(rank, "rank"), 0); /* alone, it is the first */
	assert_true(json_is_null(at(rank, "device_memory_bytes")));
	assert_true(json_is_null(at(json_array_get(at(rank, "oom"), 0), "free_bytes")));
	assert_true(json_is_null(at(json_array_get(at(rank, "oom"), 0), "largest_free_bytes")));
	json_decref(root);
}

static void counters_stand_where_nothing_was_recorded(void **state)
{
	struct style style = { .width = 200, .top = 10 };
	struct fixture *f = *state;

	f->w.header.lost_reason = MT_LOST_NOT_CHOSEN;
	f->w.header.device[0].allocs = 7;
	f->w.header.device[0].total_bytes = 80 * GIB;
	f->w.header.device[0].allocated_peak = 3 * GIB;
	f->w.header.device[0].reserved_peak = 4 * GIB;
	f->w.header.device[0].device_peak = 5 * GIB;
	add(f, save(f, "a"), 0);
	assert_int_equal(f->report.ranks[0].peak_allocated, 3 * GIB);
	assert_int_equal(f->report.ranks[0].peak_device, 5 * GIB);
	assert_int_equal(f->report.ranks[0].owner_count, 3);
	assert_string_equal(f->report.ranks[0].owners[2].key, "unexplained");
	assert_int_equal(f->report.ranks[0].owners[2].at_peak, 0); /* nobody knows */
	report_text(&f->report, &style, &f->out);
	assert_says(f, "MEMTRACE_RANKS leaves this rank out");
	assert_says(f, "device      5.0 GiB at its peak, at a moment that is not in the trace\n");
	assert_null(strstr(f->out.text, "unexplained"));
}

static void losses_are_said(void **state)
{
	struct style style = { .width = 300, .top = 10 };
	struct fixture *f = *state;

	write_event(&f->w, MT_TENSOR_ALLOC, GIB, GIB, f->loss, f->python);
	write_segment(&f->w, 1234);
	write_event(&f->w, MT_TENSOR_ALLOC, 4 * GIB, GIB, f->loss, f->python);
	write_meta(&f->w, "note:stacks", "no Python stacks: CPython 3.6 is not known", 42);
	f->w.header.lost_events = 55;
	f->w.header.lost_reason = MT_LOST_NO_SPACE;
	add(f, save(f, "a"), 0);
	report_text(&f->report, &style, &f->out);
	assert_says(f, "warning     no Python stacks: CPython 3.6 is not known\n");
	assert_says(f, "warning     55 events were not recorded (no space left for the trace)");
	assert_says(f, "warning     1234 records were discarded to stay within MEMTRACE_BUDGET");
}

/* A worker of Ray: "ray::train" over longer arguments. */
static void a_title_ends_the_command(void **state)
{
	static const char title[] = "ray::train\0\0\0\0\0\0", words[] = "python\0-m\0\0x\0";
	struct fixture *f = *state;

	write_event(&f->w, MT_TENSOR_ALLOC, GIB, GIB, f->loss, f->python);
	write_meta(&f->w, MT_META_ARGV, title, sizeof(title));
	add(f, save(f, "a"), 0);
	assert_string_equal(f->report.ranks[0].command, "ray::train");
	write_meta(&f->w, MT_META_ARGV, words, sizeof(words));
	add(f, save(f, "b"), 1);
	assert_string_equal(f->report.ranks[1].command, "python -m '' x ''");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_death_is_told_on_the_first_screen),
		TEST(a_page_has_the_failure_as_its_headline),
		TEST(narrow_and_ascii_fit),
		TEST(bytes_and_colour_are_options),
		TEST(many_ranks_are_a_table_and_the_worst),
		TEST(others_that_died_are_named),
		TEST(more_is_proposed_only_where_there_is_more),
		TEST(json_has_the_keys_of_the_design),
		TEST(unknown_is_null),
		TEST(counters_stand_where_nothing_was_recorded),
		TEST(losses_are_said),
		TEST(a_title_ends_the_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
