/* The arithmetic of small reductions, correct for every NCCL type but the 8-bit floats. */
#include "nccl/reduce.h"

#include "device/half.h"

enum type {
	INT8,
	UINT8,
	INT32,
	UINT32,
	INT64,
	UINT64,
	HALF,
	FLOAT,
	DOUBLE,
	BFLOAT16,
	FLOAT8E4M3,
	FLOAT8E5M2,
	TYPES
};
enum nccl_reduction { SUM, PROD, MAX, MIN, AVG };

size_t reduce_size(int type)
{
	static const size_t sizes[TYPES] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };
	return type >= 0 && type < TYPES ? sizes[type] : 0;
}

bool reduce_known(int type, int operation)
{
	return type >= 0 && type < FLOAT8E4M3 && operation >= 0;
}

/* `product` and `sum`: expressions of x and y. Averages and scaled sums are sums here: they are
 * divided or scaled apart. */
#define COMBINE(name, ctype, convert, back, product, sum)                                        \
	static void combine_##name(void *a, const void *b, size_t count, int operation)          \
	{                                                                                        \
		ctype *into = a;                                                                 \
		const ctype *from = b;                                                           \
                                                                                                 \
		for (size_t i = 0; i < count; i++) {                                             \
			__typeof__(convert(into[i])) x = convert(into[i]), y = convert(from[i]); \
			switch (operation) {                                                     \
			case PROD:                                                               \
				x = product;                                                     \
				break;                                                           \
			case MAX:                                                                \
				x = x > y ? x : y;                                               \
				break;                                                           \
			case MIN:                                                                \
				x = x < y ? x : y;                                               \
				break;                                                           \
			default:                                                                 \
				x = sum;                                                         \
			}                                                                        \
			into[i] = back(x);                                                       \
		}                                                                                \
	}
#define SAME(x) (x)
#define TYPE(name, ctype, convert, back) COMBINE(name, ctype, convert, back, x *y, x + y)
/* NCCL's integers wrap; C's signed ones may not */
#define WRAPPED(name, ctype, unsigned_type)                                            \
	COMBINE(name, ctype, SAME, SAME, (ctype)((unsigned_type)x * (unsigned_type)y), \
		(ctype)((unsigned_type)x + (unsigned_type)y))
WRAPPED(int8, int8_t, unsigned)
WRAPPED(uint8, uint8_t, unsigned)
WRAPPED(int32, int32_t, uint32_t)
WRAPPED(uint32, uint32_t, uint32_t)
WRAPPED(int64, int64_t, uint64_t)
WRAPPED(uint64, uint64_t, uint64_t)
TYPE(half, uint16_t, half_to_float, half_of_float)
TYPE(float, float, SAME, SAME)
TYPE(double, double, SAME, SAME)
TYPE(bfloat16, uint16_t, bfloat16_to_float, bfloat16_of_float)

void reduce_into(void *into, const void *from, size_t count, int type, int operation)
{
	static void (*const combine[])(void *, const void *, size_t, int) = {
		combine_int8,   combine_uint8, combine_int32, combine_uint32, combine_int64,
		combine_uint64, combine_half,  combine_float, combine_double, combine_bfloat16,
	};
	combine[type](into, from, count, operation);
}

/* One after another: their products wrap as those of the type do. */
void reduce_scale(void *data, size_t count, int type, const void *scalar)
{
	for (size_t i = 0; i < count; i++)
		reduce_into((char *)data + i * reduce_size(type), scalar, 1, type, PROD);
}

#define DIVIDE(id, ctype, wide, convert, back)                                                  \
	case id:                                                                                \
		for (size_t i = 0; i < count; i++)                                              \
			((ctype *)data)[i] =                                                    \
				(ctype)back((wide)convert(((ctype *)data)[i]) / (wide)divisor); \
		break;

void reduce_divide(void *data, size_t count, int type, int divisor)
{
	switch (type) {
		DIVIDE(INT8, int8_t, int, SAME, SAME)
		DIVIDE(UINT8, uint8_t, int, SAME, SAME)
		DIVIDE(INT32, int32_t, int32_t, SAME, SAME)
		DIVIDE(UINT32, uint32_t, uint32_t, SAME, SAME)
		DIVIDE(INT64, int64_t, int64_t, SAME, SAME)
		DIVIDE(UINT64, uint64_t, uint64_t, SAME, SAME)
		DIVIDE(HALF, uint16_t, float, half_to_float, half_of_float)
		DIVIDE(FLOAT, float, float, SAME, SAME)
		DIVIDE(DOUBLE, double, double, SAME, SAME)
		DIVIDE(BFLOAT16, uint16_t, float, bfloat16_to_float, bfloat16_of_float)
	}
}
