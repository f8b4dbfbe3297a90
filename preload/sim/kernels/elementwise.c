/* PyTorch's elementwise kernels (TensorIterator), where they decide what the host does:
 * comparisons, fills, copies, conversions, sums and bits of integers and booleans. A result in
 * floating point is copied or filled; any other is 0, so that what the host reads is finite.
 *
 * Kernels differ in how they find their elements (contiguous, by strides, with a conversion), and
 * in the operation (operation.c).
 */
#include "device/common.h"
#include "kernels/computed.h"
#include "kernels/kernels.h"
#include "kernels/operation.h"

#include <string.h>

/* ---- the positions of the elements */

struct elements {
	uint64_t count;
	char *data[4];            /* the output, then the inputs */
	enum number_type type[4]; /* in memory: the operation's own, unless converted */
	bool strided;
	struct strided layout;
};

static uint64_t reach(const struct elements *e, unsigned argument)
{
	uint64_t size = number_size(e->type[argument]);
	return e->strided ? strided_reach(&e->layout, argument) + size : e->count * size;
}

static bool valid(const struct elements *e, unsigned arguments)
{
	for (unsigned a = 0; a < arguments; a++)
		if (!launch_device(e->data[a], reach(e, a)))
			return false;
	return true;
}

/* One element after the other, of any types. */
static void run_slowly(const struct elements *e, const struct operation *o)
{
	uint64_t at[ARGUMENTS];
	number in[3];
	for (uint64_t i = 0; i < e->count; i++) {
		strided_offsets(&e->layout, i, at);
		for (unsigned a = 0; a < o->inputs; a++)
			in[a] = number_load(e->data[a + 1] + at[a + 1], e->type[a + 1]);
		number_store(e->data[0] + at[0], e->type[0], operation_result(o, in));
	}
}

/* Many at a time: integers, and comparisons of reals. */
static bool run_chunk(const struct elements *e, const struct operation *o, bool reals,
		      uint64_t at[][CHUNK], unsigned n)
{
	int64_t integers[3][CHUNK], out[CHUNK];
	double numbers[3][CHUNK];
	for (unsigned a = 0; a < o->inputs; a++)
		if (reals)
			numbers_gather_reals(numbers[a], e->data[a + 1], at[a + 1], e->type[a + 1],
					     n);
		else
			numbers_gather(integers[a], e->data[a + 1], at[a + 1], e->type[a + 1], n);
	if (!(reals ? operation_compares(o, out, numbers, n)
		    : operation_results(o, out, integers, n)))
		return false;
	numbers_scatter(e->data[0], at[0], e->type[0], out, n);
	return true;
}

static bool run_chunks(const struct elements *e, const struct operation *o)
{
	struct walk walk = { .layout = &e->layout };
	uint64_t at[ARGUMENTS][CHUNK];
	bool reals = false;
	for (unsigned a = 0; a < o->inputs; a++) {
		reals |= number_floating(e->type[a + 1]);
		if (e->type[a + 1] == NUMBER_UINT64)
			return false;
	}
	if (!number_integral(e->type[0]))
		return false;
	for (uint64_t done = 0; done < e->count; done += CHUNK) {
		unsigned n = e->count - done < CHUNK ? (unsigned)(e->count - done) : CHUNK;
		walk_next(&walk, at, n);
		if (!run_chunk(e, o, reals, at, n))
			return false; /* at the first one: nothing is written yet */
	}
	return true;
}

static void run(struct elements *e, const struct operation *o)
{
	size_t bytes[ARGUMENTS] = { 0 };
	for (unsigned a = 0; a <= o->inputs; a++)
		bytes[a] = number_size(e->type[a]);
	if (!e->strided)
		e->layout = strided_row(e->count, o->inputs + 1, bytes);
	if (!run_chunks(e, o))
		run_slowly(e, o);
}

static void types_of(struct elements *e, const struct operation *o)
{
	e->type[0] = o->out;
	for (unsigned a = 0; a < o->inputs; a++)
		e->type[a + 1] = o->in[a];
}

/* The most elements: of integers that become floats, more than of other floats. */
static uint64_t most(const struct elements *e, const struct operation *o)
{
	if (number_floating(e->type[0]) && operation_copies_input(o) &&
	    !number_floating(e->type[1]))
		return COMPUTED_CONVERTED;
	return computed_most(e->type[0]);
}

/* Returns true also if there is nothing to do: only an argument that makes no sense is a
 * failure. */
static bool compute(const struct launch *l, struct elements *e, struct operation *o)
{
	bool whole;
	operation_settle(o);
	whole = e->count <= most(e, o);
	if (!e->count || (!whole && !number_integral(e->type[0])))
		return true;
	if (whole && !valid(e, o->inputs + 1))
		return false;
	for (unsigned a = 1; a <= o->inputs && number_integral(e->type[0]); a++)
		launch_reads(e->data[a], reach(e, a));
	if (!whole) {
		launch_leaves(l, e->data[0], reach(e, 0));
		return true;
	}
	launch_writes(e->data[0], reach(e, 0));
	run(e, o);
	return true;
}

/* The bytes of an element of the result of PyTorch's functor. Other functors are unknown: 0. */
static size_t result_size(const struct operation *o, enum number_type first)
{
	static const struct {
		const char *functor;
		size_t bytes;
	} unlike[] = { /* functors with a result that is not of their first type */
		       { "::logical_", 1 },       { "::signbit_kernel", 1 },
		       { "::isposinf_", 1 },      { "::isneginf_", 1 },
		       { "::float8_copy_", 1 },   { "::float16_copy_", 2 },
		       { "::bfloat16_copy_", 2 }, { "tofloat32_copy_", 4 }
	};
	if (!strstr(o->functor, "at::native::"))
		return 0;
	for (size_t i = 0; i < LENGTH(unlike); i++)
		if (strstr(o->functor, unlike[i].functor))
			return unlike[i].bytes;
	return number_size(first);
}

/* An unknown functor, {lambda(float)#1} or AbsFunctor<float>: its result is 0 if that is
 * possible without more knowledge. `stored`: the type in memory, if it is converted. */
static bool unknown(const struct operation *o, uint64_t count, char *data,
		    const signed char *stored)
{
	enum number_type types[3] = { NUMBER_NONE };
	const char *template = strchr(o->functor, '<');
	unsigned operands = operation_lambda(o->functor, types);
	if (!operands && template && !strstr(o->functor, "aryFunctor<"))
		types[0] = launch_type(template + 1);
	for (unsigned i = 1; i < operands; i++)
		if (!types[i]) /* one that is quantized is its result's */
			return true;
	uint64_t bytes = count * (stored ? number_size(number_of_scalar(*stored))
					 : result_size(o, types[0]));
	if (bytes && number_floating(types[0]) && count <= COMPUTED_FLOATS &&
	    launch_device(data, bytes))
		memset(data, 0, bytes);
	return true;
}

/* ---- the kernels */

/* The template argument that begins at `text`, whole. */
static bool name_functor(struct operation *o, const char *text)
{
	size_t length = 0;
	for (int depth = 0; text[length]; length++) {
		char c = text[length];
		if (!depth && (c == ',' || c == '>'))
			break;
		depth += (c == '<' || c == '(' || c == '{') - (c == '>' || c == ')' || c == '}');
	}
	if (length >= sizeof o->functor)
		return false;
	memcpy(o->functor, text, length);
	o->functor[length] = '\0';
	return true;
}

/* (int count, functor, std::array<char *, n>) */
bool elementwise_contiguous(const struct launch *l)
{
	struct operation o = { .state = l->arguments[1] };
	struct elements e = { .count = *(unsigned *)l->arguments[0] };
	char **data = l->arguments[2];
	const char *comma = strchr(launch_after(l, "elementwise_kernel<"), ',');
	if (!comma || !name_functor(&o, comma + 2))
		return true;
	if (!operation_parse(&o))
		return unknown(&o, e.count, data[0], NULL);
	memcpy(e.data, data, (o.inputs + 1) * sizeof *data);
	types_of(&e, &o);
	return compute(l, &e, &o);
}

/* (int count, functor, std::array<char *, n>, input layout, output layout, loader, storer): the
 * loader has n types and sizes, the storer one of each. */
bool elementwise_unrolled(const struct launch *l)
{
	struct operation o = { .state = l->arguments[1] };
	struct elements e = { .count = *(unsigned *)l->arguments[0] };
	char **data = l->arguments[2];
	const bool converts = strstr(l->name, "LoadWithCast<");
	if (!strstr(l->name, "TrivialOffsetCalculator<") ||
	    !name_functor(&o, launch_after(l, "elementwise_kernel<")))
		return true;
	if (!operation_parse(&o))
		return unknown(&o, e.count, data[0], converts ? l->arguments[6] : NULL);
	memcpy(e.data, data, (o.inputs + 1) * sizeof *data);
	types_of(&e, &o);
	if (converts) {
		const signed char *from = l->arguments[5], *to = l->arguments[6];
		for (unsigned a = 0; a < o.inputs; a++)
			e.type[a + 1] = number_of_scalar(from[a]);
		e.type[0] = number_of_scalar(to[0]);
	}
	for (unsigned a = 0; a <= o.inputs; a++)
		if (!e.type[a])
			return true; /* complex, 8-bit floats: the host decides nothing by them */
	return compute(l, &e, &o);
}

/* Captured by the lambda of a strided kernel: layout, pointers, functor. The number of arguments
 * decides where they are, and is in the functor's type. */
static bool strided_arguments(const struct launch *l, struct operation *o, struct elements *e,
			      const char **rest)
{
	const char *state = l->arguments[1];
	*e = (struct elements){ .count = *(unsigned *)l->arguments[0], .strided = true };
	o->state = (const unsigned char *)state; /* not its own yet: only types are read */
	if (!operation_parse(o))
		return false;
	size_t size = strided_read(&e->layout, state, o->inputs + 1);
	if (!size)
		return false;
	state += round_up(size, 8);
	memcpy(e->data, state, (o->inputs + 1) * sizeof *e->data);
	*rest = state + (o->inputs + 1) * sizeof *e->data;
	o->state = (const unsigned char *)*rest;
	return operation_parse(o);
}

static bool strided_plain(const struct launch *l, const char *mark)
{
	struct operation o = { 0 };
	struct elements e;
	const char *rest;
	if (!name_functor(&o, launch_after(l, mark)) || !strided_arguments(l, &o, &e, &rest))
		return true;
	types_of(&e, &o);
	return compute(l, &e, &o);
}

bool elementwise_strided(const struct launch *l)
{
	return strided_plain(l, "gpu_kernel_impl_nocast<");
}

/* With conversions: after the functor, the types in memory, one byte each. Only functors without
 * state are followed: a copy with a conversion is what there is. PyTorch before 2.4 had the kernel
 * without conversions in the same function, as its first lambda. */
bool elementwise_cast(const struct launch *l)
{
	static int apart = -1;
	struct operation o = { 0 };
	struct elements e;
	const char *rest;
	if (apart < 0)
		apart = kernel_registered("gpu_kernel_impl_nocast");
	if (!apart && strstr(l->name, " const&)::{lambda(int)#1}>(int, "))
		return strided_plain(l, "gpu_kernel_impl<");
	if (!name_functor(&o, launch_after(l, "gpu_kernel_impl<")) ||
	    !strided_arguments(l, &o, &e, &rest) || !operation_copies_input(&o))
		return true;
	for (unsigned a = 0; a <= o.inputs; a++)
		if (!(e.type[a] = number_of_scalar(rest[1 + a])))
			return true;
	return compute(l, &e, &o);
}
