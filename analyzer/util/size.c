#include "util/size.h"

#include <errno.h>
#include <memtrace/size.h>

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

void size_add(struct buf *b, bytes size, int raw)
{
	struct unit unit = size_unit(size, raw);

	size_add_in(b, size, unit);
	buf_addf(b, " %s", unit.name);
}
