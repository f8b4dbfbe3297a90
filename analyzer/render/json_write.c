#include "render/json_write.h"

#include <stdint.h>
#include <string.h>

#include "util/util.h"

/* Bytes that are not UTF-8 are replaced. */
static void write_string(const char *text, size_t length, struct buf *out)
{
	struct buf clean = { 0 };

	buf_add_utf8(&clean, (struct str){ text, length });
	buf_puts(out, "\"");
	for (size_t i = 0; i < clean.length; i++) {
		unsigned char c = (unsigned char)clean.text[i];

		if (c < ' ')
			buf_addf(out, "\\u%04x", c);
		else
			buf_addf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
	}
	buf_puts(out, "\"");
	buf_release(&clean);
}

static void write_object(const json_t *object, struct json_reals reals, struct buf *out)
{
	const char *key, *comma = "";
	json_t *value;

	buf_puts(out, "{");
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		buf_puts(out, comma);
		write_string(key, strlen(key), out);
		buf_puts(out, ":");
		json_write(value, reals, out);
		comma = ",";
	}
	buf_puts(out, "}");
}

static void write_array(const json_t *array, struct json_reals reals, struct buf *out)
{
	buf_puts(out, "[");
	for (size_t i = 0; i < json_array_size(array); i++) {
		buf_puts(out, i ? "," : "");
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
