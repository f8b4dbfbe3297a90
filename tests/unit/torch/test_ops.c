/* Tests of operations against PyTorch 2.15's max_memory_allocated() around each on a simulated
 * H100.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "torch/ops.h"
#include "on_machine.h"
#include "util/util.h"

/* The most bytes beside the result of x.sum(0) of `rows` x `columns` numbers. */
static int64_t beside_sum(int64_t rows, int64_t columns, enum dtype type)
{
	int64_t before;
	tensor out;

	allocator_empty_cache(m.allocator);
	allocator_reset_peaks(m.allocator);
	out = sum_rows(&m, columns, rows, type);
	before = allocated();
	tensor_unref(&m, &out);
	return allocator_totals(m.allocator)->peak_allocated - before;
}

static void test_sum_of_rows(void **state)
{
	static const struct {
		int64_t rows, columns, bytes[2]; /* of fp32 and of bf16 */
	} sums[] = {
		{ 1920, 6144, { 94372352, 94372352 } },
		{ 16384, 30522, { 62916608, 62916608 } },
		{ 4096, 8192, { 138412544, 138412544 } },
		{ 16384, 28672, { 234882048, 234882048 } },
		{ 4096, 151936, { 155587584, 311170048 } },
		{ 5000, 50, { 128512, 128512 } },
		{ 2000, 2, { 0, 0 } },
		{ 8192, 3, { 0, 0 } },
		{ 9000, 7, { 0, 0 } },
		{ 300, 512, { 0, 0 } },
	};

	(void)state;
	m.constants.multiprocessors = 132;
	m.constants.threads = 132 * 2048;
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		assert_int_equal(beside_sum(sums[i].rows, sums[i].columns, F32), sums[i].bytes[0]);
		assert_int_equal(beside_sum(sums[i].rows, sums[i].columns, BF16), sums[i].bytes[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_MACHINE(test_sum_of_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
