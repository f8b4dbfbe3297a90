/* Tests of sums in place and of matrix products against sequences that were worked out by hand from
 * derivatives.yaml and autocast_mode.cpp. Every tensor is 2 MiB, or as much as its comment says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "torch/autocast.h"
#include "torch/ops.h"
#include "on_machine.h"

static int64_t peak_bytes(void)
{
	return allocator_totals(m.allocator)->peak_allocated;
}

static tensor leaf_of(struct param *p, int64_t n, enum dtype type)
{
	*p = (struct param){ .value = tensor_new(&m, n, type) };
	param_init(p);
	return p->value;
}

static void clear(struct param *p)
{
	tensor_unref(&m, &p->grad);
	tensor_unref(&m, &p->value);
}

/* a += b allocates nothing; its gradient is that of both. */
static void sum_in_place(void **state)
{
	struct param a, b;
	tensor first = leaf_of(&a, MIB, BF16), second = leaf_of(&b, MIB, BF16), x, out;

	(void)state;
	x = scale(&m, first);
	out = add_in_place(&m, x, second);
	assert_ptr_equal(out.storage, x.storage);
	assert_int_equal(allocated(), 3 * 2 * MIB);
	tensor_unref(&m, &x);
	backward(&m, &tape, out, tensor_new(&m, MIB, BF16));
	assert_int_equal(a.grad.n, MIB);
	assert_int_equal(b.grad.n, MIB);
	tensor_unref(&m, &out);
	clear(&a);
	clear(&b);
	assert_int_equal(allocated(), 0);
}

/* baddbmm: the bias in fp32, 4 MiB, is copied for the product alone. Backward: a product and alpha
 * times it for `a`, while the gradient lives, and then for `b` beside the gradient of `a`. */
static void product_with_bias(void **state)
{
	struct param a, b;
	tensor first = leaf_of(&a, MIB, BF16), second = leaf_of(&b, MIB, BF16);
	tensor bias = tensor_new(&m, MIB, F32), out;

	(void)state;
	begin_autocast(&m, BF16);
	allocator_reset_peaks(m.allocator);
	out = baddbmm(&m, bias, first, second, MIB);
	end_autocast(&m);
	assert_int_equal(peak_bytes(), (2 + 2 + 1 + 1) * 2 * MIB);
	assert_int_equal(allocated(), (2 + 2 + 1) * 2 * MIB);
	tensor_unref(&m, &bias);
	tensor_unref(&m, &out);
	out.grad_fn = tape.last;
	allocator_reset_peaks(m.allocator);
	backward(&m, &tape, out, tensor_new(&m, MIB, BF16));
	assert_int_equal(peak_bytes(), (2 + 1 + 1 + 2) * 2 * MIB);
	clear(&a);
	clear(&b);
	assert_int_equal(allocated(), 0);
}

/* x @ weight.T: a linear layer's copy of its weight is in autocast's cache, that of a view is not.
 */
static void view_of_a_weight(void **state)
{
	struct param weight;
	tensor x = tensor_new(&m, MIB, BF16), out;

	(void)state;
	leaf_of(&weight, 1024 * 1024, F32);
	weight.in = 1024;
	begin_autocast(&m, BF16);
	allocator_reset_peaks(m.allocator);
	out = linear(&m, x, &weight, NULL);
	assert_int_equal(allocated(), (1 + 2 + 1 + 1) * 2 * MIB);
	tensor_unref(&m, &out);
	clear_autocast(&m);
	out = linear_of_view(&m, x, &weight);
	assert_int_equal(peak_bytes(), (1 + 2 + 1 + 1) * 2 * MIB);
	assert_int_equal(allocated(), (1 + 2 + 1) * 2 * MIB);
	end_autocast(&m);
	tape_free(&m, &tape);
	tensor_unref(&m, &out);
	tensor_unref(&m, &x);
	clear(&weight);
	assert_int_equal(allocated(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_MACHINE(sum_in_place),
		ON_MACHINE(product_with_bias),
		ON_MACHINE(view_of_a_weight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
