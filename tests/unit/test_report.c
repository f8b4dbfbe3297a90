/* What is said about a job: text, JSON, how it ended, which run of a directory. */
#include "gather.h"
#include "render/render.h"
#include "replay.h"
#include "trace.h"
#include "write_trace.h"

#include <fcntl.h>
#include <signal.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

struct job {
	struct writer w;
	uint16_t python, autograd;
	uint32_t pytorch, attention, loss;
	char directory[64];
	struct report report;
	struct buf out;
};

static int setup(void **state)
{
	struct job *j = calloc(1, sizeof(*j));
	uint32_t c10, inner;

	if (!j)
		return -1;
	strcpy(j->directory, "/tmp/memtrace-test-XXXXXX");
	if (!mkdtemp(j->directory))
		return -1;
	write_start(&j->w);
	gethostname(j->w.header.host, sizeof(j->w.header.host) - 1);
	j->python = write_thread(&j->w, 100, "python");
	j->autograd = write_thread(&j->w, 101, "pt_autograd_0");
	write_meta(&j->w, "argv", "python\0train.py\0--name\0it's", 27);
	write_meta(&j->w, "gpu:0", "NVIDIA H100 80GB HBM3", 21);
	write_meta(&j->w, "version:torch", "2.15", 4);
	c10 = write_module(&j->w, "/site-packages/torch/lib/libc10_cuda.so");
	inner = write_frame(&j->w, "softmax", "/x/site-packages/torch/nn/functional.py", 2140);
	j->pytorch = write_place(&j->w, c10, 0, 0, 0, 0);
	j->attention =
		write_place(&j->w, c10, inner,
			    write_frame(&j->w, "CausalSelfAttention.forward", "/job/model.py", 52),
			    write_frame(&j->w, "<module>", "/job/train.py", 9), 0);
	j->loss = write_place(&j->w, c10, write_frame(&j->w, "l\033oss\xff", "/job/train.py", 12),
			      0, 0, 0);
	*state = j;
	return 0;
}

static int teardown(void **state)
{
	struct job *j = *state;
	char command[128];

	report_release(&j->report);
	buf_release(&j->out);
	write_release(&j->w);
	snprintf(command, sizeof(command), "rm -rf %s", j->directory);
	free(j);
	return system(command) ? -1 : 0;
}

/* A job on a device of 16 GiB that dies of 288 MiB: 14 GiB of tensors, 1 GiB cached, 0.5 outside,
 * 0.5 free. */
static void write_death(struct job *j)
{
	j->w.header.rank = 1;
	j->w.header.world_size = 2;
	j->w.header.exit_status = 1;
	write_event(&j->w, MT_DEVICE_SAMPLE, 15 * GIB + 512 * MIB, 16 * GIB, 0, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 64 * GIB, 15 * GIB, j->pytorch, j->python);
	write_event(&j->w, MT_RESERVED, 0, 15 * GIB, 0, j->python);
	for (int i = 0; i < 7; i++)
		write_event(&j->w, MT_TENSOR_ALLOC, (uint64_t)(64 + i) * GIB, GIB, j->attention,
			    j->python);
	write_event(&j->w, MT_TENSOR_ALLOC, 71 * GIB, 4 * GIB, j->loss, j->python);
	write_event(&j->w, MT_TENSOR_ALLOC, 75 * GIB, 2 * GIB, j->pytorch, j->autograd);
	write_event(&j->w, MT_TENSOR_ALLOC, 77 * GIB, GIB, j->pytorch, j->autograd);
	write_event(&j->w, MT_TENSOR_OOM, 512 * MIB, 288 * MIB, j->attention, j->python);
}

static char *save(struct job *j, const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s.mtr", j->directory, name);
	assert_int_equal(write_save(&j->w, path), 0);
	return path;
}

static void add(struct job *j, const char *path, int keep_live)
{
	const struct replay_options options = { .keep_live = keep_live };
	struct err e = { 0 };
	struct trace t;

	assert_int_equal(trace_open_header(&t, path, &e), 0);
	assert_int_equal(trace_load(&t, &e), 0);
	report_add(&j->report, &t, &options);
	trace_release(&t);
	report_sort(&j->report);
}

static void assert_says(const struct job *j, const char *text)
{
	if (!strstr(j->out.text, text))
		fail_msg("\"%s\" is not in:\n%s", text, j->out.text);
}

static void a_death_is_told_on_the_first_screen(void **state)
{
	struct style style = { .width = 200, .top = 10, .unicode = 1 };
	struct job *j = *state;

	write_death(j);
	add(j, save(j, "a"), 0);
	render_text(&j->report, &style, &j->out);
	assert_says(
		j,
		"OUT OF MEMORY  rank 1 of 2  step 2, forward      asked 288.0 MiB, free 512.0 MiB, "
		"largest cached free block 1.0 GiB\n"
		"where   15.5 GiB = gradients 3.0 + activations 11.0 + cached and free 1.0 + CUDA context 0.5\n"
		"top     7.0 GiB  7 \xc3\x97 1.0 GiB  CausalSelfAttention.forward  model.py:52\n");
	assert_says(j, "rank 1 of 2  host ");
	assert_says(j, "gpu     0: NVIDIA H100 80GB HBM3, 16.0 GiB\n");
	assert_says(j, "command python train.py --name 'it'\\''s'\n");
	assert_says(j, "ended   out of memory, status 1, ");
	assert_says(
		j,
		"peak    14.0 GiB in tensors at 0.01 s, step 1, backward, thread pt_autograd_0; PyTorch held up to 15.0 GiB, "
		"the device up to 15.5 GiB\n");
	assert_says(
		j,
		"tensors 14.0 GiB  \xe2\x96\x93 cached and fragmented 1.0  \xe2\x96\x91 outside PyTorch 0.5  \xc2\xb7 free 0.5\n");
	assert_says(
		j,
		"       4.0 GiB  29 %  1 \xc3\x97 4.0 GiB     activations       l?oss\xef\xbf\xbd  train.py:12\n");
	assert_says(
		j,
		"       3.0 GiB  21 %  2 blocks        gradients         (no Python stack, thread pt_autograd_0)\n");
	assert_null(strstr(j->out.text, "simulated"));
	assert_null(strchr(j->out.text, '\033'));
}

static void narrow_and_ascii_fit(void **state)
{
	struct style style = { .width = 60, .top = 1 };
	struct job *j = *state;

	j->w.header.flags = MT_FLAG_SIMULATED;
	write_death(j);
	add(j, save(j, "a"), 0);
	render_text(&j->report, &style, &j->out);
	for (const char *line = j->out.text; *line; line += strcspn(line, "\n") + 1)
		if (strcspn(line, "\n") > 60 && strncmp(line, "next", 4))
			fail_msg("too long: %.*s", (int)strcspn(line, "\n"), line);
	for (const char *c = j->out.text; *c; c++)
		assert_in_range(*c, 1, 127);
	assert_says(j, "# tensors 14.0 GiB  = cached and fragmented");
	assert_says(j, "simulated:");
	assert_says(j, "OUT OF MEMORY  rank 1 of 2  step 2, forward  simulated\n");
	assert_says(j, "2 more places");
	assert_says(j, "next    memtrace report --top 3 ");
}

static void bytes_and_colour_are_options(void **state)
{
	struct style style = { .width = 200, .top = 10, .raw_bytes = 1, .color = 1 };
	struct job *j = *state;

	write_death(j);
	add(j, save(j, "a"), 0);
	render_text(&j->report, &style, &j->out);
	assert_says(j, "\033[1;31mOUT OF MEMORY\033[0m");
	assert_says(j, "asked 301989888 bytes, free 536870912 bytes");
	assert_says(
		j,
		"16642998272 bytes = gradients 3221225472 + activations 11811160064 + cached and free 1073741824 + CUDA context 536870912\n");
}

static void many_ranks_are_a_table_and_the_worst(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct job *j = *state;

	write_event(&j->w, MT_TENSOR_ALLOC, GIB, GIB, j->loss, j->python);
	add(j, save(j, "a"), 0);
	write_death(j);
	add(j, save(j, "b"), 0);
	render_text(&j->report, &style, &j->out);
	assert_says(j, "OUT OF MEMORY  rank 1 of 2");
	assert_says(j, "rank  host");
	assert_says(j, "  oom    15.0 GiB  15.0 GiB  15.5 GiB     1\n");
	assert_says(j, "  exit    1.0 GiB       0 B       0 B     1\n");
}

static void others_that_died_are_named(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct job *j = *state;

	write_death(j);
	add(j, save(j, "a"), 0);
	j->w.header.rank = 3;
	add(j, save(j, "b"), 0);
	render_text(&j->report, &style, &j->out);
	assert_says(j, "also out of memory: rank 3\n");
	j->w.header.rank = 5;
	add(j, save(j, "c"), 0);
	buf_release(&j->out);
	render_text(&j->report, &style, &j->out);
	assert_says(j, "also out of memory: ranks 3, 5\n");
	j->w.header.rank = -1;
	add(j, save(j, "d"), 0);
	buf_release(&j->out);
	render_text(&j->report, &style, &j->out);
	assert_says(j, "OUT OF MEMORY  process 100");
	assert_says(j, "also out of memory: ranks 1, 3, 5\n");
}

static void more_is_proposed_only_where_there_is_more(void **state)
{
	struct style style = { .width = 100, .top = 3 };
	struct job *j = *state;

	write_death(j);
	add(j, save(j, "a"), 0);
	render_text(&j->report, &style, &j->out);
	assert_null(strstr(j->out.text, "next "));
}

static const json_t *at(const json_t *j, const char *key)
{
	const json_t *found = json_object_get(j, key);

	if (!found)
		fail_msg("no key \"%s\"", key);
	return found;
}

static long long number(const json_t *j, const char *key)
{
	const json_t *n = at(j, key);

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
	struct job *j = *state;
	const json_t *rank, *peak, *owner, *oom;
	json_t *root;
	json_error_t e;

	write_death(j);
	add(j, save(j, "a"), 1);
	render_json(&j->report, &j->out);
	root = json_loads(j->out.text, 0, &e);
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
	struct job *j = *state;
	const json_t *rank;
	json_t *root;

	j->w.header.rank = j->w.header.world_size = -1;
	write_event(&j->w, MT_RESERVED, 0, MIB, 0, j->python);
	write_event(&j->w, MT_TENSOR_OOM, MT_UNKNOWN, MIB, 0, j->python);
	add(j, save(j, "a"), 0);
	render_json(&j->report, &j->out);
	root = json_loads(j->out.text, 0, NULL);
	rank = json_array_get(at(root, "ranks"), 0);
	assert_int_equal(number(rank, "rank"), 0); /* alone, it is the first */
	assert_true(json_is_null(at(rank, "device_memory_bytes")));
	assert_true(json_is_null(at(json_array_get(at(rank, "oom"), 0), "free_bytes")));
	assert_true(json_is_null(at(json_array_get(at(rank, "oom"), 0), "largest_free_bytes")));
	json_decref(root);
}

static void assert_end(struct job *j, const char *path, enum end expected)
{
	add(j, path, 0);
	assert_string_equal(end_name(j->report.ranks[0].end), end_name(expected));
	report_release(&j->report);
}

static void ends_are_told_apart(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_TENSOR_ALLOC, GIB, GIB, j->loss, j->python);
	j->w.header.exit_status = 1;
	assert_end(j, save(j, "a"), END_EXIT);
	j->w.header.state = MT_STATE_RECORDING;
	assert_end(j, save(j, "a"), END_KILLED);
	write_event(&j->w, MT_TENSOR_OOM, 0, GIB, j->loss, j->python);
	assert_end(j, save(j, "a"), END_OOM);
	strcpy(j->w.header.host, "elsewhere");
	assert_end(j, save(j, "a"), END_UNKNOWN);
	j->w.header.state = MT_STATE_ENDED;
	assert_end(j, save(j, "a"), END_OOM);
	j->w.header.exit_status = 0;
	assert_end(j, save(j, "a"), END_EXIT);
}

static void a_held_lock_means_running(void **state)
{
	struct job *j = *state;
	const char *path;
	int ready[2];
	pid_t child;
	char c;

	j->w.header.state = MT_STATE_RECORDING;
	path = save(j, "a");
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
		int fd = open(path, O_RDWR);

		if (fcntl(fd, F_SETLK, &lock) || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_end(j, path, END_RUNNING);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	assert_end(j, path, END_KILLED);
}

static void counters_stand_where_nothing_was_recorded(void **state)
{
	struct style style = { .width = 200, .top = 10 };
	struct job *j = *state;

	j->w.header.lost_reason = MT_LOST_NOT_CHOSEN;
	j->w.header.device[0].allocs = 7;
	j->w.header.device[0].total_bytes = 80 * GIB;
	j->w.header.device[0].allocated_peak = 3 * GIB;
	j->w.header.device[0].reserved_peak = 4 * GIB;
	j->w.header.device[0].device_peak = 5 * GIB;
	add(j, save(j, "a"), 0);
	assert_int_equal(j->report.ranks[0].peak_allocated, 3 * GIB);
	assert_int_equal(j->report.ranks[0].peak_device, 5 * GIB);
	assert_int_equal(j->report.ranks[0].owner_count, 3);
	assert_string_equal(j->report.ranks[0].owners[2].key, "unexplained");
	assert_int_equal(j->report.ranks[0].owners[2].at_peak, 5 * GIB);
	render_text(&j->report, &style, &j->out);
	assert_says(j, "MEMTRACE_RANKS leaves this rank out");
}

static void losses_are_said(void **state)
{
	struct style style = { .width = 300, .top = 10 };
	struct job *j = *state;

	write_event(&j->w, MT_TENSOR_ALLOC, GIB, GIB, j->loss, j->python);
	write_segment(&j->w, 1234);
	write_event(&j->w, MT_TENSOR_ALLOC, 4 * GIB, GIB, j->loss, j->python);
	write_meta(&j->w, "note:stacks", "no Python stacks: CPython 3.6 is not known", 42);
	j->w.header.lost_events = 55;
	j->w.header.lost_reason = MT_LOST_NO_SPACE;
	add(j, save(j, "a"), 0);
	render_text(&j->report, &style, &j->out);
	assert_says(j, "warning no Python stacks: CPython 3.6 is not known\n");
	assert_says(j, "warning 55 events were not recorded (no space left for the trace)");
	assert_says(j, "warning 1234 records were given up to keep to the budget");
}

static void write_run(struct job *j, const char *name, const char *run, int restart, uint64_t start)
{
	snprintf(j->w.header.run_id, sizeof(j->w.header.run_id), "%s", run);
	j->w.header.restart_count = restart;
	j->w.header.start_realtime_ns = start;
	save(j, name);
}

static void assert_gathered(struct job *j, const char *run, size_t count, const char *notes)
{
	char *arguments[] = { j->directory };
	struct buf said = { 0 };
	struct gather g;
	struct err e = { 0 };

	assert_int_equal(gather_traces(&g, arguments, 1, run, &said, &e), count ? 0 : -1);
	assert_int_equal(g.count, count);
	if (notes && !strstr(said.text ? said.text : "", notes))
		fail_msg("\"%s\" is not in \"%s\"", notes, said.text);
	gather_release(&g);
	buf_release(&said);
}

static void of_a_directory_the_latest_run_is_taken(void **state)
{
	struct job *j = *state;
	char junk[128];
	FILE *f;

	assert_gathered(j, NULL, 0, NULL);
	write_run(j, "a0", "old", 0, 10);
	write_run(j, "b0", "new", 0, 20);
	write_run(j, "b1", "new", 0, 21);
	write_run(j, "b2", "new", 1, 30);
	snprintf(junk, sizeof(junk), "%s/junk.mtr", j->directory);
	f = fopen(junk, "w");
	assert_non_null(f);
	fputs("nothing", f);
	fclose(f);
	assert_gathered(j, NULL, 1, "junk.mtr is not a memtrace trace");
	assert_gathered(j, NULL, 1,
			"this is run new:1; also here: old:0 (1 trace), new:0 (2 traces)");
	assert_gathered(j, "old", 1, NULL);
	assert_gathered(j, "new:0", 2, NULL);
	assert_gathered(j, "new", 1, NULL);
	assert_gathered(j, "newer", 0, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_death_is_told_on_the_first_screen),
		TEST(narrow_and_ascii_fit),
		TEST(bytes_and_colour_are_options),
		TEST(many_ranks_are_a_table_and_the_worst),
		TEST(others_that_died_are_named),
		TEST(more_is_proposed_only_where_there_is_more),
		TEST(json_has_the_keys_of_the_design),
		TEST(unknown_is_null),
		TEST(ends_are_told_apart),
		TEST(a_held_lock_means_running),
		TEST(counters_stand_where_nothing_was_recorded),
		TEST(losses_are_said),
		TEST(of_a_directory_the_latest_run_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
