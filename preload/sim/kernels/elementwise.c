/* PyTorch's elementwise kernels (TensorIterator), where they decide what the host does:
 * comparisons, fills, copies, conversions, sums and bits of integers and booleans. A result in
 * floating point is copied or filled; any other is 0, so that what the host reads is finite.
 *
 * Kernels differ in how they find their elements (contiguous, by strides, with a conversion), which
 * is the first half; and in the operation, a functor whose C++ type says what it does, the second.
 */
#include "device/common.h"
#include "kernels/computed.h"
#include "kernels/kernels.h"

#include <string.h>

/* ---- operations */

struct operation {
	char functor[1024];         /* its type in the kernel's name */
	const unsigned char *state; /* its bytes */
	unsigned inputs;
	enum number_type in[3], out;
	number (*apply)(const struct operation *, const number *);
	number scalar;
	int choice;
	bool copies, swapped; /* swapped: the scalar is the left operand */
};

static number take(const struct operation *o, const number *in)
{
	(void)o;
	return in[0];
}
static number fill(const struct operation *o, const number *in)
{
	(void)in;
	return o->scalar;
}
static number nothing(const struct operation *o, const number *in)
{
	(void)o, (void)in;
	return 0;
}
static number negate(const struct operation *o, const number *in)
{
	return o->in[0] == NUMBER_BOOL ? !in[0] : (number)(int64_t)~number_bits(in[0]);
}
static number logical_not(const struct operation *o, const number *in)
{
	(void)o;
	return !in[0];
}
static number choose(const struct operation *o, const number *in)
{
	(void)o;
	return in[0] != 0 ? in[1] : in[2];
}
static number add(const struct operation *o, const number *in)
{
	return (int64_t)(number_bits(in[0]) + number_bits(o->scalar) * number_bits(in[1]));
}
static number multiply(const struct operation *o, const number *in)
{
	(void)o;
	return (int64_t)(number_bits(in[0]) * number_bits(in[1]));
}
static number bit_and(const struct operation *o, const number *in)
{
	(void)o;
	return (int64_t)(number_bits(in[0]) & number_bits(in[1]));
}
static number bit_or(const struct operation *o, const number *in)
{
	(void)o;
	return (int64_t)(number_bits(in[0]) | number_bits(in[1]));
}
static number bit_xor(const struct operation *o, const number *in)
{
	(void)o;
	return (int64_t)(number_bits(in[0]) ^ number_bits(in[1]));
}
static number equal(const struct operation *o, const number *in)
{
	return (in[0] == in[1]) != (o->choice == 1); /* EqOpType: EQ, NE */
}
static number compare(const struct operation *o, const number *in)
{
	switch (o->choice) { /* OpType: GE, GT, LE, LT */
	case 0:
		return in[0] >= in[1];
	case 1:
		return in[0] > in[1];
	case 2:
		return in[0] <= in[1];
	default:
		return in[0] < in[1];
	}
}

/* Operations of two operands, by their functor: alone, or within BinaryFunctor, AUnaryFunctor (the
 * left operand is a scalar) and BUnaryFunctor (the right one is). `choice`: bytes of a selector
 * that comes first. */
static const struct {
	const char *functor;
	number (*apply)(const struct operation *, const number *);
	unsigned choice;
} binary[] = {
	{ "CompareEqFunctor<", equal, 4 },    { "CompareFunctor<", compare, 4 },
	{ "BitwiseAndFunctor<", bit_and, 1 }, { "BitwiseOrFunctor<", bit_or, 1 },
	{ "BitwiseXorFunctor<", bit_xor, 1 }, { "MulFunctor<", multiply, 1 },
};

static bool compares(const struct operation *o)
{
	return o->apply == equal || o->apply == compare;
}

static void read_choice(struct operation *o)
{
	if (compares(o))
		memcpy(&o->choice, o->state, sizeof o->choice);
}

/* <left, right, result, operation> */
static bool parse_wrapped(struct operation *o, const char *types, unsigned choice)
{
	enum number_type left, right;
	const char *next = strchr(types, ',');
	if (!next || !(left = launch_type(types)) || !(right = launch_type(next + 2)))
		return false;
	const char *result = strchr(next + 2, ',');
	if (!result || !(o->out = launch_type(result + 2)))
		return false;
	bool left_scalar = strstr(o->functor, "AUnaryFunctor<");
	o->swapped = left_scalar;
	if (strstr(o->functor, "BinaryFunctor<")) {
		o->inputs = 2;
		o->in[0] = left;
		o->in[1] = right;
		return true;
	}
	enum number_type scalar = left_scalar ? left : right;
	o->inputs = 1;
	o->in[0] = left_scalar ? right : left;
	o->scalar = number_exact(o->state + round_up(choice, number_size(scalar)), scalar);
	return true;
}

static bool parse_binary(struct operation *o)
{
	for (size_t i = 0; i < LENGTH(binary); i++) {
		const char *inner = strstr(o->functor, binary[i].functor);
		const char *types = strstr(o->functor, "aryFunctor<");
		if (!inner)
			continue;
		o->apply = binary[i].apply;
		read_choice(o);
		if (types)
			return parse_wrapped(o, types + strlen("aryFunctor<"), binary[i].choice);
		o->in[0] = o->in[1] = launch_type(inner + strlen(binary[i].functor));
		o->out = compares(o) ? NUMBER_BOOL : o->in[0];
		o->inputs = 2;
		return o->in[0];
	}
	return false;
}

/* The types of a lambda's parameters: "...{lambda(long, long)#1}". */
static unsigned lambda_types(const char *functor, enum number_type types[3])
{
	const char *at = NULL;
	unsigned count = 0;
	for (const char *next = functor; (next = strstr(next, "{lambda(")); next++)
		at = next + strlen("{lambda(");
	while (at && *at != ')' && count < 3) {
		types[count++] = launch_type(at);
		at += strcspn(at, ",)");
		at += *at == ',' ? 2 : 0;
	}
	return count;
}

static bool parse_lambda(struct operation *o)
{
	static const struct {
		const char *functor;
		number (*apply)(const struct operation *, const number *);
		unsigned inputs;
	} lambdas[] = {
		{ "direct_copy_kernel_cuda(", take, 1 },
		{ "converting_copy_kernel_cuda<", take, 1 },
		{ "compare_scalar_kernel<", compare, 1 },
		{ "bitwise_not_kernel_cuda(", negate, 1 },
		{ "logical_not_kernel_cuda(", logical_not, 1 },
		{ "where_kernel_impl(", choose, 3 },
	};
	o->inputs = lambda_types(o->functor, o->in);
	for (size_t i = 0; i < LENGTH(lambdas); i++) {
		if (!strstr(o->functor, lambdas[i].functor) || o->inputs != lambdas[i].inputs)
			continue;
		o->apply = lambdas[i].apply;
		o->out = o->in[o->inputs - 1];
		o->copies = o->apply == take || o->apply == choose;
		if (o->apply == logical_not)
			o->out = NUMBER_BOOL;
		if (o->apply == compare) {
			memcpy(&o->choice, o->state, sizeof o->choice);
			o->scalar = number_exact(o->state + round_up(4, number_size(o->in[0])),
						 o->in[0]);
			o->out = NUMBER_BOOL;
		}
		const char *to = strstr(o->functor, "converting_copy_kernel_cuda<");
		if (to && (to = strchr(to, ',')))
			o->out = launch_type(to + 2);
		return o->out;
	}
	return false;
}

/* False: not an operation that is computed. */
static bool parse(struct operation *o)
{
	const char *type;
	if ((type = strstr(o->functor, "FillFunctor<"))) {
		o->out = launch_type(type + strlen("FillFunctor<"));
		o->apply = fill;
		o->copies = true;
		o->scalar = number_exact(o->state, o->out);
		return o->out;
	}
	bool self = (type = strstr(o->functor, "CUDAFunctorOnSelf_add<"));
	if (self || (type = strstr(o->functor, "CUDAFunctor_add<"))) {
		o->out = o->in[0] = o->in[1] = launch_type(strchr(type, '<') + 1);
		o->inputs = self ? 1 : 2;
		o->apply = add;
		if (o->out) /* (other, alpha), or alpha alone */
			o->scalar = number_exact(o->state, o->out);
		if (self && o->out)
			o->scalar = multiply(
				o, (const number[]){
					   o->scalar,
					   number_exact(o->state + number_size(o->out), o->out) });
		return o->out;
	}
	return parse_binary(o) || parse_lambda(o);
}

/* A result in floating point that is not computed is 0. */
static void settle(struct operation *o)
{
	if (number_floating(o->out) && !o->copies)
		o->apply = nothing;
	if (!o->apply)
		o->apply = nothing;
}

static number result(const struct operation *o, number in[3])
{
	if (o->inputs == 1 && o->apply != take) {
		number other = o->apply == add ? 1 : o->scalar;
		in[1] = o->swapped ? in[0] : other;
		in[0] = o->swapped ? other : in[0];
	}
	return o->apply(o, in);
}

/* ---- the positions of the elements */

struct elements {
	uint64_t count;
	char *data[4];            /* the output, then the inputs */
	enum number_type type[4]; /* in memory: the operation's own, unless converted */
	bool strided;
	struct strided layout;
};

static bool valid(const struct elements *e, unsigned arguments)
{
	for (unsigned a = 0; a < arguments; a++) {
		uint64_t reach = e->strided ? strided_reach(&e->layout, a)
					    : e->count * number_size(e->type[a]);
		if (!launch_device(e->data[a], reach))
			return false;
	}
	return true;
}

static void run(const struct elements *e, const struct operation *o)
{
	uint64_t at[ARGUMENTS];
	number in[3];
	for (uint64_t i = 0; i < e->count; i++) {
		if (e->strided)
			strided_offsets(&e->layout, i, at);
		for (unsigned a = 0; a < o->inputs; a++)
			in[a] = number_load(
				e->data[a + 1] +
					(e->strided ? at[a + 1] : i * number_size(e->type[a + 1])),
				e->type[a + 1]);
		number_store(e->data[0] + (e->strided ? at[0] : i * number_size(e->type[0])),
			     e->type[0], result(o, in));
	}
}

static void types_of(struct elements *e, const struct operation *o)
{
	e->type[0] = o->out;
	for (unsigned a = 0; a < o->inputs; a++)
		e->type[a + 1] = o->in[a];
}

/* Returns true also if there is nothing to do: only an argument that makes no sense is a
 * failure. */
static bool compute(struct elements *e, struct operation *o)
{
	settle(o);
	uint64_t most = number_floating(e->type[0]) ? COMPUTED_FLOATS : COMPUTED_INTEGERS;
	if (e->count > most || !e->count)
		return true;
	if (!valid(e, o->inputs + 1))
		return false;
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
	unsigned operands = lambda_types(o->functor, types);
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
	if (!parse(&o))
		return unknown(&o, e.count, data[0], NULL);
	memcpy(e.data, data, (o.inputs + 1) * sizeof *data);
	types_of(&e, &o);
	return compute(&e, &o);
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
	if (!parse(&o))
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
	return compute(&e, &o);
}

/* Captured by the lambda of a strided kernel: layout, pointers, functor. The number of arguments
 * decides where they are, and is in the functor's type. */
static bool strided_arguments(const struct launch *l, struct operation *o, struct elements *e,
			      const char **rest)
{
	const char *state = l->arguments[1];
	*e = (struct elements){ .count = *(unsigned *)l->arguments[0], .strided = true };
	o->state = (const unsigned char *)state; /* not its own yet: only types are read */
	if (!parse(o))
		return false;
	size_t size = strided_read(&e->layout, state, o->inputs + 1);
	if (!size)
		return false;
	state += round_up(size, 8);
	memcpy(e->data, state, (o->inputs + 1) * sizeof *e->data);
	*rest = state + (o->inputs + 1) * sizeof *e->data;
	o->state = (const unsigned char *)*rest;
	return parse(o);
}

static bool strided_plain(const struct launch *l, const char *mark)
{
	struct operation o = { 0 };
	struct elements e;
	const char *rest;
	if (!name_functor(&o, launch_after(l, mark)) || !strided_arguments(l, &o, &e, &rest))
		return true;
	types_of(&e, &o);
	return compute(&e, &o);
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
	    !strided_arguments(l, &o, &e, &rest) || o.apply != take)
		return true;
	for (unsigned a = 0; a <= o.inputs; a++)
		if (!(e.type[a] = number_of_scalar(rest[1 + a])))
			return true;
	return compute(&e, &o);
}
