#include "util/cublas.h"

#define MAX_DIGITS 7

/* ":NUMBER", from *at on. Returns -1 if there is none. */
static int64_t read_number(struct str text, size_t *at)
{
	int64_t n = 0;
	size_t digits = 0;

	if (*at >= text.length || text.at[(*at)++] != ':')
		return -1;
	for (; *at < text.length && text.at[*at] >= '0' && text.at[*at] <= '9'; ++*at) {
		n = n * 10 + (text.at[*at] - '0');
		if (++digits > MAX_DIGITS)
			return -1;
	}
	return digits ? n : -1;
}

bytes cublas_workspace_parse(struct str config)
{
	bytes sum = 0;

	for (size_t at = 0; at < config.length;) {
		int64_t kib = read_number(config, &at), count = read_number(config, &at);

		if (kib < 0 || count < 0)
			return -1;
		sum = bytes_add(sum, kib * count << 10);
	}
	return sum;
}
