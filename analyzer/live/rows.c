#include "live/rows.h"

#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/order.h"

const char *row_order_name(enum row_order o)
{
	static const char *const names[] = {
#define X(id, name, first) name,
		ROW_ORDERS(X)
#undef X
	};

	return names[o];
}

static const struct live_process *latest(const struct folder *f)
{
	const struct live_process *best = NULL;

	for (size_t i = 0; i < f->count; i++)
		if (f->list[i].state != LIVE_DAMAGED &&
		    (!best || f->list[i].start_ns > best->start_ns))
			best = &f->list[i];
	return best;
}

static int is_of_attempt(const struct live_process *newest, const struct live_process *p)
{
	return newest && !strcmp(p->run, newest->run) && p->restart == newest->restart;
}

static int is_current(const struct live_process *newest, const struct live_process *p)
{
	return p->state == LIVE_DAMAGED || live_state_runs(p->state) || is_of_attempt(newest, p);
}

int folder_is_of_latest(const struct folder *f, const struct live_process *p)
{
	return is_of_attempt(latest(f), p);
}

int folder_is_current(const struct folder *f, const struct live_process *p)
{
	return is_current(latest(f), p);
}

/* Does a row have all words of the filter? What is searched has names, as "rank:3", so that a word
 * can be exact. */
static int has_words(const struct process_row *r, const char *filter)
{
	const struct live_process *p = r->process;
	char *words = xstrdup(filter), *rest = words, *word;
	struct buf text = { 0 };
	int has = 1;

	buf_addf(&text, " rank:%d gpu:%d state:%s host:%s run:%s pid:%u %s ", p->rank,
		 r->device ? (int)r->device->ordinal : -1, live_state_key(p->state), p->host,
		 p->run, p->pid, p->path);
	while (has && (word = strtok_r(rest, " ", &rest)))
		has = strstr(text.text, word) != NULL;
	free(words);
	buf_release(&text);
	return has;
}

static double share(const struct live_device *d)
{
	return d->total ? (double)live_device_bytes(d) / (double)d->total : 0;
}

/* The value by which an order compares; the smaller one comes first. */
static double key_of(const struct process_row *r, enum row_order order)
{
	const struct live_device *d = r->device;
	int64_t left;

	if (order == ORDER_STATE)
		return -(double)r->process->state;
	if (order == ORDER_AGE)
		return -r->process->age_s;
	if (order == ORDER_RANK)
		return r->process->rank;
	if (!d)
		return 1;
	left = live_steps_until_full(d);
	switch (order) {
	case ORDER_ALLOCATED:
		return -(double)d->allocated;
	case ORDER_DEVICE:
		return -share(d);
	case ORDER_PEAK:
		return -(double)d->device_peak;
	case ORDER_GROWTH:
		return -(double)d->tail.trend.growth;
	default:
		return left < 0 ? 1e18 : (double)left;
	}
}

struct keyed {
	struct process_row row;
	double key;
	int is_reversed;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	int order = ORDER(x->key, y->key);

	if (order)
		return x->is_reversed ? -order : order;
	if (x->row.process->rank != y->row.process->rank)
		return ORDER(x->row.process->rank, y->row.process->rank);
	if (x->row.process != y->row.process)
		return strcmp(x->row.process->path, y->row.process->path);
	return ORDER(x->row.device, y->row.device);
}

struct process_row *live_rows(const struct folder *f, const struct row_choice *c, size_t *count)
{
	const struct live_process *newest = latest(f);
	struct keyed *list = NULL;
	struct process_row *rows;
	size_t n = 0, room = 0;

	for (size_t i = 0; i < f->count; i++) {
		const struct live_process *p = &f->list[i];

		if (!c->all && newest && !is_current(newest, p))
			continue;
		for (size_t k = 0; k < p->device_count || (!k && !p->device_count); k++) {
			struct process_row r = { p, p->device_count ? &p->devices[k] : NULL };

			if (c->filter && !has_words(&r, c->filter))
				continue;
			list = grow(list, n, &room, sizeof(*list));
			list[n++] = (struct keyed){ r, key_of(&r, c->order), c->is_reversed };
		}
	}
	if (n)
		qsort(list, n, sizeof(*list), by_key);
	rows = xcalloc(n, sizeof(*rows));
	for (size_t i = 0; i < n; i++)
		rows[i] = list[i].row;
	free(list);
	*count = n;
	return rows;
}

const struct process_row *live_rows_worst(const struct process_row *rows, size_t count)
{
	const struct process_row *worst = NULL, *first_full = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct process_row *r = &rows[i];
		int64_t left = r->device && live_state_runs(r->process->state)
				       ? live_steps_until_full(r->device)
				       : -1;

		if (r->process->state > LIVE_RUNNING &&
		    (!worst || r->process->state > worst->process->state))
			worst = r;
		if (left >= 0 && (!first_full || left < live_steps_until_full(first_full->device)))
			first_full = r;
	}
	return worst ? worst : first_full;
}
