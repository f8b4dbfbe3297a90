/* The characters of a str of Python as UTF-8. */
#ifndef PRELOAD_PYTHON_UTF8_H
#define PRELOAD_PYTHON_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A name or path that is not ASCII, as UTF-8; a longer text is cut between two characters. It is
 * small because it is on the stack of a thread of the job. */
struct utf8 {
	size_t n;
	char s[800];
};

/* Returns 0 if there is no room for the character. A surrogate, for which there is no UTF-8, stands
 * for a byte of a path that is not UTF-8: it is written as a traceback of Python shows it (\udcff).
 */
static inline int utf8_add(struct utf8 *t, uint32_t c)
{
	char b[6];
	size_t k = 0;

	if (c < 0x80) {
		b[k++] = (char)c;
	} else if (c < 0x800) {
		b[k++] = (char)(0xc0 | c >> 6);
	} else if (c >> 11 == 0xd800 >> 11) {
		b[k++] = '\\';
		b[k++] = 'u';
		for (int shift = 12; shift >= 0; shift -= 4)
			b[k++] = "0123456789abcdef"[c >> shift & 15];
	} else if (c < 0x10000) {
		b[k++] = (char)(0xe0 | c >> 12);
		b[k++] = (char)(0x80 | (c >> 6 & 0x3f));
	} else {
		b[k++] = (char)(0xf0 | c >> 18);
		b[k++] = (char)(0x80 | (c >> 12 & 0x3f));
		b[k++] = (char)(0x80 | (c >> 6 & 0x3f));
	}
	if (c >= 0x80 && k < sizeof(b))
		b[k++] = (char)(0x80 | (c & 0x3f));
	if (k > sizeof(t->s) - t->n)
		return 0;
	memcpy(t->s + t->n, b, k);
	t->n += k;
	return 1;
}

#endif
