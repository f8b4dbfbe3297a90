/* The shards of one of two ranks, for a model with weights of 6 and of 1000 elements: FSDP's and
 * ZeRO's, worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "distributed/zero12.h"
#include "distributed/zero3_coordinator.h"
#include "distributed/fsdp.h"
#include "distributed/fsdp2.h"
#include "distributed/unit_buffers.h"
#include "torch/ops.h"
#include "distributed/zero3.h"
#include "on_machine.h"

static void two_weights(struct module *module, enum dtype type)
{
	*module = (struct module){ .count = 0 };
	module_add(&m, module, 1, 6, type, TERM_NORM_WEIGHTS);
	module_add(&m, module, 10, 100, type, TERM_MLP_WEIGHTS);
}

static void test_flat_parameter(void **state)
{
	struct hparams s = { .dp = 2, .zero = 3, .wrapper = FSDP1, .reshard = 1 };
	const size_t first[2] = { 0, 2 };
	struct module module;
	struct fsdp f;
	tensor x = { .storage = NULL };

	(void)state;
	/* the second weight begins at a multiple of 16 bytes, element 8: 1008 elements in all, 504
	 * for each rank */
	two_weights(&module, F32);
	fsdp_wrap(&m, &f, &s, &module, first, 1);
	assert_int_equal(module.params[0]->shard, 6);
	assert_int_equal(module.params[1]->shard, 504 - 8);
	assert_int_equal(allocated(), 4 * 512); /* 504 x 4 bytes */
	fsdp_root_before(&m, &f);
	fsdp_before(&m, &f.units[0], x);
	assert_int_equal(allocated(), 4 * 512 + 8 * 512); /* and 1008 x 4 */
	fsdp_after(&m, &f.units[0], x);
	assert_int_equal(allocated(), 4 * 512);
	tape_free(&m, &tape);
	fsdp_release(&f);
	module_release(&module);
}

static void test_flat_parameter_of_second_rank(void **state)
{
	struct hparams s = { .dp = 2, .zero = 3, .wrapper = FSDP1, .reshard = 1, .rank = 1 };
	const size_t first[2] = { 0, 2 };
	struct module module;
	struct fsdp f;

	(void)state;
	two_weights(&module, F32);
	fsdp_wrap(&m, &f, &s, &module, first, 1);
	assert_int_equal(module.params[0]->shard, -1);
	assert_int_equal(module.params[1]->shard, 504);
	fsdp_release(&f);
	module_release(&module);
}

/* Rows of a matrix: 10 in parts of 4, 4 and 2, as torch.chunk() makes them; 6 elements in parts of
 * 2. */
static void test_parts_of_rows(void **state)
{
	const int64_t rows[] = { 400, 400, 200 };
	struct hparams s = { .dp = 3, .zero = 3, .wrapper = FSDP2 };
	struct fsdp f = { .hparams = &s, .ranks = 3 };
	struct module module;

	(void)state;
	two_weights(&module, F32);
	for (int rank = 0; rank < 3; rank++) {
		assert_int_equal(fsdp2_shard_of_rank(&f, module.params[0], rank), 2);
		assert_int_equal(fsdp2_shard_of_rank(&f, module.params[1], rank), rows[rank]);
	}
	module_release(&module);
}

/* Megatron's own FSDP: the wide weight begins the bucket, the 6 elements follow it, and it is
 * padded to 2 x 100 elements: 1200, of which each of two ranks has 600. */
static void test_unit_buffers(void **state)
{
	struct hparams s = { .dp = 2,
			     .cp = 1,
			     .tp = 1,
			     .ep = 1,
			     .etp = 1,
			     .zero = 3,
			     .weights = BF16,
			     .wrapper = MEGATRON_FSDP };
	const size_t first[2] = { 0, 2 };
	struct module module;
	const struct unit_layout layout = { &s, &module, first, 1 };
	struct unit_buffers b;
	tensor x = { .storage = NULL };

	(void)state;
	two_weights(&module, BF16);
	unit_buffers_make(&m, &b, &layout);
	/* 600 weights of 2 bytes, their fp32 copies and gradients */
	assert_int_equal(allocated(), (3 + 5 + 5) * 512);
	assert_int_equal(unit_buffers_part(&b, 0), 0);
	assert_int_equal(unit_buffers_part(&b, 1), 600);
	s.rank = 1;
	assert_int_equal(unit_buffers_part(&b, 0), 6);
	assert_int_equal(unit_buffers_part(&b, 1), 400);
	unit_buffers_before(&m, &b, 0, x);
	assert_int_equal(allocated(), (13 + 5) * 512); /* and 1200 x 2 bytes */
	unit_buffers_after(&m, &b, 0, &x);
	assert_int_equal(allocated(), 13 * 512);
	/* the first gradient allocates all of the bucket's, and its own block is freed; the last
	 * one does not free it */
	for (int i = 1; i >= 0; i--) {
		module.params[i]->grad = tensor_new(&m, module.params[i]->value.n, BF16);
		m.on_gradient(&m, module.params[i]);
		assert_int_equal(allocated(), (13 + 10) * 512); /* and 1200 x 4 */
	}
	unit_buffers_finish(&m, &b);
	assert_int_equal(allocated(), 13 * 512);
	unit_buffers_release(&b);
	module_release(&module);
}

static void test_zero(void **state)
{
	struct hparams s = {
		.dp = 2, .zero = 2, .weights = BF16, .rank = 1, .reduce_bucket = 2000
	};
	struct module module;
	struct zero z;

	(void)state;
	/* 1006 elements, padded to 1008: 2016 bytes in 16 bits, and 504 in fp32 */
	two_weights(&module, BF16);
	zero_wrap(&m, &z, &s, &module);
	assert_int_equal(allocated(), 4 * 512 + 4 * 512);
	assert_int_equal(module.params[0]->shard, -1);
	assert_int_equal(module.params[1]->shard, 1006 - 504);
	/* a gradient waits in the bucket of 2000 x 2 bytes; its own block is freed */
	module.params[1]->grad = tensor_new(&m, 1000, BF16);
	m.on_gradient(&m, module.params[1]);
	assert_int_equal(allocated(), 8 * 512 + 8 * 512);
	/* allocated: two moments of 504 x 4 bytes, fused Adam's step counter, and _global_grad_norm
	 */
	zero_step(&m, &z);
	assert_int_equal(allocated(), 8 * 512 + 2 * 4 * 512 + 2 * 512);
	zero_release(&z);
	module_release(&module);
}

static void start_zero3(struct zero3 *z, const struct hparams *s, struct module *module)
{
	two_weights(module, BF16);
	zero3_wrap(&m, z, s, module);
}

static void end_zero3(struct zero3 *z, struct module *module)
{
	m.zero3 = NULL;
	m.module_hooks = NULL;
	zero3_release(z);
	module_release(module);
}

/* Partitions of 3 and 500 elements: 1006 bytes in 16 bits, 2012 in fp32. */
static void test_zero3(void **state)
{
	struct hparams s = { .dp = 2,
			     .zero = 3,
			     .weights = BF16,
			     .reduce_bucket = 2000,
			     .persistence = 10,
			     .sub_group = 1000000,
			     .prefetch_bucket = 1000,
			     .max_live = 1000,
			     .max_reuse = 1000 };
	struct module module;
	struct zero3 z;
	const int64_t states = 1024 + 2048 + 4096 + 1024; /* weights, master, bucket, gradients */
	tensor x = { .storage = NULL };

	(void)state;
	start_zero3(&z, &s, &module);
	assert_int_equal(allocated(), states);
	/* the first pass gathers the 1000 elements that a module needs, and frees them */
	zero3_before_forward(&m, &z);
	x = module_enter(&m, module.params[1], NULL, x);
	assert_int_equal(allocated(), states + 2048);
	module_leave(&m, module.params[1], NULL);
	x = module_enter(&m, module.params[0], NULL, x);
	assert_int_equal(allocated(), states + 512);
	module_leave(&m, module.params[0], NULL);
	assert_int_equal(allocated(), states);
	/* after the step: two moments, a step counter, and the persistent parameter, which is
	 * gathered */
	zero3_step(&m, &z);
	assert_int_equal(allocated(), states + 2 * 2048 + 512 + 512);
	zero3_before_forward(&m, &z);
	module_enter(&m, module.params[1], NULL, x);
	module_leave(&m, module.params[1], NULL);
	assert_int_equal(allocated(), states + 2 * 2048 + 512 + 512);
	end_zero3(&z, &module);
}

/* A view of gathered weights keeps them allocated: the parameter's 1000 elements are gathered
 * again. */
static void test_zero3_view(void **state)
{
	struct hparams s = {
		.dp = 2, .zero = 3, .weights = BF16, .reduce_bucket = 2000, .sub_group = 1000000
	};
	struct module module;
	struct zero3 z;
	tensor x = { .storage = NULL }, view;
	int64_t before;

	(void)state;
	start_zero3(&z, &s, &module);
	zero3_before_forward(&m, &z);
	before = allocated();
	module_enter(&m, module.params[1], NULL, x);
	view = param_view(&m, module.params[1]);
	module_leave(&m, module.params[1], NULL);
	assert_int_equal(allocated(), before + 2048);
	module_enter(&m, module.params[1], NULL, x);
	assert_int_equal(allocated(), before + 2 * 2048);
	tensor_unref(&m, &view);
	module_leave(&m, module.params[1], NULL);
	assert_int_equal(allocated(), before);
	end_zero3(&z, &module);
}

/* Stage 1 without overlap: 2000 bytes of gradient wait beside the bucket of 4000 for the end. */
static void test_zero1_late(void **state)
{
	struct hparams s = {
		.dp = 2, .zero = 1, .weights = BF16, .rank = 1, .reduce_bucket = 2000
	};
	struct module module;
	struct zero z;
	int64_t before;

	(void)state;
	two_weights(&module, BF16);
	zero_wrap(&m, &z, &s, &module);
	before = allocated();
	module.params[1]->grad = tensor_new(&m, 1000, BF16);
	m.on_gradient(&m, module.params[1]);
	assert_int_equal(allocated(), before + 8 * 512 + 4 * 512);
	m.zero = NULL;
	tensor_unref(&m, &module.params[1]->grad);
	zero_release(&z);
	module_release(&module);
}

/* 3 rows are 2 rows for each of two ranks: 4000 elements are gathered, not 3000. */
static void test_fsdp2_rows(void **state)
{
	struct hparams s = { .dp = 2, .zero = 3, .wrapper = FSDP2, .reshard = 1 };
	struct module module = { .params = NULL };
	struct fsdp f;
	const size_t first[] = { 0, 1 };

	(void)state;
	module_add(&m, &module, 3, 1000, F32, TERM_MLP_WEIGHTS);
	fsdp_wrap(&m, &f, &s, &module, first, 1);
	assert_int_equal(module.params[0]->shard, 2000);
	assert_int_equal(f.units[0].elements, 4000);
	fsdp_release(&f);
	module_release(&module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_MACHINE(test_flat_parameter), ON_MACHINE(test_flat_parameter_of_second_rank),
		ON_MACHINE(test_zero),           ON_MACHINE(test_zero3),
		ON_MACHINE(test_zero3_view),     ON_MACHINE(test_zero1_late),
		ON_MACHINE(test_fsdp2_rows),     ON_MACHINE(test_parts_of_rows),
		ON_MACHINE(test_unit_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
