/* Causes that no job on the simulated device can have, from traces made for them; and the table of
 * rules itself. */
#include "diagnose/diagnose.h"
#include "diagnose/message.h"
#include "replay/replay.h"
#include "report/report_build.h"
#include "trace/trace.h"
#include "write_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

struct job {
	struct writer w;
	uint16_t python, autograd;
	uint32_t pytorch, nccl, model;
	struct report report;
	struct diagnosis diagnosis;
};

static void start(struct job *j)
{
	uint32_t c10;

	write_start(&j->w);
	j->python = write_thread(&j->w, 100, "python");
	j->autograd = write_thread(&j->w, 101, "pt_autograd_0");
	c10 = write_module(&j->w, "/site-packages/torch/lib/libc10_cuda.so");
	j->pytorch = write_stack(&j->w, c10, 0, 0, 0, 0);
	j->nccl = write_stack(&j->w, write_module(&j->w, "/nccl/lib/libnccl.so.2"), 0, 0, 0, 0);
	j->model = write_stack(
		&j->w, c10,
		write_frame(&j->w, "Module._call_impl", "/x/torch/nn/modules/module.py", 1),
		write_frame(&j->w, "train", "/job/train.py", 9), 0, 0);
}

static int setup(void **state)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return -1;
	start(j);
	*state = j;
	return 0;
}

static int teardown(void **state)
{
	struct job *j = *state;

	diagnosis_release(&j->diagnosis);
	report_release(&j->report);
	write_release(&j->w);
	free(j);
	return 0;
}

/* Adds what was written to the report, and begins a next trace. */
static void add(struct job *j)
{
	struct replay_options options = { 0 };
	struct err e = { 0 };
	struct trace t;
	size_t size;
	unsigned char *memory = write_finish(&j->w, &size);

	if (trace_open_memory(&t, memory, size, &e) < 0)
		fail_msg("%s", e.text);
	report_add(&j->report, &t, NULL, &options);
	trace_release(&t);
	free(memory);
	write_release(&j->w);
	start(j);
}

static const struct finding *find(const struct job *j, const char *rule)
{
	for (size_t i = 0; i < j->diagnosis.count; i++)
		if (!strcmp(j->diagnosis.findings[i].rule, rule))
			return &j->diagnosis.findings[i];
	return NULL;
}

static void assert_finds(struct job *j, const char *rule, enum severity severity, int64_t weight)
{
	const struct finding *f;

	report_sort(&j->report);
	diagnosis_release(&j->diagnosis);
	diagnose(&j->diagnosis, &j->report);
	f = find(j, rule);
	if (!f)
		fail_msg("%s is not found", rule);
	assert_int_equal(f->severity, severity);
	assert_int_equal(f->weight, weight);
}

/* A device of 16 GiB, `used` of it at the first look; PyTorch holds `held`, all of it in 16
 * tensors, and asks for 1 GiB more. */
static void write_death(struct job *j, int64_t used, int64_t held, int64_t free_bytes)
{
	j->w.header.exit_status = 1;
	write_event(&j->w, MT_DEVICE_SAMPLE, (uint64_t)(16 * GIB - used), 16 * GIB, 0, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 64 * GIB, held, j->pytorch, j->python);
	write_event(&j->w, MT_RESERVED, 0, held, 0, j->python);
	for (int64_t i = 0; i < 16; i++)
		write_event(&j->w, MT_TENSOR_ALLOC, (uint64_t)(64 * GIB + i * (held / 16)),
			    held / 16, j->model, j->python);
	write_event(&j->w, MT_TENSOR_OOM, (uint64_t)free_bytes, GIB, j->model, j->python);
}

static void another_process_is_the_cause(void **state)
{
	struct job *j = *state;

	write_death(j, 6 * GIB, 9 * GIB, 512 * MIB);
	add(j);
	assert_finds(j, "OTHER_PROCESS_ON_GPU", SEVERITY_ERROR, 5 * GIB);
	assert_true(find(j, "OTHER_PROCESS_ON_GPU")->is_cause);
}

static void a_context_is_no_other_process(void **state)
{
	struct job *j = *state;

	write_death(j, GIB / 2, 15 * GIB, 512 * MIB);
	add(j);
	assert_finds(j, "CUDA_CONTEXT_OVERHEAD", SEVERITY_NOTE, 0);
	assert_null(find(j, "OTHER_PROCESS_ON_GPU"));
}

static void address_space_is_not_memory(void **state)
{
	struct job *j = *state;

	write_meta(&j->w, "env:PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", 24);
	write_death(j, GIB / 2, 4 * GIB, 11 * GIB);
	add(j);
	assert_finds(j, "VA_EXHAUSTION", SEVERITY_ERROR, 16 * GIB);
	assert_null(find(j, "PER_PROCESS_CAP"));
}

/* CUDAAllocatorConfig::instance() reads the newer variable only if the older one is not set. */
static void one_variable_is_in_force(void **state)
{
	struct job *j = *state;

	write_meta(&j->w, "env:PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512", 21);
	write_meta(&j->w, "env:PYTORCH_ALLOC_CONF", "expandable_segments:True", 24);
	write_death(j, GIB / 2, 4 * GIB, 11 * GIB);
	add(j);
	assert_finds(j, "PER_PROCESS_CAP", SEVERITY_ERROR, 16 * GIB);
	assert_null(find(j, "VA_EXHAUSTION"));
}

static void a_cap_needs_no_setting(void **state)
{
	struct job *j = *state;

	write_death(j, GIB / 2, 4 * GIB, 11 * GIB);
	add(j);
	assert_finds(j, "PER_PROCESS_CAP", SEVERITY_ERROR, 16 * GIB);
}

/* The model's blocks, 13 GiB, grow with the batch: 2 GiB of NCCL's are told, and are no cause. */
static void nccl_is_weighed(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_DEVICE_ALLOC, GIB, 2 * GIB, j->nccl, j->python);
	write_death(j, 5 * GIB / 2, 13 * GIB, 512 * MIB);
	add(j);
	assert_finds(j, "NCCL_BUFFERS", SEVERITY_NOTE, 0);
	assert_int_equal(find(j, "NCCL_BUFFERS")->evidence[0].value, 2 * GIB);
}

static void pinned_memory_is_weighed(void **state)
{
	struct job *j = *state;

	for (int i = 0; i < 3; i++)
		write_event_on(&j->w, MT_NO_DEVICE, MT_HOST_ALLOC, (uint64_t)(100 + i) * GIB,
			       GIB / 2, i ? j->nccl : j->pytorch, j->python);
	write_event(&j->w, MT_TENSOR_ALLOC, GIB, MIB, j->pytorch, j->python);
	add(j);
	assert_finds(j, "PINNED_POW2", SEVERITY_NOTE, 0);
	assert_non_null(find(j, "NCCL_HOST_PINNED"));
	assert_null(diagnosis_cause(&j->diagnosis, 0));
}

static void a_killed_process_is_told(void **state)
{
	struct job *j = *state;

	j->w.header.state = MT_STATE_RECORDING;
	write_event(&j->w, MT_TENSOR_ALLOC, GIB, MIB, j->pytorch, j->python);
	add(j);
	j->report.ranks[0].end = END_KILLED;
	j->report.ranks[0].metrics->killed = 1;
	assert_finds(j, "TRACE_TRUNCATED", SEVERITY_NOTE, 0);
}

/* Rank 1 works on GPU 1 and has touched GPU 0, where rank 0 dies. */
static void a_visitor_is_told(void **state)
{
	struct job *j = *state;

	write_death(j, GIB / 2, 15 * GIB, GIB - 256 * MIB);
	add(j);
	j->w.header.rank = 1;
	j->w.header.pid = 101;
	write_event_on(&j->w, 0, MT_TENSOR_ALLOC, GIB, 512, j->pytorch, j->python);
	write_event_on(&j->w, 1, MT_TENSOR_ALLOC, 2 * GIB, GIB, j->pytorch, j->python);
	add(j);
	assert_finds(j, "FOREIGN_CONTEXT_ON_DEVICE0", SEVERITY_ERROR, GIB / 2);
}

static void an_error_that_was_caught_has_no_cause(void **state)
{
	struct job *j = *state;

	write_death(j, 6 * GIB, 9 * GIB, 512 * MIB);
	j->w.header.exit_status = 0;
	add(j);
	assert_finds(j, "OTHER_PROCESS_ON_GPU", SEVERITY_NOTE, 5 * GIB);
	assert_null(diagnosis_cause(&j->diagnosis, 0));
}

/* A job that ends well: of 4 GiB that PyTorch holds, tensors have 1 GiB at most. */
static void without_a_failure_no_request_is_named(void **state)
{
	struct job *j = *state;
	const struct finding *f;

	write_event(&j->w, MT_DEVICE_ALLOC, 64 * GIB, 4 * GIB, j->pytorch, j->python);
	write_event(&j->w, MT_RESERVED, 0, 4 * GIB, 0, j->python);
	write_event(&j->w, MT_TENSOR_ALLOC, 64 * GIB, GIB, j->model, j->python);
	add(j);
	assert_finds(j, "FRAG_EXTERNAL", SEVERITY_NOTE, 3 * GIB);
	f = find(j, "FRAG_EXTERNAL");
	assert_string_equal(f->message,
			    "3.0 GiB are free in PyTorch's cache when tensors have the most: it "
			    "held up to 4.0 GiB, and tensors never had more than 1.0 GiB");
	for (size_t i = 0; i < f->evidence_count; i++)
		assert_string_not_equal(f->evidence[i].name, "requested");
}

/* No message speaks of a request that there was not. */
static void messages_of_a_request_need_one(void **state)
{
	const struct rule_row *row;

	(void)state;
	for (size_t i = 0; (row = rule_at(i)); i++)
		if (!row->undetectable && strstr(row->message, "{requested}"))
			assert_true(!strncmp(row->when, "m->failed &&", 12) ||
				    !strncmp(row->when, "FITS_COMPACT &&", 15) || rule_unfailed(i));
}

/* Every cause of the collection is there once: told, or with the reason why not. */
static void the_table_is_complete(void **state)
{
	static const char *const ids =
		"FRAG_EXTERNAL FRAG_VARLEN_RATCHET FRAG_STREAM_POOLS RECORD_STREAM_PENDING CACHE_RETRY_THRASH EMPTY_CACHE_THRASH "
		"ADVICE_EXPANDABLE_ALREADY_ON ALLOC_CONF_CONFLICT VA_EXHAUSTION CUDAGRAPH_PRIVATE_POOL CUDA_CONTEXT_OVERHEAD "
		"FOREIGN_CONTEXT_ON_DEVICE0 OTHER_PROCESS_ON_GPU NCCL_BUFFERS NCCL_STARVED_BY_CACHE LIB_WORKSPACE PER_PROCESS_CAP PINNED_POW2 "
		"NCCL_HOST_PINNED HOST_OOM_CKPT_OR_OFFLOAD STATIC_OVER_BUDGET DIST_OPT_OFF OPT_FIRST_STEP_JUMP OPT_FOREACH_TEMP GRAD_NORM_TEMP "
		"DDP_BUCKET_DUP ZERO_COMM_BUCKETS ZERO3_LIVE_PARAMS FSDP_OVERPREFETCH FSDP_WRAP_COARSE FSDP_NO_SYNC_GRADS MFSDP_DOUBLE_BUFFER "
		"FP8_DUAL_COPY RESUME_DUPLICATE_STATE RESUME_EAGER_OPT_STATE ACT_PEAK RECOMPUTE_INEFFECTIVE RECOMPUTE_SELECTIVE_NOTHING_LEFT "
		"ATTN_QUADRATIC LOGITS_SPIKE PP_FIRST_STAGE_INFLIGHT PP_LAST_STAGE_LOGITS PP_UNEVEN_OR_EMBEDDING MOE_IMBALANCE_SPIKE "
		"BATCH_OUTLIER EVAL_ACCUMULATION EVAL_GRAPH_KEPT COMPILE_SPIKE CKPT_SAVE_SPIKE LEAK_GRAPH_RETAINED LEAK_REF_CYCLE "
		"LEAK_OUTSIDE_TORCH ESTIMATE_MISMATCH_CONFIG REGRESSION_BETWEEN_RUNS TRACE_TRUNCATED GRADS_HELD_IN_FORWARD "
		"KV_CACHE KV_CACHE_STATIC GRAPH_KEPT LOSSES_SUMMED FORWARD_REPEATED GROWING_TENSOR SECOND_OPTIMIZER SECOND_MODEL "
		"EARLIER_STEP_KEPT BACKWARD_KEPT GRADIENTS_KEPT GRADIENT_COPIES REFERENCE_GRAPH GRAPH_UNUSED GRADIENTS_UNUSED DATA_ON_GPU DATA_IN_SETUP HUGE_TENSORS PINNED_GROWS EVAL_BATCH_LARGE "
		"INFERENCE_GRAPH INFERENCE_RESULTS INFERENCE_BATCH KV_CACHES_KEPT LOGITS_OF_PROMPT BASE_TRAINED DOUBLE_PRECISION WEIGHTS_NOT_TIED ACT_UPCAST EARLIER_CALL LIBRARY_BLOCKS_KEPT EVAL_TENSORS DOUBLE_FROM_THE_START BASE_MEANT_FROZEN "
		"MODULES_TO_SAVE HOOKS_STORE TABLE_GRADIENT CALL_UNUSED GRADIENT_SETS RECOMPUTE_STOPPED FSDP_REDUCE_COARSE KV_CACHE_OF_PROMPTS LAYERS_STORED LATE_MODEL "
		"BUFFERS_LARGE EVAL_MODE_GRAPH FIRST_MODEL_GRAPH LOSS_NETWORK_GRAPH TEACHER_GRAPH ROLLOUT_GRAPH GENERATOR_GRAPH WIDE_LABELS "
		"UNOPTIMIZED_GRAPH LOSSES_OF_A_LOOP UNROLLED_GRAPH KV_CACHE_COPIED STATIC_PEAK ";
	const struct rule_row *row;
	size_t count = 0, expected = 0;

	(void)state;
	for (const char *c = ids; *c; c++)
		expected += *c == ' ';
	for (; (row = rule_at(count)); count++) {
		char *word = xasprintf("%s ", row->id);

		if (!strstr(ids, word))
			fail_msg("%s is not in the collection", row->id);
		for (size_t i = 0; i < count; i++)
			assert_string_not_equal(rule_at(i)->id, row->id);
		free(word);
	}
	assert_int_equal(count, expected);
}

/* A message that names an unknown metric would end the program; evidence is never empty. */
static void messages_name_metrics(void **state)
{
	struct metrics m = { 0 };
	const struct rule_row *row;

	(void)state;
	for (size_t i = 0; (row = rule_at(i)); i++) {
		struct finding f = { 0 };
		struct buf b = { 0 };

		if (row->undetectable)
			continue;
		diagnose_fill(&b, row->message, &m, &f);
		if (rule_unfailed(i))
			diagnose_fill(&b, rule_unfailed(i), &m, &f);
		assert_null(strchr(b.text, '{'));
		assert_true(f.evidence_count > 0);
		free(f.evidence);
		buf_release(&b);
	}
}

/* If the size of the device is not known, neither is the number of steps that fit. */
static void what_is_not_known_is_said(void **state)
{
	const struct metrics m = { .leak_steps_to_go = -1 };
	struct finding f = { 0 };
	struct buf b = { 0 };

	(void)state;
	diagnose_fill(&b, "{leak_steps_to_go} more steps fit", &m, &f);
	assert_string_equal(b.text, "an unknown number of more steps fit");
	buf_release(&b);
	free(f.evidence);
}

/* A part without brackets of its own, as in code, stays as it is. */
static void a_part_of_nothing_is_left_out(void **state)
{
	const char *text =
		"{left} x[:, -1:][, of which {kept} ({left_now}) wait][; {old_gradients}]";
	const struct metrics m = { .left = MIB, .left_now = MIB }, all = { .kept = 2 * MIB };
	struct finding f = { 0 };
	struct buf b = { 0 };

	(void)state;
	diagnose_fill(&b, text, &m, &f);
	assert_string_equal(b.text, "1.0 MiB x[:, -1:]");
	assert_int_equal(f.evidence_count, 4);
	b.length = 0;
	diagnose_fill(&b, text, &all, NULL);
	assert_string_equal(b.text, "0 B x[:, -1:], of which 2.0 MiB (0 B) wait");
	buf_release(&b);
	free(f.evidence);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_not_known_is_said),
		TEST(another_process_is_the_cause),
		TEST(a_context_is_no_other_process),
		TEST(address_space_is_not_memory),
		TEST(one_variable_is_in_force),
		TEST(a_cap_needs_no_setting),
		TEST(nccl_is_weighed),
		TEST(pinned_memory_is_weighed),
		TEST(a_killed_process_is_told),
		TEST(a_visitor_is_told),
		TEST(an_error_that_was_caught_has_no_cause),
		TEST(without_a_failure_no_request_is_named),
		TEST(messages_of_a_request_need_one),
		TEST(the_table_is_complete),
		TEST(messages_name_metrics),
		TEST(a_part_of_nothing_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
