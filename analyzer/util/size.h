/* Sizes as users write and read them. */
#ifndef MEMTRACE_SIZE_H
#define MEMTRACE_SIZE_H

#include "util/buf.h"
#include "util/err.h"

/* "80GiB", "1.5 GiB", "512MB", "1073741824": bytes; KiB MiB GiB TiB are powers of 2, KB MB GB TB
 * of 10. */
int size_parse(const char *text, bytes *size, struct err *e);

/* The unit in which `size` is shown. */
struct unit {
	const char *name;
	bytes bytes;
};
struct unit size_unit(bytes size, int raw);

/* Adds "14.1 GiB", or "15139864576 bytes" if `raw` is set. */
void size_add(struct buf *b, bytes size, int raw);
/* The same with so many digits behind the point; 0: in bytes. */
void size_add_digits(struct buf *b, bytes size, int digits);
/* The digits with which a size and its limit are shown: one, or as many as the limit was given with
 * (up to three), and more if different sizes would look the same. */
int size_digits(bytes size, bytes limit, int raw);
/* Adds the number alone, in `unit`. */
void size_add_in(struct buf *b, bytes size, struct unit unit);

#endif
