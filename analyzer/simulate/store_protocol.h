/* What clients of the played store send and get: whole commands only; what is short is tried again
 * when more has come. */
#ifndef MEMTRACE_SIM_STORE_WIRE_H
#define MEMTRACE_SIM_STORE_WIRE_H

#include "util/buf.h"
#include "util/util.h"

/* Of a key, a value or a count: what is more is no client of ours. */
#define LARGEST (UINT64_C(1) << 30)

struct reader {
	const char *at;
	size_t left;
	int is_short, is_wrong;
	char *wanted; /* the first key that the command has to wait for */
	uint64_t asked;
};

uint64_t take_number(struct reader *r, size_t width);
struct str take_text(struct reader *r);
/* Keys are used as C strings: one with a zero in it ends there. Allocated. */
char *take_key(struct reader *r);
void put_number(struct buf *out, uint64_t value, size_t width);
void put_value(struct buf *out, const struct buf *value);

#endif
