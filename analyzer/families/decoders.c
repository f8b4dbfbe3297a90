#include "families/decoders.h"

#include <stddef.h>
#include <string.h>

#include "util/util.h"

static const struct decoder decoders[] = {
#define DECODER(name, ...) { .type = #name, __VA_ARGS__ },
#include "families/decoders.def"
#undef DECODER
};

const char decoder_types[] = "one that has a formula:"
#define DECODER(name, ...) " " #name
#include "families/decoders.def"
#undef DECODER
	;

const struct decoder *decoder_find(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(decoders); i++)
		if (!strcmp(decoders[i].type, type))
			return &decoders[i];
	return NULL;
}
