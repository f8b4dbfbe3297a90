#include "json/json_write.h"

#include <stdint.h>
#include <string.h>

#include "util/util.h"

/* A string of jansson is valid UTF-8. */
static void write_string(const char *text, size_t length, struct buf *out)
{
	size_t start = 0;

	buf_puts(out, "\"");
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= ' ' && c != '"' && c != '\\')
			continue;
		buf_add(out, text + start, i - start);
		start = i + 1;
		buf_addf(out, c < ' ' ? "\\u%04x" : "\\%c", c);
	}
	buf_add(out, text + start, length - start);
	buf_puts(out, "\"");
}

static void write_object(const json_t *object, struct json_reals reals, struct buf *out)
{
	const char *key;
	json_t *value;
	int count = 0;

	buf_puts(out, "{");
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		if (count++)
			buf_puts(out, ",");
		write_string(key, strlen(key), out);
		buf_puts(out, ":");
		json_write(value, reals, out);
	}
	buf_puts(out, "}");
}

static void write_array(const json_t *array, struct json_reals reals, struct buf *out)
{
	buf_puts(out, "[");
	for (size_t i = 0; i < json_array_size(array); i++) {
		if (i)
			buf_puts(out, ",");
		json_write(json_array_get(array, i), reals, out);
	}
	buf_puts(out, "]");
}

void json_write(const json_t *value, struct json_reals reals, struct buf *out)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		write_object(value, reals, out);
		break;
	case JSON_ARRAY:
		write_array(value, reals, out);
		break;
	case JSON_STRING:
		write_string(json_string_value(value), json_string_length(value), out);
		break;
	case JSON_INTEGER:
		buf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		break;
	case JSON_REAL:
		buf_addf(out, reals.is_fixed ? "%.*f" : "%.*g", reals.digits,
			 json_real_value(value));
		break;
	case JSON_TRUE:
		buf_puts(out, "true");
		break;
	case JSON_FALSE:
		buf_puts(out, "false");
		break;
	case JSON_NULL:
		buf_puts(out, "null");
		break;
	}
}

struct json_members json_members_begin(struct json_reals reals, struct buf *out)
{
	buf_puts(out, "{");
	return (struct json_members){ .out = out, .reals = reals };
}

static void begin_member(struct json_members *m, const char *key)
{
	if (m->count++)
		buf_puts(m->out, ",");
	write_string(key, strlen(key), m->out);
	buf_puts(m->out, ":");
}

static void write_and_free(json_t *value, const struct json_members *m)
{
	if (!value)
		BUG("json");
	json_write(value, m->reals, m->out);
	json_decref(value);
}

void json_members_add(struct json_members *m, const char *key, json_t *value)
{
	begin_member(m, key);
	write_and_free(value, m);
}

void json_members_add_list(struct json_members *m, const char *key,
			   json_t *row(const void *list, size_t index), const void *list,
			   size_t count)
{
	begin_member(m, key);
	buf_puts(m->out, "[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			buf_puts(m->out, ",");
		write_and_free(row(list, i), m);
	}
	buf_puts(m->out, "]");
}

void json_members_end(const struct json_members *m)
{
	buf_puts(m->out, "}");
}
