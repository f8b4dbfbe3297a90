#include "export/batch.h"

#include <stdlib.h>

#include "util/util.h"

#define MAX_WAITING 8

int batch_add(struct batch *b, const struct cell *cells)
{
	struct cell *to = b->cells + b->rows * b->columns;

	for (size_t i = 0; i < b->columns; i++) {
		to[i] = cells[i];
		if (cells[i].type != CELL_TEXT)
			continue;
		to[i].integer = (int64_t)b->texts.length;
		buf_add(&b->texts, cells[i].text.at, cells[i].text.length);
	}
	return ++b->rows == BATCH_ROWS;
}

void batch_queue_begin(struct batch_queue *q)
{
	*q = (struct batch_queue){ 0 };
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
}

struct batch *batch_queue_empty(struct batch_queue *q, enum table_id table)
{
	struct batch *b;

	pthread_mutex_lock(&q->lock);
	b = q->empty;
	if (b)
		q->empty = b->next;
	pthread_mutex_unlock(&q->lock);
	if (!b) {
		b = xcalloc(1, sizeof(*b));
		b->cells = xcalloc(BATCH_ROWS * MAX_COLUMNS, sizeof(*b->cells));
	}
	b->next = NULL;
	b->table = table;
	b->rows = b->texts.length = 0;
	table_columns(table, &b->columns);
	return b;
}

void batch_queue_put(struct batch_queue *q, struct batch *b)
{
	pthread_mutex_lock(&q->lock);
	while (q->waiting == MAX_WAITING)
		pthread_cond_wait(&q->changed, &q->lock);
	if (q->last)
		q->last->next = b;
	else
		q->first = b;
	q->last = b;
	q->waiting++;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

struct batch *batch_queue_take(struct batch_queue *q)
{
	struct batch *b;

	pthread_mutex_lock(&q->lock);
	while (!q->first && !q->is_closed)
		pthread_cond_wait(&q->changed, &q->lock);
	b = q->first;
	if (b) {
		q->first = b->next;
		if (!q->first)
			q->last = NULL;
		q->waiting--;
	}
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
	return b;
}

void batch_queue_reuse(struct batch_queue *q, struct batch *b)
{
	pthread_mutex_lock(&q->lock);
	b->next = q->empty;
	q->empty = b;
	pthread_mutex_unlock(&q->lock);
}

void batch_queue_close(struct batch_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->is_closed = 1;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

static void release_all(struct batch *b)
{
	while (b) {
		struct batch *next = b->next;

		buf_release(&b->texts);
		free(b->cells);
		free(b);
		b = next;
	}
}

void batch_queue_release(struct batch_queue *q)
{
	release_all(q->first);
	release_all(q->empty);
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->changed);
}
