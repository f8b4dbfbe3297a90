/* Sizes as people write them: bytes, or a number with KiB/MiB/GiB/TiB (powers of 2) or KB/MB/GB/TB
 * (powers of 10). */
#ifndef MEMTRACE_SIZE_H
#define MEMTRACE_SIZE_H

#include <stdint.h>
#include <string.h>
#include <strings.h>

/* Parses TEXT whole ("512MiB", "1.5 GiB", "80GB", "65536") into bytes. Returns 0, or -1 when it is
 * no size or overflows. */
static inline int memtrace_parse_size(const char *text, uint64_t *bytes)
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
	unsigned __int128 whole = 0, fraction = 0, scale = 1;
	const char *p = text;
	int digits = 0;

	for (; *p >= '0' && *p <= '9'; p++, digits++) {
		whole = whole * 10 + (unsigned)(*p - '0');
		if (whole > UINT64_MAX)
			return -1;
	}
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, digits++)
			if (scale < 1000000000ull) {
				fraction = fraction * 10 + (unsigned)(*p - '0');
				scale *= 10;
			}
	if (!digits)
		return -1;
	while (*p == ' ')
		p++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcasecmp(p, units[i].unit) == 0) {
			unsigned __int128 n =
				whole * units[i].bytes + fraction * units[i].bytes / scale;
			if (n > INT64_MAX)
				return -1;
			*bytes = (uint64_t)n;
			return 0;
		}
	return -1;
}

#endif
