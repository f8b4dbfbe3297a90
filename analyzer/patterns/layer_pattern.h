/* The lists of Megatron's --moe-layer-freq: "2", "[0,1,1]", "([0]*3+[1]*58)". */
#ifndef PATTERNS_LAYER_PATTERN_H
#define PATTERNS_LAYER_PATTERN_H

/* "([0]*3+[1]*58)" as "[0,0,0,1,...]", "2" as "2". To be freed; NULL: malformed. */
char *layer_pattern(const char *text);

#endif
