/* The two 16-bit floating point formats. Conversions from float round to nearest even. */
#ifndef CUDASIM_HALF_H
#define CUDASIM_HALF_H

#include <stdint.h>

float half_to_float(uint16_t half);
uint16_t half_of_float(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t bfloat16_of_float(float value);

#endif
