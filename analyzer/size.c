#include "size.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct unit units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "KiB", INT64_C(1) << 10 },
	{ "MiB", INT64_C(1) << 20 },
	{ "GiB", INT64_C(1) << 30 },
	{ "TiB", INT64_C(1) << 40 },
	{ "KB", 1000 },
	{ "MB", 1000000 },
	{ "GB", 1000000000 },
	{ "TB", INT64_C(1000000000000) },
};

static int wrong(const char *text, struct err *e)
{
	return err_set(
		e,
		"\"%s\" is not a size: bytes, or a number with KiB, MiB, GiB, TiB (2^n) or KB, MB, GB, TB (10^n)",
		text);
}

static int too_large(const char *text, struct err *e)
{
	return err_set(e, "\"%s\" is too large for a size", text);
}

/* Digits after the point: at most nine count, so that the arithmetic stays exact. */
static bytes fraction_of(const char **at, bytes unit)
{
	__int128 part = 0, scale = 1;

	for (; isdigit((unsigned char)**at); ++*at) {
		if (scale >= 1000000000)
			continue;
		part = part * 10 + (**at - '0');
		scale *= 10;
	}
	return (bytes)(part * unit / scale);
}

int size_parse(const char *text, bytes *size, struct err *e)
{
	const char *at = text, *fraction = NULL, *name;
	const struct unit *unit = NULL;
	bytes whole = 0;

	if (!isdigit((unsigned char)*at))
		return wrong(text, e);
	for (; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *at - '0', &whole))
			return too_large(text, e);
	if (*at == '.') {
		fraction = ++at;
		at += strspn(at, "0123456789");
		if (at == fraction)
			return wrong(text, e);
	}
	name = at + strspn(at, " ");
	for (size_t i = 0; i < ARRAY_SIZE(units) && !unit; i++)
		if (!strcasecmp(name, units[i].name))
			unit = &units[i];
	if (!unit || (fraction && unit->bytes == 1))
		return wrong(text, e);
	if (__builtin_mul_overflow(whole, unit->bytes, &whole))
		return too_large(text, e);
	if (fraction && __builtin_add_overflow(whole, fraction_of(&fraction, unit->bytes), &whole))
		return too_large(text, e);
	*size = whole;
	return 0;
}

struct unit size_unit(bytes size, int raw)
{
	if (raw)
		return (struct unit){ "bytes", 1 };
	if (size < 0)
		size = size == INT64_MIN ? INT64_MAX : -size;
	/* 1023.95 MiB would be shown as 1024.0: from there on it is 1.0 GiB. */
	for (size_t i = 5; i > 2; i--)
		if (size >= units[i].bytes - units[i].bytes / 20480)
			return units[i];
	return size >= 1024 ? units[2] : units[1];
}

void size_add_in(struct buf *b, bytes size, struct unit unit)
{
	if (unit.bytes == 1)
		buf_addf(b, "%lld", (long long)size);
	else
		buf_addf(b, "%.1f", (double)size / (double)unit.bytes);
}

void size_add(struct buf *b, bytes size, int raw)
{
	struct unit unit = size_unit(size, raw);

	size_add_in(b, size, unit);
	buf_addf(b, " %s", unit.name);
}
