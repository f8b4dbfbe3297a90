#include "import/json_walk.h"

#include <ctype.h>
#include <string.h>

static void skip_white(struct json_walk *w)
{
	while (w->at < w->end &&
	       (*w->at == ' ' || *w->at == '\n' || *w->at == '\t' || *w->at == '\r'))
		w->at++;
}

/* The end of a text that begins at a quote; NULL: it has none. */
static const char *end_of_text(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++)
		if (*at == '\\')
			at++;
	return at < end ? at + 1 : NULL;
}

static const char *end_of_container(const char *at, const char *end)
{
	size_t depth = 0;

	while (at < end) {
		if (*at == '"') {
			at = end_of_text(at, end);
			if (!at)
				return NULL;
			continue;
		}
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
		if (!depth)
			return at;
	}
	return NULL;
}

/* The end of the value that begins here; NULL: there is none. */
static const char *end_of_value(const char *at, const char *end)
{
	const char *from = at;

	if (at < end && *at == '"')
		return end_of_text(at, end);
	if (at < end && (*at == '{' || *at == '['))
		return end_of_container(at, end);
	while (at < end && (isalnum((unsigned char)*at) || *at == '-' || *at == '+' || *at == '.'))
		at++;
	return at > from ? at : NULL;
}

void json_walk_begin(struct json_walk *w, struct str text)
{
	*w = (struct json_walk){ .at = text.at, .end = text.at + text.length, .is_first = 1 };
	skip_white(w);
	if (w->at < w->end)
		w->close = *w->at == '{' ? '}' : *w->at == '[' ? ']' : '\0';
	w->at += w->close != 0;
}

static int take(struct json_walk *w, char c)
{
	skip_white(w);
	if (w->at == w->end || *w->at != c)
		return 0;
	w->at++;
	return 1;
}

static int take_value(struct json_walk *w, struct str *value)
{
	const char *to;

	skip_white(w);
	to = end_of_value(w->at, w->end);
	if (!to)
		return 0;
	*value = (struct str){ w->at, (size_t)(to - w->at) };
	w->at = to;
	return 1;
}

int json_walk_next(struct json_walk *w, struct str *key, struct str *value)
{
	struct str name = { 0 };

	if (!w->close || take(w, w->close)) {
		w->close = '\0';
		return 0;
	}
	if (!w->is_first && !take(w, ','))
		return -1;
	w->is_first = 0;
	if (w->close == '}' && (!take_value(w, &name) || *name.at != '"' || !take(w, ':')))
		return -1;
	if (key && name.length)
		*key = (struct str){ name.at + 1, name.length - 2 };
	return take_value(w, value) ? 1 : -1;
}

int json_walk_members(struct str object, const char *const *keys, struct str *values, size_t count)
{
	struct json_walk w;
	struct str key, value;
	int status;

	memset(values, 0, count * sizeof(*values));
	if (!object.length)
		return 0;
	json_walk_begin(&w, object);
	if (w.close != '}')
		return 0;
	while ((status = json_walk_next(&w, &key, &value)) > 0)
		for (size_t i = 0; i < count; i++)
			if (strlen(keys[i]) == key.length && !memcmp(keys[i], key.at, key.length)) {
				values[i] = value;
				break;
			}
	return status;
}

int json_walk_is_text(struct str value, const char *text)
{
	size_t n = strlen(text);

	return value.length == n + 2 && *value.at == '"' && !memcmp(value.at + 1, text, n);
}

int json_walk_integer(struct str value, int64_t *to)
{
	int is_negative = value.length > 1 && *value.at == '-';
	const char *at, *end;

	*to = 0;
	if (!value.length)
		return 0;
	at = value.at + is_negative;
	end = value.at + value.length;
	for (; at < end; at++)
		if (!isdigit((unsigned char)*at) || __builtin_mul_overflow(*to, 10, to) ||
		    __builtin_add_overflow(*to, is_negative ? '0' - *at : *at - '0', to))
			return 0;
	return 1;
}

/* The four digits of \uXXXX; -1: they are none. */
static int32_t hex_digits(const char *at, const char *end)
{
	int32_t code = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int c = (unsigned char)at[i];

		if (!isxdigit(c))
			return -1;
		code = code * 16 + (isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
	}
	return code;
}

static void add_code(struct buf *to, uint32_t code)
{
	char text[4];
	size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n; i-- > 1; code >>= 6)
		text[i] = (char)(0x80 | (code & 0x3f));
	text[0] = (char)(first[n] | code);
	buf_add(to, text, n);
}

/* Adds the character of an escape, which begins behind its backslash. Returns its end. An invalid
 * escape, and half a pair of surrogates, becomes U+FFFD. */
static const char *add_escape(struct buf *to, const char *at, const char *end)
{
	static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *letter = at < end && *at ? strchr(letters, *at) : NULL;
	int32_t code, low;

	if (letter) {
		buf_add(to, &values[letter - letters], 1);
		return at + 1;
	}
	code = at < end && *at == 'u' ? hex_digits(at + 1, end) : -1;
	if (code < 0) {
		add_code(to, 0xfffd);
		return at;
	}
	at += 5;
	low = code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u'
		      ? hex_digits(at + 2, end)
		      : -1;
	if (low >= 0xdc00 && low < 0xe000) {
		add_code(to,
			 0x10000u + ((uint32_t)(code - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
		return at + 6;
	}
	add_code(to, !code || (code >= 0xd800 && code < 0xe000) ? 0xfffd : (uint32_t)code);
	return at;
}

void json_walk_add_text(struct buf *to, struct str value, size_t most)
{
	struct buf raw = { 0 };
	const char *at, *end;

	if (value.length < 2 || *value.at != '"')
		return;
	at = value.at + 1;
	end = value.at + value.length - 1;
	if ((size_t)(end - at) > most)
		end = at + most;
	while (at < end) {
		if (*at == '\\')
			at = add_escape(&raw, at + 1, end);
		else
			buf_add(&raw, at++, 1);
	}
	buf_add_utf8(to, (struct str){ raw.text, raw.length });
	buf_release(&raw);
}
