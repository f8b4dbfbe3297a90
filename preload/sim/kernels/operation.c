#include "kernels/operation.h"

#include <string.h>

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
/* A division by zero, or of the least number by -1, has no result on a GPU. */
static bool divides(const number *in)
{
	return in[1] != 0 && !(in[0] == (number)INT64_MIN && in[1] == -1);
}
static number divide(const struct operation *o, const number *in)
{
	(void)o;
	return divides(in) ? (int64_t)in[0] / (int64_t)in[1] : 0;
}
/* The remainder has the divisor's sign. */
static number remain(const struct operation *o, const number *in)
{
	int64_t rest = divides(in) ? (int64_t)in[0] % (int64_t)in[1] : 0;
	(void)o;
	return rest && (rest < 0) != (in[1] < 0) ? rest + in[1] : rest;
}
static number divide_down(const struct operation *o, const number *in)
{
	return divides(in) ? divide(o, in) - (remain(o, in) != (int64_t)in[0] % (int64_t)in[1]) : 0;
}
static number larger(const struct operation *o, const number *in)
{
	(void)o;
	return in[0] > in[1] ? in[0] : in[1];
}
static number smaller(const struct operation *o, const number *in)
{
	(void)o;
	return in[0] < in[1] ? in[0] : in[1];
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
	{ "CompareEqFunctor<", equal, 4 },
	{ "CompareFunctor<", compare, 4 },
	{ "BitwiseAndFunctor<", bit_and, 1 },
	{ "BitwiseOrFunctor<", bit_or, 1 },
	{ "BitwiseXorFunctor<", bit_xor, 1 },
	{ "MulFunctor<", multiply, 1 },
	{ "div_floor_kernel_cuda(", divide_down, 1 },
	{ "div_trunc_kernel_cuda(", divide, 1 },
	{ "remainder_kernel_cuda(", remain, 1 },
	{ "maximum_kernel_cuda(", larger, 1 },
	{ "minimum_kernel_cuda(", smaller, 1 },
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
		if (inner[strlen(binary[i].functor) - 1] == '(') /* a function's lambda */
			return operation_lambda(o->functor, o->in) == (o->inputs = 2) &&
			       (o->out = o->in[0]);
		o->in[0] = o->in[1] = launch_type(inner + strlen(binary[i].functor));
		o->out = compares(o) ? NUMBER_BOOL : o->in[0];
		o->inputs = 2;
		return o->in[0];
	}
	return false;
}

unsigned operation_lambda(const char *functor, enum number_type types[3])
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
	o->inputs = operation_lambda(o->functor, o->in);
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

bool operation_parse(struct operation *o)
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

void operation_settle(struct operation *o)
{
	if (number_floating(o->out) && !o->copies)
		o->apply = nothing;
	if (!o->apply)
		o->apply = nothing;
}

number operation_result(const struct operation *o, number in[3])
{
	if (o->inputs == 1 && o->apply != take) {
		number other = o->apply == add ? 1 : o->scalar;
		in[1] = o->swapped ? in[0] : other;
		in[0] = o->swapped ? other : in[0];
	}
	return o->apply(o, in);
}

bool operation_copies_input(const struct operation *o)
{
	return o->apply == take;
}

/* ---- many elements: one loop for each operation */

#define EACH(expression)                         \
	do {                                     \
		for (unsigned i = 0; i < n; i++) \
			out[i] = (expression);   \
		return true;                     \
	} while (0)

#define COMPARE(name, type)                                                                     \
	static bool name(const struct operation *o, int64_t *out, const type *a, const type *b, \
			 unsigned n)                                                            \
	{                                                                                       \
		if (o->apply == equal && o->choice == 1)                                        \
			EACH(a[i] != b[i]);                                                     \
		if (o->apply == equal)                                                          \
			EACH(a[i] == b[i]);                                                     \
		switch (o->choice) {                                                            \
		case 0:                                                                         \
			EACH(a[i] >= b[i]);                                                     \
		case 1:                                                                         \
			EACH(a[i] > b[i]);                                                      \
		case 2:                                                                         \
			EACH(a[i] <= b[i]);                                                     \
		default:                                                                        \
			EACH(a[i] < b[i]);                                                      \
		}                                                                               \
	}
COMPARE(compare_integers, int64_t)
COMPARE(compare_reals, double)

/* The operands' columns of `in`: a scalar is in the third. */
static void operands(const struct operation *o, unsigned *left, unsigned *right)
{
	bool scalar = o->inputs == 1;
	*left = scalar && o->swapped ? 2 : 0;
	*right = !scalar ? 1 : o->swapped ? 0 : 2;
}

static bool arithmetic(const struct operation *o, int64_t *out, const int64_t *a, const int64_t *b,
		       unsigned n)
{
	const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b;
	uint64_t scale = number_bits(o->scalar);
	if (o->apply == add)
		EACH((int64_t)(x[i] + scale * y[i]));
	if (o->apply == multiply)
		EACH((int64_t)(x[i] * y[i]));
	if (o->apply == bit_and)
		EACH(a[i] & b[i]);
	if (o->apply == bit_or)
		EACH(a[i] | b[i]);
	if (o->apply == bit_xor)
		EACH(a[i] ^ b[i]);
	if (o->apply == divide || o->apply == divide_down || o->apply == remain ||
	    o->apply == larger || o->apply == smaller)
		EACH((int64_t)o->apply(o, (const number[]){ a[i], b[i] }));
	return false;
}

bool operation_results(const struct operation *o, int64_t *out, int64_t in[3][CHUNK], unsigned n)
{
	unsigned left, right;
	int64_t scalar = (int64_t)number_bits(o->scalar);
	if (o->apply == take)
		EACH(in[0][i]);
	if (o->apply == fill)
		EACH(scalar);
	if (o->apply == choose)
		EACH(in[0][i] ? in[1][i] : in[2][i]);
	if (o->apply == logical_not)
		EACH(!in[0][i]);
	if (o->apply == negate && o->in[0] == NUMBER_BOOL)
		EACH(!in[0][i]);
	if (o->apply == negate)
		EACH(~in[0][i]);
	operands(o, &left, &right);
	if (o->inputs == 1)
		for (unsigned i = 0; i < n; i++)
			in[2][i] = o->apply == add ? 1 : scalar;
	return compares(o) ? compare_integers(o, out, in[left], in[right], n)
			   : arithmetic(o, out, in[left], in[right], n);
}

bool operation_compares(const struct operation *o, int64_t *out, double in[3][CHUNK], unsigned n)
{
	unsigned left, right;
	if (o->apply == logical_not)
		EACH(in[0][i] == 0);
	if (!compares(o))
		return false;
	operands(o, &left, &right);
	if (o->inputs == 1)
		for (unsigned i = 0; i < n; i++)
			in[2][i] = (double)o->scalar;
	return compare_reals(o, out, in[left], in[right], n);
}
