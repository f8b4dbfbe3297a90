#include "html/columns.h"

#include <stdlib.h>
#include <zlib.h>

#include "util/base64.h"

/* Codes of a number. */
enum {
	CODE_PREDICTED,
	CODE_OTHER,
	CODE_VALUE, /* + the bytes of the value, which is 0 or more */
	CODE_CHANGE = CODE_VALUE + COLUMN_PLANES + 1, /* + the bytes of its change */
};

void column_init(struct page_column *c, int predicts)
{
	*c = (struct page_column){ .last = 0 };
	if (predicts)
		c->predicted = xcalloc((size_t)1 << PREDICTOR_BITS, sizeof(*c->predicted));
}

void column_release(struct page_column *c)
{
	buf_release(&c->codes);
	for (int i = 0; i < COLUMN_PLANES; i++)
		buf_release(&c->planes[i]);
	free(c->predicted);
	c->predicted = NULL;
}

static void put_byte(struct buf *to, unsigned char byte)
{
	buf_add(to, &byte, 1);
}

static int bytes_of(uint64_t n)
{
	int count = 0;

	for (; n; n >>= 8)
		count++;
	return count;
}

/* 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
static uint64_t fold(int64_t value)
{
	uint64_t twice = (uint64_t)value << 1;

	return value < 0 ? ~twice : twice;
}

static void write_number(struct page_column *c, int first_code, uint64_t n)
{
	put_byte(&c->codes, (unsigned char)(first_code + bytes_of(n)));
	for (int i = 0; n; n >>= 8)
		put_byte(&c->planes[i++], (unsigned char)n);
}

void column_add(struct page_column *c, int64_t value)
{
	uint64_t change = fold((int64_t)((uint64_t)value - (uint64_t)c->last));

	if (value >= 0 && bytes_of((uint64_t)value) <= bytes_of(change))
		write_number(c, CODE_VALUE, (uint64_t)value);
	else
		write_number(c, CODE_CHANGE, change);
	c->last = value;
}

uint32_t column_context(int64_t a, int64_t b)
{
	uint32_t h = (uint32_t)a * 0x9e3779b1u ^ (uint32_t)b * 0x85ebca6bu;

	return (h ^ h >> 15) * 0x2c1b3c6du >> (32 - PREDICTOR_BITS);
}

void column_predict(struct page_column *c, int64_t value, uint32_t context, int64_t other)
{
	if (c->predicted[context] == value)
		put_byte(&c->codes, CODE_PREDICTED);
	else if (value == other)
		put_byte(&c->codes, CODE_OTHER);
	else
		write_number(c, CODE_VALUE, (uint64_t)value);
	c->predicted[context] = value;
	c->last = value;
}

static void put_length(struct buf *out, size_t length)
{
	for (int i = 0; i < 4; i++)
		put_byte(out, (unsigned char)(length >> 8 * i));
}

void column_take(struct page_column *c, struct buf *out)
{
	put_length(out, c->codes.length);
	for (int i = 0; i < COLUMN_PLANES; i++)
		put_length(out, c->planes[i].length);
	if (c->codes.length)
		buf_add(out, c->codes.text, c->codes.length);
	for (int i = 0; i < COLUMN_PLANES; i++)
		if (c->planes[i].length)
			buf_add(out, c->planes[i].text, c->planes[i].length);
	column_release(c);
}

void number_table_init(struct number_table *n)
{
	*n = (struct number_table){ .slots = 1024 };
	column_init(&n->values, 0);
	n->keys = xcalloc(n->slots, sizeof(*n->keys));
	n->numbers = xcalloc(n->slots, sizeof(*n->numbers));
}

void number_table_release(struct number_table *n)
{
	column_release(&n->values);
	free(n->keys);
	free(n->numbers);
}

/* The slot of a value: its own, or a free one. */
static size_t slot_of(const struct number_table *n, int64_t value)
{
	size_t i = ((uint64_t)value * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (n->slots - 1);

	while (n->numbers[i] && n->keys[i] != value)
		i = (i + 1) & (n->slots - 1);
	return i;
}

static void make_room(struct number_table *n)
{
	const struct number_table old = *n;

	n->slots = 2 * old.slots;
	n->keys = xcalloc(n->slots, sizeof(*n->keys));
	n->numbers = xcalloc(n->slots, sizeof(*n->numbers));
	for (size_t i = 0; i < old.slots; i++)
		if (old.numbers[i]) {
			size_t to = slot_of(n, old.keys[i]);

			n->keys[to] = old.keys[i];
			n->numbers[to] = old.numbers[i];
		}
	free(old.keys);
	free(old.numbers);
}

int64_t number_of_value(struct number_table *n, int64_t value)
{
	size_t i = slot_of(n, value);

	if (!n->numbers[i]) {
		if (2 * n->count >= n->slots) {
			make_room(n);
			i = slot_of(n, value);
		}
		column_add(&n->values, value);
		n->keys[i] = value;
		n->numbers[i] = (uint32_t)++n->count;
	}
	return n->numbers[i] - 1;
}

/* zlib counts in 32 bits. */
#define DEFLATED_PART ((size_t)1 << 30)

struct deflating {
	z_stream z;
	struct buf *to;
	unsigned char bytes[3 << 12]; /* that are not in the page yet */
	size_t count;
};

struct deflating *deflating_new(struct buf *to)
{
	struct deflating *d = xcalloc(1, sizeof(*d));

	d->to = to;

	/* Raw deflate: DecompressionStream("deflate-raw") of the browser. */
	if (deflateInit2(&d->z, 6, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		BUG("deflateInit2");
	return d;
}

static void put_bytes(struct deflating *d)
{
	base64_encode(d->to, d->bytes, d->count);
	d->count = 0;
}

static void deflate_part(struct deflating *d, const void *data, size_t length, int flush)
{
	d->z.next_in = (unsigned char *)(uintptr_t)data;
	d->z.avail_in = (uInt)length;
	do {
		d->z.next_out = d->bytes + d->count;
		d->z.avail_out = (uInt)(sizeof(d->bytes) - d->count);
		if (deflate(&d->z, flush) == Z_STREAM_ERROR)
			BUG("deflate");
		d->count = sizeof(d->bytes) - d->z.avail_out;
		/* Base64 has padding only at its end. */
		if (!d->z.avail_out)
			put_bytes(d);
	} while (!d->z.avail_out);
}

int deflating_add(void *deflating, const char *data, size_t length)
{
	for (size_t at = 0, n; at < length; at += n) {
		n = length - at < DEFLATED_PART ? length - at : DEFLATED_PART;
		deflate_part(deflating, data + at, n, Z_NO_FLUSH);
	}
	return 0;
}

void deflating_end(struct deflating *d)
{
	deflate_part(d, "", 0, Z_FINISH);
	put_bytes(d);
	deflateEnd(&d->z);
	free(d);
}

void deflated_add(struct buf *to, const void *data, size_t length)
{
	struct deflating *d = deflating_new(to);

	deflating_add(d, data, length);
	deflating_end(d);
}
