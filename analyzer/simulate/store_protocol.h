/* The wire format of the store's commands. A command is read as a whole; an incomplete one is read
 * again when more has arrived. */
#ifndef MEMTRACE_STORE_PROTOCOL_H
#define MEMTRACE_STORE_PROTOCOL_H

#include "util/buf.h"
#include "util/util.h"

/* The largest key, value or count; a client that sends more is not a store's. */
#define LARGEST (UINT64_C(1) << 30)

struct wire_reader {
	const char *at;
	size_t left;
	int is_short, is_wrong;
	char *wanted; /* the first key that the command has to wait for */
	uint64_t asked;
};

uint64_t wire_number(struct wire_reader *r, size_t width);
struct str wire_text(struct wire_reader *r);
/* Keys are used as C strings: one with a zero in it ends there. Allocated. */
char *wire_key(struct wire_reader *r);
void wire_put_number(struct buf *out, uint64_t value, size_t width);
void wire_put_value(struct buf *out, const struct buf *value);

#endif
