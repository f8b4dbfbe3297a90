#include "util/glob.h"

#include <string.h>

int str_matches_part(struct str text, const char *pattern, size_t length)
{
	size_t i = 0, k = 0, retry = 0, star = SIZE_MAX;

	while (i < text.length) {
		if (k < length && pattern[k] == '*') {
			star = ++k;
			retry = i;
		} else if (k < length && pattern[k] == text.at[i]) {
			k++;
			i++;
		} else if (star != SIZE_MAX) {
			k = star;
			i = ++retry;
		} else {
			return 0;
		}
	}
	while (k < length && pattern[k] == '*')
		k++;
	return k == length;
}

int str_matches(struct str text, const char *pattern)
{
	return str_matches_part(text, pattern, strlen(pattern));
}
