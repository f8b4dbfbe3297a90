/* The arithmetic of the simulated NCCL, type by type and operation by operation, between two ranks.
 * Every expected number is worked out by hand: whole numbers wrap at their width, an average of
 * them is the wrapped sum divided towards zero, and the 16-bit formats round to nearest even. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "calls.h"
#include "ranks.h"

enum { OPERATIONS = AVG + 1, HALVES = 1 << 16, PART = 1 << 10 };

/* The results of SUM, PROD, MAX, MIN and AVG of A, which rank 0 has, and B. */
#define ROW(type, ctype, a, b, ...)                                                   \
	do {                                                                          \
		static const ctype expected[OPERATIONS] = { __VA_ARGS__ };            \
		for (int operation = SUM; operation < OPERATIONS; operation++) {      \
			ctype x = rank ? (ctype)(b) : (ctype)(a);                     \
			WANT(!ncclAllReduce(&x, &x, 1, type, operation, comm, NULL)); \
			WANT(x == expected[operation]);                               \
		}                                                                     \
	} while (0)

static int play_whole_numbers(ncclComm_t comm, int rank, int ranks)
{
	(void)ranks;
	ROW(INT8, int8_t, 100, 50, -106, -120, 100, 50, -53);
	ROW(UINT8, uint8_t, 200, 100, 44, 32, 200, 100, 22);
	ROW(INT32, int32_t, INT32_MAX, 2, -2147483647, -2, INT32_MAX, 2, -1073741823);
	ROW(UINT32, uint32_t, UINT32_MAX, 3, 2, 4294967293, UINT32_MAX, 3, 1);
	ROW(INT64, int64_t, INT64_MAX, -2, 9223372036854775805, 2, INT64_MAX, -2,
	    4611686018427387902);
	ROW(UINT64, uint64_t, UINT64_MAX, 1, 0, UINT64_MAX, UINT64_MAX, 1, 0);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void whole_numbers_wrap(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_whole_numbers, -1), 0);
}

/* -1.5 and 4. */
static int play_fractions(ncclComm_t comm, int rank, int ranks)
{
	(void)ranks;
	ROW(FLOAT, float, -1.5f, 4, 2.5f, -6, 4, -1.5f, 1.25f);
	ROW(DOUBLE, double, -1.5, 4, 2.5, -6, 4, -1.5, 1.25);
	ROW(HALF, uint16_t, 0xbe00, 0x4400, 0x4100, 0xc600, 0x4400, 0xbe00, 0x3d00);
	ROW(BFLOAT16, uint16_t, 0xbfc0, 0x4080, 0x4020, 0xc0c0, 0x4080, 0xbfc0, 0x3fa0);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void fractions_are_exact(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_fractions, -1), 0);
}

/* (A + B) * SCALAR, which is A * SCALAR + B * SCALAR. */
#define SCALED(type, ctype, a, b, scalar, expected)                                  \
	do {                                                                         \
		ctype x = rank ? (ctype)(b) : (ctype)(a), factor = (ctype)(scalar);  \
		int operation;                                                       \
		WANT(!ncclRedOpCreatePreMulSum(&operation, &factor, type, 1, comm)); \
		WANT(operation > AVG);                                               \
		WANT(!ncclAllReduce(&x, &x, 1, type, operation, comm, NULL));        \
		WANT(x == (ctype)(expected));                                        \
		WANT(!ncclRedOpDestroy(operation, comm));                            \
	} while (0)

static int play_scaled(ncclComm_t comm, int rank, int ranks)
{
	(void)ranks;
	SCALED(INT8, int8_t, 100, 50, 3, -62);
	SCALED(UINT8, uint8_t, 100, 50, 3, 194);
	SCALED(INT32, int32_t, 1 << 30, 1, 3, -1073741821);
	SCALED(UINT32, uint32_t, 1u << 31, 1, 3, 2147483651);
	SCALED(INT64, int64_t, 1, 2, 9007199254740993, 27021597764222979);
	SCALED(UINT64, uint64_t, 1, 2, UINT64_MAX, 18446744073709551613u);
	SCALED(HALF, uint16_t, 0x3e00, 0x4100, 0x3800, 0x4000);     /* (1.5 + 2.5) * 0.5 */
	SCALED(BFLOAT16, uint16_t, 0x3fc0, 0x4020, 0x3f00, 0x4000); /* the same */
	SCALED(FLOAT, float, 1.5f, 2.5f, 0.25f, 1);
	SCALED(DOUBLE, double, 1.5, 2.5, 0.25, 1);
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void scaled_sums_multiply_in_their_type(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_scaled, -1), 0);
}

/* Twice a binary16, by its definition: (-1)^s 2^(e - 15) (1 + f / 1024), and (-1)^s 2^-14 f / 1024
 * if e is 0. A normal number's exponent grows by 1; a subnormal one's fraction doubles, into the
 * exponent if it is large; 2^15 and more become infinite. */
static uint16_t doubled(uint16_t half)
{
	const unsigned exponent = half >> 10 & 31;

	if (exponent == 31)
		return half;
	if (exponent == 30)
		return (half & 0x8000) | 0x7c00;
	return exponent ? (uint16_t)(half + 0x400)
			: (uint16_t)((half & 0x8000) | (half & 0x3ff) << 1);
}

static int is_nan(uint16_t half)
{
	return (half & 0x7fff) > 0x7c00;
}

static int play_halves(ncclComm_t comm, int rank, int ranks)
{
	uint16_t x[PART], y[PART];
	(void)rank, (void)ranks;
	for (unsigned first = 0; first < HALVES; first += PART) {
		for (unsigned i = 0; i < PART; i++)
			x[i] = (uint16_t)(first + i);
		WANT(!ncclAllReduce(x, y, PART, HALF, SUM, comm, NULL));
		for (unsigned i = 0; i < PART; i++)
			WANT(is_nan(x[i]) ? is_nan(y[i]) : y[i] == doubled(x[i]));
		WANT(!ncclAllReduce(x, y, PART, HALF, MAX, comm, NULL));
		for (unsigned i = 0; i < PART; i++)
			WANT(is_nan(x[i]) ? is_nan(y[i]) : y[i] == x[i]);
	}
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void every_half_is_read_and_written(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_halves, -1), 0);
}

static int play_rounding(ncclComm_t comm, int rank, int ranks)
{
	/* 2048 + 1 and 2048 + 3 are halfway, 65504 + 8 is nearer to 65504 and + 16 halfway to 2^16;
	 * the largest subnormal and the smallest make the smallest normal number */
	static const uint16_t sums[][3] = {
		{ 0x6800, 0x3c00, 0x6800 }, { 0x6800, 0x4200, 0x6802 }, { 0x7bff, 0x4800, 0x7bff },
		{ 0x7bff, 0x4c00, 0x7c00 }, { 0xfbff, 0xcc00, 0xfc00 }, { 0x03ff, 0x0001, 0x0400 }
	};
	/* half of 2^-24, of 3 * 2^-24 and of 2^-14; -0 */
	static const uint16_t products[][3] = { { 0x0001, 0x3800, 0x0000 },
						{ 0x0003, 0x3800, 0x0002 },
						{ 0x0400, 0x3800, 0x0200 },
						{ 0x8000, 0x3c00, 0x8000 } };
	/* bfloat16: 256 + 1 and 256 + 3 are halfway; the largest twice */
	static const uint16_t brain[][3] = { { 0x4380, 0x3f80, 0x4380 },
					     { 0x4380, 0x4040, 0x4382 },
					     { 0x7f7f, 0x7f7f, 0x7f80 } };
	uint16_t x = rank ? 0xfc00 : 0x7c00; /* inf - inf */
	(void)ranks;
#define ROWS(rows, type, operation)                                           \
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {             \
		x = rows[i][rank];                                            \
		WANT(!ncclAllReduce(&x, &x, 1, type, operation, comm, NULL)); \
		WANT(x == rows[i][2]);                                        \
	}
	WANT(!ncclAllReduce(&x, &x, 1, HALF, SUM, comm, NULL) && is_nan(x));
	ROWS(sums, HALF, SUM)
	ROWS(products, HALF, PROD)
	ROWS(brain, BFLOAT16, SUM)
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void sixteen_bits_round_to_nearest_even(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_rounding, -1), 0);
}

/* Of the 8-bit floats nothing is computed, and the caller hears it. */
static int play_refused(ncclComm_t comm, int rank, int ranks)
{
	(void)ranks;
	for (int type = FLOAT8E4M3; type <= FLOAT8E5M2; type++) {
		uint8_t x[2] = { 0x38, 7 };
		WANT(ncclAllReduce(x, x, 2, type, SUM, comm, NULL) == INVALID_USAGE);
		WANT(ncclReduce(x, x, 2, type, SUM, 0, comm, NULL) == INVALID_USAGE);
		WANT(ncclReduceScatter(x, x, 1, type, SUM, comm, NULL) == INVALID_USAGE);
		WANT(x[0] == 0x38 && x[1] == 7);
	}
	(void)rank;
	return ncclCommDestroy(comm) ? __LINE__ : 0;
}

static void small_floats_are_refused(void **state)
{
	(void)state;
	assert_int_equal(run(2, play_refused, -1), 0);
}

int main(void)
{
	setenv("CUDASIM_TIMEOUT", "5", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers_wrap),
		cmocka_unit_test(fractions_are_exact),
		cmocka_unit_test(scaled_sums_multiply_in_their_type),
		cmocka_unit_test(every_half_is_read_and_written),
		cmocka_unit_test(sixteen_bits_round_to_nearest_even),
		cmocka_unit_test(small_floats_are_refused),
	};
	return cmocka_run_group_tests_name("simulated NCCL's arithmetic", tests, NULL, NULL);
}
