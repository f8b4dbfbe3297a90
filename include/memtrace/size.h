/* Sizes as text: bytes, or a number with KiB/MiB/GiB/TiB (powers of 2) or KB/MB/GB/TB (powers of
 * 10). */
#ifndef MEMTRACE_SIZES_H
#define MEMTRACE_SIZES_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

static inline int memtrace_no_size(int why)
{
	errno = why;
	return -1;
}

/*
 * Parses all of TEXT ("512MiB", "1.5 GiB", "80GB", "65536") into bytes. A fraction needs a unit,
 * and nine of its digits count. Returns 0, or -1 with errno EINVAL (no size) or ERANGE (beyond
 * INT64_MAX).
 */
static inline int memtrace_parse_size(const char *text, uint64_t *size)
{
	static const struct {
		const char *unit;
		uint64_t bytes;
	} units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "KiB", 1ull << 10 },
		{ "MiB", 1ull << 20 },
		{ "GiB", 1ull << 30 },
		{ "TiB", 1ull << 40 },
		{ "KB", 1000ull },
		{ "MB", 1000000ull },
		{ "GB", 1000000000ull },
		{ "TB", 1000000000000ull },
	};
	unsigned __int128 whole = 0, part = 0, scale = 1;
	const char *p = text, *fraction = NULL;

	if (*p < '0' || *p > '9')
		return memtrace_no_size(EINVAL);
	for (; *p >= '0' && *p <= '9'; p++) {
		whole = whole * 10 + (unsigned)(*p - '0');
		if (whole > INT64_MAX)
			return memtrace_no_size(ERANGE);
	}
	if (*p == '.') {
		for (fraction = ++p; *p >= '0' && *p <= '9'; p++)
			if (scale < 1000000000) {
				part = part * 10 + (unsigned)(*p - '0');
				scale *= 10;
			}
		if (p == fraction)
			return memtrace_no_size(EINVAL);
	}
	while (*p == ' ')
		p++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcasecmp(p, units[i].unit) != 0)
			continue;
		if (fraction && units[i].bytes == 1)
			return memtrace_no_size(EINVAL);
		whole = whole * units[i].bytes + part * units[i].bytes / scale;
		if (whole > INT64_MAX)
			return memtrace_no_size(ERANGE);
		*size = (uint64_t)whole;
		return 0;
	}
	return memtrace_no_size(EINVAL);
}

#endif
