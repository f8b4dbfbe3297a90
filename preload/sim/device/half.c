#include "device/half.h"

#include <string.h>

float bfloat16_to_float(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, 4);
	return value;
}

uint16_t bfloat16_of_float(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, 4);
	if (value != value)
		return 0x7fc0;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to nearest even */
}

float half_to_float(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
		 fraction = half & 0x3ff, bits;
	float value;
	if (!exponent) {
		value = (float)fraction * 0x1p-24f;
		return sign ? -value : value;
	}
	bits = sign | (exponent == 31 ? 0xffu << 23 : (exponent + 112) << 23) | fraction << 13;
	memcpy(&value, &bits, 4);
	return value;
}

uint16_t half_of_float(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, 4);
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
	float magnitude = sign ? -value : value;
	if (value != value)
		return sign | 0x7e00;
	if (magnitude >= 65520.f) /* rounds to infinity */
		return sign | 0x7c00;
	if (magnitude < 0x1p-14f) { /* subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in
				       the low bits */
		float shifted = magnitude + 0.5f;
		memcpy(&bits, &shifted, 4);
		return sign | (uint16_t)(bits - 0x3f000000);
	}
	bits &= 0x7fffffff;
	bits += 0xfff + (bits >> 13 & 1);
	return sign | (uint16_t)((bits - (112u << 23)) >> 13);
}
