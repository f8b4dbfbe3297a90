/* Computed kernels, launched as a program's stub does, with the names of PyTorch's: results, and
 * arguments that must not be followed. tests/jobs/small_kernels.py has them all, from PyTorch
 * itself. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#define FILL                                                                                \
	"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIlEENS_6detail5" \
	"ArrayIPcLi1EEEEEviT0_T1_"
#define TOPK                                                                                       \
	"_ZN2at6native6sbtopk10gatherTopKIfjLi2ELb0EEEvNS_4cuda6detail10TensorInfoIKT_T0_EES8_S8_" \
	"bS8_S8_NS5_IS6_S8_EES8_NS5_IlS8_EES8_PS6_"
#define REDUCE                                                                                  \
	"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIlNS0_14func_wrapper_tIlNS0_13Max" \
	"NanFunctorIlEEEEjlLi4EEEEEvT1_"
#define SIGNBIT                                                                                \
	"_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_19signbit_kernel_cudaERNS_18" \
	"TensorIteratorBaseEENKUlvE0_clEvENKUlvE0_clEvEUlfE_NS_6detail5ArrayIPcLi2EEEEEviT0_T1_"
#define ABS                                                                                      \
	"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10AbsFunctorIfEENS_6detail5ArrayI" \
	"PcLi2EEEEEviT0_T1_"
#define OTHERS                                                                                   \
	"_ZN2at6native29vectorized_elementwise_kernelILi4EN4mine5IsBigIfEENS_6detail5ArrayIPcLi" \
	"2EEEEEviT0_T1_"

#define QUANTIZE                                                                                \
	"_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_57_GLOBAL__N__9d6afede_18_"    \
	"AffineQuantizer_cu_e5d96c45_7764438quantize_tensor_per_tensor_affine_cudaERKNS_6Tenso" \
	"rERS3_dlENKUlvE_clEvENKUlvE_clEvEUlfN3c105qint8EE_St5arrayIPcLm3EELb0EEEviT0_T1_"
#define ARANGE                                                                                    \
	"_ZN50_GLOBAL__N__2fa45684_17_RangeFactories_cu_38772b0829elementwise_kernel_with_indexI" \
	"iZZZN2at6native15arange_cuda_outERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_clEvENKUlvE1" \
	"_clEvEUllE_EEvT_T0_PN15function_traitsISD_E11result_typeE"

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int limit, void *thread, void *block, void *block_size, void *grid_size,
			    int *warp_size);

static char stubs[8]; /* kernels are known by the address of their host function */

static void launch(int kernel, void **arguments)
{
	dim3 one = { 1, 1, 1 };
	assert_int_equal(cudaLaunchKernel(&stubs[kernel], one, one, arguments, 0, NULL), 0);
}

static int64_t *device_memory(size_t elements)
{
	void *memory;
	assert_int_equal(cudaMalloc(&memory, elements * 8), 0);
	return memory;
}

static void fill(int64_t *to, int count, int64_t value)
{
	void *arguments[] = { &count, &value, &to };
	launch(0, arguments);
}

static void a_fill_fills(void **state)
{
	(void)state;
	int64_t *d = device_memory(8), got[8];
	fill(d, 8, -5);
	fill(d + 1, 3, 1ll << 40);
	assert_int_equal(cudaMemcpy(got, d, sizeof got, cudaMemcpyDeviceToHost), 0);
	static const int64_t want[] = { -5, 1ll << 40, 1ll << 40, 1ll << 40, -5, -5, -5, -5 };
	assert_memory_equal(got, want, sizeof got);
	assert_int_equal(cudaFree(d), 0);
}

/* An unknown result is cleared as far as it is the kernel's own: 8 floats, or 8 truths. */
static void what_is_not_known_leaves_its_neighbour(void **state)
{
	(void)state;
	static const struct {
		int kernel;
		size_t cleared;
	} of[] = { { 4, 32 }, { 3, 8 }, { 5, 0 }, { 6, 0 } };
	int64_t *d = device_memory(6);
	unsigned char got[48];
	int count = 8;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		void *data[] = { d, d };
		char functor = 0;
		void *arguments[] = { &count, &functor, data };
		fill(d, 6, -1);
		launch(of[i].kernel, arguments);
		assert_int_equal(cudaMemcpy(got, d, sizeof got, cudaMemcpyDeviceToHost), 0);
		for (size_t at = 0; at < sizeof got; at++)
			assert_int_equal(got[at], at < of[i].cleared ? 0 : 0xff);
	}
	assert_int_equal(cudaFree(d), 0);
}

/* 3, 5 ... 17 as 32-bit integers: its name has the index's type alone, which is wider. */
static void a_range_leaves_its_neighbour(void **state)
{
	(void)state;
	int64_t *d = device_memory(6), captured[] = { 3, 2 };
	int count = 8, got[12];
	void *arguments[] = { &count, captured, &d };
	fill(d, 6, -1);
	launch(7, arguments);
	assert_int_equal(cudaMemcpy(got, d, sizeof got, cudaMemcpyDeviceToHost), 0);
	for (int i = 0; i < 12; i++)
		assert_int_equal(got[i], i < count ? 3 + 2 * i : -1);
	assert_int_equal(cudaFree(d), 0);
}

/* Nothing outside the device's addresses is touched, and large tensors cost no memory. */
static void wrong_and_large_arguments_are_left_alone(void **state)
{
	(void)state;
	int64_t own[4] = { 1, 2, 3, 4 }, *d = device_memory(4);
	fill(own, 4, 9);
	fill(NULL, 4, 9);
	fill(d, -1, 9);
	assert_int_equal(own[0], 1);
	int64_t first;
	assert_int_equal(cudaMemcpy(&first, d, 8, cudaMemcpyDeviceToHost), 0);
	assert_int_equal(first, 0);
	char garbage[4096];
	memset(garbage, 0x5a, sizeof garbage);
	void *arguments[] = { garbage, garbage, garbage, garbage, garbage, garbage,
			      garbage, garbage, garbage, garbage, garbage };
	launch(1, arguments);
	launch(2, arguments);
	assert_int_equal(cudaFree(d), 0);
}

struct info { /* TensorInfo<type, unsigned> */
	void *data;
	unsigned sizes[25], strides[25];
	int dimensions;
};

/* Six tokens choose two of four experts: each expert is chosen three times. */
static void routing_is_balanced(void **state)
{
	(void)state;
	int64_t *d = device_memory(12), got[12], count[4] = { 0 };
	unsigned length = 4, chosen = 2, rows = 6, step = 1;
	bool largest = true;
	struct info in = { .dimensions = 1 };
	struct info out = { .data = d, .sizes = { 6, 1 }, .strides = { 2, 1 }, .dimensions = 2 };
	void *none = NULL;
	void *arguments[] = { &in, &length, &chosen, &largest, &rows, &step,
			      &in, &step,   &out,    &step,    &none };
	launch(1, arguments);
	assert_int_equal(cudaMemcpy(got, d, sizeof got, cudaMemcpyDeviceToHost), 0);
	for (int i = 0; i < 12; i++) {
		assert_in_range(got[i], 0, 3);
		count[got[i]]++;
		assert_true(i % 2 == 0 || got[i] != got[i - 1]);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(count[i], 3);
	assert_int_equal(cudaFree(d), 0);
}

/* PyTorch's ReduceOp<long, ...>, of one number: its configuration, the layouts, and the pointers.
 */
struct reduce {
	int64_t operation, neutral;
	int element, inputs, outputs, step_input, step_output, blocks, input_steps[3],
		output_steps[2], width, height, threads, vectorized, output_vector;
	unsigned input[1 + 25 * 3 + 25], output[1 + 25 * 3 + 25 * 2], padding;
	int64_t *from, *to[2];
};

/* What PyTorch leaves unset, on a stack where device pointers lay: the unused ends of layouts, and
 * padding. */
static void a_stale_pointer_is_not_taken_for_an_argument(void **state)
{
	(void)state;
	int64_t *d = device_memory(3), got[3];
	struct reduce r = { .neutral = INT64_MIN,
			    .element = 8,
			    .inputs = 1,
			    .outputs = 1,
			    .step_input = 1,
			    .step_output = 1,
			    .blocks = 1,
			    .output_steps = { 1, 1 },
			    .width = 1,
			    .height = 1,
			    .threads = 1,
			    .output_vector = 1,
			    .input = { 1, 1 },
			    .output = { 1, 1 },
			    .from = d,
			    .to = { d + 1 } };
	int64_t *stale = d + 2;
	memcpy((char *)&r.from - sizeof stale, &stale, sizeof stale);
	fill(d, 1, 5);
	fill(d + 1, 2, -1);
	void *arguments[] = { &r };
	launch(2, arguments);
	assert_int_equal(cudaMemcpy(got, d, sizeof got, cudaMemcpyDeviceToHost), 0);
	static const int64_t want[] = { 5, 5, -1 };
	assert_memory_equal(got, want, sizeof got);
	assert_int_equal(cudaFree(d), 0);
}

int main(void)
{
	static const char *const names[] = { FILL, TOPK,   REDUCE,   SIGNBIT,
					     ABS,  OTHERS, QUANTIZE, ARANGE };
	if (!dlopen("libstdc++.so.6", RTLD_LAZY)) /* as C++ programs have it */
		return 1;
	for (size_t i = 0; i < sizeof stubs; i++)
		__cudaRegisterFunction(NULL, &stubs[i], NULL, names[i], -1, NULL, NULL, NULL, NULL,
				       NULL);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fill_fills),
		cmocka_unit_test(what_is_not_known_leaves_its_neighbour),
		cmocka_unit_test(a_range_leaves_its_neighbour),
		cmocka_unit_test(wrong_and_large_arguments_are_left_alone),
		cmocka_unit_test(routing_is_balanced),
		cmocka_unit_test(a_stale_pointer_is_not_taken_for_an_argument),
	};
	return cmocka_run_group_tests_name("computed kernels", tests, NULL, NULL);
}
