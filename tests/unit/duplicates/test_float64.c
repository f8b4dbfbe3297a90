/* Types that the sizes of linear layers tell. */
#include "fixture.h"

#include "duplicates/float64.h"

/* A layer's weight and bias, with numbers of `each` bytes, in blocks of 512 bytes. */
static void linear(struct lifetimes *l, bytes inputs, bytes outputs, bytes each)
{
	const bytes sizes[] = { inputs * outputs * each, outputs * each };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct mt_record r = { .time_ns = l->count + 1,
				       .kind = MT_TENSOR_ALLOC,
				       .address = l->count + 1,
				       .bytes = (sizes[i] + 511) / 512 * 512 };

		lifetimes_add(l, &r);
		l->list[l->count - 1].category = CATEGORY_PARAMETERS;
	}
}

static uint32_t layers_of(const struct lifetimes *l, const char *function)
{
	struct str strings[] = { { 0 }, { function, strlen(function) } };
	struct mt_frame frame = { .function = 1 };
	struct tables t = {
		.strings = strings, .string_count = 2, .frames = &frame, .frame_count = 1
	};

	uint32_t narrow;

	return layers_of_float64(l, &t, &narrow);
}

/* Two inputs, four hidden layers, one output. */
static uint32_t of_network(bytes width, bytes each)
{
	struct lifetimes l = { 0 };
	uint32_t found;

	linear(&l, 2, width, each);
	for (int i = 0; i < 4; i++)
		linear(&l, width, width, each);
	linear(&l, width, 1, each);
	found = layers_of(&l, "Net.forward");
	lifetimes_release(&l);
	return found;
}

static void square_layers_tell_eight_bytes(void **state)
{
	(void)state;
	for (bytes width = 96; width <= 1024; width += 32) {
		assert_int_equal(of_network(width, 8), 4);
		assert_int_equal(of_network(width, 4), 0);
		assert_int_equal(of_network(width, 2), 0);
	}
	/* Biases of 512 bytes are those of any type. */
	assert_int_equal(of_network(64, 8), 0);
}

/* Each layer of fp32 makes two numbers of one, and a gate one of two. */
static void gates_tell_nothing(void **state)
{
	struct lifetimes l = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++)
		linear(&l, 256, 512, 4);
	assert_true(layers_of(&l, "Net.forward") > 0);
	assert_int_equal(layers_of(&l, "GLU_Block.forward"), 0);
	lifetimes_release(&l);
}

/* A transformer's: four square ones, and two that widen and narrow. */
static uint32_t of_transformer(bytes width, bytes each, bytes table)
{
	struct lifetimes l = { 0 };
	uint32_t found;

	for (int i = 0; i < 3; i++) {
		linear(&l, width, width, each);
		linear(&l, width, width, each);
		linear(&l, width, 4 * width, each);
		linear(&l, 4 * width, width, each);
		if (table)
			linear(&l, table, width, each);
	}
	found = layers_of(&l, "Net.forward");
	lifetimes_release(&l);
	return found;
}

static void other_layers_are_of_no_type(void **state)
{
	(void)state;
	assert_true(of_transformer(256, 8, 0) >= 2);
	assert_int_equal(of_transformer(256, 4, 0), 0);
	assert_int_equal(of_transformer(512, 2, 0), 0);
	/* 512 rows of 64 numbers, between biases of 256: as large as 128 x 128 of float64. */
	assert_int_equal(of_transformer(256, 4, 128), 0);
}

/* A convolution's weight, and the weight and bias of its norm. */
static void convolution(struct lifetimes *l, bytes inputs, bytes outputs, bytes taps)
{
	linear(l, inputs * taps, outputs, 4);
	linear(l, 1, outputs, 4);
	l->count--;
}

/* In each stage a convolution of one tap doubles the width, as in a ResNet. */
static void layers_that_double_the_width_are_no_square_ones(void **state)
{
	struct lifetimes l = { 0 };

	(void)state;
	for (bytes width = 128; width <= 512; width *= 2) {
		convolution(&l, width, 2 * width, 9);
		convolution(&l, 2 * width, 2 * width, 9);
		convolution(&l, width, 2 * width, 1);
		convolution(&l, 2 * width, 2 * width, 9);
		convolution(&l, 2 * width, 2 * width, 9);
	}
	assert_int_equal(layers_of(&l, "Net.forward"), 0);
	lifetimes_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(square_layers_tell_eight_bytes),
		cmocka_unit_test(gates_tell_nothing),
		cmocka_unit_test(other_layers_are_of_no_type),
		cmocka_unit_test(layers_that_double_the_width_are_no_square_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
