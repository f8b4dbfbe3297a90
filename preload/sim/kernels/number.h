/* One element of a tensor, of any of the types that a computed kernel reads or writes. */
#ifndef CUDASIM_NUMBER_H
#define CUDASIM_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* NUMBER(id, name in a demangled signature, bytes, is floating, PyTorch's ScalarType) */
#define NUMBERS                                     \
	NUMBER(BOOL, "bool", 1, 0, 11)              \
	NUMBER(UINT8, "unsigned char", 1, 0, 0)     \
	NUMBER(INT8, "signed char", 1, 0, 1)        \
	NUMBER(INT16, "short", 2, 0, 2)             \
	NUMBER(INT32, "int", 4, 0, 3)               \
	NUMBER(UINT32, "unsigned int", 4, 0, 28)    \
	NUMBER(INT64, "long", 8, 0, 4)              \
	NUMBER(UINT64, "unsigned long", 8, 0, 29)   \
	NUMBER(HALF, "c10::Half", 2, 1, 5)          \
	NUMBER(BFLOAT16, "c10::BFloat16", 2, 1, 15) \
	NUMBER(FLOAT, "float", 4, 1, 6)             \
	NUMBER(DOUBLE, "double", 8, 1, 7)

enum number_type {
	NUMBER_NONE,
#define NUMBER(id, name, bytes, floating, scalar) NUMBER_##id,
	NUMBERS
#undef NUMBER
};

typedef long double number; /* holds every int64_t and every double */

enum number_type number_named(const char *text, size_t length);
enum number_type number_of_scalar(int scalar_type);
size_t number_size(enum number_type type);
int number_floating(enum number_type type);
number number_exact(const void *at, enum number_type type);
/* Its 64 bits as an integer, which wraps as on the device; a value without an integer becomes
 * the least one. */
uint64_t number_bits(number value);
/* Infinities and NaNs, which here are only in memory that no kernel wrote, read as 0. */
number number_load(const void *at, enum number_type type);
void number_store(void *at, enum number_type type, number value);

/* `n` elements, each at an offset of its own, as integers or as reals; and back. Integers are all
 * types but floating point and UINT64. */
int number_integral(enum number_type type);
void numbers_gather(int64_t *to, const char *from, const uint64_t *offsets, enum number_type type,
		    unsigned n);
void numbers_gather_reals(double *to, const char *from, const uint64_t *offsets,
			  enum number_type type, unsigned n);
void numbers_scatter(char *to, const uint64_t *offsets, enum number_type type,
		     const int64_t *values, unsigned n);

#endif
