/* A text that grows. A zeroed buffer is empty. */
#ifndef MEMTRACE_BUF_H
#define MEMTRACE_BUF_H

#include <string.h>

#include "util/util.h"

struct buf {
	char *text; /* zero-terminated once something was added */
	size_t length;
	size_t room;
};

void buf_add(struct buf *b, const void *text, size_t length);
/* Inline: the compiler knows the length of most texts. */
static inline void buf_puts(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}
__attribute__((format(printf, 2, 3))) void buf_addf(struct buf *b, const char *format, ...);
/* Adds `text` as valid UTF-8; invalid bytes become U+FFFD. */
void buf_add_utf8(struct buf *b, struct str text);
/* As buf_add_utf8(); control characters become '?', and what separates lines or turns the direction
 * of a text its number ("\u202e"), so that the text is safe on a terminal. */
void buf_add_clean(struct buf *b, struct str text);
/* As buf_add_clean(), for a page: line ends, tabs and colours stay. */
void buf_add_page(struct buf *b, struct str text);
/* Gives the text, without room for more, to the caller, who frees it; "" if the buffer is empty. */
char *buf_take(struct buf *b);
void buf_release(struct buf *b);

/* Is it a byte of a UTF-8 character other than its first? */
static inline int utf8_continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}
/* The width of UTF-8 text in columns: its number of code points. */
size_t utf8_width(const char *text);

#endif
