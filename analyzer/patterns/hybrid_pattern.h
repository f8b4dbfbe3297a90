/* --hybrid-layer-pattern of Megatron-core: "M-M*|M-ME": a letter for each layer, | begins a stage,
 * a slash the layers of a further predicted token. */
#ifndef PATTERNS_HYBRID_PATTERN_H
#define PATTERNS_HYBRID_PATTERN_H

#include <stdint.h>

/* Is it a pattern? It may have letters of layers that are not modelled. */
int hybrid_pattern_is_valid(const char *pattern);

/* The letter of a layer of the decoder, counted from 0; '\0': the pattern has fewer. */
char hybrid_layer_kind(const char *pattern, int64_t layer);

/* The pattern of the layers of multi-token prediction; "": there are none. */
const char *hybrid_predictions(const char *pattern);

#endif
