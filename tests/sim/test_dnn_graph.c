/* cuDNN's graph API as PyTorch uses it: operation, graph, configuration, plan, and the workspace
 * that the plan asks for. The numbers are worked out by hand from the layout that the Developer
 * Guide describes: channels to a multiple of 8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What is used of cudnn_graph.h, which is not needed to build. */
int cudnnBackendCreateDescriptor(int type, void **descriptor);
int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *data);
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t asked, int64_t *count,
			     void *data);
enum { OF_INT64 = 3, OF_DATA_TYPE = 1, OF_DESCRIPTOR = 15, OF_BOOLEAN = 2 };
enum { FLOAT = 0, HALF = 2, BFLOAT16 = 9 };
enum {
	ENGINE = 2,
	CONFIGURATION,
	HEURISTIC,
	PLAN,
	FORWARD = 10,
	FILTER,
	DATA,
	GRAPH = 15,
	TENSOR = 17
};
enum { NCHW, NHWC };

static void *made(int type)
{
	void *descriptor = NULL;
	assert_int_equal(cudnnBackendCreateDescriptor(type, &descriptor), 0);
	assert_non_null(descriptor);
	return descriptor;
}

static void part(void *of, int name, void *descriptor)
{
	assert_int_equal(cudnnBackendSetAttribute(of, name, OF_DESCRIPTOR, 1, &descriptor), 0);
}

static void *tensor(int type, int layout, const int64_t n[4])
{
	const int64_t nchw[] = { n[1] * n[2] * n[3], n[2] * n[3], n[3], 1 };
	const int64_t nhwc[] = { n[1] * n[2] * n[3], 1, n[3] * n[1], n[1] };
	void *t = made(TENSOR);
	assert_int_equal(cudnnBackendSetAttribute(t, 901, OF_DATA_TYPE, 1, &type), 0);
	assert_int_equal(cudnnBackendSetAttribute(t, 902, OF_INT64, 4, n), 0);
	assert_int_equal(
		cudnnBackendSetAttribute(t, 903, OF_INT64, 4, layout == NCHW ? nchw : nhwc), 0);
	return t;
}

static const int64_t x_sizes[] = { 2, 4, 32, 32 }, w_sizes[] = { 4, 4, 3, 3 };

/* A convolution of 2 x 4 x 32 x 32 by 4 x 4 x 3 x 3, FORWARD, FILTER or DATA; its tensors are gone,
 * as they are when PyTorch asks. */
static void *convolution(int kind, int type, int layout, const int64_t w[4])
{
	static const int first[] = { 703, 715, 709 }; /* the filter, the input, the output */
	void *operation = made(kind),
	     *tensors[] = { tensor(type, layout, w), tensor(type, layout, x_sizes),
			    tensor(type, layout, x_sizes) };
	for (int i = 0; i < 3; i++) {
		part(operation, first[kind - FORWARD] + i, tensors[i]);
		assert_int_equal(cudnnBackendDestroyDescriptor(tensors[i]), 0);
	}
	return operation;
}

static void *graph_of(void *const *operations, int count)
{
	void *graph = made(GRAPH);
	assert_int_equal(cudnnBackendSetAttribute(graph, 801, OF_DESCRIPTOR, count, operations), 0);
	for (int i = 0; i < count; i++)
		assert_int_equal(cudnnBackendDestroyDescriptor(operations[i]), 0);
	return graph;
}

/* What the plan asks for, the configuration got from the heuristics; frees the graph. */
static int64_t workspace(void *graph)
{
	void *heuristic = made(HEURISTIC), *configuration = made(CONFIGURATION), *plan = made(PLAN);
	int64_t count = 0, size = -1;
	part(heuristic, 201, graph);
	assert_int_equal(
		cudnnBackendGetAttribute(heuristic, 202, OF_DESCRIPTOR, 1, &count, &configuration),
		0);
	assert_int_equal(count, 1);
	part(plan, 401, configuration);
	void *of[] = { graph, heuristic, configuration };
	for (int i = 0; i < 3; i++)
		assert_int_equal(cudnnBackendDestroyDescriptor(of[i]), 0);
	assert_int_equal(cudnnBackendGetAttribute(plan, 402, OF_INT64, 1, &count, &size), 0);
	assert_int_equal(count, 1);
	assert_int_equal(cudnnBackendDestroyDescriptor(plan), 0);
	return size;
}

static int64_t alone(int kind, int type, int layout, const int64_t w[4])
{
	void *operation = convolution(kind, type, layout, w);
	return workspace(graph_of(&operation, 1));
}

/* Two of 2 x 8 x 32 x 32 and one of 4 x 8 x 3 x 3 elements of 2 bytes: 2 x 32,768 + 576 */
static void half_precision_in_nchw_is_copied(void **state)
{
	(void)state;
	for (int kind = FORWARD; kind <= DATA; kind++) {
		assert_int_equal(alone(kind, BFLOAT16, NCHW, w_sizes), 66112);
		assert_int_equal(alone(kind, HALF, NCHW, w_sizes), 66112);
	}
}

static void nhwc_and_single_precision_are_not(void **state)
{
	(void)state;
	assert_int_equal(alone(FORWARD, BFLOAT16, NHWC, w_sizes), 0);
	assert_int_equal(alone(FILTER, FLOAT, NCHW, w_sizes), 0);
}

/* Four groups: a filter has one channel. */
static void groups_are_not_modelled(void **state)
{
	(void)state;
	static const int64_t grouped[] = { 4, 1, 3, 3 };
	assert_int_equal(alone(FORWARD, BFLOAT16, NCHW, grouped), 0);
}

static void fused_operations_are_not_modelled(void **state)
{
	(void)state;
	void *operations[] = { convolution(FORWARD, BFLOAT16, NCHW, w_sizes), made(13) };
	assert_int_equal(workspace(graph_of(operations, 2)), 0);
}

/* PyTorch's fallback names an engine itself. */
static void an_engine_by_number_asks_for_the_same(void **state)
{
	(void)state;
	void *operation = convolution(FORWARD, BFLOAT16, NCHW, w_sizes),
	     *graph = graph_of(&operation, 1), *engine = made(ENGINE),
	     *configuration = made(CONFIGURATION), *plan = made(PLAN);
	int64_t count, size;
	part(engine, 1300, graph);
	part(configuration, 300, engine);
	part(plan, 401, configuration);
	assert_int_equal(cudnnBackendGetAttribute(plan, 402, OF_INT64, 1, &count, &size), 0);
	assert_int_equal(size, 66112);
	void *of[] = { graph, engine, configuration, plan };
	for (int i = 0; i < 4; i++)
		assert_int_equal(cudnnBackendDestroyDescriptor(of[i]), 0);
}

/* Nothing is read behind what was given, and no size overflows. */
static void odd_tensors_are_left_out(void **state)
{
	(void)state;
	static const int64_t huge[] = { INT64_MAX, INT64_MAX, INT64_MAX, 2 },
			     none[] = { 2, -4, 0, 32 };
	assert_int_equal(alone(FORWARD, BFLOAT16, NCHW, none), 0);
	void *operation = made(FORWARD), *t = made(TENSOR);
	const int type = BFLOAT16;
	assert_int_equal(cudnnBackendSetAttribute(t, 901, OF_DATA_TYPE, 1, &type), 0);
	assert_int_equal(cudnnBackendSetAttribute(t, 902, OF_INT64, 4, huge), 0);
	assert_int_equal(cudnnBackendSetAttribute(t, 903, OF_INT64, 4, huge), 0);
	assert_int_equal(cudnnBackendSetAttribute(t, 902, OF_INT64, 1000, NULL), 0);
	for (int i = 703; i <= 705; i++)
		part(operation, i, t);
	part(operation, 703, NULL);
	assert_int_equal(cudnnBackendDestroyDescriptor(t), 0);
	assert_int_equal(workspace(graph_of(&operation, 1)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_precision_in_nchw_is_copied),
		cmocka_unit_test(nhwc_and_single_precision_are_not),
		cmocka_unit_test(groups_are_not_modelled),
		cmocka_unit_test(fused_operations_are_not_modelled),
		cmocka_unit_test(an_engine_by_number_asks_for_the_same),
		cmocka_unit_test(odd_tensors_are_left_out),
	};
	return cmocka_run_group_tests_name("cuDNN's graph API", tests, NULL, NULL);
}
