#include "import/json_scan.h"

#include <stdlib.h>

#include "util/util.h"

#define WINDOW (256u << 10)

/* No event of a profile comes near it. */
#define MOST_VALUE (16u << 20)

/* The limit is that of a file that is not compressed. */
#define MOST_TEXT (UINT64_C(8) << 30)

static int refuse(struct json_scan *s, const char *why)
{
	return err_set(s->e, "not a profiler's trace: %s at byte %llu", why,
		       (unsigned long long)s->before + s->at);
}

int json_scan_begin(struct json_scan *s, const void *data, size_t size, struct err *e)
{
	const unsigned char *first = data;

	*s = (struct json_scan){ .data = data, .size = size, .e = e };
	if (size < 2 || !json_scan_is_gzip(first))
		return 0;
	s->zlib.next_in = (unsigned char *)(uintptr_t)data; /* zlib does not write there */
	s->zlib.avail_in = 0;
	s->size = 0;
	s->window = xcalloc(1, WINDOW);
	if (inflateInit2(&s->zlib, 15 + 16) != Z_OK) /* with a gzip header */
		return err_set(e, "zlib does not start");
	s->zlib.avail_in = (unsigned)(size < UINT32_MAX ? size : UINT32_MAX);
	return size > UINT32_MAX ? err_set(e, "more than 4 GiB of gzip are not read") : 0;
}

/* More of a compressed text. Returns whether there is any. */
static int inflate_more(struct json_scan *s)
{
	int status;

	if (!s->window)
		return 0;
	s->before += s->size;
	s->size = s->at = 0;
	if (s->before > MOST_TEXT)
		return refuse(s, "more than 8 GiB"), 0;
	s->zlib.next_out = s->window;
	s->zlib.avail_out = WINDOW;
	status = inflate(&s->zlib, Z_NO_FLUSH);
	s->data = s->window;
	s->size = WINDOW - s->zlib.avail_out;
	if (status != Z_OK && status != Z_STREAM_END && !s->size)
		return refuse(s, "damaged gzip data"), 0;
	return s->size > 0;
}

static int next_byte(struct json_scan *s)
{
	return s->at < s->size || inflate_more(s) ? s->data[s->at] : -1;
}

int json_scan_peek(struct json_scan *s)
{
	int c;

	while ((c = next_byte(s)) == ' ' || c == '\n' || c == '\t' || c == '\r')
		s->at++;
	return c;
}

int json_scan_take(struct json_scan *s, int c)
{
	if (json_scan_peek(s) != c)
		return 0;
	s->at++;
	return 1;
}

/* The position of the scan within a value. */
struct scan_place {
	unsigned depth;
	int in_text, is_escaped, is_word;
};

/* Does the value end before this byte? */
static int ends_before(const struct scan_place *p, int c)
{
	return p->is_word && !p->depth &&
	       (c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' ||
		c == '\t');
}

/* Returns whether the value ends with this byte. */
static int take(struct scan_place *p, int c)
{
	if (p->in_text) {
		p->in_text = p->is_escaped || c != '"';
		p->is_escaped = !p->is_escaped && c == '\\';
		return !p->in_text && !p->depth;
	}
	if (c == '"')
		p->in_text = 1;
	else if (c == '{' || c == '[')
		p->depth++;
	else if (p->depth && (c == '}' || c == ']'))
		return !--p->depth;
	else if (!p->depth)
		p->is_word = 1; /* a number, true, false or null */
	return 0;
}

static int scan(struct json_scan *s, int keeps)
{
	struct scan_place p = { 0 };
	uint64_t begin;

	s->value.length = 0;
	if (json_scan_peek(s) < 0)
		return refuse(s, "the text ends");
	begin = s->before + s->at;
	for (;;) {
		size_t from;
		int done = 0;

		if (next_byte(s) < 0) /* sets at and size anew */
			return refuse(s, "the text ends");
		for (from = s->at; s->at < s->size && !done; s->at++) {
			done = ends_before(&p, s->data[s->at]);
			if (done)
				break;
			done = take(&p, s->data[s->at]);
		}
		if (keeps)
			buf_add(&s->value, s->data + from, s->at - from);
		if (s->value.length > MOST_VALUE)
			return refuse(s, "a value of more than 16 MiB");
		if (done)
			return s->before + s->at > begin ? 0 : refuse(s, "no value");
	}
}

int json_scan_value(struct json_scan *s)
{
	return scan(s, 1);
}

int json_scan_skip(struct json_scan *s)
{
	return scan(s, 0);
}

void json_scan_release(struct json_scan *s)
{
	if (s->window)
		inflateEnd(&s->zlib);
	free(s->window);
	buf_release(&s->value);
}
