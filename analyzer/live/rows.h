/* The rows that are shown for a directory's processes: one for each device of each process, in
 * an order that the user chooses. */
#ifndef MEMTRACE_LIVE_ROWS_H
#define MEMTRACE_LIVE_ROWS_H

#include "live/folder.h"

/* The orders of the rows: X(id, name, first). `first`: what is at the top. */
#define ROW_ORDERS(X)                                          \
	X(RANK, "rank", "the lowest rank")                     \
	X(STATE, "state", "the worst state")                   \
	X(ALLOCATED, "allocated", "the most bytes in tensors") \
	X(DEVICE, "device", "the fullest device")              \
	X(PEAK, "peak", "the highest peak of the device")      \
	X(GROWTH, "growth", "the fastest growth")              \
	X(LEFT, "left", "the fewest steps until it is full")   \
	X(AGE, "age", "the longest time without an event")
enum row_order {
#define X(id, name, first) ORDER_##id,
	ROW_ORDERS(X)
#undef X
		ROW_ORDER_COUNT
};
const char *row_order_name(enum row_order o);

struct row_choice {
	enum row_order order;
	int is_reversed;
	int all;            /* also what ended in earlier runs */
	const char *filter; /* words that a row must all have; NULL: none */
};

struct process_row {
	const struct live_process *process;
	const struct live_device *device; /* NULL: it uses none, or it is damaged */
};

/* The rows; the caller frees them. They are valid until the next update. */
struct process_row *live_rows(const struct folder *f, const struct row_choice *c, size_t *count);

/* Is it of the latest attempt of the latest run? */
int folder_is_of_latest(const struct folder *f, const struct live_process *p);
/* Does it run, or is it of the latest run, or damaged? */
int folder_is_current(const struct folder *f, const struct live_process *p);

/* The row that most needs attention: the worst state of those from FAILED on, else the device
 * that is full first. NULL: none does. */
const struct process_row *live_rows_worst(const struct process_row *rows, size_t count);

#endif
