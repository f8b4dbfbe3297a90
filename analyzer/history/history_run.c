/* Records as a run of the history. */
#include "history/history.h"

#include "record/record.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *text_of(const json_t *o, const char *key)
{
	const char *value = json_string_value(json_object_get(o, key));
	struct buf b = { 0 };

	if (!value)
		return NULL;
	buf_add_clean(&b, (struct str){ value, strlen(value) });
	return buf_take(&b);
}

static int64_t number_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) ? json_integer_value(v) : UNKNOWN_BYTES;
}

bytes history_bytes(int64_t value)
{
	if (value == UNKNOWN_BYTES)
		return value;
	return value > BYTES_LIMIT ? BYTES_LIMIT : value < -BYTES_LIMIT ? -BYTES_LIMIT : value;
}

static bytes bytes_of(const json_t *o, const char *key)
{
	return history_bytes(number_of(o, key));
}

#define SIZES(of)                                                           \
	&(of)->allocated_bytes, &(of)->reserved_bytes, &(of)->device_bytes, \
		&(of)->estimated_allocated, &(of)->estimated_reserved, &(of)->estimated_device

void history_run_bound(struct history_run *r)
{
	bytes *const sizes[] = { SIZES(r) };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		*sizes[i] = history_bytes(*sizes[i]);
	r->started_ns = larger_of(r->started_ns, 0);
}

void history_rank_bound(struct history_rank *x)
{
	bytes *const sizes[] = { SIZES(x) };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		*sizes[i] = history_bytes(*sizes[i]);
}

static char *object_of(const json_t *o, const char *key)
{
	char *dumped = json_dumps(json_object_get(o, key), JSON_COMPACT | JSON_SORT_KEYS);

	return dumped ? dumped : xstrdup("{}");
}

static struct history_part *part_of(struct history_run *r, const char *component)
{
	for (size_t i = 0; i < r->part_count; i++)
		if (!strcmp(r->parts[i].component, component))
			return &r->parts[i];
	r->parts = grow(r->parts, r->part_count, &r->part_room, sizeof(*r->parts));
	r->parts[r->part_count] =
		(struct history_part){ xstrdup(component), UNKNOWN_BYTES, UNKNOWN_BYTES };
	return &r->parts[r->part_count++];
}

int history_run_turn_worst(struct history_run *r, size_t member)
{
	const struct history_rank *a = &r->members[r->worst], *b = &r->members[member];

	if (member &&
	    (b->allocated_bytes < a->allocated_bytes ||
	     (b->allocated_bytes == a->allocated_bytes && b->device_bytes <= a->device_bytes)))
		return 0;
	r->worst = member;
	return 1;
}

void history_parts_clear(struct history_run *r)
{
	for (size_t i = 0; i < r->part_count; i++)
		free(r->parts[i].component);
	r->part_count = 0;
}

/* Tensors by category at their peak, the rest of the device by owner at the device's peak. */
static void read_parts(struct history_run *r, const json_t *record)
{
	json_t *categories = json_object_get(json_object_get(record, "peak"), "by_category"),
	       *owners = json_object_get(record, "owners"),
	       *estimated = json_object_get(json_object_get(record, "estimate"), "by_component"),
	       *value;
	const char *key;

	history_parts_clear(r);
	json_object_foreach(categories, key, value) part_of(r, key)->observed =
		history_bytes(json_integer_value(value));
	json_object_foreach(owners, key, value)
	{
		int64_t held = json_integer_value(json_object_get(value, "at_peak_bytes"));

		/* PyTorch's part is the categories. */
		if (held && strcmp(key, "pytorch") != 0)
			part_of(r, key)->observed = history_bytes(held);
	}
	json_object_foreach(estimated, key, value) part_of(r, key)->estimated =
		history_bytes(json_integer_value(value));
}

static int64_t number_or_none(const json_t *o, const char *key)
{
	int64_t n = number_of(o, key);

	return n == UNKNOWN_BYTES ? -1 : n;
}

static struct history_rank rank_of(const json_t *record)
{
	const json_t *estimate = json_object_get(record, "estimate");
	double duration = json_number_value(json_object_get(record, "duration_s")) * 1e3;
	char *host = text_of(record, "host");

	return (struct history_rank){
		.rank = number_or_none(record, "rank"),
		.device = number_or_none(record, "device"),
		.started_ns = number_or_none(record, "start_time_ns"),
		.pid = number_or_none(record, "pid"),
		.host = host ? host : xstrdup(""),
		.end = text_of(record, "end"),
		.verdict = text_of(record, "verdict"),
		.duration_ms = duration >= 0 && duration < 1e15 ? (int64_t)duration : 0,
		.steps = number_of(record, "step_count"),
		.allocated_bytes = bytes_of(record, "peak_allocated_bytes"),
		.reserved_bytes = bytes_of(record, "peak_reserved_bytes"),
		.device_bytes = bytes_of(record, "peak_device_bytes"),
		.estimated_allocated = bytes_of(estimate, "allocated_bytes"),
		.estimated_reserved = bytes_of(estimate, "reserved_bytes"),
		.estimated_device = bytes_of(estimate, "device_bytes"),
	};
}

struct history_run history_run_of(const json_t *record, const char *job)
{
	const json_t *simulated = json_object_get(record, "simulated");
	struct timespec now;
	struct history_run r = {
		.id = UNKNOWN_BYTES,
		.run = text_of(record, "run"),
		.restart = number_of(record, "restart"),
		.simulated = json_is_true(simulated),
		.fingerprint = text_of(record, "config_fingerprint"),
		.model = text_of(record, "model"),
		.gpu = text_of(record, "gpu"),
		.world_size = number_of(record, "world_size"),
		.memtrace_version = text_of(record, "memtrace_version"),
		.config = object_of(record, "config"),
		.versions = object_of(record, "versions"),
	};

	clock_gettime(CLOCK_REALTIME, &now);
	r.added_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	/* UNIQUE does not compare NULL. */
	r.restart = r.restart == UNKNOWN_BYTES ? -1 : r.restart;
	r.job = job ? xstrdup(job) : xstrdup(r.fingerprint ? r.fingerprint : "");
	history_run_add(&r, record);
	return r;
}

void history_run_add(struct history_run *r, const json_t *record)
{
	r->members = grow(r->members, r->member_count, &r->member_room, sizeof(*r->members));
	r->members[r->member_count++] = rank_of(record);
	if (history_run_turn_worst(r, r->member_count - 1))
		read_parts(r, record);
}

static void release_TEXT(char *text)
{
	free(text);
}

static void release_INTEGER(int64_t number)
{
	(void)number;
}

void history_run_release(struct history_run *r)
{
#define X(name, type) release_##type(r->name);
	HISTORY_COLUMNS(X)
#undef X
	history_parts_clear(r);
	free(r->parts);
	for (size_t i = 0; i < r->member_count; i++) {
#define X(name, type) release_##type(r->members[i].name);
		HISTORY_RANK_COLUMNS(X)
#undef X
	}
	free(r->members);
}

void history_runs_release(struct history_run *runs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		history_run_release(&runs[i]);
	free(runs);
}

size_t history_keep_job(struct history_run *runs, size_t count, const char *job)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		const char *const names[] = { runs[i].job, runs[i].model, runs[i].fingerprint };
		int is_kept = 0;

		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			is_kept |= names[k] && !strcmp(names[k], job);
		if (is_kept)
			runs[kept++] = runs[i];
		else
			history_run_release(&runs[i]);
	}
	return kept;
}

struct history_run *history_find(struct history_run *runs, size_t count, const char *name,
				 struct err *e)
{
	char *end;
	long long id = strtoll(name, &end, 10);
	struct history_run *found = NULL;

	for (size_t i = 0; i < count; i++)
		if ((!*end && runs[i].id == id) || !strcmp(runs[i].run, name))
			found = &runs[i];
	if (!found)
		err_set(e,
			"there is no run \"%s\" in the history; memtrace history list shows them",
			name);
	return found;
}
