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

void history_run_bound(struct history_run *r)
{
	bytes *const sizes[] = { &r->allocated_bytes,    &r->reserved_bytes,
				 &r->device_bytes,       &r->estimated_allocated,
				 &r->estimated_reserved, &r->estimated_device };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		*sizes[i] = history_bytes(*sizes[i]);
	r->started_ns = larger_of(r->started_ns, 0);
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

/* Tensors by category at their peak, the rest of the device by owner at the device's peak. */
static void read_parts(struct history_run *r, const json_t *record)
{
	json_t *categories = json_object_get(json_object_get(record, "peak"), "by_category"),
	       *owners = json_object_get(record, "owners"),
	       *estimated = json_object_get(json_object_get(record, "estimate"), "by_component"),
	       *value;
	const char *key;

	for (size_t i = 0; i < r->part_count; i++)
		free(r->parts[i].component);
	r->part_count = 0;
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

/* What is of the rank with the highest peak. */
static void read_worst(struct history_run *r, const json_t *record)
{
	const json_t *estimate = json_object_get(record, "estimate");

	r->allocated_bytes = bytes_of(record, "peak_allocated_bytes");
	r->reserved_bytes = bytes_of(record, "peak_reserved_bytes");
	r->device_bytes = bytes_of(record, "peak_device_bytes");
	r->estimated_allocated = bytes_of(estimate, "allocated_bytes");
	r->estimated_reserved = bytes_of(estimate, "reserved_bytes");
	r->estimated_device = bytes_of(estimate, "device_bytes");
	r->steps = number_of(record, "step_count");
	read_parts(r, record);
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
		.started_ns = number_of(record, "start_time_ns"),
		.model = text_of(record, "model"),
		.gpu = text_of(record, "gpu"),
		.world_size = number_of(record, "world_size"),
		.end = text_of(record, "end"),
		.verdict = text_of(record, "verdict"),
		.memtrace_version = text_of(record, "memtrace_version"),
		.config = object_of(record, "config"),
		.versions = object_of(record, "versions"),
	};

	clock_gettime(CLOCK_REALTIME, &now);
	r.added_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	/* UNIQUE does not compare NULL. */
	r.restart = r.restart == UNKNOWN_BYTES ? -1 : r.restart;
	r.job = job ? xstrdup(job) : xstrdup(r.fingerprint ? r.fingerprint : "");
	read_worst(&r, record);
	history_run_add(&r, record);
	return r;
}

/* Of several ranks, the end that explains the run's: the first of this list. No end is the last. */
static int importance(const char *end)
{
	static const char *const ends[] = { "oom", "killed", "running", "unknown", "exit" };
	size_t i = 0;

	if (!end)
		return -1;
	while (i < ARRAY_SIZE(ends) && strcmp(end, ends[i]) != 0)
		i++;
	return (int)(ARRAY_SIZE(ends) - i);
}

static int is_worse(const struct history_run *r, const json_t *record)
{
	int64_t allocated = bytes_of(record, "peak_allocated_bytes"),
		device = bytes_of(record, "peak_device_bytes");

	return allocated > r->allocated_bytes ||
	       (allocated == r->allocated_bytes && device > r->device_bytes);
}

static int is_oom(const char *end)
{
	return end && !strcmp(end, "oom");
}

/* The verdict is of the rank with the highest peak, but of a run that ran out of memory it is of a
 * rank that did. `end`: of the record. */
static int has_verdict(const struct history_run *r, const json_t *record, const char *end)
{
	if (is_oom(end))
		return !is_oom(r->end) || !r->verdict;
	return !is_oom(r->end) && is_worse(r, record);
}

void history_run_add(struct history_run *r, const json_t *record)
{
	double duration = json_number_value(json_object_get(record, "duration_s")) * 1e3;
	int64_t ms = duration >= 0 && duration < 1e15 ? (int64_t)duration : 0,
		started = number_of(record, "start_time_ns");
	char *end = text_of(record, "end");

	r->ranks++;
	r->duration_ms = larger_of(r->duration_ms, ms);
	if (started > 0 && (r->started_ns <= 0 || started < r->started_ns))
		r->started_ns = started;
	if (has_verdict(r, record, end)) {
		free(r->verdict);
		r->verdict = text_of(record, "verdict");
	}
	if (is_worse(r, record))
		read_worst(r, record);
	if (importance(end) > importance(r->end)) {
		free(r->end);
		r->end = end;
	} else {
		free(end);
	}
}

static void release_TEXT(char *text)
{
	free(text);
}

static void release_INTEGER(int64_t number)
{
	(void)number;
}

void history_runs_release(struct history_run *runs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
#define X(name, type) release_##type(runs[i].name);
		HISTORY_COLUMNS(X)
#undef X
		for (size_t k = 0; k < runs[i].part_count; k++)
			free(runs[i].parts[k].component);
		free(runs[i].parts);
	}
	free(runs);
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
