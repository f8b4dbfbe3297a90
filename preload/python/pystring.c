#include "python/pystring.h"

#include <string.h>

#include "python/utf8.h"
#include "record/tables.h"

#define MAX_STRING 4095u /* bytes of a name or path */

/* Its characters are of ASCII. */
static int is_ascii(const struct layout *l, const void *u)
{
	return FIELD(uint32_t, u, l->str_state) >> l->str_kind >> 4 & 1;
}

uint32_t pystring_id(const struct layout *l, const void *u)
{
	uint64_t n = FIELD(uint64_t, u, l->str_length);
	uint32_t state = FIELD(uint32_t, u, l->str_state) >> l->str_kind;
	unsigned width = state & 7;
	const char *data = (const char *)u + l->str_compact;
	struct utf8 t;
	int has_room = 1;

	t.n = 0;
	if (!(state >> 3 & 1))
		n = 0; /* not compact: the compiler makes no such str */
	if (is_ascii(l, u))
		return tables_string((const char *)u + l->str_ascii,
				     n < MAX_STRING ? n : MAX_STRING);
	for (uint64_t i = 0; i < n && has_room; i++)
		has_room = utf8_add(&t, width == 1   ? ((const uint8_t *)data)[i]
					: width == 2 ? ((const uint16_t *)(const void *)data)[i]
						     : ((const uint32_t *)(const void *)data)[i]);
	return tables_string(t.s, t.n);
}

int pystring_ends(const struct layout *l, const void *u, const char *text)
{
	uint64_t n = strlen(text), length = FIELD(uint64_t, u, l->str_length);

	return length >= n && is_ascii(l, u) &&
	       !memcmp((const char *)u + l->str_ascii + (length - n), text, n);
}
