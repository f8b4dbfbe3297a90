/*
 * Rows of a table, copied, on their way from the thread that reads a trace to the one that writes
 * the database. A queue holds a few batches: the reader waits while it is full, the writer while it
 * is empty.
 */
#ifndef MEMTRACE_EXPORT_BATCH_H
#define MEMTRACE_EXPORT_BATCH_H

#include <pthread.h>

#include "export/rows.h"
#include "util/buf.h"

#define BATCH_ROWS 1024

struct batch {
	struct batch *next;
	enum table_id table;
	size_t columns, rows;
	struct cell *cells; /* `columns` of each row; the text of one is at `integer` of `texts` */
	struct buf texts;
};

/* Returns whether the batch is full. */
int batch_add(struct batch *b, const struct cell *cells);

struct batch_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct batch *first, *last; /* that wait for the writer */
	struct batch *empty;        /* to be used again */
	size_t waiting;
	int is_closed;
};

void batch_queue_begin(struct batch_queue *q);
/* An empty batch of a table; the caller owns it. */
struct batch *batch_queue_empty(struct batch_queue *q, enum table_id table);
/* Gives the batch to the writer, at once or when there is room. */
void batch_queue_put(struct batch_queue *q, struct batch *b);
/* The next batch, to be given back with batch_queue_reuse(); NULL: the queue is closed and empty.
 */
struct batch *batch_queue_take(struct batch_queue *q);
void batch_queue_reuse(struct batch_queue *q, struct batch *b);
/* Nothing is put any more. */
void batch_queue_close(struct batch_queue *q);
/* Frees the queue and what is in it. */
void batch_queue_release(struct batch_queue *q);

#endif
