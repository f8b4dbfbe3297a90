#define _GNU_SOURCE /* memmem(), memrchr() */
#include "util/glob.h"

#include <string.h>

/* The parts before the first * and behind the last one are at known positions; most texts differ
 * there already. The parts between two stars follow each other, each as early as it can. */
int str_matches_part(struct str text, const char *pattern, size_t length)
{
	const char *star = length ? memchr(pattern, '*', length) : NULL, *last, *at, *end;
	size_t head, tail;

	if (!star)
		return text.length == length && (!length || !memcmp(text.at, pattern, length));
	last = memrchr(pattern, '*', length);
	head = (size_t)(star - pattern);
	tail = length - (size_t)(last - pattern) - 1;
	if (text.length < head + tail)
		return 0;
	if (!text.length)
		text.at = ""; /* it may be NULL */
	end = text.at + text.length - tail;
	if (memcmp(text.at, pattern, head) != 0 || memcmp(end, last + 1, tail) != 0)
		return 0;
	at = text.at + head;
	while (star < last) {
		const char *part = star + 1;
		size_t n;

		star = memchr(part, '*', (size_t)(last - part) + 1);
		n = (size_t)(star - part);
		at = memmem(at, (size_t)(end - at), part, n);
		if (!at)
			return 0;
		at += n;
	}
	return 1;
}

int str_matches(struct str text, const char *pattern)
{
	return str_matches_part(text, pattern, strlen(pattern));
}
