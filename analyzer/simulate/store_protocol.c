#include "simulate/store_protocol.h"

#include <string.h>

static const void *take(struct wire_reader *r, uint64_t length)
{
	const char *at = r->at;

	if (length > LARGEST)
		r->is_wrong = 1;
	if (r->is_wrong || r->is_short || r->left < length) {
		r->is_short = 1;
		return NULL;
	}
	r->at += length;
	r->left -= length;
	return at;
}

uint64_t wire_number(struct wire_reader *r, size_t width)
{
	const void *at = take(r, width);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, width);
	return value;
}

struct str wire_text(struct wire_reader *r)
{
	uint64_t length = wire_number(r, 8);
	const char *at = take(r, length);

	return (struct str){ at ? at : "", at ? length : 0 };
}

char *wire_key(struct wire_reader *r)
{
	struct str key = wire_text(r);
	char *copy = xcalloc(1, key.length + 1);

	memcpy(copy, key.at, key.length);
	return copy;
}

void wire_put_number(struct buf *out, uint64_t value, size_t width)
{
	buf_add(out, &value, width);
}

void wire_put_value(struct buf *out, const struct buf *value)
{
	wire_put_number(out, value->length, 8);
	buf_add(out, value->text, value->length);
}
