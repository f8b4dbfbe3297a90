#include "util/size.h"

#include <errno.h>
#include <math.h>
#include <memtrace/size.h>
#include <string.h>

#define LIMIT_DIGITS 3 /* behind the point, with which people write limits at most */
#define MOST_DIGITS 6  /* more are shown in bytes */

/* Units for output: those from 1 to 5 are used. */
static const struct unit units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "KiB", INT64_C(1) << 10 },
	{ "MiB", INT64_C(1) << 20 },
	{ "GiB", INT64_C(1) << 30 },
	{ "TiB", INT64_C(1) << 40 },
};

int size_parse(const char *text, bytes *size, struct err *e)
{
	uint64_t n;

	if (memtrace_parse_size(text, &n) == 0) {
		*size = (bytes)n;
		return 0;
	}
	if (errno == ERANGE)
		return err_set(e, "\"%s\" is too large for a size", text);
	return err_set(
		e,
		"\"%s\" is not a size: bytes, or a number with KiB, MiB, GiB, TiB (2^n) or KB, MB, GB, TB (10^n)",
		text);
}

struct unit size_unit(bytes size, int raw)
{
	if (raw)
		return (struct unit){ "bytes", 1 };
	if (size < 0)
		size = size == INT64_MIN ? INT64_MAX : -size;
	/* 1023.95 MiB would be shown as 1024.0 MiB; it is shown as 1.0 GiB. */
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

void size_add_digits(struct buf *b, bytes size, int digits)
{
	struct unit unit = size_unit(size, !digits);

	if (unit.bytes == 1)
		size_add_in(b, size, unit);
	else
		buf_addf(b, "%.*f", digits, (double)size / (double)unit.bytes);
	buf_addf(b, " %s", unit.name);
}

void size_add(struct buf *b, bytes size, int raw)
{
	size_add_digits(b, size, !raw);
}

/* Are so many digits the whole size? */
static int is_exact(bytes size, int digits)
{
	double unit = (double)size_unit(size, 0).bytes, scale = 1;

	while (digits--)
		scale *= 10;
	return fabs(round((double)size / unit * scale) / scale * unit - (double)size) < 1;
}

static int look_alike(bytes a, bytes b, int digits)
{
	struct buf x = { 0 }, y = { 0 };
	int same;

	size_add_digits(&x, a, digits);
	size_add_digits(&y, b, digits);
	same = !strcmp(x.text, y.text);
	buf_release(&x);
	buf_release(&y);
	return same;
}

int size_digits(bytes size, bytes limit, int raw)
{
	int digits = 1;

	if (raw)
		return 0;
	while (digits < LIMIT_DIGITS && !is_exact(limit, digits))
		digits++;
	if (!is_exact(limit, digits))
		digits = 1;
	while (size != limit && digits && look_alike(size, limit, digits))
		digits = digits < MOST_DIGITS ? digits + 1 : 0;
	return digits;
}
