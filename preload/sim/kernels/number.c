#include "kernels/number.h"

#include "device/common.h"
#include "device/half.h"

#include <string.h>

static const struct {
	const char *name;
	size_t bytes;
	int floating, scalar;
} types[] = { { "", 0, 0, -1 },
#define NUMBER(id, name, bytes, floating, scalar) { name, bytes, floating, scalar },
	      NUMBERS
#undef NUMBER
};

enum number_type number_named(const char *text, size_t length)
{
	for (size_t i = 1; i < LENGTH(types); i++)
		if (strlen(types[i].name) == length && !memcmp(types[i].name, text, length))
			return (enum number_type)i;
	return NUMBER_NONE;
}

enum number_type number_of_scalar(int scalar_type)
{
	for (size_t i = 1; i < LENGTH(types); i++)
		if (types[i].scalar == scalar_type)
			return (enum number_type)i;
	return NUMBER_NONE;
}

size_t number_size(enum number_type type)
{
	return types[type].bytes;
}

int number_floating(enum number_type type)
{
	return types[type].floating;
}

#define LOAD(id, ctype)                           \
	case id: {                                \
		ctype value;                      \
		memcpy(&value, at, sizeof value); \
		return value;                     \
	}

number number_exact(const void *at, enum number_type type)
{
	uint16_t half;
	float single;
	double wide;
	switch (type) {
		LOAD(NUMBER_UINT8, uint8_t)
		LOAD(NUMBER_INT8, int8_t)
		LOAD(NUMBER_INT16, int16_t)
		LOAD(NUMBER_INT32, int32_t)
		LOAD(NUMBER_UINT32, uint32_t)
		LOAD(NUMBER_INT64, int64_t)
		LOAD(NUMBER_UINT64, uint64_t)
	case NUMBER_BOOL:
		return *(const unsigned char *)at != 0;
	case NUMBER_HALF:
		memcpy(&half, at, 2);
		return half_to_float(half);
	case NUMBER_BFLOAT16:
		memcpy(&half, at, 2);
		return bfloat16_to_float(half);
	case NUMBER_FLOAT:
		memcpy(&single, at, 4);
		return single;
	case NUMBER_DOUBLE:
		memcpy(&wide, at, 8);
		return wide;
	default:
		return 0;
	}
}

number number_load(const void *at, enum number_type type)
{
	number value = number_exact(at, type);
	return __builtin_isfinite(value) ? value : 0;
}

uint64_t number_bits(number value)
{
	if (!(value > -0x1p63L && value < 0x1p64L))
		return 1ull << 63;
	return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

#define STORE(id, ctype)                            \
	case id: {                                  \
		ctype stored = (ctype)value;        \
		memcpy(at, &stored, sizeof stored); \
		break;                              \
	}

#define WRAP(id, ctype)                                   \
	case id: {                                        \
		ctype stored = (ctype)number_bits(value); \
		memcpy(at, &stored, sizeof stored);       \
		break;                                    \
	}

void number_store(void *at, enum number_type type, number value)
{
	uint16_t half;
	switch (type) {
		WRAP(NUMBER_UINT8, uint8_t)
		WRAP(NUMBER_INT8, int8_t)
		WRAP(NUMBER_INT16, int16_t)
		WRAP(NUMBER_INT32, int32_t)
		WRAP(NUMBER_UINT32, uint32_t)
		WRAP(NUMBER_INT64, int64_t)
		WRAP(NUMBER_UINT64, uint64_t)
		STORE(NUMBER_FLOAT, float)
		STORE(NUMBER_DOUBLE, double)
	case NUMBER_BOOL:
		*(unsigned char *)at = value != 0;
		break;
	case NUMBER_HALF:
		half = half_of_float((float)value);
		memcpy(at, &half, 2);
		break;
	case NUMBER_BFLOAT16:
		half = bfloat16_of_float((float)value);
		memcpy(at, &half, 2);
		break;
	default:
		break;
	}
}

/* ---- many of them: a loop for each type */

int number_integral(enum number_type type)
{
	return type && type != NUMBER_UINT64 && !number_floating(type);
}

#define GATHER(id, ctype)                                                \
	case id:                                                         \
		for (unsigned i = 0; i < n; i++) {                       \
			ctype value;                                     \
			memcpy(&value, from + offsets[i], sizeof value); \
			to[i] = value;                                   \
		}                                                        \
		break;

void numbers_gather(int64_t *to, const char *from, const uint64_t *offsets, enum number_type type,
		    unsigned n)
{
	switch (type) {
		GATHER(NUMBER_UINT8, uint8_t)
		/* The sign stays. NOLINTNEXTLINE(bugprone-signed-char-misuse) */
		GATHER(NUMBER_INT8, int8_t)
		GATHER(NUMBER_INT16, int16_t)
		GATHER(NUMBER_INT32, int32_t)
		GATHER(NUMBER_UINT32, uint32_t)
		GATHER(NUMBER_INT64, int64_t)
	default: /* booleans */
		for (unsigned i = 0; i < n; i++)
			to[i] = from[offsets[i]] != 0;
	}
}

void numbers_gather_reals(double *to, const char *from, const uint64_t *offsets,
			  enum number_type type, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		to[i] = (double)number_load(from + offsets[i], type);
}

#define SCATTER(id, ctype)                                             \
	case id:                                                       \
		for (unsigned i = 0; i < n; i++) {                     \
			ctype value = (ctype)values[i];                \
			memcpy(to + offsets[i], &value, sizeof value); \
		}                                                      \
		break;

void numbers_scatter(char *to, const uint64_t *offsets, enum number_type type,
		     const int64_t *values, unsigned n)
{
	switch (type) {
		SCATTER(NUMBER_UINT8, uint8_t)
		SCATTER(NUMBER_INT8, int8_t)
		SCATTER(NUMBER_INT16, int16_t)
		SCATTER(NUMBER_INT32, int32_t)
		SCATTER(NUMBER_UINT32, uint32_t)
		SCATTER(NUMBER_INT64, int64_t)
	default: /* booleans */
		for (unsigned i = 0; i < n; i++)
			to[offsets[i]] = values[i] != 0;
	}
}
