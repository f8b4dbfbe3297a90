/* The owners of a device's memory, in traces of known numbers. */
#include "owners_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void modules_have_owners(void **state)
{
	static const struct {
		const char *module;
		enum owner owner;
	} rows[] = {
		{ "/p/torch/lib/libc10_cuda.so", OWNER_PYTORCH },
		{ "libtorch_python.so", OWNER_PYTORCH },
		{ "/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3", OWNER_NCCL },
		{ "/p/nvidia/cublas/lib/libcublasLt.so.12", OWNER_CUBLAS },
		{ "/p/libcudnn_engines_precompiled.so.9", OWNER_CUDNN },
		{ "/p/libcusparseLt.so.0", OWNER_CUSPARSE },
		{ "/p/libcusolverMg.so.11", OWNER_CUSOLVER },
		{ "/p/libcufft.so.11", OWNER_CUFFT },
		{ "/p/triton/_C/libtriton.so", OWNER_TRITON },
		{ "/home/user/.triton/cache/ABC/cuda_utils.cpython-311-x86_64-linux-gnu.so",
		  OWNER_TRITON },
		{ "/home/user/.triton/cache/ABC/__triton_launcher.so", OWNER_TRITON },
		{ "/p/transformer_engine_torch.cpython-311-x86_64-linux-gnu.so",
		  OWNER_TRANSFORMER_ENGINE },
		{ "/p/transformer_engine/libtransformer_engine.so", OWNER_TRANSFORMER_ENGINE },
		{ "/c/torch_extensions/py311_cu130/fused_adam/fused_adam.so", OWNER_DEEPSPEED },
		{ "/p/deepspeed/ops/adam/fused_adam_op.cpython-311-x86_64-linux-gnu.so",
		  OWNER_DEEPSPEED },
		{ "/p/libnvshmem_host.so.3", OWNER_NVSHMEM },
		{ "/usr/bin/python3.11", OWNER_APPLICATION },
		{ "/deepspeed/x/libnccl-like/main", OWNER_APPLICATION },
		{ "/lib/libnccl.so.2 (deleted)", OWNER_NCCL },
		{ "/usr/local/lib/memtrace/libcudasim.so", OWNER_NCCL },
		{ "/lib/", OWNER_APPLICATION },
		{ "", OWNER_APPLICATION },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (owner_of_module((struct str){ rows[i].module, strlen(rows[i].module) }) !=
		    rows[i].owner)
			fail_msg("%s is not %s", rows[i].module, owner_key(rows[i].owner));
}

/* PyTorch's segments are in its `reserved` and count once. Memory that libtorch allocates besides
 * is PyTorch's too. */
static void each_byte_has_one_owner(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	sample(f, 300 * MIB); /* the context */
	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 200 * MIB, f->pytorch);
	fixture_event(f, MT_RESERVED, 0, 200 * MIB, NONE);
	fixture_event(f, MT_PHYSICAL_ALLOC, 1, 40 * MIB, f->pytorch);
	fixture_event(f, MT_MAP, 0x10000000, 40 * MIB, f->pytorch);
	fixture_event(f, MT_RESERVED, 0, 240 * MIB, NONE);
	fixture_event(f, MT_PHYSICAL_ALLOC, 2, 30 * MIB, f->libtorch);
	fixture_event(f, MT_PHYSICAL_ALLOC, 3, 50 * MIB, f->nccl);
	fixture_event(f, MT_DEVICE_ALLOC, 0x2000, 32 * MIB, f->cublas);
	fixture_event(f, MT_ARRAY_ALLOC, 4, 5 * MIB, f->program);
	fixture_event(f, MT_MANAGED_ALLOC, 0x3000, 7 * MIB, f->program);
	fixture_event(f, MT_GRAPH_RESERVED, 0, 64 * MIB, NONE);
	fixture_event(f, MT_ALIAS_OPEN, 0x4000, 1000 * MIB, f->nccl);
	sample(f, 740 * MIB); /* 421 tracked: 19 more than the context */
	fixture_event(f, MT_DEVICE_FREE, 0x2000, -32 * MIB, f->program); /* not its owner */
	fixture_event(f, MT_GRAPH_RESERVED, 0, 4 * MIB, NONE);
	d = fixture_replay(f, 0);
	assert_int_equal(moment_device(&d->device_peak), 740 * MIB);
	assert_int_equal(at_peak(d, OWNER_PYTORCH), 270);
	assert_int_equal(at_peak(d, OWNER_NCCL), 50);
	assert_int_equal(at_peak(d, OWNER_CUBLAS), 32);
	assert_int_equal(at_peak(d, OWNER_APPLICATION), 5);
	assert_int_equal(at_peak(d, OWNER_GRAPHS), 64);
	assert_int_equal(at_peak(d, OWNER_CONTEXT), 300);
	assert_int_equal(at_peak(d, OWNER_UNEXPLAINED), 19);
	assert_int_equal(held(d, OWNER_CUBLAS), 0);
	assert_int_equal(held(d, OWNER_APPLICATION), 5);
	assert_int_equal(held(d, OWNER_GRAPHS), 4);
	assert_int_equal(d->imported_peak, 1000 * MIB);
	assert_int_equal(d->managed_peak, 7 * MIB); /* virtual until touched: nobody's */
	assert_int_equal(f->replay.unknown_kinds, 0);
}

/* empty_cache() frees 150 of 200 MiB, of which 60 are allocated again. The allocator reports that
 * with its next block, and reports nothing if it holds as much as before. */
static void freed_segments_are_not_reserved(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 50 * MIB, f->pytorch);
	fixture_event(f, MT_DEVICE_ALLOC, 0x2000, 150 * MIB, f->pytorch);
	fixture_event(f, MT_RESERVED, 0, 200 * MIB, NONE);
	fixture_event(f, MT_DEVICE_FREE, 0x2000, -150 * MIB, f->pytorch);
	fixture_event(f, MT_DEVICE_ALLOC, 0x3000, 60 * MIB, f->pytorch);
	d = fixture_replay(f, 0);
	assert_int_equal(d->now.reserved, 110 * MIB);
	assert_int_equal(held(d, OWNER_PYTORCH), 110);
	assert_int_equal(d->reserved_peak, 200 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 200 * MIB);
}

/* A segment replaces another one: never more is reserved than reported. */
static void new_segments_are_reserved_once_reported(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 50 * MIB, f->pytorch);
	fixture_event(f, MT_RESERVED, 0, 50 * MIB, NONE);
	fixture_event(f, MT_DEVICE_FREE, 0x1000, -50 * MIB, f->pytorch);
	fixture_event(f, MT_DEVICE_ALLOC, 0x2000, 80 * MIB, f->pytorch);
	d = fixture_replay(f, 0);
	assert_int_equal(d->now.reserved, 50 * MIB);
	assert_int_equal(d->reserved_peak, 50 * MIB);
}

/* The pool holds 90 MiB, of which 30 and 15 are used: the owners get 60 and 30. Without any use the
 * pool is its last user's. */
static void a_pool_is_shared_by_use(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	fixture_event(f, MT_RESERVED, 0, 100 * MIB, NONE);
	fixture_event(f, MT_POOL_ALLOC, 0x1000, 30 * MIB, f->program);
	fixture_event(f, MT_POOL_ALLOC, 0x2000, 15 * MIB, f->cublas);
	fixture_event(f, MT_POOL_RESERVED, 0, 90 * MIB, NONE);
	fixture_event(f, MT_POOL_FREE, 0x1000, -30 * MIB, NONE);
	fixture_event(f, MT_POOL_FREE, 0x2000, -15 * MIB, NONE);
	fixture_event(f, MT_POOL_RESERVED, 0, 80 * MIB, NONE);
	d = fixture_replay(f, 0);
	assert_int_equal(moment_device(&d->device_peak), 190 * MIB);
	assert_int_equal(at_peak(d, OWNER_PYTORCH), 100);
	assert_int_equal(at_peak(d, OWNER_APPLICATION), 60);
	assert_int_equal(at_peak(d, OWNER_CUBLAS), 30);
	assert_int_equal(held(d, OWNER_CUBLAS), 80);
	assert_int_equal(held(d, OWNER_APPLICATION), 0);
}

/* With backend:cudaMallocAsync the pool is PyTorch's `reserved`, except for the part of another
 * user: 20 + 12 of 64 MiB are used. */
static void a_pool_of_pytorch_may_have_other_users(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	fixture_event(f, MT_POOL_ALLOC, 0x1000, 20 * MIB, f->pytorch);
	fixture_event(f, MT_POOL_ALLOC, 0x2000, 12 * MIB, f->cublas);
	fixture_event(f, MT_POOL_RESERVED, 0, 64 * MIB, NONE);
	fixture_event(f, MT_DEVICE_ALLOC, 0x3000, 8 * MIB, f->pytorch);
	d = fixture_replay(f, 0);
	assert_true(d->counted_from_runtime);
	assert_int_equal(d->reserved_peak, 72 * MIB);
	assert_int_equal(d->peak.allocated, 28 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 72 * MIB);
	assert_int_equal(at_peak(d, OWNER_PYTORCH), 48);
	assert_int_equal(at_peak(d, OWNER_CUBLAS), 24);
}

/*
 * The context has 100 MiB. The first communicator takes 80, of which 50 are tracked. The second
 * takes 40, all of them untracked, and its record comes before its sample. 10 more are unexplained.
 */
static void communicators_hold_the_memory_of_their_creation(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	sample(f, 100 * MIB);
	fixture_event(f, MT_PHYSICAL_ALLOC, 1, 50 * MIB, f->nccl);
	sample(f, 180 * MIB);
	fixture_event(f, MT_COMM_INIT, 0xc1, 80 * MIB, f->libtorch);
	fixture_event(f, MT_COMM_INIT, 0xc2, 40 * MIB, f->libtorch);
	sample(f, 230 * MIB);
	d = fixture_replay(f, 0);
	assert_int_equal(d->comms.count, 2);
	assert_int_equal(d->comms.list[0].hidden, 30 * MIB);
	assert_int_equal(d->comms.list[1].hidden, 40 * MIB);
	assert_int_equal(d->comms.list[0].sequence, 3);
	assert_int_equal(moment_device(&d->device_peak), 230 * MIB);
	assert_int_equal(at_peak(d, OWNER_NCCL), 120);
	assert_int_equal(at_peak(d, OWNER_CONTEXT), 100);
	assert_int_equal(at_peak(d, OWNER_UNEXPLAINED), 10);
}

/* Memory that others allocate at the same time is not the communicator's: 20 of 100 MiB are
 * PyTorch's. */
static void a_communicator_is_created_while_others_allocate(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	sample(f, 100 * MIB);
	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 20 * MIB, f->pytorch);
	fixture_event(f, MT_RESERVED, 0, 20 * MIB, NONE);
	fixture_event(f, MT_PHYSICAL_ALLOC, 1, 50 * MIB, f->nccl);
	sample(f, 200 * MIB);
	fixture_event(f, MT_COMM_INIT, 0xc1, 80 * MIB, f->libtorch);
	d = fixture_replay(f, 0);
	assert_int_equal(d->comms.list[0].hidden, 30 * MIB);
	assert_int_equal(at_peak(d, OWNER_NCCL), 80);
	assert_int_equal(at_peak(d, OWNER_UNEXPLAINED), 0);
	assert_int_equal(held(d, OWNER_NCCL), 80);
	assert_int_equal(held(d, OWNER_UNEXPLAINED), 0);
	assert_int_equal(held(d, OWNER_PYTORCH), 20);
	for (size_t i = 0; i < d->owner_timeline->used; i++)
		assert_int_equal(timeline_peak(d->owner_timeline, i, OWNER_UNEXPLAINED), 0);
}

/* A MemPool of ncclMemAlloc: PyTorch's `reserved` includes memory that libtorch and NCCL allocated.
 */
static void adopted_memory_counts_once(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 20 * MIB, f->pytorch);
	fixture_event(f, MT_RESERVED, 0, 20 * MIB, NONE);
	fixture_event(f, MT_DEVICE_ALLOC, 0x2000, 30 * MIB, f->libtorch);
	fixture_event(f, MT_RESERVED, 0, 50 * MIB, NONE);
	fixture_event(f, MT_PHYSICAL_ALLOC, 1, 8 * MIB, f->nccl);
	fixture_event(f, MT_PHYSICAL_ALLOC, 2, 5 * MIB, f->nccl);
	fixture_event(f, MT_RESERVED, 0, 58 * MIB, NONE);
	fixture_event(f, MT_DEVICE_FREE, 0x1000, -20 * MIB, f->pytorch);
	d = fixture_replay(f, 0);
	assert_int_equal(moment_device(&d->now), 43 * MIB);
	assert_int_equal(held(d, OWNER_PYTORCH), 38);
	assert_int_equal(held(d, OWNER_NCCL), 5);
	assert_int_equal(moment_device(&d->device_peak), 63 * MIB);
}

/* Two communicators of the same size: the second one's bytes are not found in the samples of the
 * first. */
static void each_communicator_is_charged_once(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	sample(f, 100 * MIB);
	fixture_event(f, MT_PHYSICAL_ALLOC, 1, 50 * MIB, f->nccl);
	sample(f, 180 * MIB);
	fixture_event(f, MT_COMM_INIT, 0xc1, 80 * MIB, f->libtorch);
	fixture_event(f, MT_PHYSICAL_ALLOC, 2, 60 * MIB, f->nccl);
	fixture_event(f, MT_COMM_INIT, 0xc2, 80 * MIB, f->libtorch);
	sample(f, 260 * MIB);
	d = fixture_replay(f, 0);
	assert_int_equal(d->comms.list[0].hidden, 30 * MIB);
	assert_int_equal(d->comms.list[1].hidden, 20 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 260 * MIB);
	assert_int_equal(at_peak(d, OWNER_NCCL), 160);
}

static void a_destroyed_communicator_holds_nothing(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	sample(f, 100 * MIB);
	fixture_event(f, MT_COMM_INIT, 0xc1, 80 * MIB, f->libtorch);
	fixture_event(f, MT_COMM_INIT, 0xc2, 20 * MIB, f->libtorch);
	sample(f, 200 * MIB);
	fixture_event(f, MT_COMM_DESTROY, 0xc1, -80 * MIB, f->libtorch);
	fixture_event(f, MT_COMM_DESTROY, 0xdd, -80 * MIB, f->libtorch); /* never made */
	d = fixture_replay(f, 0);
	assert_int_equal(moment_device(&d->device_peak), 200 * MIB);
	assert_int_equal(at_peak(d, OWNER_NCCL), 100);
	assert_int_equal(moment_device(&d->now), 120 * MIB);
	assert_int_equal(held(d, OWNER_NCCL), 20);
	assert_int_equal(held(d, OWNER_UNEXPLAINED), 0);
	assert_int_equal(d->comms.list[0].destroyed_ns, 5000000);
	assert_true(d->comms.list[1].destroyed_ns == UINT64_MAX);
	assert_int_equal(f->replay.frees_unknown, 1);
}

/* A communicator never holds more than the untracked bytes of the device. */
static void the_sum_stays_exact(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	sample(f, 100 * MIB);
	fixture_event(f, MT_COMM_INIT, 0xc1, 500 * MIB, f->libtorch);
	sample(f, 150 * MIB);
	d = fixture_replay(f, 0);
	assert_int_equal(held(d, OWNER_NCCL), 50);
	assert_int_equal(held(d, OWNER_CONTEXT), 100);
	assert_int_equal(held(d, OWNER_UNEXPLAINED), 0);
}

/* The first sample includes the context and the communicator. */
static void a_trace_that_begins_with_a_communicator(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	fixture_event(f, MT_COMM_INIT, 0xc1, 544 * MIB, f->libtorch);
	sample(f, 1064 * MIB);
	d = fixture_replay(f, 0);
	assert_int_equal(held(d, OWNER_NCCL), 544);
	assert_int_equal(held(d, OWNER_CONTEXT), 520);
	assert_int_equal(held(d, OWNER_UNEXPLAINED), 0);
}

/* c1 is live before and after the gap, c2 was destroyed in it, c3 created in it. */
static void communicators_over_a_gap(void **state)
{
	struct fixture *f = *state;
	const struct device *d;
	struct mt_record *kept;

	sample(f, 100 * MIB);
	fixture_event(f, MT_COMM_INIT, 0xc1, 80 * MIB, f->libtorch);
	fixture_event(f, MT_COMM_INIT, 0xc2, 20 * MIB, f->libtorch);
	sample(f, 200 * MIB);
	write_segment(&f->w, 1000);
	write_keyframe(&f->w, MT_COMM_INIT, 0xc1, 80 * MIB, f->libtorch);
	write_keyframe(&f->w, MT_COMM_INIT, 0xc3, 7 * MIB, f->libtorch);
	write_keyframe(&f->w, MT_GRAPH_RESERVED, 0, 3 * MIB, NONE);
	write_keyframe(&f->w, MT_PHYSICAL_ALLOC, 9, 5 * MIB, f->nccl);
	kept = f->w.segments[1].keyframe;
	kept[0].time_ns = 2000000; /* as it was created */
	kept[1].time_ns = 4500000;
	fixture_event(f, MT_COMM_DESTROY, 0xc1, -80 * MIB, f->libtorch);
	d = fixture_replay(f, 0);
	assert_int_equal(d->comms.count, 3);
	assert_int_equal(d->comms.list[0].destroyed_ns, 5000000);
	assert_int_equal(d->comms.list[1].destroyed_ns, 4000000);
	assert_true(d->comms.list[2].destroyed_ns == UINT64_MAX);
	assert_true(d->comms.list[2].sequence == UINT64_MAX);
	assert_int_equal(d->comms.list[2].bytes, 7 * MIB);
	assert_int_equal(d->comms.hidden, 0);
	assert_int_equal(held(d, OWNER_NCCL), 5);
	assert_int_equal(held(d, OWNER_GRAPHS), 3);
	assert_int_equal(held(d, OWNER_CONTEXT), 100);
}

/*
 * Ranges of 2 MiB, mapped side by side: one segment of 8 MiB, with a block of 5 MiB across three of
 * them, then one of 1 MiB; 2 MiB are free at its end. The segment of cudaMalloc beside it is
 * another.
 */
static void expandable_segments_have_gaps(void **state)
{
	struct fixture *f = *state;
	const uint64_t base = 0x100000000;
	const struct device *d;

	for (unsigned i = 0; i < 5; i++) {
		fixture_event(f, MT_PHYSICAL_ALLOC, 1 + i, 2 * MIB, f->pytorch);
		fixture_event(f, MT_MAP, base + i * 2 * MIB, 2 * MIB, f->pytorch);
	}
	fixture_event(f, MT_UNMAP, base + 8 * MIB, -2 * MIB, f->pytorch);
	fixture_event(f, MT_PHYSICAL_FREE, 5, -2 * MIB, f->pytorch);
	fixture_event(f, MT_DEVICE_ALLOC, base + 8 * MIB, MIB, f->pytorch);
	fixture_event(f, MT_RESERVED, 0, 9 * MIB, NONE);
	fixture_event(f, MT_TENSOR_ALLOC, base, 5 * MIB, f->pytorch);
	fixture_event(f, MT_TENSOR_ALLOC, base + 5 * MIB, MIB, f->pytorch);
	fixture_event(f, MT_MAP, 0x900000000, 64 * MIB, f->nccl); /* not PyTorch's */
	fixture_event(f, MT_TENSOR_OOM, 0, 4 * MIB, f->pytorch);
	fixture_event(f, MT_UNMAP, base + 6 * MIB, -2 * MIB, f->pytorch);
	fixture_event(f, MT_TENSOR_OOM, 0, 4 * MIB, f->pytorch);
	d = fixture_replay(f, 0);
	assert_int_equal(d->failures[0].largest_free, 2 * MIB);
	assert_int_equal(d->failures[1].largest_free, MIB);
	assert_int_equal(moment_device(&d->device_peak), 9 * MIB);
	assert_int_equal(f->replay.frees_unknown, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_owners, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(modules_have_owners),
		TEST(each_byte_has_one_owner),
		TEST(freed_segments_are_not_reserved),
		TEST(new_segments_are_reserved_once_reported),
		TEST(a_pool_is_shared_by_use),
		TEST(a_pool_of_pytorch_may_have_other_users),
		TEST(communicators_hold_the_memory_of_their_creation),
		TEST(a_communicator_is_created_while_others_allocate),
		TEST(adopted_memory_counts_once),
		TEST(each_communicator_is_charged_once),
		TEST(a_destroyed_communicator_holds_nothing),
		TEST(the_sum_stays_exact),
		TEST(a_trace_that_begins_with_a_communicator),
		TEST(communicators_over_a_gap),
		TEST(expandable_segments_have_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
