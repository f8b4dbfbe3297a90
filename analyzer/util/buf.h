/* A text that grows. Zeroed is empty. */
#ifndef MEMTRACE_BUF_H
#define MEMTRACE_BUF_H

#include "util/util.h"

struct buf {
	char *text; /* zero-terminated once something was added */
	size_t length;
	size_t room;
};

void buf_add(struct buf *b, const void *text, size_t length);
void buf_puts(struct buf *b, const char *text);
__attribute__((format(printf, 2, 3))) void buf_addf(struct buf *b, const char *format, ...);
/* `text` as valid UTF-8: what is not becomes U+FFFD. */
void buf_add_utf8(struct buf *b, struct str text);
/* The same, and control characters become '?': safe to show on a terminal. */
void buf_add_clean(struct buf *b, struct str text);
/* The same for a whole page: lines, tabs and colours stay. */
void buf_add_page(struct buf *b, struct str text);
/* Gives the text away, as "" if there is none. */
char *buf_take(struct buf *b);
void buf_release(struct buf *b);

/* Columns that UTF-8 text takes: its code points. */
size_t utf8_width(const char *text);

#endif
