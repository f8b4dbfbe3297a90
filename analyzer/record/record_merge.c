#include "record/record_merge.h"

#include "util/hash.h"
#include "util/order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process and device. Comparing two keys as text would put rank 10 before rank 2. */
struct merged_place {
	int64_t restart, simulated, rank, device, pid, start;
};

struct merged {
	UT_hash_handle hh;
	struct merged_place place;
	int64_t events, is_ended;
	double duration_s;
	long offset; /* of the line in the temporary file */
	size_t length, run_length;
	char key[]; /* the run, a zero, the host, a zero, the bytes of the place */
};

struct record_merge {
	FILE *lines;
	struct merged *all;
};

struct record_merge *record_merge_new(struct err *e)
{
	struct record_merge *m = xcalloc(1, sizeof(*m));

	m->lines = tmpfile();
	if (m->lines)
		return m;
	err_set(e, "cannot make a temporary file: %s", strerror(errno));
	free(m);
	return NULL;
}

void record_merge_free(struct record_merge *m)
{
	if (!m)
		return;
	fclose(m->lines);
	HASH_RELEASE(m->all);
	free(m);
}

static int64_t number(const json_t *record, const char *key)
{
	const json_t *v = json_object_get(record, key);

	return json_is_integer(v) ? json_integer_value(v) : -1;
}

static struct merged *entry_of(const json_t *record, size_t *key_length)
{
	const char *run = json_string_value(json_object_get(record, "run")),
		   *host = json_string_value(json_object_get(record, "host"));
	size_t run_length = strlen(run ? run : ""), host_length = strlen(host ? host : "");
	struct merged *x =
		xcalloc(1, sizeof(*x) + run_length + host_length + 2 + sizeof(struct merged_place));

	x->place = (struct merged_place){
		.restart = number(record, "restart"),
		.simulated = json_is_true(json_object_get(record, "simulated")),
		.rank = number(record, "rank"),
		.device = number(record, "device"),
		.pid = number(record, "pid"),
		.start = number(record, "start_time_ns"),
	};
	x->events = number(record, "events");
	x->is_ended = json_is_true(json_object_get(record, "ended"));
	x->duration_s = json_number_value(json_object_get(record, "duration_s"));
	x->run_length = run_length;
	memcpy(x->key, run ? run : "", run_length);
	memcpy(x->key + run_length + 1, host ? host : "", host_length);
	memcpy(x->key + run_length + host_length + 2, &x->place, sizeof(x->place));
	*key_length = run_length + host_length + 2 + sizeof(x->place);
	return x;
}

static int read_line(struct record_merge *m, const struct merged *x, char *to, struct err *e)
{
	if (fseek(m->lines, x->offset, SEEK_SET) < 0 ||
	    fread(to, 1, x->length, m->lines) != x->length)
		return err_set(e, "cannot read the temporary file: %s", strerror(errno));
	return 0;
}

/* Which of two records of one process says more: 1 the new one, 0 the known one or none; -1. */
static int is_later(struct record_merge *m, const struct merged *known, const struct merged *now,
		    struct str line, struct err *e)
{
	static char text[RECORD_MAX];
	int order;

	if (now->is_ended != known->is_ended)
		return now->is_ended > known->is_ended;
	if (now->events != known->events)
		return now->events > known->events;
	if (ORDER(now->duration_s, known->duration_s))
		return now->duration_s > known->duration_s;
	if (line.length != known->length)
		return line.length > known->length;
	if (read_line(m, known, text, e) < 0)
		return -1;
	order = memcmp(line.at, text, line.length);
	return order > 0;
}

int record_merge_add(void *context, const json_t *record, struct str line, struct err *e)
{
	struct record_merge *m = context;
	size_t key_length;
	struct merged *now = entry_of(record, &key_length), *known;
	int is_new;

	HASH_FIND(hh, m->all, now->key, key_length, known);
	is_new = known ? is_later(m, known, now, line, e) : 1;
	if (is_new > 0) {
		if (fseek(m->lines, 0, SEEK_END) < 0 || (now->offset = ftell(m->lines)) < 0 ||
		    fwrite(line.at, 1, line.length, m->lines) != line.length)
			is_new = err_set(e, "cannot write the temporary file: %s", strerror(errno));
		now->length = line.length;
	}
	if (is_new <= 0) {
		free(now);
		return is_new;
	}
	if (known)
		HASH_DEL(m->all, known);
	free(known);
	HASH_ADD_KEYPTR(hh, m->all, now->key, key_length, now);
	return 0;
}

static int by_place(const struct merged *a, const struct merged *b)
{
	int order = strcmp(a->key, b->key);

	if (order)
		return order;
	if (a->place.restart != b->place.restart)
		return ORDER(a->place.restart, b->place.restart);
	if (a->place.simulated != b->place.simulated)
		return ORDER(a->place.simulated, b->place.simulated);
	if (a->place.rank != b->place.rank)
		return ORDER(a->place.rank, b->place.rank);
	if (a->place.device != b->place.device)
		return ORDER(a->place.device, b->place.device);
	if (a->place.start != b->place.start)
		return ORDER(a->place.start, b->place.start);
	if (a->place.pid != b->place.pid)
		return ORDER(a->place.pid, b->place.pid);
	return strcmp(a->key + a->run_length + 1, b->key + b->run_length + 1);
}

int record_merge_each(struct record_merge *m, int (*on)(void *context, struct str line),
		      void *context, struct err *e)
{
	char *line = xcalloc(1, RECORD_MAX + 1);
	int status = 0;

	HASH_SORT(m->all, by_place);
	for (const struct merged *x = m->all; x && !status; x = x->hh.next) {
		status = read_line(m, x, line, e);
		line[x->length] = '\n';
		if (!status)
			status = on(context, (struct str){ line, x->length + 1 });
	}
	free(line);
	return status;
}
