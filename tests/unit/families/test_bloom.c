/* Tests of BLOOM's activation function and of ALiBi against counts of the tensors in
 * modeling_bloom.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "families/alibi.h"
#include "families/bloom_gelu.h"
#include "torch/ops.h"
#include "on_machine.h"

static int64_t peak_bytes(void)
{
	return allocator_totals(m.allocator)->peak_allocated;
}

/* Forward: x, and x * 0.5, 0.79788456 * x, 1 + 0.044715 * x * x and the product of both. Backward:
 * x, the gradient, tanh_out, 0.5 * x, 1 - tanh_out * tanh_out, 0.1070322243 * x and that times x.
 * Autograd keeps x alone. */
static void gelu_makes_temporaries(void **state)
{
	struct param leaf = { .value = tensor_new(&m, MIB, BF16) };
	tensor x, out;

	(void)state;
	param_init(&leaf);
	x = leaf.value;
	allocator_reset_peaks(m.allocator);
	out = bloom_gelu(&m, x);
	assert_int_equal(peak_bytes(), 5 * 2 * MIB);
	assert_int_equal(allocated(), 2 * 2 * MIB);
	tensor_unref(&m, &x);
	allocator_reset_peaks(m.allocator);
	backward(&m, &tape, out, tensor_new(&m, out.n, out.type));
	assert_int_equal(peak_bytes(), (7 + 1) * 2 * MIB); /* and the result, a variable here */
	tensor_unref(&m, &out);
	assert_int_equal(allocated(), 2 * MIB);
	tensor_unref(&m, &leaf.grad);
	assert_int_equal(allocated(), 0);
}

/* 12 heads: 8 slopes are powers of one base, 4 of another, and one tensor has all of them. Every
 * tensor is a block of 512 bytes: two bases, two lists of powers, two parts and the whole. */
static void slopes_of_heads(void **state)
{
	tensor slopes;

	(void)state;
	slopes = alibi_slopes(&m, 12);
	assert_int_equal(slopes.n, 12);
	assert_int_equal(peak_bytes(), 7 * 512);
	assert_int_equal(allocated(), 512);
	tensor_unref(&m, &slopes);
	allocator_reset_peaks(m.allocator);
	slopes = alibi_slopes(&m, 8); /* a base, powers, slopes */
	assert_int_equal(peak_bytes(), 3 * 512);
	tensor_unref(&m, &slopes);
}

/* 8 slopes times 32,768 positions are 1 MiB in fp32, four sequences of them 4 MiB, in bf16 2 MiB.
 * The positions are 256 KiB until the product is made. */
static void biases_of_scores(void **state)
{
	const struct hparams s = { .batch = 4, .tokens = 32768 };
	tensor slopes = alibi_slopes(&m, 8), alibi;

	(void)state;
	allocator_reset_peaks(m.allocator);
	alibi = alibi_of(&m, &s, slopes, BF16);
	assert_int_equal(peak_bytes(), 512 + 7 * MIB);
	assert_int_equal(allocated(), 512 + 2 * MIB);
	tensor_unref(&m, &alibi);
	tensor_unref(&m, &slopes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_MACHINE(gelu_makes_temporaries),
		ON_MACHINE(slopes_of_heads),
		ON_MACHINE(biases_of_scores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
