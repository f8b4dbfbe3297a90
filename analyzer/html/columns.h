/*
 * Columns of a page: whole numbers of one meaning, deflated together. A training loop repeats
 * itself, so a number can be one byte of 0 if a table, looked up by what came before, predicts it.
 * What nothing predicts has its bytes in planes, the lowest bytes of all numbers together and so
 * on: deflate finds in each what is common, and noise takes no more than its own bits.
 * page/columns.js is the reader and must change with this file.
 */
#ifndef MEMTRACE_COLUMNS_H
#define MEMTRACE_COLUMNS_H

#include "util/buf.h"

#define PREDICTOR_BITS 16
#define COLUMN_PLANES 8

struct page_column {
	struct buf codes; /* a byte for each number: how it is written */
	struct buf planes[COLUMN_PLANES];
	int64_t last;
	int64_t *predicted; /* by context; NULL: plain numbers */
};

void column_init(struct page_column *c, int predicts);
void column_release(struct page_column *c);

/* A number. */
void column_add(struct page_column *c, int64_t value);
/* A number from 0 to 2^31 with a prediction: by `context`, else `other` (-1: none). */
void column_predict(struct page_column *c, int64_t value, uint32_t context, int64_t other);
/* A context of two numbers. */
uint32_t column_context(int64_t a, int64_t b);
/* The bytes of the column: the length of codes and of each plane, in 32 bits, then these. */
void column_take(struct page_column *c, struct buf *out);

/* Numbers of which many are equal, numbered as they first appear. */
struct number_table {
	struct page_column values; /* each once */
	int64_t *keys;
	uint32_t *numbers; /* of the keys, from 1; 0: the slot is free */
	size_t slots, count;
};

void number_table_init(struct number_table *n);
void number_table_release(struct number_table *n);
/* The number of `value`, which is added if it is new. */
int64_t number_of_value(struct number_table *n, int64_t value);

/* Bytes that are added to a page part by part, deflated, in base64. */
struct deflating;
struct deflating *deflating_new(struct buf *to);
/* Adds a part; 0. */
int deflating_add(void *deflating, const char *data, size_t length);
/* Ends and frees it. */
void deflating_end(struct deflating *d);
/* Adds `length` bytes to a page, deflated, in base64. */
void deflated_add(struct buf *to, const void *data, size_t length);

#endif
